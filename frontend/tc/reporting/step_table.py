"""The table of steps: slowest first, beside their limits and beside untuned."""

from . import amounts
from .markup import element, escaped, joined, paragraph, table
from .picture import kinds_of, number, swatch

_MAX_OF_SHAPES = 160
_MAX_OF_LABEL = 160


def ordered(steps):
    """The steps with the most time first; those that were not measured last, in their order."""
    return sorted(steps, key=lambda step: (-(step.get("seconds") or 0.0), step["step"]))


def shapes(step):
    """The shapes of a step's arguments as it sees them, constants left out."""

    def of(uses):
        return ", ".join(use["type"] for use in uses if use["type"] and use["where"] != "constant")

    reads, writes = of(step["reads"]), of(step["writes"])
    return f"{reads} → {writes}" if reads or writes else ""


def bar(share):
    """A bar beside a number that says the same."""
    width = 60 * min(max(share, 0.0), 1.0)
    return element(
        "svg",
        element("rect", width="60", height="8", class_="track"),
        element("rect", width=number(width), height="8", class_="full"),
        class_="bar",
        viewBox="0 0 60 8",
        aria_hidden="true",
    )


def step_table(facts, most, note_on_rest):
    steps = ordered(facts["steps"])
    if not steps:
        return None
    whole = sum(step.get("seconds") or 0.0 for step in steps)
    tuned = any(step.get("untuned_seconds") for step in steps)
    kinds = kinds_of(steps)
    heads = [
        "Nodes",
        "Step",
        "Kind",
        "Time",
        *(("Untuned", "Gain") if tuned else ()),
        "Of all",
        "GFLOP/s",
        "Operations",
        "Bytes",
        "Bound by",
        "Of limit",
    ]
    alignment = ["", "number", "", *["number"] * (7 if tuned else 5), "", "number"]
    heads.append("Shapes, as the kernel sees them")
    alignment.append("wide")
    most_seconds = steps[0].get("seconds") or 1.0
    rows = [_row(step, (whole, most_seconds), tuned, kinds) for step in steps[:most]]
    return joined(
        paragraph(
            "The time of a step is its least of all runs; of limit: the least time that the measured limits allow, "
            "divided by it. Above 100 %: the step does fewer operations than are counted, or the limit was measured "
            "while something else ran."
            + (
                " Untuned: the time divided by the ratio that the log has of the schedule, measured in turns with the untuned one."
                if tuned
                else ""
            )
        ),
        table(
            "Times, work and limits; a bar is a step's time beside that of the slowest",
            heads,
            rows,
            alignment,
        ),
        note_on_rest(len(rows), len(steps), "steps"),
    )


def _row(step, totals, tuned, kinds):
    whole, most = totals
    seconds, flops = step.get("seconds"), step.get("flops")
    share = seconds / whole if seconds and whole else None
    calls = step.get("calls")
    algorithm = f" [{step['algorithm']}]" if step.get("algorithm") else ""
    repeated = f" ({calls:,} times)" if calls and calls > 1 else ""
    before = []
    if tuned:
        untuned = step.get("untuned_seconds")
        gain = untuned / seconds if untuned and seconds else None
        before = [amounts.seconds(untuned), amounts.times(gain)]
    return [
        joined(
            swatch(kinds[step["kind"]]), escaped(step["label"], _MAX_OF_LABEL), algorithm, repeated
        ),
        str(step["step"]),
        step["kind"],
        amounts.seconds(seconds),
        *before,
        amounts.MISSING if share is None else joined(amounts.percent(share), bar(seconds / most)),
        amounts.MISSING if not seconds or flops is None else f"{flops / seconds * 1e-9:,.1f}",
        amounts.count(flops),
        amounts.size(step.get("bytes")),
        step.get("roof") or amounts.MISSING,
        amounts.percent(step.get("share")),
        escaped(shapes(step), _MAX_OF_SHAPES),
    ]
