"""Compiling models: the calls that make a module, or say what prevents it."""

import functools
import os
import re

from .accelerator import IN_TARGET
from . import archives
from .arguments import Options, options_of, set_values, shapes_option, thread_count
from .errors import Error, UnsupportedError, bounded, renamed
from .files import origin_of
from .formats import read_model, takes_examples
from .module import Module, file_name
from .native import compiler, runtime
from .parser import TOLERANCE
from .placement import set_places
from .ports import ports_of
from .progress import Progress
from .sources import described, refuse_examples, source_of

_MAX_SHOWN = 20  # nodes that an error lists
_OWN_NAME = re.compile(r"model '([^']+)' ")


def compile(
    model,
    target="native",
    *,
    inputs=None,
    shapes=None,
    size_versions=None,
    values=None,
    threads=None,
    tolerance=TOLERANCE,
    seed=0,
    tune=False,
    trials=None,
    time_limit=None,
    log=None,
    tracker=None,
    credentials=None,
    insecure=False,
    builders="processes",
    progress=None,
    build_threads=None,
    max_ram=None,
    max_flash=None,
    specialise=None,
    quantised="exact",
    rounding="stored",
    weights="inside",
    open_initializers=(),
    data_folders=(),
    states=None,
    trust_archive=False,
    max_nodes=None,
    compile_time_limit=None,
    place=None,
):
    """Compiles a model. The same model and options give the same bytes, whatever its file is
    called; an artefact has its own file's name in its symbols.

    model               path of an .onnx, .tflite or .gguf file, its bytes, or an onnx.ModelProto; a
                        torch.nn.Module, an ExportedProgram, TorchScript or a file of these (.pt2,
                        .pt, .jit)
    inputs              of a torch.nn.Module or TorchScript: example inputs, a tuple of what the
                        module is called with (or a dictionary by name). The module that comes back
                        is called likewise
    target              "native" or one of tc.targets(), with "+feature,-feature" after it
    shapes              {"batch": 1} binds a symbolic dimension, {"batch": (1, 64)} keeps it open
                        and gives its range, {"input": (1, 3, 224, 224)} binds an input's shape;
                        with a model of PyTorch {"input": ("batch", 3, 224, 224), "batch": (1, 64)}
                        names a size. For a sequence, {"input": [(3, 4), (3, 5)]} has the shapes of
                        its tensors; for an optional it is the same or {"input": None}. An artefact
                        takes each tensor as an input ("input[0]", ...). Where these are not given,
                        a version is compiled for each form on first use
    size_versions       {"tokens": [1]} compiles separate steps for runs in which the open size
                        `tokens` is 1, into the same module and artefact: constants that both
                        versions read are stored once. {"batch": [1], "tokens": [1, 4]} has a
                        version for each combination; a list gives the versions themselves,
                        [{"batch": 1, "tokens": 1}, {"tokens": 1}]: a run takes the first whose
                        sizes it has (docs/frontend.md)
    values              {"axes": [1]} makes an input a constant of the model. Inputs whose values
                        decide the structure (axes, shapes, counts) need not be given: the module
                        then compiles a version for each combination of values, on first use; only
                        export() asks for them
    threads             threads of a run; None takes all cores
    tolerance           largest error of any output, relative to its largest magnitude; 0 allows
                        only the operations of the model in float32
    tune                search for schedules first, as tc.tune does with trials, time_limit,
                        tracker, credentials, insecure, builders and progress
    progress            a callable that gets a dict from time to time ({"phase", "done", "total",
                        "seconds"}), True or False; default: a line on a terminal from 2 seconds on,
                        silent otherwise
    log                 path or URL of tuning records (docs/tuning.md), or a tc.Log, read always;
                        default $TC_LOG or the user's cache folder where it exists; False reads none
    build_threads       threads of the compiler; None takes all cores
    max_ram             bytes that the model may use, constants included; None takes half of this
                        machine's memory. A model that needs more gives up speed, and is refused
                        where that is not enough and its sizes are known. A number, or one with a
                        unit: "256KB" (256,000 bytes), "256KiB" (262,144)
    max_flash           likewise bytes of read-only memory, which then holds constants and code
                        instead of max_ram: for the kinds "bare" (docs/bare.md) and "c", where
                        little room gives small code (docs/c_source.md)
    specialise          how many versions are kept for recurring sizes of inputs, where sizes are
                        left open. The second run with a size compiles a version, which is as fast
                        as a model of that size; 0 compiles none. The default None keeps 4, but none
                        with max_ram or size_versions
    quantised           for quantised networks: "exact" computes what evaluating each node in floats
                        gives, "fast" scales sums in fixed point, as TensorFlow Lite does, with
                        results at most one step from that. explain() tells what is computed in
                        integers
    rounding            for models in float16 and bfloat16: "stored" computes in float32 between
                        operators, and rounds what is stored and what the model casts; "each" rounds
                        the result of every operator, as ONNX's reference does
    weights             "inside" an artefact, or "separate": save() and export() write them to a
                        file beside it, which is named after its content, written once for all
                        artefacts with the same bytes, and mapped read-only (docs/memory.md). For
                        the kinds "shared" and "executable"
    open_initializers   for an .onnx file: names of inputs that also have an initializer and
                        otherwise are constants. The module takes them as inputs; where a run leaves
                        one out, it has the file's value
    data_folders        for an .onnx file: further folders into which symbolic links to its external
                        data may lead (docs/frontend.md)
    states              for an .onnx file: {"state": "stateN"} keeps the output `stateN` as the
                        input `state` of the next run, zeros in the first one (module.state); the
                        kinds "bare" and "c" keep it in their arena (docs/bare.md)
    max_nodes           the most nodes that the model may have, with every call of a function
                        replaced by its body; None: 2^18
    compile_time_limit  seconds from the model's bytes to its code, after which UnsupportedError is
                        raised; None: no limit
    trust_archive       for a file of PyTorch: True opens it in this process, where code in it runs;
                        False in a sandbox (docs/security.md)
    place               for targets with an accelerator: {"conv_1": "core", 3: "systolic16"} runs
                        kernels, by label, a part of it or number as `inspect --place` has them, on
                        the core or on the accelerator of this name. Of the others, predicted cycles
                        decide
    """
    from .log import let_read  # imported here: loading a module needs no log

    origin = origin_of(model)
    read = _with_states(_read(model, inputs, shapes, trust_archive), states)
    common = {"target": target, "threads": threads, "tolerance": tolerance, "seed": seed}
    common |= {"quantised": quantised, "rounding": rounding, "max_nodes": max_nodes}
    common |= {"open_initializers": open_initializers, "data_folders": data_folders}
    common |= {"compile_time_limit": compile_time_limit}
    built = {"max_ram": max_ram, "max_flash": max_flash}
    built |= {"weights": weights, "build_threads": build_threads}
    if tune:
        from .tuning import tune as search

        search(
            read.source,
            shapes=read.shapes,
            trials=trials,
            time_limit=time_limit,
            log=log,
            tracker=tracker,
            credentials=credentials,
            insecure=insecure,
            builders=builders,
            progress=progress,
            **common,
        )

    def options(sizes=None, versions=size_versions, states=()):
        shapes = {**(read.shapes or {}), **(sizes or {})}
        own = {"shapes": shapes, "size_versions": versions, "states": states}
        made = options_of(Options(**own, **built, **common))
        set_values(made, read.source, values)
        set_places(made, read.source, place)
        let_read(made, log)
        return made

    def compiled(source, make=Module, sizes=None, versions=size_versions, states=()):
        made = lambda *given: options(*(given or (sizes, versions)), states=states)
        return _compiled(source, made, threads, kept if sizes is None else 0, make)

    kept = _versions_kept(specialise, max_ram or size_versions)
    with Progress(progress):
        module = read.module(compiled)
    module.origin = origin
    return module


