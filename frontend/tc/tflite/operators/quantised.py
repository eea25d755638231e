"""Layers, sums and products of integers with a scale, bit for bit as TensorFlow Lite's reference
kernels compute them.

Sums are exact in 32 bits; rescaling.py brings them to the result's scale. Fully connected layers
round once, all others in two steps.
"""

import math

import numpy as np

from ..describe import NUMPY_TYPES, ONNX_NUMBERS, Refusal
from . import float_sums
from .integers import ENDS, centred, ends, farthest, need_integers, stored, units, zero_of
from .rescaling import multiplier_of, rescaled, rescaled_by_double, rescaled_long, rescaled_numbers


def _rounding(limits, zero):
    return "positive" if limits[0] >= zero else "steps"


def padded(g, name, x, attributes, border):
    """(the integers of the operand x, surrounded by the constant `border` where the padding adds
    elements; the attributes without padding)."""
    if attributes["auto_pad"] == "VALID":
        return name, attributes
    before, after = [0, 0], [0, 0]
    for axis in range(2):
        stride, size = attributes["strides"][axis], x.shape[1 + axis]
        extent = (attributes["kernel_shape"][axis] - 1) * attributes.get("dilations", [1, 1])[
            axis
        ] + 1
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        before.append(total // 2)
        after.append(total - total // 2)
    if any(before + after):
        name = g.node("Pad", [name, g.ints(before + after), border])
    return name, {**attributes, "auto_pad": "VALID"}


class Layer:
    """The operands of a convolution or a product with constant weights; `numbers` are the weights
    with the output channels first; in the file these are along `axis`."""

    def __init__(self, call, operands, numbers, axis):
        self.x, self.weights, self.bias = operands
        self.call, self.out, self.numbers, self.axis = call, call.out, numbers, axis
        # With which one number per channel broadcasts.
        self.shape = (1, -1, 1, 1) if numbers.ndim == 4 else (-1,)
        need_integers(self.x, self.out)
        found = self.weights.tensor.quantisation
        kinds = ("u8",) if self.x.dtype == "u8" else ("i8", "i4")
        if self.weights.dtype not in kinds or found is None:
            raise Refusal(
                f"'{self.weights.tensor.name}' is {self.weights.dtype}{'' if found else ' without scales'}; beside {self.x.dtype} weights are "
                f"{kinds[0]} with scales"
            )
        if len(found.scale) > 1 and (found.axis != axis or self.x.dtype == "u8"):
            raise Refusal(
                f"'{self.weights.tensor.name}' has scales for axis {found.axis}; "
                f"{'one scale' if self.x.dtype == 'u8' else f'axis {axis}'} is supported"
            )
        if self.x.dtype != "u8" and np.any(found.zero_point):
            raise Refusal(
                f"'{self.weights.tensor.name}' has zero points; weights with a sign have none"
            )
        self.scales = found.scale
        self.zero = int(found.zero_point[0]) if self.x.dtype == "u8" else 0
        self.added = self._constants()
        differences = np.abs(numbers.reshape(len(numbers), -1).astype(np.int64) - self.zero)
        self.most = differences.sum(1) * farthest(self.x) + np.abs(self.added)
        # Products of integers of 16 bits are summed in 64 bits, unless the constants have 32 bits.
        self.is_long = self.x.dtype == "i16" and not (
            self.bias is not None and self.bias.dtype == "i32"
        )
        if not self.is_long and np.max(self.most) >= 1 << 31:
            raise Refusal("its sums have no room in 32 bits")

    def _constants(self):
        if self.bias is None:
            return np.zeros(len(self.numbers), np.int64)
        if self.bias.dtype not in (
            ("i32", "i64") if self.x.dtype == "i16" else ("i32",)
        ) or self.bias.shape != (len(self.numbers),):
            raise Refusal(f"the bias is {self.bias.dtype} of shape {list(self.bias.shape)}")
        if self.bias.data is None:
            raise Refusal("the bias is computed while the model runs; only constants are supported")
        return self.bias.data.astype(np.int64)

    @property
    def reals(self):
        """The factors of each channel's sums: a single number where the reference kernels compute
        it from single floats."""
        x, out = units(self.x)[0], np.float64(units(self.out)[0])
        if self.x.dtype == "u8" or (self.call.name == "FULLY_CONNECTED" and len(self.scales) == 1):
            return [np.float64(x * self.scales[0]) / out]
        return [np.float64(x) * np.float64(each) / out for each in self.scales]

    def sums(self, g, op, name, weights, **attributes):
        """The sums of products of operands minus their zero points, plus the constants."""
        zero = units(self.x)[1]
        dtype = "i64" if self.is_long else "i32"
        if self.x.dtype == "i16":
            sums, added = products_of_shorts(g, op, name, weights, dtype, **attributes), self.added
        elif np.max(np.abs(self.numbers.astype(np.int64) - self.zero)) > 127:
            sums = g.node(
                op,
                [name, g.constant(weights), g.number(zero, "u8"), g.number(self.zero, "u8")],
                **attributes,
            )
            added = self.added
        else:
            signed = (weights.astype(np.int64) - self.zero).astype(np.int8)
            sums = g.node(op, [name, g.constant(signed)], **attributes)
            added = self.added - zero * (
                self.numbers.reshape(len(self.numbers), -1).astype(np.int64) - self.zero
            ).sum(1)
        return (
            g.node("Add", [sums, g.constant(added.astype(NUMPY_TYPES[dtype]).reshape(self.shape))])
            if np.any(added)
            else sums
        )

    def scaled(self, g, sums, rounding):
        """i32: the sums in the result's units."""
        if rounding == "once" and self.x.dtype == "i16":
            return rescaled_by_double(g, sums, self.reals)
        if self.is_long:
            return rescaled_long(g, sums, self.reals, self.shape)
        most = self.most if len(self.reals) > 1 else int(np.max(self.most))
        if rounding == "once" and _can_tie(self.reals, int(np.max(self.most))):
            # Rounding halves away from 0 is rounding halves of magnitudes up.
            return g.node(
                "Mul",
                [
                    g.node("Sign", [sums]),
                    rescaled(g, g.node("Abs", [sums]), self.reals, most, self.shape, "once"),
                ],
            )
        if len(self.reals) > 1:
            reach = self.most - np.abs(self.added)
            most = (self.added - reach, self.added + reach)
        return rescaled(g, sums, self.reals, most, self.shape, rounding)


def _can_tie(reals, most):
    """Whether a sum of at most that magnitude, times one of the real numbers, can be exactly
    half-way between two integers."""
    for integer, exponent in map(multiplier_of, reals):
        zeros = (integer & -integer).bit_length() - 1
        if integer and 1 << max(30 - exponent - zeros, 0) <= most:
            return True
    return False


def products_of_shorts(g, op, name, weights, dtype, **attributes):
    """Sums of products of i16 with weights of 8 bits, made of separate sums for the upper and the
    lower bytes, for which there are instructions."""
    upper = g.node(
        "Cast",
        [g.node("BitShift", [g.node("Cast", [name], to=6), g.number(8, "i32")], direction="RIGHT")],
        to=3,
    )
    lower = g.node(
        "Cast", [g.node("BitwiseAnd", [g.node("Cast", [name], to=6), g.number(255, "i32")])], to=2
    )
    parts = [
        g.cast(g.node(op, [each, g.constant(weights)], **attributes), "i32", dtype)
        for each in (upper, lower)
    ]
    return g.node("Add", [g.node("Mul", [parts[0], g.number(256, dtype)]), parts[1]])


def convolution(g, call, kernel, axis, attributes):
    """A convolution; `kernel` has the weights in ONNX's order, `axis` is that of the output
    channels in the file."""
    layer = Layer(call, call.inputs, kernel, axis)
    x = layer.x
    name, attributes = padded(g, g.channels_first(x), x, attributes, g.number(zero_of(x), x.dtype))
    sums = layer.sums(g, "ConvInteger", name, kernel, **attributes)
    limits = ends(call, call.out)
    name = layer.scaled(g, sums, _rounding(limits, units(call.out)[1]))
    g.give(call.out, stored(g, name, call.out, limits), channels_first=True)


def transposed_convolution(g, call, kernel, strides, pads):
    """A convolution of the operand with zero points inserted between its elements. `kernel` has the
    weights with the output channels first; `pads` are the numbers of zero points added before and
    after height and width, or of elements removed."""
    x = call.inputs[2]
    layer = Layer(call, (x, call.inputs[1], call.inputs[3]), kernel, 0)
    name, border, sizes = g.channels_first(x), g.number(zero_of(x), x.dtype), list(x.shape[1:3])
    if max(strides) > 1:
        rows = [x.shape[0], x.shape[3], sizes[0], 1, sizes[1], 1]
        name = g.node(
            "Pad",
            [g.reshape(name, rows), g.ints([0] * 9 + [strides[0] - 1, 0, strides[1] - 1]), border],
        )
        sizes = [size * stride for size, stride in zip(sizes, strides)]
        name = g.reshape(name, [x.shape[0], x.shape[3], *sizes])
    ends_of = [(before, after - stride + 1) for (before, after), stride in zip(pads, strides)]
    cut = [(max(-before, 0), size + min(after, 0)) for (before, after), size in zip(ends_of, sizes)]
    if any(low or high < size for (low, high), size in zip(cut, sizes)):
        name = g.node(
            "Slice",
            [
                name,
                g.ints([low for low, _ in cut]),
                g.ints([high for _, high in cut]),
                g.ints([2, 3]),
            ],
        )
    if any(low > 0 or high > 0 for low, high in ends_of):
        name = g.node(
            "Pad",
            [
                name,
                g.ints(
                    [
                        0,
                        0,
                        *(max(low, 0) for low, _ in ends_of),
                        0,
                        0,
                        *(max(high, 0) for _, high in ends_of),
                    ]
                ),
                border,
            ],
        )
    limits = ends(call, call.out)
    sums = layer.sums(
        g,
        "ConvInteger",
        name,
        np.ascontiguousarray(kernel[:, :, ::-1, ::-1]),
        kernel_shape=list(kernel.shape[2:]),
    )
    name = layer.scaled(g, sums, _rounding(limits, units(call.out)[1]))
    g.give(call.out, stored(g, name, call.out, limits), channels_first=True)


def fully_connected(g, call, rows):
    """The name of the product of the rows and the weights."""
    weights = call.constant(1, "the list of weights")
    layer = Layer(call, call.inputs, weights, 0)
    sums = layer.sums(g, "MatMulInteger", rows, np.ascontiguousarray(weights.T))
    return stored(g, layer.scaled(g, sums, "once"), call.out, ends(call, call.out))


def product_of_matrices(g, call, names, depth):
    """BATCH_MATMUL: `names` are the operands as matrices to multiply, with `depth` products per
    sum."""
    a, b = call.inputs
    need_integers(a, b, call.out, types=("i8", "i16"))
    real = np.float64(units(a)[0] * units(b)[0]) / np.float64(units(call.out)[0])
    if a.dtype == "i16":
        # float64 is exact for sums of up to 2 ** 23 such products.
        wide = [g.node("Cast", [name], to=ONNX_NUMBERS["f64"]) for name in names]
        sums = g.node("Cast", [g.node("MatMul", wide)], to=ONNX_NUMBERS["i64"])
        g.give(call.out, stored(g, rescaled_long(g, sums, [real], ()), call.out))
        return
    most = depth * 255 * 255
    if most >= 1 << 31:
        raise Refusal("its sums have no room in 32 bits")
    sums = g.node(
        "MatMulInteger", [*names, *(g.number(zero_of(value), value.dtype) for value in (a, b))]
    )
    g.give(call.out, stored(g, rescaled(g, sums, real, most), call.out))


def two_operands(g, call):
    """ADD, SUB and MUL."""
    need_integers(*call.inputs[:2], call.out)
    names, images = g.aligned(call.inputs[:2], call.out.rank)
    (a, _), (b, _), (out, zero) = units(call.inputs[0]), units(call.inputs[1]), units(call.out)
    operands = [centred(g, name, value) for name, value in zip(names, call.inputs)]
    limits, far = ends(call, call.out), farthest(call.out)
    rounding = _rounding(limits, zero)
    if call.name == "MUL":
        name = rescaled(
            g, g.node("Mul", operands), np.float64(a * b / out), far * far, (), rounding
        )
    elif call.out.dtype == "i16":
        name = _sum_of_shorts(g, operands, call, rounding)
    elif (by_floats := _sum_by_floats(g, operands, call, limits)) is not None:
        name = by_floats
    else:
        twice = 2 * np.float64(max(a, b))
        parts = [
            _part_of_sum(g, each, np.float64(units(value)[0]) / twice, _signed_zero(value))
            for each, value in zip(operands, call.inputs)
        ]
        name = rescaled(
            g,
            g.node("Add" if call.name == "ADD" else "Sub", parts),
            twice / (np.float64(1 << 20) * np.float64(out)),
            far << 20,
            (),
            rounding,
        )
    g.give(call.out, stored(g, name, call.out, limits), images)


def _sum_of_shorts(g, operands, call, rounding):
    """A sum or difference of i16. Where scales are powers of two and the file allows it, shifts are
    used; otherwise the steps for bytes, with 15 more bits."""
    op, scales = (
        "Add" if call.name == "ADD" else "Sub",
        [units(value)[0] for value in (*call.inputs[:2], call.out)],
    )
    powers = [math.frexp(float(scale)) for scale in scales]
    if call.option("PotScaleInt16", True) and all(fraction == 0.5 for fraction, _ in powers):
        shifts = [exponent - powers[2][1] for _, exponent in powers[:2]]
        if max(shifts) > 0 or (shifts[0] and shifts[1]):
            raise Refusal(
                f"its scales are {float(scales[0]):g}, {float(scales[1]):g} and {float(scales[2]):g}; of powers of two the larger operand's "
                "has to be the result's"
            )
        return g.node(
            op,
            [
                rescaled(g, each, 2.0**shift, 1 << 15) if shift else each
                for each, shift in zip(operands, shifts)
            ],
        )
    twice = 2 * np.float64(max(scales[:2]))
    parts = [
        rescaled(
            g, g.node("Mul", [each, g.number(1 << 15, "i32")]), np.float64(scale) / twice, 1 << 30
        )
        for each, scale in zip(operands, scales)
    ]
    return rescaled(
        g,
        g.node(op, parts),
        twice / (np.float64(1 << 15) * np.float64(scales[2])),
        1 << 30,
        (),
        rounding,
    )


def _signed_zero(value):
    """The zero point of a value of bytes if these are taken as signed ones."""
    return units(value)[1] - 128 - ENDS[value.dtype][0]


def _sum_by_floats(g, operands, call, limits):
    """The sum or difference of two operands computed in floats where that gives the same integers
    as fixed point; else None."""
    (a, _), (b, _), (out, zero) = units(call.inputs[0]), units(call.inputs[1]), units(call.out)
    a_zero, b_zero = (_signed_zero(value) for value in call.inputs[:2])
    sign, twice = (1 if call.name == "ADD" else -1), 2 * np.float64(max(a, b))

    def integers(left, right):
        parts = [
            rescaled_numbers(each << 20, np.float64(scale) / twice)
            for each, scale in ((left, a), (right, b))
        ]
        return rescaled_numbers(
            parts[0] + sign * parts[1], twice / (np.float64(1 << 20) * np.float64(out))
        )

    found = float_sums.factors(
        np.float64(a) / out,
        a_zero,
        sign * np.float64(b) / out,
        b_zero,
        integers,
        (limits[0] - zero, limits[1] - zero),
    )
    if found is None:
        return None
    terms = [
        g.node("Mul", [g.node("Cast", [each], to=ONNX_NUMBERS["f32"]), g.number(factor, "f32")])
        for each, factor in zip(operands, found)
    ]
    return g.node("Cast", [g.node("Round", [g.node("Add", terms)])], to=ONNX_NUMBERS["i32"])


def _part_of_sum(g, name, real, zero):
    """An operand of a sum (bytes minus their zero point, shifted left by 20 bits) times a number of
    at most a half; a factor of exactly a half needs no rounding.

    Both steps of `rescaled` become one here. The operand's 20 lower bits are 0, so only those bits
    of the multiplier that are dropped in the end are multiplied separately, and everything fits in
    32 bits."""
    if real == 0.5:
        return g.node("Mul", [name, g.number(1 << 19, "i32")])
    integer, exponent = multiplier_of(real)
    cut = 11 - exponent
    added = (1 << 10) + (1 << cut >> 1)
    if not 12 <= cut <= 22:
        return rescaled(g, g.node("Mul", [name, g.number(1 << 20, "i32")]), real, 255 << 20)
    below = g.node(
        "Add",
        [
            g.node("Mul", [name, g.number(integer & ((1 << cut) - 1), "i32")]),
            g.number(added, "i32"),
        ],
    )
    if zero != -128:  # halves of negative numbers are rounded away from 0
        below = g.node(
            "Add",
            [
                below,
                g.node(
                    "Mul",
                    [
                        g.node("BitShift", [name, g.number(31, "i32")], direction="RIGHT"),
                        g.number(1 << 11, "i32"),
                    ],
                ),
            ],
        )
    below = g.node("BitShift", [below, g.number(cut, "i32")], direction="RIGHT")
    return g.node("Add", [g.node("Mul", [name, g.number(integer >> cut, "i32")]), below])
