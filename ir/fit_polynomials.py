"""Prints the polynomials of math_tables.h: minimax fits by the exchange algorithm (needs mpmath and
numpy).

    python3 ir/fit_polynomials.py > ir/math_tables.h

Each row fits p(t) to f(t) on an interval so that the largest |p - f| * weight is least, in 60
digits; coefficients are then rounded to the type.
"""

import struct

import numpy
from mpmath import atan, cos, erf, erfc, exp, log, lu_solve, matrix, mp, mpf, pi, sin, sqrt

mp.dps = 60


def exchange(f, weight, low, high, degree, rounds=12):
    """Coefficients (lowest first) of the minimax polynomial, and its weighted error."""
    low, high = mpf(low), mpf(high)
    count = degree + 2
    points = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / (count - 1)) for i in range(count)]
    grid = [(low + high) / 2 - (high - low) / 2 * cos(pi * i / 1999) for i in range(2000)]
    values = [(x, f(x), weight(x)) for x in grid]
    for _ in range(rounds):
        system, right = matrix(count, count), matrix(count, 1)
        for i, x in enumerate(points):
            for j in range(degree + 1):
                system[i, j] = x**j
            system[i, degree + 1] = (-1) ** i / weight(x)
            right[i] = f(x)
        solution = lu_solve(system, right)
        coefficients = [solution[j] for j in range(degree + 1)]

        def error(x, fx, wx):
            total = mpf(0)
            for c in reversed(coefficients):
                total = total * x + c
            return (total - fx) * wx

        errors = [error(*value) for value in values]
        # The largest error in each run of one sign.
        extrema, start = [], 0
        for i in range(1, len(errors) + 1):
            if i == len(errors) or (errors[i] > 0) != (errors[start] > 0):
                best = max(range(start, i), key=lambda k: abs(errors[k]))
                extrema.append(best)
                start = i
        if len(extrema) < count:
            break
        while len(extrema) > count:
            if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]):
                extrema.pop(0)
            else:
                extrema.pop()
        points = [grid[i] for i in extrema]
    return coefficients, max(abs(e) for e in errors)


def series(f):
    """f with its removable singularity at 0 filled in by the limit."""

    def value(x):
        return f(x) if abs(x) > mpf(10) ** -25 else f(mpf(10) ** -20)

    return value


def erfcx(x):
    return exp(x * x) * erfc(x)


ROWS = [
    # name, what p(t) is, f, weight, interval, degree, type
    (
        "kExpF32",
        "(exp(t) - 1 - t) / t^2",
        lambda t: (exp(t) - 1 - t) / t**2,
        lambda t: t**2,
        -0.3475,
        0.3475,
        4,
        "float",
    ),
    (
        "kExpF64",
        "(exp(t) - 1 - t) / t^2",
        lambda t: (exp(t) - 1 - t) / t**2,
        lambda t: t**2,
        -0.3475,
        0.3475,
        9,
        "double",
    ),
    (
        "kLogF32",
        "(log(1 + t) - t + t^2/2) / t^3",
        lambda t: (log(1 + t) - t + t * t / 2) / t**3,
        lambda t: abs(t**3 / log(1 + t)) if t else mpf(0),
        sqrt(mpf(0.5)) - 1,
        sqrt(mpf(2)) - 1,
        7,
        "float",
    ),
    (
        "kLogF64",
        "(log((1+s)/(1-s)) / s - 2) / t, t = s^2",
        lambda t: (log((1 + sqrt(t)) / (1 - sqrt(t))) / sqrt(t) - 2) / t,
        lambda t: t,
        0,
        0.02945,
        6,
        "double",
    ),
    (
        "kErfSmallF32",
        "erf(s) / s - 1, t = s^2",
        lambda t: erf(sqrt(t)) / sqrt(t) - 1,
        lambda t: mpf(1),
        0,
        1,
        6,
        "float",
    ),
    (
        "kErfLargeF32",
        "log(erfc(t + 2.5))",
        lambda t: log(erfc(t + mpf(2.5))),
        lambda t: erfc(t + mpf(2.5)),
        -1.5,
        1.5,
        6,
        "float",
    ),
    (
        "kErfSmallF64",
        "erf(s) / s - 1, t = s^2",
        lambda t: erf(sqrt(t)) / sqrt(t) - 1,
        lambda t: mpf(1),
        0,
        1,
        12,
        "double",
    ),
    (
        "kErfLargeF64",
        "(1 + 2x) exp(x^2) erfc(x), t = (x - 3) / (x + 3), x = 1 .. 6",
        lambda t: (1 + 2 * (3 * (1 + t) / (1 - t))) * erfcx(3 * (1 + t) / (1 - t)),
        lambda t: erfc(3 * (1 + t) / (1 - t)),
        -0.5,
        0.3334,
        12,
        "double",
    ),
    (
        "kSinF64",
        "(sin(s)/s - 1) / t, t = s^2",
        lambda t: (sin(sqrt(t)) / sqrt(t) - 1) / t,
        lambda t: t,
        0,
        0.6169,
        5,
        "double",
    ),
    (
        "kCosF64",
        "(cos(s) - 1 + t/2) / t^2, t = s^2",
        lambda t: (cos(sqrt(t)) - 1 + t / 2) / t**2,
        lambda t: t**2,
        0,
        0.6169,
        5,
        "double",
    ),
    (
        "kAtanF64",
        "(atan(s)/s - 1) / t, t = s^2",
        lambda t: (atan(sqrt(t)) / sqrt(t) - 1) / t,
        lambda t: t,
        0,
        0.17158,
        10,
        "double",
    ),
]


