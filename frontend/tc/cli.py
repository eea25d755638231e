"""The command line: python -m tc COMMAND; `python -m tc --help` lists the commands.

Every command takes --json and then prints one JSON value. Exit codes: 0 done, 1 an error that one
sentence on stderr names (with --json: {"error": {"kind", "text"}} on stdout), 2 wrong usage.
"""

import argparse
import json
import os
import platform
import sys
import time

import numpy as np

from . import c_interface, fleet, log
from .archives import trusted
from .arguments import MEANINGS, ROUNDINGS, Options, options_of
from .compiling import check, compile, load, targets
from .errors import (
    Error,
    ModelError,
    ShapeError,
    UnsupportedError,
    error_of,
    lines_text,
    printable,
    printable_lines,
)
from .file_options import (
    add_bounds,
    add_file_options,
    add_size_versions,
    bounds,
    file_options,
    size_versions,
)
from .files import make_folder, write_array
from .formats import add_command as add_formats, takes_examples
from .given_files import begin_of, read_array
from .kernel import kernels, seeded_array, time_calls
from .kinds import KindNames, kind_row
from .language.command import add_command as add_generate
from .module import arithmetic_text
from .native import compiler, runtime
from .parser import Parser, number
from .ports import BIT_TYPES, NUMPY_NAMES
from .profile import limits_text, profile
from .quantising_command import add_command as add_quantize
from .reporting.command import Ways, add_command as add_report
from .serving_command import add_command as add_serve
from .sizes import board_rows, board_text, flash_limit, size_argument
from .sources import described, source_of
from .tuning import add_tuning_options, tune
from .version import VERSION

# The texts of a kernel that --dump prints, and which part of the compiler decides what each shows.
_KERNEL_TEXTS = {
    "statements": "fused by ir/passes/group.cc, lowered by the rows of ir/ops, in layouts of frontend/pipeline/layout.cc",
    "default": "the strategies that scheduler/default/strategy.cc weighs, with predicted cycles",
    "trace": "what scheduler/default decides of packing, tile, order and threads, a primitive a line",
    "tree": "isl's schedule tree of the trace: scheduler/legality/isl.cc",
    "loops": "what codegen gets: scheduler/generate",
}
_MAX_OF_FILE_NAME = 224  # the exported executable's
_ALL_TEXTS = [*_KERNEL_TEXTS, "assembly"]


def _shapes(arguments):
    """{name: number or tuple} from --shape NAME=1,3,224,224 and --shape SYMBOL=1; for inputs that
    are no tensors a list from --shape NAME=2,3;4,3, and None from --shape NAME=none."""

    def of(sizes):
        return tuple(
            None if size == "?" else int(size) for size in sizes.removesuffix(",").split(",")
        )

    shapes = {}
    for text in arguments.shape:
        name, equals, sizes = text.rpartition("=")
        if equals and sizes == "none":
            shapes[name] = None
            continue
        try:
            values = (
                [of(part) for part in sizes.removesuffix(";").split(";")]
                if ";" in sizes
                else of(sizes)
            )
        except ValueError:
            values = None
        if not equals or values is None:
            raise ShapeError(f"--shape takes NAME=1,3,224,224 or SYMBOL=1, not '{text}'")
        if isinstance(values, list):
            shapes[name] = values
            continue
        # One number is a symbol's value; "NAME=5," is the shape of an input of rank 1.
        shapes[name] = values[0] if len(values) == 1 and not sizes.endswith(",") else values
    return shapes


def _values(arguments):
    """{input: numbers} from --value NAME=1,2."""
    values = {}
    for text in arguments.value:
        name, equals, numbers = text.rpartition("=")
        try:
            values[name] = [
                float(number) if set(number) & set(".en") else int(number)
                for number in numbers.split(",")
                if number
            ]
        except ValueError:
            equals = ""
        if not equals:
            raise ShapeError(f"--value takes NAME=1,2, not '{text}'")
    return values


