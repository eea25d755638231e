"""Memory over the steps, by the compiler's own plan: each value is a rectangle over the steps
during which it lives, at its place in the arena."""

from . import amounts
from .markup import element
from .picture import Scale, axes, line, number, picture, steps_to, tip

MAX_BLOCKS = 1000
_WIDTH, _HEIGHT = 640, 340
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def live_bytes(blocks, steps):
    """Bytes in use during each step."""
    change = [0] * (steps + 1)
    for block in blocks:
        change[block["first"]] += block["bytes"]
        change[min(block["last"], steps - 1) + 1] -= block["bytes"]
    found, now = [], 0
    for each in change[:steps]:
        now += each
        found.append(now)
    return found


def memory_chart(memory, writers, kinds):
    """The picture, or None where no value is in the arena. `writers` has the kind of each step."""
    blocks = [block for block in memory["blocks"] if block["bytes"] > 0]
    if not blocks or not memory["steps"]:
        return None
    shown = sorted(blocks, key=lambda block: -block["bytes"] * (1 + block["last"] - block["first"]))
    shown = shown[:MAX_BLOCKS]
    top = max(block["offset"] + block["bytes"] for block in blocks)
    top = max(top, memory["arena"] or 0)
    factor, unit = next(pair for pair in _UNITS if top >= pair[0])
    rows = steps_to(top / factor)
    x = Scale(0, memory["steps"], 64, _WIDTH - 16)
    y = Scale(0, rows[-1] * factor, _HEIGHT - 48, 16)
    columns = [value for value in steps_to(memory["steps"], 8) if value <= memory["steps"]]
    columns = sorted({int(value) for value in columns})
    content = [
        axes(
            x,
            y,
            [(value, f"{value}") for value in columns],
            [(value * factor, f"{value:g}") for value in rows],
            ("step", unit),
        ),
        [_block(block, x, y, kinds.get(writers.get(block["first"]), 0)) for block in shown],
    ]
    if memory["arena"]:
        content.append(line(x.begin, y(memory["arena"]), x.end, y(memory["arena"]), "bound"))
    live = live_bytes(blocks, memory["steps"])
    most = max(range(len(live)), key=lambda step: live[step])
    description = (
        f"{len(blocks)} values in an arena of {amounts.size(memory['arena'])}, whose end is the dashed line. "
        f"Most is in use during step {most}: {amounts.size(live[most])}."
    )
    return picture("memory", "Memory over the steps", description, _WIDTH, _HEIGHT, *content)


def _block(block, x, y, colour):
    words = (
        f"{amounts.size(block['bytes'])} at {block['offset']}, "
        f"steps {block['first']} to {block['last']}"
    )
    left, right = x(block["first"]), x(block["last"] + 1)
    upper, lower = y(block["offset"] + block["bytes"]), y(block["offset"])
    return element(
        "rect",
        tip(block["name"], words),
        x=number(left),
        y=number(upper),
        width=number(max(right - left, 0.5)),
        height=number(max(lower - upper, 0.5)),
        class_=f"block k{colour}",
    )
