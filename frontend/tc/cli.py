"""The command line: python -m tc COMMAND; `python -m tc --help` lists the commands.

Every command takes --json and then prints one JSON value. Exit codes: 0 done, 1 an error that one
sentence on stderr names (with --json: {"error": {"kind", "text"}} on stdout), 2 wrong usage.
"""

import json
import os
import platform
import sys
import time

import numpy as np

from .accelerator import load as load_accelerator
from . import c_interface, cluster, fleet, log, units
from .archives import trusted
from .arguments import Options, options_of
from .compiling import check, targets
from .errors import ShapeError, UnsupportedError, error_of, lines_text, printable, printable_lines
from .file_options import (
    add_bounds,
    add_file_options,
    add_size_versions,
    add_states,
    bounds,
    file_options,
)
from .files import make_folder, write_array
from .formats import add_command as add_formats, takes_examples
from .inspecting_command import add_command as add_inspect
from .kinds import KindNames, kind_row
from .lab.command import add_command as add_lab
from .language.command import add_command as add_generate
from .model_options import (
    MODEL,
    MODEL_OR_ARTEFACT,
    add_compiling,
    add_examples,
    add_inputs,
    add_model,
    add_values,
    add_weights,
    array_in,
    examples_of,
    given_inputs,
    module_of,
    seeded_inputs,
    shapes_of,
    tuning_options,
    verify_options,
)
from .module import arithmetic_text
from .native import compiler, runtime
from .parser import Parser, number
from .placement import add_place
from .profile import limits_text, profile
from .quantising_command import add_command as add_quantize
from .reporting.command import add_command as add_report
from .serving_command import add_command as add_serve
from .sizes import board_rows, board_text, size_argument
from .sources import source_of
from .timing import time_calls
from .tuning import add_search_options, add_tuning_options, tune
from .version import VERSION


_MAX_OF_FILE_NAME = 224  # the exported executable's


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


