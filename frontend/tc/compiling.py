"""Compiling models: the calls that make a module, and say what keeps a model from becoming one."""

import os

from .arguments import Options, options_of, set_values, shapes_option, thread_count
from .errors import Error, UnsupportedError, bounded, renamed
from .module import Module, file_name
from .native import compiler
from .ports import ports_of
from .progress import Progress
from .sources import described, is_torch_model, read_torch_model, source_of

_MOST_SHOWN = 20     # nodes that an error tells of


def compile(model, target="native", *, inputs=None, shapes=None, values=None, threads=None, tolerance=1e-4, seed=0,
            tune=False, trials=None, time_limit=None, log=None, tracker=None, credentials=None,
            insecure=False, progress=None, build_threads=None, max_ram=None, specialise=None, quantised="exact"):
    """Compiles a model. The same model and options give the same bytes, whatever its file is called.

    model      path of an .onnx or .tflite file, its bytes, or an onnx.ModelProto; a torch.nn.Module, an ExportedProgram, TorchScript or a
               file of these (.pt2, .pt, .jit)
    inputs     of a torch.nn.Module or TorchScript: example inputs, a tuple of what the module is called with (or a dictionary
               by name). The module that comes back is called likewise
    target     "native" or one of tc.targets(), with "+feature,-feature" after it
    shapes     {"batch": 1} binds a symbolic dimension, {"batch": (1, 64)} keeps it open and gives its range, {"input": (1, 3, 224, 224)}
               binds an input's shape; with a model of PyTorch {"input": ("batch", 3, 224, 224), "batch": (1, 64)} names a size
               Of a sequence {"input": [(3, 4), (3, 5)]} the shapes of its tensors, of an optional the
               same or {"input": None}: an artefact takes each of them as an input ("input[0]", ...).
               Where these are not given, a version is compiled for each form on first use
    values     {"axes": [1]} makes an input a constant of the model. Inputs whose values decide the
               structure (axes, shapes, counts) need not be given: the module then compiles a version
               for each combination of values, on first use; only export() asks for them
    threads    threads of a run; None takes all cores
    tolerance  largest error of any output, relative to its largest magnitude; 0 allows only the
               operations of the model in float32
    tune       search for schedules first, as tc.tune does with trials, time_limit, tracker,
               credentials, insecure and progress
    progress   a callable that gets a dict now and then ({"phase", "done", "total", "seconds"}), True or False; default: a line on a
               terminal from 2 seconds on, silent otherwise
    log        SQLite file of tuning records, read always; default $TC_LOG or the user's cache folder
               where it exists; False reads none
    build_threads  threads of the compiler; None takes all cores
    max_ram    bytes that the model may use, constants included; None takes this machine's memory. A model that needs more gives up
               speed for it, and is refused where that is not enough and its sizes are known
    specialise  with sizes that are left open: so many versions are kept for sizes of the inputs that recur. The second run at a
               size compiles one, and is as fast as a model of that size from then on; 0 compiles none. None keeps 4, and none
               with max_ram
    quantised  of networks of integers: "exact" computes what the unfused evaluation in floats gives, "fast" brings sums to their scale in
               fixed point, as TensorFlow Lite does, at most one step from that. explain() tells what is computed in integers
    """
    from .log import let_read     # loading a module needs no log

    read, shapes = None, shapes_option(shapes)
    if is_torch_model(model):
        read = read_torch_model(model, inputs, shapes)
        model, shapes = read.source, read.shapes
    elif inputs is not None:
        described(model, inputs, shapes)     # says what is wrong
    if tune:
        from .tuning import tune as search

        search(model, target, shapes=shapes, threads=threads, tolerance=tolerance, trials=trials,
               time_limit=time_limit, log=log, tracker=tracker, credentials=credentials,
               insecure=insecure, seed=seed, progress=progress, quantised=quantised)

    def options(sizes=None):
        made = options_of(Options(target=target, shapes={**(shapes or {}), **(sizes or {})}, threads=threads, build_threads=build_threads,
                                  tolerance=tolerance, seed=seed, max_ram=max_ram, quantised=quantised))
        set_values(made, model, values)
        let_read(made, log)
        return made

    if specialise is None:
        from .recurring import MOST_VERSIONS

        specialise = 0 if max_ram else MOST_VERSIONS
    with Progress(progress):
        if read is None:
            return _compiled(model, options, threads, specialise)
        from .torch import module_of

        return module_of(read, lambda source: _compiled(source, options, threads, specialise))