def _examples(arguments):
    """Example inputs of a model of PyTorch: --input NAME=1,3,224,224:f32 is seeded data,
    NAME=FILE.npy the array in the file, NAME=3 a number. None where none are given or the model
    takes none."""
    given = getattr(arguments, "input", [])
    if not given or not takes_examples(arguments.model):
        return None
    random = np.random.default_rng(getattr(arguments, "seed", 0))
    examples = {}
    for text in given:
        name, _, value = text.partition("=")
        sizes, _, dtype = value.partition(":")
        try:
            if value.endswith(".npy"):
                examples[name] = _array_in(name, value)
            elif dtype or "," in sizes:
                shape = [int(size) for size in sizes.split(",") if size]
                examples[name] = seeded_array(random, NUMPY_NAMES.get(dtype or "f32", dtype), shape)
            else:
                examples[name] = int(value) if value.lstrip("-").isdigit() else float(value)
        except (ValueError, TypeError):
            raise ShapeError(
                f"--input takes NAME=1,3,224,224:f32, NAME=FILE.npy or NAME=3 of a model of PyTorch, not '{text}'"
            ) from None
    return examples


def _array_in(name, path):
    try:
        return read_array(path)
    except ModelError as error:
        raise ModelError(f"input '{name}': {error}") from None


def _is_artefact(path):
    return begin_of(path, 4) == b"\x7fELF"


def _progress(arguments):
    """A command's value for progress=: None (a line on a terminal), or False where the command
    prints JSON."""
    return False if arguments.json else None


def _module(arguments):
    """The module of the command: the artefact loaded, or the model compiled."""
    if _is_artefact(arguments.model):
        return load(arguments.model, threads=arguments.threads)
    tuning = {"log": arguments.log or None}
    if getattr(arguments, "tune", False):
        tuning = {"tune": True, **_tuning_options(arguments)}
    kind = getattr(arguments, "kind", None)
    threads = 1 if kind and kind_row(kind)["one_thread"] else arguments.threads
    module = compile(
        arguments.model,
        arguments.target,
        inputs=_examples(arguments),
        shapes=_shapes(arguments),
        size_versions=size_versions(arguments),
        values=_values(arguments),
        threads=threads,
        tolerance=arguments.tolerance,
        seed=arguments.seed,
        max_ram=getattr(arguments, "max_ram", None),
        max_flash=flash_limit(arguments),
        quantised=arguments.quantised,
        rounding=arguments.rounding,
        **file_options(arguments),
        **{"progress": _progress(arguments), **tuning},
    )
    # Files hold tensors, so sequences are read and written as an artefact does it: as tensors
    # "NAME[0]", ...
    return module.of_tensors()


def _port_rows(ports):
    return [
        {
            "name": port.name,
            "dtype": port.dtype,
            "shape": None if port.shape is None else list(port.shape),
        }
        for port in ports
    ]


def _array_row(name, array, file=None):
    return {"name": name, "dtype": str(array.dtype), "shape": list(array.shape), "file": file}


def _row_text(row):
    if row["shape"] is None:
        return f"{printable(row['name'])}: {row['dtype']} of any shape"
    shape = ", ".join("?" if size is None else printable(size) for size in row["shape"])
    return f"{printable(row['name'])}: {row['dtype']} [{shape}]"


def _file_name(name, taken):
    """The name that the exported executable would give this file."""
    kept = (
        "".join(
            chr(byte)
            if chr(byte).isascii()
            and (chr(byte).isalnum() or chr(byte) in "_-" or (chr(byte) == "." and position))
            else "_"
            for position, byte in enumerate(name.encode()[:_MAX_OF_FILE_NAME])
        )
        or "_"
    )
    return f"{kept}.{len(taken)}" if kept in taken else kept