def _compile(arguments):
    output = arguments.output
    if output is None:
        stem = os.path.splitext(os.path.basename(arguments.model))[0]
        output = stem + kind_row(arguments.kind)["suffix"]
        if os.path.abspath(output) == os.path.abspath(arguments.model):
            output += ".out"
    begin = time.perf_counter()
    module = module_of(arguments).as_artefact()
    board = board_rows(module.export(output, kind=arguments.kind))
    seconds = time.perf_counter() - begin
    memory = module.memory
    result = {
        "model": module.name,
        "target": module.target,
        "kind": arguments.kind,
        "weights": arguments.weights,
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
    beside = ", weights in a file beside it" if arguments.weights == "separate" else ""
    text.append(f"wrote  {output} ({arguments.kind}, {result['bytes'] / 1e6:.3f} MB{beside})")
    return result, lines_text(text)


def _run(arguments):
    module = module_of(arguments)
    arrays = given_inputs(module, arguments)
    files = dict(text.split("=", 1) for text in arguments.input if "=" in text)
    if arguments.random:
        arrays.update(seeded_inputs(module, arguments, but=arrays))
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
    module = module_of(arguments)
    arrays = given_inputs(module, arguments)
    arrays.update(seeded_inputs(module, arguments, but=arrays))
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


def _tune(arguments):
    more = [trusted(each) if arguments.trust_archive else each for each in arguments.more]
    found = tune(
        [arguments.model, *more] if more else arguments.model,
        arguments.target,
        inputs=examples_of(arguments),
        shapes=shapes_of(arguments),
        threads=arguments.threads,
        tolerance=arguments.tolerance,
        seed=arguments.seed,
        quantised=arguments.quantised,
        rounding=arguments.rounding,
        priority=arguments.priority,
        cost_model=arguments.cost_model,
        **bounds(arguments),
        **tuning_options(arguments),
    )
    if not more:
        return _tuned(found), found.summary()
    return found._asdict() | {"models": [_tuned(each) for each in found.models]}, found.summary()


def _tuned(result):
    return result._asdict() | {"kernels": [kernel._asdict() for kernel in result.kernels]}


def _check(arguments):
    problems = check(
        arguments.model,
        inputs=examples_of(arguments),
        shapes=shapes_of(arguments),
        **file_options(arguments),
    )
    arithmetic, lines = [], []
    if not problems and not takes_examples(arguments.model):
        try:
            arithmetic, lines = compiler.arithmetic(
                source_of(arguments.model),
                options_of(Options(shapes=shapes_of(arguments), **file_options(arguments))),
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
        given[name] = array_in(name, path)
    found = verify(
        arguments.model,
        arguments.target,
        given,
        budget=arguments.budget,
        against=arguments.against,
        **verify_options(arguments),
    )
    stem = os.path.splitext(os.path.basename(arguments.model))[0]
    found.write(arguments.output_dir or f"{stem}.verify")
    return found.to_dict(), str(found), 0 if found.right else 1


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


def _add_compile(command):
    added = command("compile", _compile, "Compile a model and write an artefact.", MODEL)
    add_compiling(added)
    add_values(added)
    add_examples(added)
    add_size_versions(added)
    add_states(added)
    added.add_argument("--output", "-o", help="default: the model's name in this folder")
    added.add_argument(
        "--kind",
        choices=KindNames(),
        default="shared",
        metavar="KIND",
        help="of artefact: shared (default), static, executable, object, bare, c or loops",
    )
    added.add_argument(
        "--max-flash",
        type=size_argument,
        metavar="SIZE",
        help="of kinds bare and c: memory for constants and code, which are no part of --max-ram there",
    )
    add_weights(added)
    add_place(added, values=None)
    added.add_argument("--tune", action="store_true", help="search for schedules first")
    add_tuning_options(added)


def _add_tune(command):
    added = command("tune", _tune, "Search for schedules and keep them in the log.", MODEL)
    added.add_argument(
        "more", nargs="*", metavar="MODEL", help="more models, under the same budget and options"
    )
    add_compiling(added)
    add_bounds(added)
    add_examples(added)
    add_tuning_options(added)
    add_search_options(added)


def _add_run(command):
    added = command("run", _run, "Run a model on .npy files.", MODEL_OR_ARTEFACT)
    add_compiling(added)
    add_inputs(added)
    added.add_argument("--output-dir", help="write each output there as NAME.npy")
    added.add_argument("--random", action="store_true", help="seeded data for inputs not given")


def _add_bench(command):
    added = command("bench", _bench, "Time a model.", MODEL_OR_ARTEFACT)
    add_compiling(added)
    add_inputs(added)
    added.add_argument(
        "--seconds",
        type=number(float, 0, "a number"),
        default=2.0,
        help="how long to measure (default 2)",
    )
    added.add_argument(
        "--repeat",
        type=number(int, 1, "a whole number"),
        help="number of runs, instead of --seconds",
    )
    added.add_argument(
        "--roof",
        action="store_true",
        help="the machine's limits, and each kernel's share of what they allow",
    )


def _add_check(command):
    added = command("check", _check, "Tell everything that keeps a model from compiling.", MODEL)
    add_examples(add_file_options(added))


def _add_verify(command):
    added = command(
        "verify",
        _verify,
        "Compare every value with the interpreter in float64 and ONNX Runtime, and find the culprit.",
        MODEL,
    )
    add_compiling(added)
    add_bounds(added)
    add_examples(added)
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


def _add_targets(command):
    command("targets", _targets, "List the targets.")


def _add_version(command):
    command("version", _version, "Tell the version.")


def _parser():
    called = os.path.basename(sys.argv[0] if sys.argv else "")
    parser = Parser(
        prog=called if called == "tcompile" else "python -m tc", description="A tensor compiler."
    )
    parser.add_argument(
        "--version", action="version", version=_version(None)[1], help="tell the version"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name, function, text, model=None):
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(function=function, refuse=added.error)
        added.add_argument("--json", action="store_true", help="print one JSON value")
        if model:
            add_model(added, model)
        return added

    for add in (
        _add_compile,
        _add_tune,
        _add_run,
        _add_bench,
        _add_check,
        _add_verify,
        add_inspect,
        add_report,
        add_lab,
        _add_targets,
        _add_version,
        fleet.add_commands,
        units.add_command,
        log.add_command,
        cluster.add_command,
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
        if described := getattr(arguments, "accelerator", None):
            arguments.target += f"+accel:{load_accelerator(described).name}"
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
