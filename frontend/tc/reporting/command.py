"""The command `python -m tc report`."""

import os
import shlex
import sys

from ..errors import DeviceError, lines_text, printable
from ..model_options import (
    MODEL_OR_ARTEFACT,
    add_compiling,
    add_inputs,
    given_inputs,
    module_of,
    seeded_inputs,
    verify_options,
)
from ..parser import number
from . import amounts
from .provenance import without_password


def _report(arguments):
    from .report import of_module  # the page's parts, of which other commands need none

    output = _output(arguments)
    module = module_of(arguments)
    given = given_inputs(module, arguments)
    arrays = given | seeded_inputs(module, arguments, but=given)
    report = of_module(
        module,
        inputs=arrays,
        seeded=tuple(name for name in arrays if name not in given),
        seconds=arguments.seconds,
        seed=arguments.seed,
        log=arguments.log,
        verification=_verification(arguments, arrays) if arguments.verify else None,
        command=_command(),
    )
    written = []
    if output is not None:
        report.save(output)
        written.append(output)
    if arguments.trace:
        report.save_trace(arguments.trace)
        written.append(arguments.trace)
    if arguments.onnx:
        report.save_onnx(arguments.onnx)
        written.append(arguments.onnx)
    return report.facts | {"files": written}, _text(report, written)


def _output(arguments):
    """The page's file; None where only the facts are asked for, which --json prints. Raises an
    error before any work where a file cannot be written."""
    stem = os.path.splitext(os.path.basename(arguments.model))[0]
    output = arguments.output or (None if arguments.json else f"{stem}.html")
    for path in filter(None, (output, arguments.trace, arguments.onnx)):
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise DeviceError(f"'{path}' cannot be written: there is no folder '{folder}'")
        if _are_one(path, arguments.model):
            raise DeviceError(
                f"'{path}' is the model itself, which the report would replace; name another file"
            )
    return output


def _are_one(path, other):
    try:
        return os.path.samefile(path, other)
    except OSError:  # one of both does not exist
        return False


def _verification(arguments, arrays):
    from ..verifying import verify

    return verify(arguments.model, arguments.target, arrays, **verify_options(arguments))


def _command():
    """The command line as one writes it."""
    return shlex.join(["python", "-m", "tc", *(without_password(each) for each in sys.argv[1:])])


def _text(report, written):
    summary = report.facts["summary"]
    lines = [f"report {printable(summary['model'])} for {summary['target']}"]
    if "run_seconds" in summary:
        of_limit = (
            ""
            if summary["share"] is None
            else f", {amounts.percent(summary['share'])} of the machine's limit in its steps"
        )
        lines.append(f"time   fastest run {amounts.seconds(summary['run_seconds'])}{of_limit}")
    elif summary["not_run"]:
        lines.append(f"time   none: {summary['not_run']}")
    errors = report.facts["errors"]
    if errors:
        culprit = errors["culprit"]
        blame = f" ({culprit['part']} {printable(culprit['name'])})" if culprit else ""
        lines.append(
            f"errors {'right' if errors['right'] else 'wrong'}{blame}, budget {errors['budget']:g}"
        )
    return lines_text([*lines, *(f"wrote  {path}" for path in written)])


def add_command(command):
    added = command(
        "report",
        _report,
        "Write a report on a model as one HTML file: time, limits, memory, graph, tuning.",
        MODEL_OR_ARTEFACT,
    )
    add_compiling(added)
    add_inputs(added)
    added.add_argument(
        "--output", "-o", metavar="FILE", help="default: the model's name and .html, in this folder"
    )
    added.add_argument(
        "--seconds",
        type=number(float, 0, "a number"),
        default=1.0,
        help="how long to measure (default 1)",
    )
    added.add_argument(
        "--verify", action="store_true", help="add the errors by layer, as `verify` finds them"
    )
    added.add_argument(
        "--trace",
        metavar="FILE",
        help="also write the fastest run in Chrome's format, which ui.perfetto.dev opens",
    )
    added.add_argument(
        "--onnx",
        metavar="FILE",
        help="also write the plan's steps as an ONNX file, which Netron opens and nothing runs",
    )
