"""The pictures of the lab, drawn by the server with what reports draw theirs."""

from ..reporting import amounts
from ..reporting.markup import Markup, drawn, element
from ..reporting.picture import KINDS, Scale, axes, number, picture, steps_to, swatch

_WIDTH, _HEIGHT = 760, 300
_LONGEST = 1e12  # seconds
_MOST_POINTS = 400  # of a curve


def _thinned(points):
    """At most so many points; the first and last stay."""
    if len(points) <= _MOST_POINTS:
        return points
    step = len(points) / (_MOST_POINTS - 1)
    return [points[int(place * step)] for place in range(_MOST_POINTS - 1)] + [points[-1]]


def elapsed(seconds):
    """Seconds as hours, minutes and seconds: 1:02:03."""
    seconds = int(max(0, min(seconds, _LONGEST)))
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _path(points, x, y):
    path = ""
    for at, value in _thinned(points):
        place = f"{number(x(at))} {number(y(value))}"
        path += f"H{number(x(at))}V{number(y(value))}" if path else f"M{place}"
    return Markup(path + ("h2" if len(points) == 1 else ""))


def gain_chart(name, curves, what):
    """Curves of (label, [(seconds since the first record, times as fast as untuned)]), at most as
    many as there are colours; None where there are none."""
    shown = [(label, points) for label, points in curves if points][:KINDS]
    if not shown:
        return None
    longest = max(5, *(points[-1][0] for _, points in shown))
    values = [value for _, points in shown for _, value in points]
    low, high = min(1.0, *values), max(1.0, *values)
    ticks = [low + value for value in steps_to(max(high - low, 0.05))]
    x, y = Scale(0, longest, 64, _WIDTH - 32), Scale(low, ticks[-1], _HEIGHT - 48, 16)
    columns = [value for value in steps_to(longest, 6) if value <= longest]
    content = [
        axes(
            x,
            y,
            [(value, elapsed(value)) for value in columns],
            [(value, f"{value:.2f}×") for value in ticks],
            ("time since the first record", what),
        ),
        [
            element(
                "path", element("title", label), d=_path(points, x, y), class_=f"curve k{colour}"
            )
            for colour, (label, points) in enumerate(shown)
        ],
    ]
    description = (
        f"Steps that rise where something faster was found; 1.00 is untuned. "
        f"The last value of the first curve is {shown[0][1][-1][1]:.2f} times."
    )
    image = picture(name, "Gain over time", description, _WIDTH, _HEIGHT, *content)
    items = [
        element("li", swatch(colour), f"{label} ({amounts.times(points[-1][1])})")
        for colour, (label, points) in enumerate(shown)
    ]
    return drawn("Gain over time", image, element("ul", items, class_="legend"))
