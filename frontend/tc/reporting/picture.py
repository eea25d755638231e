"""What the pictures share: SVG with a title and a description, scales and axes. Colours come from
the page's style by class, so that they follow light and dark."""

import math

from ..errors import printable
from .markup import Markup, element, escaped

_MAX_OF_DESCRIPTION = 2000  # characters
_MAX_OF_TIP = 30  # characters of a name
KINDS = 8  # colours of kinds of kernels; further kinds share the last


def picture(name, title, description, width, height, *content):
    """An SVG that a screen reader announces by its title and description. `name` is unique on the
    page."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", escaped(description, _MAX_OF_DESCRIPTION), id=f"{name}-desc"),
        *content,
        class_="picture",
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def tip(name, words):
    """The title of a shape, which a pointer over it shows. There are many: names are cut short."""
    return element("title", f"{printable(name, _MAX_OF_TIP)}: {words}")


def number(value):
    """A coordinate: a tenth of a pixel is enough."""
    return Markup(f"{value:.1f}".removesuffix(".0"))


def text(x, y, words, **attributes):
    return element("text", words, x=number(x), y=number(y), **attributes)


def line(x1, y1, x2, y2, class_):
    return element(
        "line", x1=number(x1), y1=number(y1), x2=number(x2), y2=number(y2), class_=class_
    )


class Scale:
    """Maps values from `low` to `high` to coordinates, straight or by their logarithms."""

    def __init__(self, low, high, begin, end, logarithmic=False):
        self._of = math.log10 if logarithmic else float
        self.low, self.high, self.begin, self.end = low, high, begin, end

    def __call__(self, value):
        value = min(max(value, self.low), self.high)
        low, high = self._of(self.low), self._of(self.high)
        share = (self._of(value) - low) / (high - low) if high > low else 0.0
        return self.begin + share * (self.end - self.begin)


def decades(low, high):
    """Powers of ten that hold all values between `low` and `high`, at least one decade."""
    first = math.floor(math.log10(low))
    last = max(first + 1, math.ceil(math.log10(high)))
    return [10.0**power for power in range(first, last + 1)]


def steps_to(high, count=4):
    """Round numbers from 0 that reach `high` in about `count` steps."""
    if high <= 0:
        return [0, 1]
    raw = high / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    return [step * number for number in range(math.ceil(high / step - 1e-9) + 1)]


def axes(x, y, x_ticks, y_ticks, titles):
    """Grid lines with numbers: ticks are pairs of a value and its text, `titles` those of x and
    y."""
    parts = []
    for value, words in x_ticks:
        parts += [
            line(x(value), y.begin, x(value), y.end, "grid"),
            text(x(value), y.begin + 16, words, class_="tick", text_anchor="middle"),
        ]
    for value, words in y_ticks:
        parts += [
            line(x.begin, y(value), x.end, y(value), "grid"),
            text(x.begin - 6, y(value) + 4, words, class_="tick", text_anchor="end"),
        ]
    middle = (y.begin + y.end) / 2
    return [
        *parts,
        text((x.begin + x.end) / 2, y.begin + 34, titles[0], class_="axis", text_anchor="middle"),
        text(
            0,
            0,
            titles[1],
            class_="axis",
            text_anchor="middle",
            transform=Markup(f"translate(12 {number(middle)}) rotate(-90)"),
        ),
    ]


def kinds_of(steps):
    """{kind: number of its colour}, the kinds with the most time first."""
    totals = {}
    for step in steps:
        time = step.get("seconds")
        totals[step["kind"]] = totals.get(step["kind"], 0.0) + (time if time is not None else 1e-12)
    ordered = sorted(totals, key=lambda kind: (-totals[kind], kind))
    return {kind: min(number, KINDS - 1) for number, kind in enumerate(ordered)}


def legend(kinds):
    """The kinds with their colours, as a list; those that share the last colour in one entry."""
    by_colour = {}
    for kind, colour in kinds.items():
        by_colour.setdefault(colour, []).append(kind)
    items = []
    for colour, names in by_colour.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        items.append(element("li", swatch(colour), names[0] + more))
    return element("ul", items, class_="legend")


def swatch(colour):
    return element(
        "svg",
        element("rect", width="10", height="10", rx="2"),
        class_=f"swatch k{colour}",
        viewBox="0 0 10 10",
        aria_hidden="true",
    )
