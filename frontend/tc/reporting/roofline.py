"""The roofline: what the machine can do at most, and what each step does."""

import math

from . import amounts
from .markup import Markup, drawn, element
from .picture import Scale, axes, decades, legend, line, number, picture, text, tip

MAX_POINTS = 500
_WIDTH, _HEIGHT = 640, 400


def points_of(steps):
    """The steps that have a place in the picture: measured ones with arithmetic, the ones with the
    most time first."""
    fitting = [
        step for step in steps if step.get("seconds") and step.get("flops") and step.get("bytes")
    ]
    return sorted(fitting, key=lambda step: -step["seconds"])


def roofline(steps, limits, peaks, kinds):
    """The picture, or None where there is nothing to show."""
    points = points_of(steps)
    if not points or not limits or "f32" not in peaks:
        return None
    shown = points[:MAX_POINTS]
    intensities = [step["flops"] / step["bytes"] for step in shown]
    rates = [step["flops"] / step["seconds"] for step in shown]
    ridges = [peaks["f32"] / row["read_bytes_per_second"] for row in limits["bandwidths"]]
    columns = decades(
        max(min([*intensities, *ridges]) * 0.8, 1e-4), max([*intensities, *ridges]) * 1.1
    )
    rows = decades(max(min(rates), 1e3) * 0.8, max([*rates, peaks["f32"]]) * 1.1)
    x = Scale(columns[0], columns[-1], 64, _WIDTH - 16, logarithmic=True)
    y = Scale(rows[0], rows[-1], _HEIGHT - 48, 16, logarithmic=True)
    content = [
        axes(
            x,
            y,
            [(value, f"{value:g}") for value in columns],
            [(value, f"{value * 1e-9:g}") for value in rows],
            ("operations per byte", "GFLOP/s"),
        ),
        _roofs(x, y, limits, peaks),
        [_point(step, x, y, kinds, shown[0]["seconds"]) for step in reversed(shown)],
    ]
    description = (
        f"Logarithmic axes. The peak is {peaks['f32'] * 1e-9:.0f} GFLOP/s in float32; the bandwidths are "
        + ", ".join(
            f"{row['level']} {row['read_bytes_per_second'] * 1e-9:.0f} GB/s"
            for row in limits["bandwidths"]
        )
        + f". {len(shown)} steps are points; the table of steps has their numbers."
    )
    image = picture("roofline", "Roofline", description, _WIDTH, _HEIGHT, *content)
    return drawn("Roofline", image, legend({step["kind"]: kinds[step["kind"]] for step in shown}))


def _roofs(x, y, limits, peaks):
    parts = []
    for place, row in enumerate(limits["bandwidths"]):
        rate = row["read_bytes_per_second"]
        # From where the line enters the picture to where it meets the peak.
        begin = max(x.low, y.low / rate)
        end = min(peaks["f32"] / rate, x.high)
        if begin >= end:
            continue
        parts.append(line(x(begin), y(begin * rate), x(end), y(end * rate), "roof"))
        at = begin * (end / begin) ** (0.03 + 0.2 * (place % 4))
        parts.append(
            text(
                x(at),
                y(at * rate) - 5,
                f"{row['level']} {rate * 1e-9:.0f} GB/s",
                class_="tick",
                transform=_slope(x, y, at, rate),
            )
        )
    ridge = min(
        peaks["f32"] / max(row["read_bytes_per_second"] for row in limits["bandwidths"]), x.high
    )
    parts.append(line(x(max(ridge, x.low)), y(peaks["f32"]), x.end, y(peaks["f32"]), "roof"))
    parts.append(
        text(
            x(max(ridge, x.low)) + 4,
            y(peaks["f32"]) - 6,
            f"peak {peaks['f32'] * 1e-9:.0f} GFLOP/s, float32",
            class_="tick",
        )
    )
    return parts


def _slope(x, y, at, rate):
    """A rotation that lets text follow a line of bandwidth."""
    dx = x(x.high) - x(x.low)
    dy = y(y.high) - y(y.low)
    per_decade_x = dx / math.log10(x.high / x.low)
    per_decade_y = dy / math.log10(y.high / y.low)
    angle = math.degrees(math.atan2(per_decade_y, per_decade_x))
    return Markup(f"rotate({angle:.1f} {number(x(at))} {number(y(at * rate))})")


def _point(step, x, y, kinds, longest):
    radius = 3 + 8 * math.sqrt(step["seconds"] / longest)
    words = (
        f"{amounts.seconds(step['seconds'])}, "
        f"{step['flops'] / step['seconds'] * 1e-9:.1f} GFLOP/s, {amounts.percent(step.get('share'))} of its limit"
    )
    return element(
        "circle",
        tip(step["label"], words),
        cx=number(x(step["flops"] / step["bytes"])),
        cy=number(y(step["flops"] / step["seconds"])),
        r=number(radius),
        class_=f"point k{kinds[step['kind']]}",
    )
