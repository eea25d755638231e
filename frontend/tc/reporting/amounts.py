"""Numbers as people read them."""

import math

MISSING = "–"


def _scaled(value, factors, units):
    """The value in the largest unit of which it has at least one, else in the smallest."""
    factor, unit = next(
        (pair for pair in zip(factors, units) if abs(value) >= pair[0]), (factors[-1], units[-1])
    )
    return f"{_digits(value / factor)} {unit}"


def _digits(value):
    """Three significant digits, without an exponent."""
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 6)}f}"


def seconds(value):
    if value is None:
        return MISSING
    return _scaled(value, (1, 1e-3, 1e-6, 1e-9), ("s", "ms", "µs", "ns"))


def size(value):
    if value is None:
        return MISSING
    if abs(value) < 1000:
        return f"{value:.0f} B"
    return _scaled(value, (1e9, 1e6, 1e3), ("GB", "MB", "kB"))


def count(value):
    """Operations and the like: 58.9 M."""
    if value is None:
        return MISSING
    if abs(value) < 1000:
        return f"{value:.0f}"
    return _scaled(value, (1e12, 1e9, 1e6, 1e3), ("T", "G", "M", "k"))


def percent(share):
    if share is None:
        return MISSING
    return f"{100 * share:.1f} %" if share < 0.0995 else f"{100 * share:.0f} %"


def times(factor):
    """How many times as fast: 1.23×."""
    return MISSING if factor is None else f"{factor:.2f}×"


def error(value):
    """A relative error; texts stand for what JSON lacks."""
    if value is None:
        return "equal"
    return value if isinstance(value, str) else f"{value:.2e}"


def of(number, one, many=None):
    """ "1 step", "2 steps"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
