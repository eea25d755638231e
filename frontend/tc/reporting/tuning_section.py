"""The section on tuning: the curve, the kernels, what a session did, what failed."""

from . import amounts
from .markup import joined, notes, paragraph, table, tiles
from .tuning_chart import MAX_CURVES, curves_of, tuning_chart

_MAX_ROWS = 200
_MAX_DEVICES = 5


def tuning_section(facts):
    found = facts["tuning"]
    if not found:
        return None
    if not found["kernels"] and not found["session"]:
        return paragraph(
            f"The log {found['log']} has no record of this model's kernels for {found['target']} and "
            f"{amounts.of(found['threads'], 'thread')}; `python -m tc tune MODEL` makes some."
        )
    return joined(
        _session(found["session"]),
        _source(found),
        tuning_chart(found["kernels"]),
        _rest_of_curves(found["kernels"]),
        _kernels(found),
        notes("Refused: ", found["problems"]),
    )


def _rest_of_curves(kernels):
    left = len(curves_of(kernels)) - MAX_CURVES
    if left <= 0:
        return None
    return paragraph(
        f"The {MAX_CURVES} kernels that gained the most; {left} more are in the table.",
        class_="soft",
    )


def _session(session):
    if not session:
        return None
    shown = [
        ("Whole model", amounts.times(session["model_gain"]), "times as fast as untuned"),
        ("Schedules tried", f"{session['trials']:,}", f"{session['measured']:,} measured now"),
        ("Took", f"{session['seconds']:,.0f} s", session["stopped"]),
    ]
    rows = [
        [
            kernel["label"],
            f"{kernel['calls']:,}",
            _amount(kernel["untuned"], session["unit"]),
            _amount(kernel["best"], session["unit"]),
            amounts.times(kernel["gain"]),
            _share_of_roof(kernel, session["unit"]),
            f"{kernel['trials']:,}",
            _failures(kernel["failures"]),
        ]
        for kernel in sorted(
            session["kernels"], key=lambda kernel: -kernel["untuned"] * kernel["calls"]
        )[:_MAX_ROWS]
    ]
    example = next((kernel["example"] for kernel in session["kernels"] if kernel["example"]), "")
    left = len(session["kernels"]) - len(rows)
    return joined(
        tiles(shown),
        table(
            "Kernels of the session, most time first",
            ["Kernel", "Calls", "Untuned", "Best", "Gain", "Of limit", "Tried", "Failed"],
            rows,
            ["", *["number"] * 6, ""],
        ),
        paragraph(f"{left:,} more kernels are in the report as JSON.") if left > 0 else None,
        paragraph(f"An example of a failure: {example}") if example else None,
        notes("", session["notes"]),
    )


def _share_of_roof(kernel, unit):
    if unit != "seconds" or not kernel["best"] or not kernel["roof_seconds"]:
        return amounts.MISSING
    return amounts.percent(kernel["roof_seconds"] / kernel["best"])


def _amount(value, unit):
    if not value:
        return amounts.MISSING
    return amounts.seconds(value) if unit == "seconds" else f"{value:,.0f} cycles"


def _failures(failures):
    return ", ".join(f"{count} {outcome}" for outcome, count in failures.items()) or "none"


def _source(found):
    others = ", ".join(found["other_devices"][:_MAX_DEVICES])
    return paragraph(
        f"From the log {found['log']}: records for {found['target']}, {amounts.of(found['threads'], 'thread')}, "
        f"measured on {found['device'] or 'no device'}."
        + (f" Records of other devices are not compared with them: {others}." if others else "")
    )


def _kernels(found):
    if not found["kernels"]:
        return None
    of_model = not found["session"]  # a session's kernels have no labels in the log
    rows = [
        [
            kernel["label"],
            *((f"{kernel['steps']:,}", kernel["what"]) if of_model else ()),
            f"{kernel['records']:,}",
            _failures(kernel["failures"]),
            amounts.times(1 / kernel["ratio"] if kernel["ratio"] else None),
            "yes" if kernel["chosen"] else "no",
            _amount(kernel["median"], kernel["unit"]),
        ]
        for kernel in found["kernels"][:_MAX_ROWS]
    ]
    left = len(found["kernels"]) - len(rows)
    of_steps = (["Steps", "What"], ["number", "wide"]) if of_model else ([], [])
    return joined(
        table(
            "Kernels in the log, most records first",
            ["Kernel", *of_steps[0], "Records", "Failed", "Gain", "Chosen", "Best, median"],
            rows,
            ["", *of_steps[1], "number", "", "number", "", "number"],
        ),
        paragraph(f"{left:,} more kernels are in the report as JSON.") if left > 0 else None,
    )
