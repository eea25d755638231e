"""Which kernels of a model run on an accelerator, and why others run on the core; and how a user
places them."""

from .errors import Error, printable
from .native import compiler
from .sources import source_of

_STRATEGY = "accelerator"  # its row in scheduler/default/strategy.cc


_COMMAND = "command "  # begins the lines of a trace that are an accelerator's


def set_places(options, model, place):
    """Makes kernels of the model that is compiled with the options run where `place` says: {kernel:
    unit}, as tc.compile takes it."""
    if not place:
        return
    if not isinstance(place, dict) or not all(
        isinstance(kernel, (str, int)) and isinstance(unit, str) for kernel, unit in place.items()
    ):
        raise Error(
            f"place is {place!r}; give a dictionary of kernels and units, {{'conv_1': 'core', 3: 'systolic16'}}"
        )
    kind, options.kind = options.kind, "c"  # of plans that have commands
    try:
        options.places = given = {str(kernel): unit for kernel, unit in place.items()}
        labels = [each["label"] for each in compiler.plan_kernels(source_of(model), options)]
        options.places = _places_of_labels(given, labels)
        if options.places != given:
            compiler.plan_kernels(source_of(model), options)  # refuses what fits no instruction
    finally:
        options.kind = kind


def _places_of_labels(given, labels):
    """{label: unit} from {number, label, its first node or a part of it: unit}."""
    result = {}
    for name, unit in given.items():
        if name.isdigit() and int(name) < len(labels):
            near = [labels[int(name)]]
        else:
            near = (
                [label for label in labels if label == name]
                or [label for label in labels if label.startswith(f"{name} + ")]
                or [label for label in labels if name in label]
            )
        shown = ", ".join(printable(label) for label in dict.fromkeys(near or labels))
        if not near:
            raise Error(f"place: no kernel is called '{printable(name)}'; the kernels are {shown}")
        if len(set(near)) > 1:
            raise Error(
                f"place: several kernels fit '{printable(name)}': {shown}; name one of them"
            )
        if result.setdefault(near[0], unit) != unit:
            raise Error(
                f"place: kernel '{shown}' is placed on '{result[near[0]]}' and on '{unit}'; leave one out"
            )
    return result


def add_place(added, values="?"):
    """Gives a command's parser the option that places_of() reads."""
    shows = "which kernels run on the target's accelerator, and why the others run on the core; "
    added.add_argument(
        "--place",
        nargs=values,
        action="append",
        metavar="KERNEL=UNIT",
        help=(shows if values == "?" else "")
        + "run this kernel, a label or its number, on the core, or on the accelerator of this name",
    )


def places_of(arguments):
    """{kernel: unit} from --place KERNEL=UNIT, as tc.compile takes it."""
    place = {}
    for text in getattr(arguments, "place", None) or []:
        if text is None:
            continue  # it only shows
        kernel, _, unit = text.rpartition("=")
        if not kernel or not unit:
            raise Error(f"--place takes KERNEL=core or KERNEL=ACCELERATOR, not '{printable(text)}'")
        if place.setdefault(kernel, unit) != unit:
            raise Error(
                f"--place: kernel '{printable(kernel)}' is placed on '{place[kernel]}' and on '{unit}'; leave one out"
            )
    return place


def _place_of(kernel):
    """Where a kernel runs, the predicted cycles there and on the core (None where the scheduler
    predicts none), and why it isn't the accelerator."""
    strategies = {each["strategy"]: each for each in kernel.default_report()[1]}
    asked = strategies.pop(_STRATEGY)
    on_accelerator = any(line.startswith(_COMMAND) for line in kernel.trace)
    placed_here = kernel.placed is not None and on_accelerator == (kernel.placed != "core")
    why = "it is placed here" if placed_here else "" if on_accelerator else asked["rejected"]
    taken = [each for each in strategies.values() if each["taken"]]
    core = asked["plain_cycles"] or (taken[0]["cycles"] if taken else None)
    return {
        "label": kernel.label,
        "unit": _STRATEGY if on_accelerator else "core",
        "accelerator_cycles": asked["cycles"] or None,
        "core_cycles": core or None,
        # Of the accelerator's cycles, those in which the core completes what it sums up.
        "cycles_on_core": asked["cycles_on_core"],
        "multiply_adds": kernel.multiply_adds,
        "why": why,
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
