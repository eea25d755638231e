"""The signal library of TensorFlow Lite Micro: an audio front end on integers, bit for bit as its
kernels compute it. Its operators are custom ones of the file.

A frame of samples is weighted by a window, scaled up to 16 bits, transformed (spectrum.py), and its
energies are summed by the channels of a filter bank. Then follow square roots, the subtraction of
an estimate of the noise, a gain that depends on that estimate, and logarithms.
"""

import numpy as np

from ..describe import ONNX_NUMBERS, Refusal, State
from .spectrum import Shorts, spectrum
from .table import operator

_MAX_TRANSFORM = 1 << 14


def _whole(call, name, low, high, *others):
    """An option that is a whole number; `others` are further names of it."""
    given = call.operator.options
    value = next((given[each] for each in (name, *others) if each in given), None)
    if value is None or not low <= value <= high:
        raise Refusal(
            f"its option {name} is {value}; a whole number from {low} to {high} is needed"
        )
    return value


def _need(value, dtype, rank=None):
    if value.dtype != dtype or (rank is not None and value.rank != rank):
        raise Refusal(
            f"'{value.tensor.name}' is {value.dtype} of shape {list(value.shape)}; "
            f"{dtype}{'' if rank is None else f' with {rank} axes'} is needed here"
        )


def _outputs(call, count):
    """The operator's outputs, of which there are so many."""
    if len(call.outputs) != count:
        raise Refusal(f"it has {len(call.outputs)} outputs; {count} are needed")
    return call.outputs


class Words:
    """Arithmetic on integers of one type, node by node: operands are names, or numbers."""

    def __init__(self, g, dtype):
        self.g, self.dtype = g, dtype

    def name(self, value):
        return self.g.number(value, self.dtype) if isinstance(value, int) else value

    def of(self, value, dtype=None):
        """The value as this type, or as another one."""
        return self.g.node("Cast", [value], to=ONNX_NUMBERS[dtype or self.dtype])

    def do(self, op, *values, **attributes):
        return self.g.node(op, [self.name(each) for each in values], **attributes)

    def sum(self, a, b):
        return self.do("Add", a, b)

    def less(self, a, b):
        return self.do("Sub", a, b)

    def product(self, a, b):
        return self.do("Mul", a, b)

    def left(self, a, bits):
        return self.do("BitShift", a, bits, direction="LEFT") if bits != 0 else a

    def right(self, a, bits):
        return self.do("BitShift", a, bits, direction="RIGHT") if bits != 0 else a

    def least(self, a, b):
        return self.do("Min", a, b)

    def most(self, a, b):
        return self.do("Max", a, b)

    def either(self, condition, a, b):
        return self.g.node("Where", [condition, self.name(a), self.name(b)])

    def flag(self, op, a, b):
        """1 where the comparison holds, else 0."""
        return self.of(self.do(op, a, b))

    def bits(self, value):
        """How many bits a number of 32 bits without a sign has; 1 of 0."""
        count = 1
        for step in (16, 8, 4, 2, 1):
            more = self.left(self.flag("GreaterOrEqual", value, 1 << step), step.bit_length() - 1)
            value, count = (
                self.do("BitShift", value, more, direction="RIGHT"),
                self.sum(more, count),
            )
        return count


@operator("CUSTOM SignalWindow", inputs=(2, 2))
def window(g, call):
    x, weights = call.inputs
    _need(x, "i16")
    _need(weights, "i16", 1)
    words, shift = Words(g, "i32"), _whole(call, "shift", 0, 31)
    product = words.product(words.of(g.plain(x)), words.of(g.plain(weights)))
    result = words.most(words.least(words.right(product, shift), 32767), -32768)
    g.give(call.out, words.of(result, "i16"))


@operator("CUSTOM SignalFramer")
def framer(g, call):
    """The last samples, of which neighbouring frames share some: those are kept."""
    x, (out, is_valid) = call.inputs[0], _outputs(call, 2)
    _need(x, "i16")
    size, step = _whole(call, "frame_size", 1, 1 << 20), _whole(call, "frame_step", 1, 1 << 20)
    if x.shape[-1:] != (step,) or np.prod(x.shape) != step or step > size:
        raise Refusal(
            f"it gets {list(x.shape)} samples; {step} for one frame of {size} are supported"
        )
    if not _whole(call, "prefill", 0, 1):
        raise Refusal("without 'prefill' its first results are no frames")
    if size == step:
        g.give(out, g.reshape(g.plain(x), list(out.shape)))
    else:
        state = _state(g, call, "samples", "i16", size - step)
        kept = g.current(state)
        frame = g.node("Concat", [kept, g.reshape(g.plain(x), [step])], axis=0)
        state.current = g.node("Slice", [frame, g.ints([step]), g.ints([size]), g.ints([0])])
        g.give(out, g.reshape(frame, list(out.shape)))
    is_valid.tensor.data = np.array(True)


