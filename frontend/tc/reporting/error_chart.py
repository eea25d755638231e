"""The error of each value against the tolerance, in the order in which values are computed."""

from .markup import element
from .picture import Scale, axes, decades, line, number, picture, steps_to, tip

MAX_POINTS = 500
_WIDTH, _HEIGHT = 640, 300


def relative(row):
    """The relative error as a number; None where it is equal or cannot be compared."""
    value = row["relative"]
    if isinstance(value, str):  # JSON lacks infinities
        value = float(value)
    return value if value is not None and value == value else None


def error_chart(errors):
    """The picture, or None where no value differs from its reference."""
    known = [(place, row, relative(row)) for place, row in enumerate(errors["values"])]
    known = [(place, row, value) for place, row, value in known if value]
    if not known:
        return None
    # The largest errors are never left out.
    shown = sorted(known, key=lambda each: -each[2])[:MAX_POINTS]
    finite = [min(value, 1e9) for _, _, value in shown]
    budget = errors["budget"]
    ends = [value for value in (*finite, budget) if value > 0]
    rows = decades(max(min(ends), 1e-18) * 0.8, max(ends) * 1.2)
    count = max(len(errors["values"]) - 1, 1)
    x = Scale(0, count, 64, _WIDTH - 16)
    y = Scale(rows[0], rows[-1], _HEIGHT - 48, 16, logarithmic=True)
    columns = sorted({int(value) for value in steps_to(count, 8) if value <= count})
    content = [
        axes(
            x,
            y,
            [(value, f"{value}") for value in columns],
            [(value, f"{value:.0e}") for value in rows],
            ("value, in the order of the model", "relative error"),
        ),
        [_point(place, row, value, x, y) for place, row, value in shown],
    ]
    if budget > 0:
        content.append(line(x.begin, y(budget), x.end, y(budget), "bound"))
    description = (
        f"{len(errors['values'])} values; the dashed line is the budget of {budget:g}. "
        f"The largest relative error is {max(finite):.2e}."
    )
    return picture("errors", "Relative error by value", description, _WIDTH, _HEIGHT, *content)


def _point(place, row, value, x, y):
    return element(
        "circle",
        tip(row["name"], f"{value:.2e}"),
        cx=number(x(place)),
        cy=number(y(min(value, 1e9))),
        r="3",
        class_="point right" if row["within"] else "point wrong",
    )