# erf of f32 as piecewise polynomials in the distance from the middle of a part. A vector register
# holds the coefficients of one power for all parts, which together reach 4. By the number of lanes
# of a register: the width of a part, and the degree.
PARTS = {16: (mpf(17) / 64, 5), 8: (mpf(9) / 16, 7)}


def erf_parts(parts, width, degree):
    """Coefficients by power and part. Those of the first part fit erf(t) - t, which is exact at
    0."""
    half = width / 2
    first, _ = exchange(series(lambda t: erf(t) / t - 1), lambda t: mpf(1), -half, half, degree - 1)
    rows = [[mpf(0), *first]]
    for part in range(1, parts):
        middle = part * width
        rows.append(
            exchange(lambda t: erf(middle + t), lambda t: 1 / erf(middle + t), -half, half, degree)[
                0
            ]
        )
    return [[row[power] for row in rows] for power in range(degree + 1)]


# The end of the interval in which erf is fitted as a quotient of two polynomials of degree 5:
# there the quotient, in float32, is 1.
ERF_BOUND = 3.925


def erf_quotient(bound, degree=5, rounds=800):
    """Coefficients of numerator and denominator of erf(s) / s by t = s^2, and the largest relative
    error: least squares whose weights follow the error (Lawson), linear in both polynomials with
    the last round's denominator (Sanathanan and Koerner)."""
    top, nodes = bound**2, numpy.cos(numpy.pi * numpy.arange(1201) / 1200)
    wanted = numpy.array(
        [
            float(erf(sqrt(mpf(t))) / sqrt(mpf(t))) if t > 1e-20 else float(2 / sqrt(pi))
            for t in (1 + nodes) / 2 * top
        ]
    )
    powers = numpy.polynomial.chebyshev.chebvander(nodes, degree)
    weights, below, best = numpy.ones(len(nodes)), numpy.ones(len(nodes)), None
    for _ in range(rounds):
        scale = numpy.sqrt(weights) / (below * wanted)
        system = numpy.hstack([powers, -wanted[:, None] * powers[:, 1:]]) * scale[:, None]
        found = numpy.linalg.lstsq(system, wanted * scale, rcond=None)[0]
        below = 1 + powers[:, 1:] @ found[degree + 1 :]
        errors = abs(powers @ found[: degree + 1] / below / wanted - 1)
        if (below > 0).all() and (best is None or errors.max() < best[0]):
            best = errors.max(), found
        weights *= errors / errors.max() + 1e-3
        weights /= weights.mean()
    error, found = best
    parts = [found[: degree + 1], numpy.concatenate([[1], found[degree + 1 :]])]
    parts = [
        numpy.polynomial.chebyshev.Chebyshev(each, domain=[0, top])
        .convert(kind=numpy.polynomial.Polynomial)
        .coef
        for each in parts
    ]
    return parts[0] / parts[1][0], parts[1] / parts[1][0], error


def text(value, kind):
    if kind == "float":
        rounded = struct.unpack("f", struct.pack("f", float(value)))[0]
        return "%.9g" % (rounded or 0.0)
    return "%.17g" % float(value)


def main():
    print("// Polynomial coefficients of the elementary functions, lowest power first.")
    print("// Written by ir/fit_polynomials.py; do not edit.")
    print("#pragma once\n\nnamespace tc {\n")
    for name, meaning, f, weight, low, high, degree, kind in ROWS:
        coefficients, error = exchange(series(f), series(weight), low, high, degree)
        print("// %s; largest weighted error %.1e." % (meaning, float(error)))
        print("constexpr double %s[] = {" % name)
        for c in coefficients:
            print("    %s," % text(c, kind))
        print("};\n")
    for parts, (width, degree) in PARTS.items():
        print(
            "// erf(s), t = s - part * kErfPart%d, by power and part; less t in the first part."
            % parts
        )
        print("constexpr double kErfPart%d = %s;" % (parts, text(width, "float")))
        print("constexpr double kErf%dPartsF32[%d][%d] = {" % (parts, degree + 1, parts))
        for row in erf_parts(parts, width, degree):
            lines = [
                ", ".join(text(c, "float") for c in row[i : i + 4]) for i in range(0, parts, 4)
            ]
            print("    {" + ",\n     ".join(lines) + "},")
        print("};\n")
    above, below, error = erf_quotient(ERF_BOUND)
    print(
        "// erf(s) / s, t = s^2, as a quotient, s up to kErfBound; largest relative error %.1e."
        % error
    )
    print("constexpr double kErfBound = %s;" % ERF_BOUND)
    for name, coefficients in ("kErfNumeratorF32", above), ("kErfDenominatorF32", below):
        print("constexpr double %s[] = {" % name)
        for c in coefficients:
            print("    %s," % text(c, "float"))
        print("};" if name == "kErfNumeratorF32" else "};\n")
    # Powers of two modulo 2 pi, for the reduction of large float32 arguments.
    print("// 2^i modulo 2 pi in (-pi, pi], as a sum of two doubles.")
    print("constexpr double kPowersModuloTwoPi[][2] = {")
    mp.dps = 100
    for i in range(105):
        value = mpf(2) ** i
        value -= 2 * pi * mp.nint(value / (2 * pi))
        high = float(value)
        print("    {%.17g, %.17g}," % (high, float(value - mpf(high))))
    print("};\n")
    # Digits of 2/pi, for the reduction of float64 arguments up to the largest.
    print("// 2/pi as the sum of digit j * 2^(-26 j) for j = -1, 0, ..., the digits of up to 2^25.")
    print("constexpr double kTwoOverPiDigits[] = {")
    print("    0,")
    mp.dps = 400
    rest = 2 / pi
    for _ in range(46):
        digit = mp.nint(rest)
        print("    %d," % int(digit))
        rest = (rest - digit) * 2**26
    print("};\n")
    print("}  // namespace tc")


main()
