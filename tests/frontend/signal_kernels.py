"""What the kernels of TensorFlow Lite Micro's signal library compute, written out number by number.

`Kernels` is an audio front end of these in a row, for a stream of frames. It was compared with the
library itself (its sources and kissfft's), stage by stage.
"""

import math

import numpy as np

WINDOW, STEP, LENGTH, CHANNELS = 480, 320, 512, 40
SHIFT, GAIN_SHIFT, CORRECTION, SCALE = 12, 6, 3, 64
FIRST, END = 5, 241  # of the energies that are used
NOISE = {
    "alternate_one_minus_smoothing": 15401,
    "alternate_smoothing": 983,
    "clamping": False,
    "min_signal_remaining": 819,
    "num_channels": CHANNELS,
    "one_minus_smoothing": 15975,
    "smoothing": 409,
    "smoothing_bits": 10,
    "spectral_subtraction_bits": 14,
}
_WORD = (1 << 32) - 1


def short(value):
    """The lower 16 bits as a number with a sign."""
    return ((int(value) + 32768) & 65535) - 32768


def rounded(value):
    return (value + (1 << 14)) >> 15


def _rotation(turns):
    return tuple(
        math.floor(0.5 + 32767 * part(-2 * math.pi * turns)) for part in (math.cos, math.sin)
    )


def _times(a, b):
    return (short(rounded(a[0] * b[0] - a[1] * b[1])), short(rounded(a[0] * b[1] + a[1] * b[0])))


