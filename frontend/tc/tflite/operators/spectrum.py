"""Fourier transforms of real numbers of 16 bits, bit for bit as the library kissfft computes them:
each stage divides its operands by its radix, so that nothing overflows, and rounds.

The samples count as half as many complex numbers, whose transform has stages of radix 4 and, for
odd powers of two, a first one of radix 2. A last step makes the spectrum of the real numbers of it.
The library's stages run in place on numbers in another order; here a stage reads [sub-transform's
element, radix, rest] and writes [radix, sub-transform's element, rest], which is in order in the
end.
"""

import numpy as np

from ..describe import ONNX_NUMBERS

_ONE = 32767


def _rotations(turns):
    """Real and imaginary parts of exp(-2 pi i turns) in units of 1 / 32767."""
    angles = -2 * np.pi * np.asarray(turns)
    return tuple(
        np.floor(0.5 + _ONE * part).astype(np.int32) for part in (np.cos(angles), np.sin(angles))
    )


class Shorts:
    """Arithmetic on real and imaginary parts as integers of 32 bits, which are stored with 16."""

    def __init__(self, g):
        self.g = g

    def loaded(self, name):
        return self.g.node("Cast", [name], to=ONNX_NUMBERS["i32"])

    def stored(self, name):
        return self.g.node("Cast", [name], to=ONNX_NUMBERS["i16"])

    def add(self, a, b):
        return self.g.node("Add", [a, b])

    def less(self, a, b):
        return self.g.node("Sub", [a, b])

    def rounded(self, name):
        """Without the 15 bits behind the point."""
        half = self.g.node("Add", [name, self.g.number(1 << 14, "i32")])
        return self.halved(half, 15)

    def halved(self, name, bits=1):
        return self.g.node("BitShift", [name, self.g.number(bits, "i32")], direction="RIGHT")

    def divided(self, name, count):
        return self.rounded(self.g.node("Mul", [name, self.g.number(_ONE // count, "i32")]))

    def rotated(self, value, factors):
        """A complex product; `factors` are arrays that broadcast."""
        real, imaginary = value
        by = [self.g.constant(factor) for factor in factors]
        times = lambda a, b: self.g.node("Mul", [a, b])
        return (
            self.rounded(self.less(times(real, by[0]), times(imaginary, by[1]))),
            self.rounded(self.add(times(real, by[1]), times(imaginary, by[0]))),
        )

    def part(self, name, axis, begin, end, step=1):
        ints = self.g.ints
        return self.g.node("Slice", [name, ints([begin]), ints([end]), ints([axis]), ints([step])])


def _stage(s, value, done, radix, length):
    """One stage: `done` elements of each of its `radix` sub-transforms become a longer one's."""
    rest = length // done // radix
    given = [s.g.reshape(part, [done, radix, rest]) for part in value]
    given = [s.divided(s.loaded(part), radix) for part in given]
    parts = [
        tuple(s.part(each, 1, number, number + 1) for each in given) for number in range(radix)
    ]
    turns = np.arange(done).reshape(-1, 1, 1) / (done * radix)
    parts[1:] = [
        s.rotated(part, _rotations(number * turns)) for number, part in enumerate(parts[1:], 1)
    ]
    both = lambda do, a, b: tuple(do(one, other) for one, other in zip(a, b))
    if radix == 2:
        results = [both(s.add, *parts), both(s.less, *parts)]
    else:
        even, odd = both(s.add, parts[0], parts[2]), both(s.less, parts[0], parts[2])
        up, down = both(s.add, parts[1], parts[3]), both(s.less, parts[1], parts[3])
        results = [
            both(s.add, even, up),
            (s.add(odd[0], down[1]), s.less(odd[1], down[0])),
            both(s.less, even, up),
            (s.less(odd[0], down[1]), s.add(odd[1], down[0])),
        ]
    return [
        s.g.node("Concat", [s.stored(each[part]) for each in results], axis=0) for part in range(2)
    ]


def spectrum(s, name, count, length):
    """(real parts, imaginary parts) i16 [length / 2 + 1] of `count` samples i16, followed by
    zeros."""
    half = length // 2
    samples = s.g.reshape(name, [count])
    if count < length:
        samples = s.g.node("Pad", [samples, s.g.ints([0, length - count]), s.g.number(0, "i16")])
    pairs = s.g.reshape(samples, [half, 2])
    value = [s.g.reshape(s.part(pairs, 1, number, number + 1), [half]) for number in range(2)]
    done = 1
    while done < half:
        radix = 2 if done == 1 and (half.bit_length() - 1) % 2 else 4
        value = _stage(s, value, done, radix, half)
        done *= radix
    value = [s.divided(s.loaded(s.g.reshape(part, [half])), 2) for part in value]
    first = [s.part(part, 0, 0, 1) for part in value]
    ends = [s.stored(do(*first)) for do in (s.add, s.less)]
    low = [s.part(part, 0, 1, half // 2 + 1) for part in value]
    # From the last element downwards.
    high = [s.part(part, 0, half - 1, half // 2 - 1, -1) for part in value]
    sums = s.add(low[0], high[0]), s.less(low[1], high[1])
    rest = s.less(low[0], high[0]), s.add(low[1], high[1])
    turns = (np.arange(1, half // 2 + 1) / half + 0.5) / 2
    turned = s.rotated(rest, _rotations(turns))
    below = [s.halved(s.add(a, b)) for a, b in zip(sums, turned)]
    above = [s.halved(s.less(sums[0], turned[0])), s.halved(s.less(turned[1], sums[1]))]
    zero = s.g.constant(np.zeros(1, np.int16))
    results = []
    for part in range(2):
        middle = s.stored(s.part(below[part], 0, 0, half // 2 - 1))
        rising = s.stored(s.part(above[part], 0, half // 2 - 1, -half, -1))
        edges = ends if part == 0 else [zero, zero]
        results.append(s.g.node("Concat", [edges[0], middle, rising, edges[1]], axis=0))
    return results