def _read(model, inputs, shapes, trust_archive):
    """What read_model() makes of the model, with arguments as compile() has them."""
    model = archives.trusted(model) if trust_archive else model
    if not takes_examples(model):
        refuse_examples(inputs)
    return read_model(model, inputs, shapes_option(shapes))


def _with_states(read, states):
    """A model that has been read, as one that keeps outputs as the next run's inputs."""
    from .stateful import StatefulModule

    if not states:
        return read
    if not isinstance(states, dict):
        raise Error(f"states is {states!r}; give a dictionary: {{'state': 'stateN'}}")
    kept = [(before, before, behind, None) for before, behind in states.items()]
    make = functools.partial(StatefulModule, kept)
    return read._replace(module=lambda compiled: compiled(read.source, make, states=kept))


def _versions_kept(specialise, has_limits):
    """The number of versions for recurring sizes that a module keeps."""
    from .recurring import MAX_VERSIONS

    return specialise if specialise is not None else 0 if has_limits else MAX_VERSIONS


def _has_open_sizes(compiled):
    return any(
        not isinstance(size, int)
        for port in ports_of(compiled.inputs)
        for size in ((None,) if port.shape is None else port.shape)
    )


@bounded
def _compiled(model, options, threads, specialise=0, make=Module):
    """The module of a model, made by `make`. `options()` makes the compiler's options for each
    compilation; up to `specialise` versions are kept where sizes stay open."""
    source = source_of(model)
    name = source.name  # read first, because compiling consumes the source
    try:
        made = options()
        compiled = compiler.compile(source, made)
        if specialise > 0 and _has_open_sizes(compiled):
            from .recurring import RecurringModule, reader_of

            read = reader_of(model)
            module = RecurringModule(
                compiled,
                threads,
                lambda sizes: _compiled(read(), lambda: options(sizes, None), threads),
                specialise,
            )
        else:
            module = make(compiled=compiled, threads=threads)
    except UnsupportedError as error:
        if error.strings:
            from .strings import StringModule

            return _of_file(StringModule(source_of(model), options, threads, _compiled), model)
        if not error.inputs:
            raise _named(_with_all(error, source_of(model), options()), model, name) from None
        from .versions import VersionedModule

        return _of_file(VersionedModule(source_of(model), options, error.inputs, threads), model)
    except Error as error:
        raise _named(error, model, name) from None
    module.name = name
    module.take_defaults(compiled.defaults)
    module.compile_kinds_by(_compiler_of_kinds(model, options, compiled))
    # A given shape may belong to an optional, or be the range of a symbol.
    known = {port.name for port in ports_of(compiled.inputs)}.union(compiled.symbols)
    if made.forms or module.compiled_output_forms or not known.issuperset(made.input_shapes):
        module._divide(compiler.signature(source_of(model), made), made)
    return module


