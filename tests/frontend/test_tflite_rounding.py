"""Sums brought to another scale: the operators that frontend/tc/tflite/operators/rescaling.py
makes, evaluated with whole numbers, beside TensorFlow Lite's two steps. Random models seldom meet a
tie; here they are looked for."""

import random

import numpy as np
import pytest

from tc.tflite.operators import float_sums, quantised, rescaling

LIMITS = {"i32": (-(1 << 31), (1 << 31) - 1), "i64": (-(1 << 63), (1 << 63) - 1)}


class Numbers:
    """Stands for a graph: a value is (list of Python's integers, type), and each node is computed
    at once. No result may leave its type."""

    def number(self, value, dtype):
        return [int(value)], dtype

    def constant(self, array):
        return [int(each) for each in np.atleast_1d(array).ravel()], {
            "int32": "i32",
            "int64": "i64",
        }[array.dtype.name]

    def node(self, name, operands, **attributes):
        dtype = operands[0][1]
        assert all(each[1] == dtype for each in operands)
        length = max(len(each[0]) for each in operands)
        columns = zip(*(values * length if len(values) == 1 else values for values, _ in operands))
        if name == "Cast":
            dtype = {6: "i32", 7: "i64"}[attributes["to"]]
        compute = {
            "Add": lambda a, b: a + b,
            "Mul": lambda a, b: a * b,
            "Min": min,
            "Max": max,
            "BitwiseAnd": lambda a, b: a & b,
            "BitShift": lambda a, b: a >> b,
            "Cast": lambda a: a,
        }[name]
        results = [compute(*each) for each in columns]
        assert all(LIMITS[dtype][0] <= each <= LIMITS[dtype][1] for each in results), (
            name,
            operands,
        )
        return results, dtype


def expected(x, real, rounding):
    """As MultiplyByQuantizedMultiplier of the reference kernels."""
    integer, exponent = rescaling.multiplier_of(real)
    if rounding == "once":
        return (x * integer + (1 << (31 - exponent) >> 1)) >> (31 - exponent)
    high = ((x << max(exponent, 0)) * integer + (1 << 30)) >> 31
    shift = max(-exponent, 0)
    away = int(rounding == "steps" and shift > 0 and high < 0)
    return (high + (1 << shift >> 1) - away) >> shift


def operands(drawn, most, real):
    """Numbers of all sizes, and those next to a tie of either step."""
    integer, exponent = rescaling.multiplier_of(real)
    found = (
        [0, 1, -1, most, -most]
        + [drawn.randint(-most, most) for _ in range(10)]
        + [drawn.randint(-min(most, 300), min(most, 300)) for _ in range(10)]
    )
    for _ in range(20):
        half = drawn.choice([1 << 30, 1 << max(30 - exponent, 30)])
        tie = (2 * drawn.randint(-300, 300) + 1) * half // max(integer, 1)
        found += [tie - 1, tie, tie + 1]
    return [x for x in found if abs(x) <= most]


def scales(drawn):
    return drawn.choice(
        [
            drawn.uniform(0.5, 1) * 2.0 ** drawn.randint(-30, 0),
            2.0 ** drawn.randint(-30, 0),
            drawn.randint(1, 255) / 256,
            3 / 2.0 ** drawn.randint(2, 20),
            1e-12,
        ]
    )


@pytest.mark.parametrize("rounding", ["once", "steps", "positive"])
def test_scaled_sums_are_those_of_the_reference(rounding):
    drawn, by_upper_half = random.Random(7), 0
    for _ in range(150):
        most = (1 << drawn.randint(1, 31)) - 1
        reals = [scales(drawn)] * 1 if drawn.random() < 0.5 else [scales(drawn) for _ in range(4)]
        if drawn.random() < 0.2:
            reals = [real * 2.0 ** drawn.randint(1, 4) for real in reals]
        for channel, real in enumerate(reals):
            for x in operands(drawn, most, real)[:: 1 if len(reals) == 1 else 9]:
                if abs(expected(x, real, rounding)) >= 1 << 30:
                    continue  # a result that is cut is only near the reference's
                values = [0] * len(reals)
                values[channel] = x
                result, dtype = rescaling.rescaled(
                    Numbers(), (values, "i32"), reals, most, (-1,), rounding
                )
                right = expected(x, real, rounding)
                assert dtype == "i32"
                assert result[channel] == right or (
                    rounding == "positive" and right <= 0 and result[channel] <= 0
                ), (x, reals, most)
        by_upper_half += (
            rescaling._moves(
                [-rescaling.multiplier_of(real)[1] for real in reals], [most] * len(reals), rounding
            )
            is not None
        )
    assert by_upper_half > 25