def _given_inputs(module, arguments):
    """{input: array} from --input NAME=FILE.npy."""
    arrays = {}
    names = {port.name: port for port in module.inputs}
    for text in arguments.input:
        fitting = [name for name in names if text.startswith(name + "=")]
        if not fitting and takes_examples(arguments.model):
            continue  # a number
        if not fitting:
            raise ShapeError(
                f"--input takes NAME=FILE.npy, not '{text}'; the inputs are {', '.join(names)}"
            )
        name = max(fitting, key=len)
        path = text[len(name) + 1 :]
        if not path.endswith(".npy") and takes_examples(arguments.model):
            continue  # an example, from which the model was compiled
        arrays[name] = _array_in(name, path)
        bits = np.dtype(BIT_TYPES.get(names[name].dtype, object))
        if (
            arrays[name].dtype.kind == "V"
            and arrays[name].dtype.itemsize == bits.itemsize
            and not bits.hasobject
        ):
            arrays[name] = arrays[name].view(bits)  # ml_dtypes' types are written as raw bytes
    return arrays


def _seeded_inputs(module, arguments, but=()):
    """Seeded data for all inputs except those that are given; --shape binds symbols and shapes."""
    random = np.random.default_rng(arguments.seed)
    shapes = _shapes(arguments)
    arrays = {}
    for port in module.inputs:
        wanted = shapes.get(port.name)
        wanted = wanted if isinstance(wanted, tuple) else port.shape
        sizes = [shapes.get(size, size) if isinstance(size, str) else size for size in wanted]
        if port.name in but:
            continue
        for size in sizes:
            if not isinstance(size, int):
                raise ShapeError(
                    f"input '{port.name}' has the open size '{size}'; bind it with --shape {size}=1"
                )
        arrays[port.name] = seeded_array(random, port.dtype, sizes)
    return arrays


def _compile(arguments):
    output = arguments.output
    if output is None:
        stem = os.path.splitext(os.path.basename(arguments.model))[0]
        output = stem + kind_row(arguments.kind)["suffix"]
        if os.path.abspath(output) == os.path.abspath(arguments.model):
            output += ".out"
    begin = time.perf_counter()
    module = _module(arguments).as_artefact()
    board = board_rows(module.export(output, kind=arguments.kind))
    seconds = time.perf_counter() - begin
    memory = module.memory
    result = {
        "model": module.name,
        "target": module.target,
        "kind": arguments.kind,
        "file": output,
        "bytes": os.path.getsize(output),
        "seconds": seconds,
        "phases": module.phases,
        "inputs": _port_rows(module.inputs),
        "outputs": _port_rows(module.outputs),
        "memory": {"constants": memory.constants, "arena": memory.arena},
        **board,
    }
    text = [f"model  {printable(module.name)} for {module.target}, compiled in {seconds:.2f} s"]
    text += [f"input  {_row_text(row)}" for row in result["inputs"]]
    text += [f"output {_row_text(row)}" for row in result["outputs"]]
    arena = "depends on shapes" if memory.arena is None else f"{memory.arena / 1e6:.3f} MB"
    text += board_text(board) or [
        f"memory constants {memory.constants / 1e6:.3f} MB, arena {arena}"
    ]
    text.append(f"wrote  {output} ({arguments.kind}, {result['bytes'] / 1e6:.3f} MB)")
    return result, lines_text(text)