def _compiler_of_kinds(model, options, compiled):
    """A function that compiles the model again for a kind of artefact that needs another plan, as C
    source cannot use a matrix unit, keeps to max_flash by an estimate of its code, and alone has
    commands for accelerators. None where there is no such kind, or where the model is a source that
    only the compiler holds and that is not kept: it is for max_flash, which only small models keep
    to, and for accelerators."""
    if isinstance(model, compiler.Source):
        wanted = options()
        if not wanted.max_flash and not IN_TARGET.search(wanted.target):
            return None
    if not any(compiler.needs_own_plan(compiled, row["name"]) for row in compiler.kinds()):
        return None
    from .recurring import reader_of

    read = reader_of(model) if isinstance(model, (str, os.PathLike)) else lambda: source_of(model)

    def compile_kind(kind):
        made = options()
        made.kind = kind
        return compiler.compile(read(), made)

    return compile_kind


def _of_file(module, model):
    """The module, named after its file where the model is one."""
    if isinstance(model, (str, os.PathLike)):
        module.name = file_name(model)
    return module


def _named(error, model, name):
    """The error, with the name of the model's file in it where the model is one. `name` is that of
    a source, which is consumed by now: the compiler's own sentences begin with the graph's name."""
    if "model '" not in str(error):
        return error
    begin = _OWN_NAME.match(str(error))
    if isinstance(model, compiler.Source) and name and begin:
        return renamed(error, begin[1], name)
    if not isinstance(model, (str, os.PathLike)):
        return error
    try:
        own = compiler.signature(source_of(model), options_of())[0]
    except Error:
        return error
    return renamed(error, own, file_name(model))


def _with_all(error, source, options):
    """The error, or one that also names everything else in the model that cannot be compiled."""
    try:
        rows = compiler.unsupported(source, options)
    except Error:
        rows = []
    if all(not row["node"] or f"'{row['node']}'" in str(error) for row in rows):
        return error
    shown = "; ".join(row["text"] for row in rows[:_MAX_SHOWN]) + (
        f"; and {len(rows) - _MAX_SHOWN} more" if len(rows) > _MAX_SHOWN else ""
    )
    result = UnsupportedError(
        f"{len(rows)} nodes of {source.name} are not supported: {shown}; docs/operators.md lists what is"
    )
    result.problems = tuple(row["text"] for row in rows)
    return result


@bounded
def load(path, *, threads=None, check=True, trusted=True):
    """Opens an artefact that Module.save wrote. It is native code: load only files you trust.

    The file is read whole and compared with the checksum at its end; check=False leaves that out,
    also for files that have none. trusted=False looks at the file before the system's loader has
    it, and refuses what tc does not write (constructors, other libraries, …): opening it runs none
    of its code. Calls do, and nothing holds them: that is no sandbox."""
    threads = thread_count("threads", threads)
    path = os.fspath(path)
    origin = origin_of(path)
    module = Module(
        path=path,
        threads=threads,
        loaded=runtime.Model(os.fsencode(path), check=check, trusted=trusted),
    )
    module.origin = origin
    return module


@bounded
def check(model, *, inputs=None, shapes=None, trust_archive=False, **reading):
    """What keeps the model from being compiled: a list of sentences, each naming its node; empty
    where nothing does. Damaged files and wrong shapes raise. trust_archive, and of `reading`
    open_initializers, data_folders, max_nodes and compile_time_limit, are those of tc.compile."""
    if unknown := reading.keys() - {
        "open_initializers",
        "data_folders",
        "max_nodes",
        "compile_time_limit",
    }:
        raise TypeError(f"check() got an unexpected keyword argument '{min(unknown)}'")
    model = archives.trusted(model) if trust_archive else model
    try:
        model, shapes = described(model, inputs, shapes)
        source = source_of(model)
    except UnsupportedError as error:
        if not error.problems:
            raise
        return list(error.problems)
    options = options_of(Options(shapes=shapes, **reading))
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
