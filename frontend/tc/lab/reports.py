"""Reports on models that the lab shows beside a log: files that `python -m tc report --json`
wrote. Whoever wrote one, it is only text and numbers here."""

import json

from ..errors import ModelError, printable
from ..given_files import open_regular
from ..reporting import page_sections
from ..reporting.markup import escaped
from .records import HASH_DIGITS

_MOST_BYTES = 32 << 20
_MOST_CALLS = 10**9
_FORMAT = 1
_SECTIONS = {
    "roofline": page_sections.roof,
    "kinds": page_sections.classes,
    "memory": page_sections.memory,
    "steps": page_sections.steps,
    "graph": page_sections.graph,
    "errors": page_sections.errors,
    "summary": page_sections.summary,
    "provenance": page_sections.origin,
}
# What data of other forms than a report's raises in the functions that show it.
_UNFIT = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError)


class Report:
    """A report: its sections, each made once, and what it says of the log's kernels."""

    def __init__(self, path):
        self.path = path
        self.facts = facts = _facts(path)
        try:
            summary = facts["summary"]
            self.model, self.target = str(summary["model"]), str(summary["target"])
            self.threads = int(summary["threads"])
            self.sections = {name: section(facts) for name, section in _SECTIONS.items()}
            self.calls, self.limits, self.labels = _kernels(facts["steps"])
        except RecursionError:
            raise _unfit(path, "it is nested too deep") from None
        except _UNFIT as error:
            raise _unfit(path, f"{type(error).__name__} {error}") from None
        self.title = f"{printable(self.model, 60)} for {printable(self.target, 60)}"

    def fits(self, place):
        return self.target == place.target and self.threads == place.threads


def _facts(path):
    try:
        with open_regular(path) as file:
            data = file.read(_MOST_BYTES + 1)
    except ModelError as error:
        raise ModelError(f"the report '{path}' cannot be read: {error}") from None
    if len(data) > _MOST_BYTES:
        raise ModelError(
            f"the report '{path}' has more than {_MOST_BYTES >> 20} MiB, which no report has"
        )
    try:
        facts = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _unfit(path, f"it is not JSON: {error}") from None
    if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
        raise _unfit(path, f"it is not of format {_FORMAT}")
    if facts.get("subject") != "model":
        raise _unfit(path, "it is not of a model")
    return facts


def _unfit(path, why):
    return ModelError(
        f"'{path}' is no report that can be shown: {printable(why)}; write it by "
        "`python -m tc report MODEL --json > FILE`"
    )


def _kernels(steps):
    """({kernel: calls}, {kernel: least time of a call}, {kernel: its steps' labels})."""
    calls, limits, labels = {}, {}, {}
    for step in steps:
        kernel = str(step.get("workload") or "")[:HASH_DIGITS]
        if not kernel:
            continue
        count = min(max(1, int(step.get("calls") or 1)), _MOST_CALLS)
        calls[kernel] = calls.get(kernel, 0) + count
        labels.setdefault(kernel, []).append(escaped(step["label"], 100))
        roof = step.get("roof_seconds")
        if roof and float(roof) > 0:
            limits[kernel] = min(limits.get(kernel, float("inf")), float(roof) / count)
    return calls, limits, labels