@pytest.mark.parametrize("rounding", ["steps", "positive"])
def test_results_that_do_not_change_need_no_multiplier(rounding):
    """A channel of a tiny scale and a large constant would need more than 32 bits beside others."""
    reals, constants, reach = [0.003, 2.0**-30 * 0.7, 2.0**-29], [500, 1 << 30, -(5 << 27)], 5000
    found = [rescaling.multiplier_of(real) for real in reals]
    most = [abs(each) + reach for each in constants]
    assert rescaling._moves([-exponent for _, exponent in found], most, rounding) is None
    between = ([each - reach for each in constants], [each + reach for each in constants])
    for x in (-reach, -77, 0, 1, 4000, reach):
        sums = [each + x for each in constants]
        result, _ = rescaling.rescaled(Numbers(), (sums, "i32"), reals, between, (-1,), rounding)
        right = [expected(each, real, "steps") for each, real in zip(sums, reals)]
        assert result[1:] == right[1:] == [1, -1]
        assert result[0] == right[0] or (rounding == "positive" and max(result[0], right[0]) <= 0)

    def adds_64_bits(within):
        numbers, seen = Numbers(), []
        compute = numbers.node
        numbers.node = lambda name, operands, **attributes: (
            seen.append((name, operands[0][1])),
            compute(name, operands, **attributes),
        )[1]
        rescaling.rescaled(numbers, (constants, "i32"), reals, within, (-1,), rounding)
        return ("Add", "i64") in seen

    assert adds_64_bits(most) and not adds_64_bits(between)


def test_all_bytes_as_parts_of_a_sum_are_those_of_the_reference():
    drawn = random.Random(8)
    for _ in range(60):
        real = min(scales(drawn) / 2, 0.499)
        for zero in (-128, 0, 127):
            reach = range(0 if zero == -128 else -255, 256)
            result, _ = quantised._part_of_sum(Numbers(), (list(reach), "i32"), real, zero)
            assert result == [expected(x << 20, real, "steps") for x in reach], (real, zero)


def reference_of_sum(a, b, scales_of, sign):
    """As ADD and SUB of the reference kernels: of operands less their zero points, before the
    result's zero point is added."""
    scale_a, scale_b, out = scales_of
    twice = 2 * max(scale_a, scale_b)
    parts = expected(a << 20, scale_a / twice, "steps") + sign * expected(
        b << 20, scale_b / twice, "steps"
    )
    return expected(parts, twice / ((1 << 20) * out), "steps")


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_by_floats_are_those_of_the_reference(sign):
    drawn, found = random.Random(9), 0
    for _ in range(12):
        scales_of = [drawn.uniform(0.01, 0.2) for _ in range(3)]
        zeros, limits = [drawn.choice([-128, drawn.randint(-128, 127)]) for _ in range(2)], (0, 255)

        def wanted(left, right):
            scale_a, scale_b, out = scales_of
            twice = 2 * max(scale_a, scale_b)
            parts = [
                rescaling.rescaled_numbers(each << 20, scale / twice)
                for each, scale in ((left, scale_a), (right, scale_b))
            ]
            return rescaling.rescaled_numbers(parts[0] + sign * parts[1], twice / ((1 << 20) * out))

        factors = float_sums.factors(
            scales_of[0] / scales_of[2],
            zeros[0],
            sign * scales_of[1] / scales_of[2],
            zeros[1],
            wanted,
            limits,
        )
        if factors is None:
            continue
        found += 1
        for _ in range(2000):
            a, b = drawn.randint(-128, 127) - zeros[0], drawn.randint(-128, 127) - zeros[1]
            floats = np.rint(np.float32(a) * factors[0] + np.float32(b) * factors[1])
            right = min(max(reference_of_sum(a, b, scales_of, sign), limits[0]), limits[1])
            assert min(max(int(floats), limits[0]), limits[1]) == right, (a, b, scales_of, zeros)
    assert found >= 6  # of others no factors are near enough


def test_there_are_no_factors_for_another_sum():
    def one_beside(left, right):
        return left + right + (left == 3) * (right == 5)

    assert (
        float_sums.factors(1.0, 0, 1.0, 0, lambda left, right: left + right, (-128, 127))
        is not None
    )
    assert float_sums.factors(1.0, 0, 1.0, 0, one_beside, (-128, 127)) is None
