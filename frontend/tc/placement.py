"""Which kernels of a model run on an accelerator, and why others run on the core."""

from .errors import Error, printable

_STRATEGY = "accelerator"  # its row in scheduler/default/strategy.cc


def _place_of(kernel):
    """Where a kernel runs, the predicted cycles there and on the core (None where the scheduler
    predicts none), and why it isn't the accelerator."""
    strategies = {each["strategy"]: each for each in kernel.default_report()[1]}
    asked = strategies.pop(_STRATEGY)
    on_accelerator = asked["taken"]
    taken = [each for each in strategies.values() if each["taken"]]
    core = asked["plain_cycles"] or (taken[0]["cycles"] if taken else None)
    return {
        "label": kernel.label,
        "unit": _STRATEGY if on_accelerator else "core",
        "accelerator_cycles": asked["cycles"] or None,
        "core_cycles": core or None,
        "multiply_adds": kernel.multiply_adds,
        "why": "" if on_accelerator else asked["rejected"],
    }


def placement(kernels, target):
    """A row for each kernel, and the table of them as lines."""
    if "+accel:" not in kernels[0].target:
        raise Error(
            f"--place: target '{target}' has no accelerator; name one (--target {target}+accel:NAME), "
            "or give its file by --accelerator"
        )
    name = kernels[0].target.partition("+accel:")[2]
    rows = [_place_of(kernel) for kernel in kernels]
    # As many digits as the scheduler's own report has.
    cycles = [
        tuple(
            "-" if row[key] is None else f"{row[key]:.3g}"
            for key in ("accelerator_cycles", "core_cycles")
        )
        for row in rows
    ]
    lines = [f"{'kernel':>6s} {'runs on':12s} {name[:12]:>12s} {'core':>12s}  label"]
    for number, (row, (accelerator, core)) in enumerate(zip(rows, cycles)):
        unit = name if row["unit"] == _STRATEGY else "core"
        why = f" ({row['why']})" if row["why"] else ""
        lines.append(
            f"{number:6d} {unit[:12]:12s} {accelerator:>12s} {core:>12s}  {printable(row['label'])}{why}"
        )
    placed = [row for row in rows if row["unit"] == _STRATEGY]
    share = sum(row["multiply_adds"] for row in placed) / max(
        1, sum(r["multiply_adds"] for r in rows)
    )
    lines.append(
        f"{len(placed)} of {len(rows)} kernels run on {name}, with {100 * share:.1f} % of the "
        "multiply-adds; predicted cycles, of the accelerator with its copies"
    )
    return rows, lines