def _state(g, call, what, dtype, size):
    """A list of numbers that the operator keeps from run to run; zeros at first."""
    name = f"{what}_{call.operator.number}"
    while any(each.name == name for each in g.states.values()):
        name += "_"
    key = ("signal", name)
    zeros = np.zeros(size, {"i16": np.int16, "u32": np.uint32}[dtype])
    state = State(name=name, is_assigned=True, initial=zeros, dtype=dtype, shape=(size,))
    g.states[key] = state
    return state


@operator("CUSTOM SignalFftAutoScale")
def auto_scale(g, call):
    """Shifts all samples to the left by as many bits as the largest magnitude leaves free."""
    x, (out, bits) = call.inputs[0], _outputs(call, 2)
    _need(x, "i16", 1)
    words = Words(g, "i32")
    samples = words.of(g.plain(x))
    largest = words.do("ReduceMax", words.do("Abs", samples), keepdims=0)
    powers = g.constant(np.left_shift(1, np.arange(15), dtype=np.int32))
    free = words.do("ReduceSum", words.flag("Less", largest, powers), keepdims=0)
    free = words.product(free, words.flag("Greater", largest, 0))
    g.give(out, words.of(words.do("BitShift", samples, free, direction="LEFT"), "i16"))
    g.give(bits, free)