def _divided(a, count):
    return tuple(short(rounded(part * (32767 // count))) for part in a)


def _sum(*values):
    return tuple(short(sum(parts)) for parts in zip(*values))


def _negative(a):
    return (-a[0], -a[1])


def _turned(a):
    """Times -i."""
    return (a[1], -a[0])


def complex_transform(values):
    """Radix 4 from the outside inwards, radix 2 for what is left."""
    count = len(values)
    if count == 1:
        return list(values)
    radix = 4 if count % 4 == 0 else 2
    part = count // radix
    inner = [complex_transform(values[number::radix]) for number in range(radix)]
    result = [None] * count
    for k in range(part):
        given = [_divided(inner[number][k], radix) for number in range(radix)]
        given[1:] = [
            _times(each, _rotation(number * k / count)) for number, each in enumerate(given[1:], 1)
        ]
        if radix == 2:
            result[k] = _sum(given[0], given[1])
            result[k + part] = _sum(given[0], _negative(given[1]))
            continue
        even, odd = _sum(given[0], given[2]), _sum(given[0], _negative(given[2]))
        up, down = _sum(given[1], given[3]), _sum(given[1], _negative(given[3]))
        result[k], result[k + 2 * part] = _sum(even, up), _sum(even, _negative(up))
        result[k + part] = _sum(odd, _turned(down))
        result[k + 3 * part] = _sum(odd, _negative(_turned(down)))
    return result


def real_transform(samples, length):
    """[length / 2 + 1, 2] of samples, followed by zeros."""
    samples = [int(each) for each in samples] + [0] * (length - len(samples))
    half = length // 2
    found = complex_transform(list(zip(samples[::2], samples[1::2])))
    result = np.zeros((half + 1, 2), np.int16)
    first = _divided(found[0], 2)
    result[0, 0], result[half, 0] = short(first[0] + first[1]), short(first[0] - first[1])
    for k in range(1, half // 2 + 1):
        low = _divided(found[k], 2)
        high = _divided((found[half - k][0], -found[half - k][1]), 2)
        both = _sum(low, high)
        turned = _times(_sum(low, _negative(high)), _rotation((k / half + 0.5) / 2))
        result[k] = short((both[0] + turned[0]) >> 1), short((both[1] + turned[1]) >> 1)
        result[half - k] = short((both[0] - turned[0]) >> 1), short((turned[1] - both[1]) >> 1)
    return result


def square_root(value):
    root = math.isqrt(value)
    largest = 0xFFFF if value < 1 << 32 else _WORD
    return root + (value - root * root > root and root != largest)


def window_weights():
    turns = (np.arange(WINDOW) + 0.5) / WINDOW
    return np.round((0.5 - 0.5 * np.cos(2 * np.pi * turns)) * (1 << SHIFT)).astype(np.int16)


def filter_bank():
    """(weights, other weights, first energies, first weights, widths) of triangles whose widths
    grow."""
    edges = np.round(FIRST + (END - FIRST) * (np.arange(CHANNELS + 2) / (CHANNELS + 1)) ** 1.6)
    edges = np.maximum.accumulate(np.maximum(edges, FIRST + np.arange(CHANNELS + 2)))
    edges = np.minimum(edges, END).astype(int)
    widths, weights = np.diff(edges), []
    for width in widths:
        weights += [round(4096 * (1 - (each + 0.5) / width)) for each in range(width)]
    weights = np.array(weights, np.int16)
    starts = np.append(0, np.cumsum(widths)[:-1])
    return (
        weights,
        (4096 - weights).astype(np.int16),
        *(each.astype(np.int16) for each in (edges[:-1], starts, widths)),
    )


def gain_table():
    """Quadratic pieces of a function of the noise, three numbers for each number of bits, with one
    between them that is not used."""
    gain = lambda noise: min(32767, round(2**21 * (noise / 1024 + 80) ** -0.95))
    table = [gain(0), gain(1), gain(2), 0, 0, 0]
    for bits in range(3, 33):
        low, middle, high = (gain(2 ** (bits - 1) * factor) for factor in (1, 1.5, 2))
        table += [low, 4 * middle - 3 * low - high, high + low - 2 * middle, 0]
    return np.clip(table, -32768, 32767).astype(np.int16)


def _gain(noise, table):
    if noise <= 2:
        return int(table[noise])
    bits = noise.bit_length()
    first, second, third = (int(each) for each in table[4 * bits - 6 : 4 * bits - 3])
    fraction = (noise << (11 - bits) if bits < 11 else noise >> (bits - 11)) & 0x3FF
    result = ((third * fraction) >> 5) + second * 32
    return short(((result * fraction + (1 << 14)) >> 15) + first)


def _logarithm(value):
    whole = value.bit_length() - 1
    fraction = value - (1 << whole)
    fraction = fraction << (16 - whole) if whole < 16 else fraction >> (whole - 16)
    at = lambda place: math.floor(65536 * (math.log2(1 + place / 128) - place / 128) + 0.5)
    segment, rest = fraction >> 9, fraction & 511
    fraction += at(segment) + (((at(segment + 1) - at(segment)) * rest) >> 16)
    natural = (45426 * ((whole << 16) + fraction) + (1 << 15)) >> 16
    return ((SCALE * natural + (1 << 15)) & _WORD) >> 16


class Kernels:
    """The front end with its state: frames of STEP samples to CHANNELS features."""

    def __init__(self):
        self.samples = np.zeros(WINDOW - STEP, np.int16)
        self.noise = [0] * CHANNELS
        self.weights, self.bank, self.table = window_weights(), filter_bank(), gain_table()

    def channels(self, energies):
        weights, others, starts, first, widths = ([int(x) for x in each] for each in self.bank)
        sums, carried = [], 0
        for channel in range(CHANNELS + 1):
            total, carried = carried, 0
            for place in range(widths[channel]):
                energy = energies[starts[channel] + place]
                total += weights[first[channel] + place] * energy
                carried += others[first[channel] + place] * energy
            sums.append(total)
        return sums[1:]

    def subtract(self, channel, signal):
        odd = "alternate_" if channel % 2 else ""
        up, down = NOISE["smoothing_bits"], NOISE["spectral_subtraction_bits"]
        scaled = (signal << up) & _WORD
        self.noise[channel] = (
            (
                scaled * NOISE[f"{odd}smoothing"]
                + self.noise[channel] * NOISE[f"{odd}one_minus_smoothing"]
            )
            >> down
        ) & _WORD
        floor = (signal * NOISE["min_signal_remaining"]) >> down
        return max((scaled - min(scaled, self.noise[channel])) >> up, floor)

    def feature(self, channel, signal):
        ratio = (signal * (_gain(self.noise[channel], self.table) & _WORD) >> GAIN_SHIFT) & _WORD
        ratio = ((ratio * ratio) & _WORD) >> 20 if ratio < 2 << 12 else (ratio >> 6) - 64
        given = (ratio << CORRECTION) & _WORD
        return min(_logarithm(given), 32767) if given > 1 else 0

    def __call__(self, new):
        frame = np.append(self.samples, new)
        self.samples = frame[STEP:]
        product = (frame.astype(np.int64) * self.weights) >> SHIFT
        windowed = np.clip(product, -32768, 32767)
        largest = int(np.abs(windowed).max())
        free = max(0, 15 - largest.bit_length()) if largest else 0
        pairs = real_transform(windowed << free, LENGTH).astype(np.int64)
        energies = [int(each) for each in (pairs**2).sum(1)]
        roots = [square_root(each) >> free for each in self.channels(energies)]
        signals = [self.subtract(channel, each) for channel, each in enumerate(roots)]
        return np.array([self.feature(*each) for each in enumerate(signals)], np.int16)