def _run(arguments):
    module = _module(arguments)
    arrays = _given_inputs(module, arguments)
    files = dict(text.split("=", 1) for text in arguments.input if "=" in text)
    if arguments.random:
        arrays.update(_seeded_inputs(module, arguments, but=arrays))
    begin = time.perf_counter()
    results = module.run(arrays)
    milliseconds = (time.perf_counter() - begin) * 1e3
    inputs = [_array_row(name, array, files.get(name)) for name, array in arrays.items()]
    outputs, taken = [], []
    for name, array in results.items():
        path = None
        if arguments.output_dir:
            taken.append(_file_name(name, taken))
            path = os.path.join(arguments.output_dir, taken[-1] + ".npy")
            make_folder(arguments.output_dir)
            write_array(path, array)
        outputs.append(_array_row(name, array, path))
    result = {
        "model": module.name,
        "target": module.target,
        "inputs": inputs,
        "outputs": outputs,
        "milliseconds": milliseconds,
        "memory": module.memory._asdict(),
    }
    text = [f"model  {printable(module.name)} for {module.target}"]
    text += [
        f"input  {_row_text(row)} {'from ' + row['file'] if row['file'] else '(seeded)'}"
        for row in inputs
    ]
    for row in outputs:
        values = (
            np.asarray(results[row["name"]], np.float64).ravel()
            if results[row["name"]].size
            else []
        )
        span = f", {np.min(values):.6g} to {np.max(values):.6g}" if len(values) else ""
        text.append(
            f"output {_row_text(row)}{span}" + (f" to {row['file']}" if row["file"] else "")
        )
    text.append(f"time   {milliseconds:.3f} ms")
    return result, lines_text(text)


def _bench(arguments):
    module = _module(arguments)
    arrays = _given_inputs(module, arguments)
    arrays.update(_seeded_inputs(module, arguments, but=arrays))
    ordered = [arrays[port.name] for port in module.inputs]
    timing = time_calls(lambda: module(*ordered), arguments.seconds, arguments.repeat)
    work = sum(report["multiply_adds"] for report in module.kernels)
    result = {
        "model": module.name,
        "target": module.target,
        "threads": arguments.threads,
        "min_ms": timing.minimum * 1e3,
        "median_ms": timing.median * 1e3,
        "multiply_adds": work,
        "memory": module.memory._asdict(),
    }
    text = (
        f"{printable(module.name)} for {module.target}: min {timing.minimum * 1e3:.3f} ms, median "
        f"{timing.median * 1e3:.3f} ms"
    )
    if work:
        text += f", {2e-9 * work / timing.minimum:.1f} GFLOP/s"
    if arguments.roof:
        found = profile(module, ordered, arguments.seconds, arguments.repeat)
        if found.limits:
            result["limits"] = found.limits
            text = limits_text(found.limits) + "\n" + text
        result["profile"] = found.to_dict()
        text += "\n" + str(found)
    return result, text


def _tuning_options(arguments):
    return {
        "trials": arguments.trials,
        "time_limit": arguments.time_limit,
        "log": arguments.log,
        "tracker": arguments.tracker,
        "credentials": arguments.credentials,
        "insecure": arguments.insecure,
        "builders": arguments.builders,
        "progress": not arguments.json,
    }


def _tune(arguments):
    found = tune(
        arguments.model,
        arguments.target,
        inputs=_examples(arguments),
        shapes=_shapes(arguments),
        threads=arguments.threads,
        tolerance=arguments.tolerance,
        seed=arguments.seed,
        quantised=arguments.quantised,
        rounding=arguments.rounding,
        **bounds(arguments),
        **_tuning_options(arguments),
    )
    result = found._asdict() | {"kernels": [kernel._asdict() for kernel in found.kernels]}
    return result, found.summary()


def _check(arguments):
    problems = check(
        arguments.model,
        inputs=_examples(arguments),
        shapes=_shapes(arguments),
        **file_options(arguments),
    )
    arithmetic, lines = [], []
    if not problems and not takes_examples(arguments.model):
        try:
            arithmetic, lines = compiler.arithmetic(
                source_of(arguments.model),
                options_of(Options(shapes=_shapes(arguments), **file_options(arguments))),
            )
        except UnsupportedError:
            pass  # what is compiled depends on values of inputs, which only a run has
    result = {
        "model": arguments.model,
        "compiles": not problems,
        "problems": problems,
        "arithmetic": arithmetic,
    }
    if problems:
        text = [
            *problems,
            f"{len(problems)} in all; docs/operators.md says what each operator takes: export the model in another form or opset, or "
            "replace these nodes",
        ]
    else:
        text = [
            f"{arguments.model}: everything in it compiles",
            *(arithmetic_text("exact", lines) if lines else []),
        ]
    return result, lines_text(text), 1 if problems else 0


