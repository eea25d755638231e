"""How far values are from their reference, and whether that is within an error budget."""

import typing

import numpy as np

from .native import compiler
from .ports import BIT_TYPES, NUMPY_NAMES, TC_NAMES

# Bits of the fraction, smallest exponent and largest number of each float type.
FLOATS = {
    "f64": (52, -1022, 1.7976931348623157e308),
    "f32": (23, -126, 3.4028234663852886e38),
    "f16": (10, -14, 65504.0),
    "bf16": (7, -126, 3.3895313892515355e38),
    "f8e4m3fn": (3, -6, 448.0),
    "f8e4m3fnuz": (3, -7, 240.0),
    "f8e5m2": (2, -14, 57344.0),
    "f8e5m2fnuz": (2, -15, 57344.0),
    "f8e8m0": (0, -127, 2.0**127),
    "f4e2m1": (1, 0, 6.0),
}
# Types of quantised numbers. A float half-way between two of their numbers may be rounded to
# either.
QUANTISED = {"i8", "u8", "i16", "u16", "i4", "u4", "i2", "u2"}
_MAX_HALFWAY = 0.01  # the largest share of elements that may differ for that reason
# An error from rounding stored values that every budget allows, in units in the last place of the
# largest number.
ROUNDING = 4


class Difference(typing.NamedTuple):
    """A value compared with its reference. `absolute` and `ulp` are those of the element that is
    farthest from it, `relative` is `absolute` over the reference's largest magnitude; all are None
    where both agree or cannot be compared."""

    name: str
    dtype: str
    shape: tuple
    absolute: typing.Optional[float]
    relative: typing.Optional[float]
    ulp: typing.Optional[float]
    index: typing.Optional[tuple]
    actual: typing.Optional[float]
    reference: typing.Optional[float]
    budget: float
    within: bool
    why: str = ""  # what is wrong apart from the distance
    # For integers: how many elements differ from the reference, and how many of these by one step.
    unlike: int = 0
    beside: int = 0

    def text(self):
        if self.why and self.absolute is None:
            return self.why
        place = f" at {list(self.index)}" if self.index else ""
        ulp = "" if self.ulp is None else f", {self.ulp:.3g} ULP"
        return (
            f"absolute {self.absolute:.3g}, relative {self.relative:.3g}{ulp}{place}: {self.actual:.9g}, not {self.reference:.9g}"
            + (f" ({self.why})" if self.why else "")
        )


def tc_type(array):
    """The compiler's name of an array's element type."""
    return TC_NAMES[array.dtype.name]


def numbers(array, dtype):
    """The elements as float64; integers stay integers."""
    if dtype not in FLOATS:
        bits = BIT_TYPES.get(NUMPY_NAMES[dtype])
        if bits is None:
            return array
        return np.frombuffer(
            compiler.stored(dtype, list(array.shape), array.tobytes(), "i64"), np.int64
        ).reshape(array.shape)
    if dtype in ("f32", "f64", "f16"):
        return array.astype(np.float64)
    return np.frombuffer(
        compiler.stored(dtype, list(array.shape), array.tobytes(), "f64"), np.float64
    ).reshape(array.shape)


def stored(array, dtype):
    """The numbers of an array converted to an element type, in the form that arrays of modules
    have."""
    wanted = np.dtype(BIT_TYPES.get(NUMPY_NAMES[dtype], NUMPY_NAMES[dtype]))
    data = compiler.stored(tc_type(array), list(array.shape), array.tobytes(), dtype)
    return np.frombuffer(data, wanted).reshape(array.shape)


def ulp_of(number, dtype):
    """The distance to the next number of the type."""
    bits, least, _ = FLOATS[dtype]
    exponent = (
        least
        if number == 0 or not np.isfinite(number)
        else max(least, int(np.floor(np.log2(abs(number)))))
    )
    return 2.0 ** (exponent - bits)


def compared(name, dtype, actual, reference, budget, from_floats=False):
    """The difference of two arrays as `numbers` returns them; `dtype` is the type in which the
    value is stored, `from_floats` says that its node reads floats."""
    if dtype in FLOATS:
        budget = max(budget, ROUNDING * 2.0 ** -FLOATS[dtype][0])

    def result(within, why="", **known):
        nothing = dict.fromkeys(("absolute", "relative", "ulp", "index", "actual", "reference"))
        return Difference(
            name=name,
            dtype=dtype,
            shape=tuple(actual.shape),
            budget=budget,
            within=within,
            why=why,
            **nothing | known,
        )

    if actual.shape != reference.shape:
        return result(False, f"the shape is {list(actual.shape)}, not {list(reference.shape)}")
    if actual.size == 0:
        return result(True)
    if dtype not in FLOATS:
        return _integers(result, actual, reference, from_floats and dtype in QUANTISED)
    with np.errstate(invalid="ignore", over="ignore"):
        same = (actual == reference) | (np.isnan(actual) & np.isnan(reference))
        distance = np.where(same, 0.0, np.abs(actual - reference))
    distance = np.where(np.isnan(distance), np.inf, distance)
    at = np.unravel_index(int(np.argmax(distance)), distance.shape)
    finite = np.abs(reference[np.isfinite(reference)])
    scale = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    worst, is_, wanted = float(distance[at]), float(actual[at]), float(reference[at])
    why = ""
    if not np.isfinite(is_) and np.isfinite(wanted):
        over = abs(wanted) > FLOATS[dtype][2]
        why = (
            f"{abs(wanted):.6g} is more than {dtype} holds, {FLOATS[dtype][2]:.6g}"
            if over
            else "not a finite number"
        )
    # A unit in the last place may be more than the budget's share of the number, below the smallest
    # normal number above all.
    allowed = max(budget * scale, ROUNDING * ulp_of(scale, dtype))
    return result(
        worst <= allowed,
        why,
        absolute=worst,
        relative=worst / scale,
        ulp=worst / ulp_of(wanted, dtype),
        index=tuple(int(i) for i in at),
        actual=is_,
        reference=wanted,
    )


def _integers(result, actual, reference, quantised):
    unlike = actual != reference
    if not unlike.any():
        return result(True)
    wide = np.float64 if actual.dtype == bool or reference.dtype == bool else np.longdouble
    distance = np.where(unlike, np.abs(actual.astype(wide) - reference.astype(wide)), 0)
    at = np.unravel_index(int(np.argmax(distance)), distance.shape)
    scale = max(1.0, float(np.abs(reference.astype(wide)).max()))
    halfway = (
        quantised and distance.max() <= 1 and unlike.sum() <= max(1, _MAX_HALFWAY * actual.size)
    )
    return result(
        bool(halfway),
        f"{int(unlike.sum())} of {actual.size} elements differ",
        unlike=int(unlike.sum()),
        beside=int((distance == 1).sum()),
        absolute=float(distance[at]),
        relative=float(distance[at]) / scale,
        index=tuple(int(i) for i in at),
        actual=float(actual[at]),
        reference=float(reference[at]),
    )


def overflows(difference):
    """Whether the value is wrong because the reference's number is too large for its type."""
    return (
        difference.dtype in FLOATS
        and difference.reference is not None
        and np.isfinite(difference.reference)
        and (abs(difference.reference) > FLOATS[difference.dtype][2])
        and not np.isfinite(difference.actual)
    )
