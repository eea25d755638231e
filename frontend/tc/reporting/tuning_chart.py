"""The tuning curve: how much faster than untuned the best schedule of a kernel was, after so many
measurements."""

from .markup import Markup, drawn, element
from .picture import KINDS, Scale, axes, number, picture, steps_to, swatch

MAX_CURVES = KINDS
_WIDTH, _HEIGHT = 640, 300


def curves_of(kernels):
    """The kernels that have a curve, the ones that gained the most first."""
    fitting = [kernel for kernel in kernels if kernel["curve"]]
    return sorted(fitting, key=lambda kernel: (kernel["curve"][-1][1], kernel["hash"]))


def tuning_chart(kernels):
    """The picture of the kernels that gained the most, or None where nothing was measured."""
    shown = curves_of(kernels)[:MAX_CURVES]
    if not shown:
        return None
    longest = max(kernel["curve"][-1][0] for kernel in shown)
    gains = [1 / ratio for kernel in shown for _, ratio in kernel["curve"]]
    low, high = min(1.0, *gains), max(1.0, *gains)
    ticks = [low + value for value in steps_to(max(high - low, 0.01))]
    x = Scale(0, longest, 64, _WIDTH - 16)
    y = Scale(low, ticks[-1], _HEIGHT - 48, 16)
    columns = sorted({int(value) for value in steps_to(longest, 8) if value <= longest})
    content = [
        axes(
            x,
            y,
            [(value, f"{value}") for value in columns],
            [(value, f"{value:.2f}×") for value in ticks],
            ("measurements", "times as fast as untuned"),
        ),
        [_curve(kernel, x, y, colour) for colour, kernel in enumerate(shown)],
    ]
    description = (
        f"Steps that rise where a faster schedule was found, for {len(shown)} kernels; "
        f"the largest gain is {high:.2f} times."
    )
    image = picture("tuning", "Tuning curve", description, _WIDTH, _HEIGHT, *content)
    items = [
        element("li", swatch(colour), f"{kernel['label']} ({1 / kernel['curve'][-1][1]:.2f}×)")
        for colour, kernel in enumerate(shown)
    ]
    return drawn("Tuning curve", image, element("ul", items, class_="legend"))


def _curve(kernel, x, y, colour):
    path, before = "", None
    for measured, ratio in kernel["curve"]:
        at = f"{number(x(measured))} {number(y(1 / ratio))}"
        path += f"M{at}" if before is None else f"H{number(x(measured))}V{number(y(1 / ratio))}"
        before = ratio
    if len(kernel["curve"]) == 1:
        path += "h3"  # a single measurement is seen, too
    return element(
        "path", element("title", kernel["label"]), d=Markup(path), class_=f"curve k{colour}"
    )