@operator("CUSTOM SignalRfft")
def real_transform(g, call):
    x, out = call.inputs[0], call.out
    _need(x, "i16")
    _need(out, "i16")
    length = _whole(call, "fft_length", 16, _MAX_TRANSFORM)
    count = int(np.prod(x.shape))
    if length & (length - 1) or x.shape[-1:] != (count,) or not 1 <= count <= length:
        raise Refusal(
            f"it transforms {list(x.shape)} samples to a length of {length}; one signal of at most the length, which is a "
            "power of two, is supported"
        )
    real, imaginary = spectrum(Shorts(g), g.plain(x), count, length)
    pairs = g.node(
        "Concat", [g.reshape(part, [length // 2 + 1, 1]) for part in (real, imaginary)], axis=1
    )
    g.give(out, g.reshape(pairs, list(out.shape)))


@operator("CUSTOM SignalEnergy")
def energy(g, call):
    """The squares of magnitudes. The kernel leaves the elements outside of a range as they were;
    here they are energies as well."""
    x, out = call.inputs[0], call.out
    _need(x, "i16", 1)
    _need(out, "u32")
    words, whole = Words(g, "i32"), Words(g, "u32")
    pairs = g.reshape(g.plain(x), [x.shape[0] // 2, 2])
    squares = []
    for part in range(2):
        value = words.of(g.node("Slice", [pairs, g.ints([part]), g.ints([part + 1]), g.ints([1])]))
        squares.append(whole.of(words.product(value, value)))
    g.give(out, g.reshape(whole.sum(*squares), list(out.shape)))


def _rows_of(call, size):
    """(where each channel's energies begin, weights [channels, widest]) of a filter bank: each
    energy counts for two neighbouring channels, by its weight for one and by its other weight for
    the next."""
    weights, others, starts, first, widths = (
        np.asarray(call.ints(number, f"input {number}"), np.int64) for number in range(1, 6)
    )
    channels = len(starts) - 1
    if not (
        channels >= 1
        and size >= 1
        and len(first) == len(widths) == channels + 1 == call.out.shape[0] + 1
        and len(weights) == len(others)
        and all(numbers.min(initial=0) >= 0 for numbers in (weights, others, starts, first, widths))
        and np.max(starts + widths) <= size
        and np.max(first + widths) <= len(weights)
    ):
        raise Refusal("its channels reach beyond their energies or weights")
    call.need_few(channels * size, "the filter bank")
    rows = np.zeros((channels, size), np.uint32)
    for channel in range(channels):
        for source, numbers in ((channel, others), (channel + 1, weights)):
            begin, width = starts[source], widths[source]
            rows[channel, begin : begin + width] += numbers[
                first[source] : first[source] + width
            ].astype(np.uint32)
    used = [np.flatnonzero(row) if row.any() else np.zeros(1, np.int64) for row in rows]
    widest = max(each[-1] - each[0] + 1 for each in used)
    begins = np.minimum([each[0] for each in used], size - widest)
    return begins, np.stack([row[at : at + widest] for row, at in zip(rows, begins)])


@operator("CUSTOM SignalFilterBank", inputs=(6, 6))
def filter_bank(g, call):
    """Sums of 64 bits: products of the upper and of the lower 16 bits of energies have 32 bits
    each."""
    x, out = call.inputs[0], call.out
    _need(x, "u32", 1)
    _need(out, "u64", 1)
    begins, weights = _rows_of(call, x.shape[0])
    places = (begins[:, None] + np.arange(weights.shape[1])).astype(np.int64)
    words, wide = Words(g, "u32"), Words(g, "u64")
    energies = g.node("Gather", [g.plain(x), g.constant(places)])
    sums = []
    for part in (words.do("BitwiseAnd", energies, 65535), words.right(energies, 16)):
        product = words.product(part, g.constant(weights))
        sums.append(g.node("ReduceSum", [wide.of(product), g.ints([1])], keepdims=0))
    g.give(out, wide.sum(wide.left(sums[1], 16), sums[0]))


def _root(g, value):
    """The rounded square root of numbers of 64 bits, as u32: an estimate in floats, corrected once
    by its error and then by at most one."""
    wide, floats = Words(g, "u64"), Words(g, "f32")
    largest = float(np.nextafter(np.float32(2**32), np.float32(0)))
    number = lambda each: g.constant(np.float32(each))
    estimate = floats.do("Sqrt", floats.of(value))
    estimate = floats.do("Floor", floats.do("Min", estimate, number(largest)))
    whole = wide.of(floats.of(estimate, "u32"))
    error = floats.of(
        g.node("Cast", [wide.less(value, wide.product(whole, whole))], to=ONNX_NUMBERS["i64"])
    )
    step = floats.do("Div", error, floats.do("Max", floats.sum(estimate, estimate), number(1)))
    step = g.node("Cast", [floats.do("Floor", step)], to=ONNX_NUMBERS["i32"])
    whole = wide.sum(
        whole,
        g.node("Cast", [g.node("Cast", [step], to=ONNX_NUMBERS["i64"])], to=ONNX_NUMBERS["u64"]),
    )
    most = (1 << 32) - 1
    whole = wide.least(whole, most)
    whole = wide.less(whole, wide.flag("Greater", wide.product(whole, whole), value))
    above = wide.sum(whole, 1)
    below = wide.flag("LessOrEqual", wide.product(above, above), value)
    whole = wide.sum(whole, wide.product(below, wide.flag("Less", whole, most)))
    rest = wide.less(value, wide.product(whole, whole))
    # The kernel does not round up the largest number of 16 bits where the operand has 32.
    ends = wide.sum(
        wide.flag("Equal", whole, most),
        wide.product(wide.flag("Equal", whole, 0xFFFF), wide.flag("Less", value, 1 << 32)),
    )
    up = wide.product(wide.flag("Greater", rest, whole), wide.less(1, ends))
    return wide.of(wide.sum(whole, up), "u32")


@operator("CUSTOM SignalFilterBankSquareRoot", inputs=(2, 2))
def square_root(g, call):
    x, bits = call.inputs
    _need(x, "u64", 1)
    _need(bits, "i32")
    words = Words(g, "u32")
    root = _root(g, g.plain(x))
    g.give(call.out, words.do("BitShift", root, words.of(g.plain(bits)), direction="RIGHT"))


@operator("CUSTOM SignalFilterBankSpectralSubtraction")
def spectral_subtraction(g, call):
    """Subtracts a running estimate of the noise, which is kept from run to run."""
    x, (out, noise) = call.inputs[0], _outputs(call, 2)
    _need(x, "u32", 1)
    count = x.shape[0]
    if _whole(call, "num_channels", 1, 1 << 16) != count:
        raise Refusal(
            f"it has {call.option('num_channels')} channels, and '{x.tensor.name}' {count}"
        )
    weight = lambda name: _whole(call, name, 0, 1 << 16)
    up = _whole(call, "smoothing_bits", 0, 31)
    down = _whole(call, "spectral_subtraction_bits", 0, 31, "spestral_subtraction_bits")
    even = np.arange(count) % 2 == 0

    def alternating(first, second):
        return g.constant(np.where(even, weight(first), weight(second)).astype(np.uint64))

    state = _state(g, call, "noise_estimate", "u32", count)
    words, wide = Words(g, "u32"), Words(g, "u64")
    signal = words.left(g.plain(x), up)
    new = wide.product(wide.of(signal), alternating("smoothing", "alternate_smoothing"))
    old = wide.product(
        wide.of(g.current(state)),
        alternating("one_minus_smoothing", "alternate_one_minus_smoothing"),
    )
    estimate = wide.of(wide.right(wide.sum(new, old), down), "u32")
    subtracted = words.least(estimate, signal)
    state.current = subtracted if _whole(call, "clamping", 0, 1) else estimate
    remaining = wide.product(wide.of(g.plain(x)), weight("min_signal_remaining"))
    floor = wide.of(wide.right(remaining, down), "u32")
    g.give(out, words.most(words.right(words.less(signal, subtracted), up), floor))
    g.give(noise, state.current)


@operator("CUSTOM SignalPCAN", inputs=(3, 3))
def channel_gain(g, call):
    """A gain by channel, which falls with the estimate of the noise: quadratic pieces, one for each
    number of bits."""
    x, noise, table = call.inputs
    _need(x, "u32", 1)
    _need(noise, "u32", 1)
    _need(table, "i16", 1)
    if table.data is None or table.shape[0] < 125:
        raise Refusal(f"'{table.tensor.name}' has no pieces for 32 numbers of bits")
    shift = _whole(call, "snr_shift", 0, 63)
    words, signed, wide = Words(g, "u32"), Words(g, "i32"), Words(g, "u64")
    level, pieces = g.plain(noise), g.constant(table.data.astype(np.int32))
    bits = words.most(words.bits(level), 3)
    place = signed.less(signed.left(signed.of(bits), 2), 6)
    part = lambda number: g.node("Gather", [pieces, signed.sum(place, number)])
    small = words.do("Less", bits, 11)
    fraction = words.either(
        small,
        words.do("BitShift", level, words.less(11, words.least(bits, 11)), direction="LEFT"),
        words.do("BitShift", level, words.less(words.most(bits, 11), 11), direction="RIGHT"),
    )
    fraction = signed.of(words.do("BitwiseAnd", fraction, 1023))
    gain = signed.right(signed.product(part(2), fraction), 5)
    gain = signed.product(signed.sum(gain, signed.product(part(1), 32)), fraction)
    gain = signed.sum(signed.right(signed.sum(gain, 1 << 14), 15), part(0))
    first = g.node("Gather", [pieces, signed.of(words.least(level, 2))])
    gain = words.of(
        signed.either(words.do("LessOrEqual", level, 2), first, signed.of(signed.of(gain, "i16")))
    )
    ratio = wide.of(wide.right(wide.product(wide.of(g.plain(x)), wide.of(gain)), shift), "u32")
    # Below 2 (with 12 bits behind the point) a quarter of the square, else 1 less. The result has 6
    # bits behind the point.
    curve = words.right(words.product(ratio, ratio), 20)
    line = words.less(words.right(ratio, 6), 64)
    g.give(call.out, words.either(words.do("Less", ratio, 2 << 12), curve, line))


# 65536 * (log2(1 + i / 128) - i / 128), as the library has it, and one further entry.
def _logarithm_table():
    parts = np.arange(129) / 128
    return np.append(np.floor(65536 * (np.log2(1 + parts) - parts) + 0.5), 0).astype(np.int32)


@operator("CUSTOM SignalFilterBankLog")
def logarithm(g, call):
    """Natural logarithms with 16 bits behind the point, by a table with linear interpolation."""
    x = call.inputs[0]
    _need(x, "u32", 1)
    scale, bits = (
        _whole(call, "output_scale", 1, 1 << 16),
        _whole(call, "input_correction_bits", 0, 31),
    )
    words, signed, wide = Words(g, "u32"), Words(g, "i32"), Words(g, "u64")
    given = words.left(g.plain(x), bits)
    value = words.most(given, 1)
    whole = words.less(words.bits(value), 1)
    fraction = words.less(value, words.do("BitShift", 1, whole, direction="LEFT"))
    fraction = words.either(
        words.do("Less", whole, 16),
        words.do("BitShift", fraction, words.less(16, words.least(whole, 16)), direction="LEFT"),
        words.do("BitShift", fraction, words.less(words.most(whole, 16), 16), direction="RIGHT"),
    )
    segment, rest = (
        signed.of(words.right(fraction, 9)),
        signed.of(words.do("BitwiseAnd", fraction, 511)),
    )
    table = _logarithm_table()
    base = g.node("Gather", [g.constant(table), segment])
    slope = g.node("Gather", [g.constant(np.append(np.diff(table), 0).astype(np.int32)), segment])
    between = signed.right(signed.product(slope, rest), 16)
    binary = words.sum(
        words.left(whole, 16), words.of(signed.sum(signed.of(fraction), signed.sum(base, between)))
    )
    natural = wide.of(
        wide.right(wide.sum(wide.product(wide.of(binary), 45426), 1 << 15), 16), "u32"
    )
    result = words.right(words.sum(words.product(natural, scale), 1 << 15), 16)
    result = words.either(words.do("Greater", given, 1), words.least(result, 32767), 0)
    g.give(call.out, words.of(result, "i16"))