def _has_open_sizes(compiled):
    return any(not isinstance(size, int) for port in ports_of(compiled.inputs) for size in ((None,) if port.shape is None else port.shape))


@bounded
def _compiled(model, options, threads, specialise=0):
    """The module of a model; `options` makes the compiler's options for each compilation, and `specialise` versions are kept where sizes
    stay open."""
    source = source_of(model)
    name = source.name     # the compiler takes the source
    try:
        made = options()
        compiled = compiler.compile(source, made)
        if specialise > 0 and _has_open_sizes(compiled):
            from .recurring import RecurringModule, reader_of

            read = reader_of(model)
            module = RecurringModule(compiled, threads, lambda sizes: _compiled(read(), lambda: options(sizes), threads), specialise)
        else:
            module = Module(compiled=compiled, threads=threads)
    except UnsupportedError as error:
        if error.strings:
            from .strings import StringModule

            return _of_file(StringModule(source_of(model), options, threads, _compiled), model)
        if not error.inputs:
            raise _with_all(error, source_of(model), options()) from None
        from .versions import VersionedModule

        return _of_file(VersionedModule(source_of(model), options, error.inputs, threads), model)
    except Error as error:
        raise _named(error, model) from None
    module.name = name
    if made.forms or module.compiled_output_forms or not {port.name for port in module.inputs}.issuperset(made.input_shapes):
        module._divide(compiler.signature(source_of(model), made), made)
    return module


def _of_file(module, model):
    """The module, with the name of its file where the model is one."""
    if isinstance(model, (str, os.PathLike)):
        module.name = file_name(model)
    return module


def _named(error, model):
    """The error, with the name of the model's file where the model is one."""
    if "model '" not in str(error) or not isinstance(model, (str, os.PathLike)):
        return error
    try:
        own = compiler.signature(source_of(model), options_of())[0]
    except Error:
        return error
    return renamed(error, own, file_name(model))


def _with_all(error, source, options):
    """The error, or one that names everything else of the model that cannot be compiled too."""
    try:
        rows = compiler.unsupported(source, options)
    except Error:
        rows = []
    if all(not row["node"] or f"'{row['node']}'" in str(error) for row in rows):
        return error
    shown = "; ".join(row["text"] for row in rows[:_MOST_SHOWN]) + (f"; and {len(rows) - _MOST_SHOWN} more" if len(rows) > _MOST_SHOWN else "")
    result = UnsupportedError(f"{len(rows)} nodes of {source.name} are not supported: {shown}; docs/operators.md lists what is")
    result.problems = tuple(row["text"] for row in rows)
    return result


@bounded
def load(path, *, threads=None):
    """Opens an artefact that Module.save wrote. It is native code: load only files you trust."""
    return Module(path=os.fspath(path), threads=thread_count("threads", threads))


@bounded
def check(model, *, inputs=None, shapes=None):
    """What keeps the model from being compiled: a list of sentences, each naming its node; empty
    where nothing does. Damaged files and wrong shapes raise."""
    try:
        model, shapes = described(model, inputs, shapes)
        source = source_of(model)
    except UnsupportedError as error:
        if not error.problems:
            raise
        return list(error.problems)
    options = options_of(Options(shapes=shapes))
    try:
        problems = [row["text"] for row in compiler.unsupported(source, options)]
    except UnsupportedError as error:
        if not error.strings:
            raise
        return _check_strings(source, options)
    if not problems:
        try:
            compiler.plan_kernels(source, options)
        except UnsupportedError as error:
            problems = [] if error.inputs else [str(error)]
    return problems


def _check_strings(source, options):
    try:
        rest = compiler.split_strings(source, options)["rest"]
    except UnsupportedError as error:
        return [str(error)]
    options.input_shapes = {}
    return [row["text"] for row in compiler.unsupported(rest, options)] if rest else []


def targets():
    """{target: one line about it}."""
    return dict(compiler.targets())