def _verify(arguments):
    from .verifying import verify

    given = {}
    for text in [] if takes_examples(arguments.model) else arguments.input:
        name, equals, path = text.rpartition("=")
        if not equals or not path.endswith(".npy"):
            raise ShapeError(f"--input takes NAME=FILE.npy, not '{text}'")
        given[name] = _array_in(name, path)
    found = verify(
        arguments.model,
        arguments.target,
        given,
        shapes=_shapes(arguments),
        threads=arguments.threads,
        tolerance=arguments.tolerance,
        budget=arguments.budget,
        seed=arguments.seed,
        log=arguments.log or None,
        max_ram=arguments.max_ram,
        quantised=arguments.quantised,
        rounding=arguments.rounding,
        against=arguments.against,
        examples=_examples(arguments),
        progress=_progress(arguments),
        **bounds(arguments),
    )
    stem = os.path.splitext(os.path.basename(arguments.model))[0]
    found.write(arguments.output_dir or f"{stem}.verify")
    return found.to_dict(), str(found), 0 if found.right else 1


def _peak_share(kernel, timing):
    """The share of one core's peak multiply-add speed, at the clock frequency that the system
    reports; or None."""
    per_cycle = compiler.resolve_target(kernel.target)[3]
    try:
        with open("/proc/cpuinfo") as file:
            clock = max(float(line.split(":")[1]) for line in file if line.startswith("cpu MHz"))
    except (OSError, ValueError):
        return None
    return kernel.multiply_adds / timing.minimum / (per_cycle * clock * 1e6)


def _chosen_kernel(arguments):
    """The kernel that --kernel names, by its number or by a part of its label that no other kernel
    has."""
    found = kernels(
        arguments.model,
        arguments.target,
        shapes=_shapes(arguments),
        tolerance=arguments.tolerance,
        threads=arguments.threads or 1,
        inputs=_examples(arguments),
        quantised=arguments.quantised,
        rounding=arguments.rounding,
        **bounds(arguments),
    )
    if arguments.kernel.isdigit() and int(arguments.kernel) < len(found):
        return found[int(arguments.kernel)]
    exact = [kernel for kernel in found if kernel.label == arguments.kernel]
    near = exact or [kernel for kernel in found if arguments.kernel in kernel.label]
    labels = ", ".join(dict.fromkeys(printable(kernel.label, 4000) for kernel in (near or found)))
    if not near:
        raise Error(f"no kernel is called '{arguments.kernel}'; the kernels are {labels}")
    if len({(kernel.text, tuple(kernel.trace)) for kernel in near}) > 1:
        raise Error(f"several kernels fit '{arguments.kernel}': {labels}")
    return near[0]


def _inspect_kernel(arguments):
    kernel = _chosen_kernel(arguments)
    schedule = kernel.schedule()
    wanted = arguments.dump or "all"
    names = _ALL_TEXTS if wanted == "all" else (wanted,)
    passes = {
        name: (f"{stage} behind this pass: {doc}", when)
        for name, doc, when, stage in compiler.code_texts()
        if stage
    }
    texts = _KERNEL_TEXTS | {
        name: doc for name, doc, _, stage in compiler.code_texts() if not stage
    }
    if not texts.keys() | passes.keys() >= set(names):
        raise Error(
            f"--dump={wanted}: a kernel's texts are {', '.join(texts)}, or all; and its code behind a pass: {', '.join(passes)}"
        )
    threads = arguments.threads or 1
    result = {
        "label": kernel.label,
        "target": kernel.target,
        "threads": threads,
        "tolerance": kernel.tolerance,
    }
    text = [
        f"{printable(kernel.label, 4000)} for {kernel.target}, {threads} thread{'s'[: threads != 1]}, tolerance {kernel.tolerance:g}\n"
    ]
    for name in names:
        if name == "statements":
            part = kernel.text
        elif name == "trace":
            part = "\n".join(schedule.trace)
        elif name == "default":
            part, result["strategies"] = kernel.default_report()
        elif name in passes:
            part = (
                schedule.code_text(name)
                or f"does not run for {kernel.target}, only for: {passes[name][1]}"
            )
        elif name in _KERNEL_TEXTS:
            part = getattr(schedule, name)
        else:
            part = schedule.code_text(name)
        result[name] = part
        title = f"{name} ({passes[name][0] if name in passes else texts[name]})"
        runs = compiler.resolve_target(kernel.target)[1]
        if name == "assembly" and runs and kernel.multiply_adds and not arguments.no_time:
            timing = kernel.time(schedule)
            share = _peak_share(kernel, timing)
            result["seconds"], result["peak_share"] = timing.minimum, share
            title += f": measured {timing.minimum * 1e6:.1f} us on one thread"
            title += "" if share is None else f", {share * 100:.0f} % of the core's peak"
        text.append(f"-- {title}\n{part.rstrip()}\n")
    return result, "\n".join(text).rstrip()


def _inspect(arguments):
    if arguments.kernel is not None:
        return _inspect_kernel(arguments)
    if _is_artefact(arguments.model):
        module = load(arguments.model)
        return {"explain": module.explain()}, module.explain()
    passes = None if arguments.dump == "plan" else arguments.dump
    model, shapes = described(arguments.model, _examples(arguments), _shapes(arguments))
    options = options_of(
        Options(
            target=arguments.target,
            shapes=shapes,
            size_versions=size_versions(arguments),
            threads=arguments.threads,
            tolerance=arguments.tolerance,
            seed=arguments.seed,
            dump=passes,
            quantised=arguments.quantised,
            rounding=arguments.rounding,
            **bounds(arguments),
        )
    )
    if arguments.dump == "plan":
        plan = compiler.plan_text(source_of(model), options)
        return {"plan": plan}, plan.rstrip()
    if passes:
        graph, dump = compiler.import_model(source_of(model), options)
        return {"graph": graph, "dump": dump}, dump.rstrip()
    found = kernels(
        model,
        arguments.target,
        shapes=shapes,
        tolerance=arguments.tolerance,
        threads=arguments.threads or 1,
        quantised=arguments.quantised,
        rounding=arguments.rounding,
        **bounds(arguments),
    )
    rows = [
        {
            "label": kernel.label,
            "multiply_adds": kernel.multiply_adds,
            "predicted_seconds": kernel.predicted_seconds,
            "trace": kernel.trace,
        }
        for kernel in found
    ]
    text = [
        f"{i:4d}  {row['multiply_adds'] / 1e6:10.2f} M multiply-adds  predicted "
        f"{row['predicted_seconds'] * 1e6:10.1f} us  {row['label']}"
        for i, row in enumerate(rows)
    ]
    total = sum(row["multiply_adds"] for row in rows)
    text.append(
        f"{len(rows)} kernels, {total / 1e6:.1f} M multiply-adds; --kernel NUMBER shows one, "
        "--dump=PASS|all the graph after passes, --dump=plan steps and memory"
    )
    arithmetic, lines = compiler.arithmetic(source_of(model), options)
    text += arithmetic_text(arguments.quantised, lines) if lines else []
    return {
        "kernels": rows,
        "quantised": arguments.quantised,
        "arithmetic": arithmetic,
    }, lines_text(text)


def _targets(arguments):
    known = targets()
    native, _, _, _ = compiler.resolve_target("native")
    result = {"native": native, "targets": known}
    width = max(len(name) for name in known)
    text = [f"{name:{width}}  {line}" for name, line in known.items()]
    return result, lines_text([*text, f"native here is {native}"])


def _version(arguments):
    result = {
        "tc": VERSION,
        "runtime": runtime.runtime_version(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": runtime.core_count(),
    }
    return (
        result,
        f"tc {VERSION} (runtime {result['runtime']}, {result['machine']}, {result['cores']} cores)",
    )


def _add_compiling(added):
    added.add_argument("--target", default="native", help="see `targets`; default: native")
    added.add_argument(
        "--cpu",
        metavar="CORE",
        default="",
        help="plan for this core (docs/targets.md): cortex-a53, sifive-x280, znver4 ...; without --target also for what it has",
    )
    added.add_argument(
        "--threads",
        type=number(int, 1, "a whole number"),
        help="threads of a run; default: all cores",
    )
    added.add_argument(
        "--tolerance",
        type=number(float, 0, "a number"),
        default=1e-4,
        help="error budget, relative to an output's largest magnitude",
    )
    added.add_argument("--seed", type=number(int, 0, "a whole number"), default=0)
    added.add_argument(
        "--max-ram",
        type=size_argument,
        metavar="SIZE",
        help="memory that the model may use (256KB, 1MiB); default: half of this machine's",
    )
    added.add_argument(
        "--quantised",
        choices=MEANINGS,
        default="exact",
        help="networks of integers: as the unfused evaluation in floats (exact), or scaled in fixed point (fast)",
    )
    added.add_argument(
        "--rounding",
        choices=ROUNDINGS,
        default="stored",
        help="float16 and bfloat16: rounded where they are stored or cast (stored), or the result of every operator (each)",
    )
    added.add_argument(
        "--log",
        metavar="FILE",
        help="path or URL of tuning records; default: $TC_LOG, else the user's cache folder",
    )


def _add_inspect(command, model, options):
    added = command("inspect", _inspect, "Show what the compiler does.", model)
    for add in options:
        add(added)
    added.add_argument(
        "--kernel",
        help="a kernel's number or label: statements, trace, tree, "
        "loops, assembly; default and llvm where --dump asks",
    )
    added.add_argument(
        "--dump",
        metavar="WHAT",
        help="a graph pass, all of them, or plan (steps and memory); with --kernel "
        "one of its texts or all",
    )
    added.add_argument("--no-time", action="store_true", help="do not time the kernel")


def _add_verify(command, model, options):
    added = command(
        "verify",
        _verify,
        "Compare every value with the interpreter in float64 and ONNX Runtime, and find the culprit.",
        model,
    )
    for add in options:
        add(added)
    added.add_argument(
        "--budget",
        type=number(float, 0, "a number"),
        help="largest error of a value, relative to its largest magnitude; default: the tolerance",
    )
    added.add_argument(
        "--against", metavar="MODEL", help="a model with values of the same names, as the reference"
    )
    added.add_argument(
        "--output-dir",
        metavar="FOLDER",
        help="where a minimal model that fails goes, with its inputs; default: NAME.verify",
    )


def _parser():
    called = os.path.basename(sys.argv[0] if sys.argv else "")
    parser = Parser(
        prog=called if called == "tcompile" else "python -m tc", description="A tensor compiler."
    )
    parser.add_argument(
        "--version", action="version", version=_version(None)[1], help="tell the version"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    whole = number(int, 1, "a whole number")

    def command(name, function, text, model=None):
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(function=function, refuse=added.error)
        added.add_argument("--json", action="store_true", help="print one JSON value")
        if model:
            added.add_argument("model", help=model)
            added.add_argument(
                "--shape",
                action="append",
                default=[],
                metavar="NAME=SIZES",
                help="bind a symbol (batch=1) or an input's shape (x=1,3,224,224)",
            )
            added.add_argument(
                "--trust-archive",
                action="store_true",
                help="of a file of PyTorch: run what is in it, unheld",
            )
        return added

    def exemplified(added):
        added.add_argument(
            "--input",
            action="append",
            default=[],
            metavar="NAME=FILE.npy",
            help="an array; of a model of PyTorch also an example, NAME=1,3,224,224:f32, or a number, NAME=3",
        )

    def deciding(added):
        add_file_options(added).add_argument(
            "--value",
            action="append",
            default=[],
            metavar="NAME=NUMBERS",
            help="make an input a constant",
        )

    def feeding(added):
        deciding(added)
        exemplified(added)

    source = "a model's file; `formats` lists those that are read"
    either = "a model's file, or an artefact (.so)"
    added = command("compile", _compile, "Compile a model and write an artefact.", source)
    _add_compiling(added)
    deciding(added)
    exemplified(added)
    add_size_versions(added)
    added.add_argument("--output", "-o", help="default: the model's name in this folder")
    added.add_argument(
        "--kind",
        choices=KindNames(),
        default="shared",
        metavar="KIND",
        help="of artefact: shared (default), static, executable, object, bare or c",
    )
    added.add_argument(
        "--max-flash",
        type=size_argument,
        metavar="SIZE",
        help="of kind bare: memory for constants and code, which are no part of --max-ram there",
    )
    added.add_argument("--tune", action="store_true", help="search for schedules first")
    add_tuning_options(added)
    added = command("tune", _tune, "Search for schedules and keep them in the log.", source)
    _add_compiling(added)
    add_bounds(added)
    exemplified(added)
    add_tuning_options(added)
    added = command("run", _run, "Run a model on .npy files.", either)
    _add_compiling(added)
    feeding(added)
    added.add_argument("--output-dir", help="write each output there as NAME.npy")
    added.add_argument("--random", action="store_true", help="seeded data for inputs not given")
    added = command("bench", _bench, "Time a model.", either)
    _add_compiling(added)
    feeding(added)
    added.add_argument(
        "--seconds",
        type=number(float, 0, "a number"),
        default=2.0,
        help="how long to measure (default 2)",
    )
    added.add_argument("--repeat", type=whole, help="number of runs, instead of --seconds")
    added.add_argument(
        "--roof",
        action="store_true",
        help="the machine's limits, and each kernel's share of what they allow",
    )
    exemplified(
        add_file_options(
            command("check", _check, "Tell everything that keeps a model from compiling.", source)
        )
    )
    _add_verify(command, source, (_add_compiling, add_bounds, exemplified))
    _add_inspect(command, either, (_add_compiling, add_bounds, add_size_versions, exemplified))
    ways = Ways(_module, _shapes, _examples, _given_inputs, _seeded_inputs)
    add_report(command, ways, (_add_compiling, feeding))
    for name, function, text in (
        ("targets", _targets, "List the targets."),
        ("version", _version, "Tell the version."),
    ):
        command(name, function, text)
    for add in (
        fleet.add_commands,
        log.add_command,
        add_quantize,
        add_generate,
        add_serve,
        c_interface.add_command,
        add_formats,
    ):
        add(command)
    return parser


def main(argv=None):
    """The boundary of the command line: whatever goes wrong is one sentence and the exit code 1."""
    argv = sys.argv[1:] if argv is None else argv
    arguments = None
    for stream in (sys.stdout, sys.stderr):
        # Names may contain characters that the terminal's encoding lacks.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        if argv and argv[0] in fleet.PROGRAMS:
            fleet.start(argv[0], argv[1:])  # returns only after `--program`, which prints a path
            return 0
        arguments = _parser().parse_args(argv)
        if cpu := getattr(arguments, "cpu", ""):
            arguments.target = cpu if arguments.target == "native" else f"{arguments.target}@{cpu}"
        if getattr(arguments, "trust_archive", False):
            arguments.model = trusted(arguments.model)
        result, text, *code = arguments.function(arguments)
    except Exception as exception:
        error = error_of(exception)
        if arguments and arguments.json:
            print(json.dumps({"error": {"kind": type(error).__name__, "text": str(error)}}))
        print(f"tc: {error}", file=sys.stderr)
        return 1
    try:
        print(json.dumps(result) if arguments.json else printable_lines(text))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output has ended (as in `| head`), so there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code[0] if code else 0
