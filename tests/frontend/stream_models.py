"""A wake word as a stream: each run gets the newest samples. The front end of signal_kernels.py
makes features of them, a variable keeps the features of the last frames, and a network classifies
these."""

import numpy as np

from tc.tflite.file import open_file

from . import signal_kernels as kernels
from .tflite_files import Graph, Operator, Tensor, file_of

_RESOURCE = 13
_FRAMES = "frames"


class _Builder:
    """Tensors and operators of a graph, one after the other."""

    def __init__(self):
        self.tensors, self.operators = [], []

    def tensor(self, name, *shape, dtype=np.int16, **more):
        self.tensors.append(Tensor(name, shape, dtype, **more))
        return len(self.tensors) - 1

    def constant(self, name, data):
        self.tensors.append(Tensor(name, data=data))
        return len(self.tensors) - 1

    def add(self, name, inputs, outputs, table=None, **options):
        self.operators.append(Operator(name, inputs, outputs, table, **options))
        return outputs[0] if outputs else None

    def signal(self, name, inputs, outputs, **options):
        return self.add("CUSTOM", inputs, outputs, custom=f"Signal{name}", **options)


def front_end(b):
    """(input, features i16 [CHANNELS]) of the operators of the signal library."""
    channels, bins = kernels.CHANNELS, kernels.LENGTH // 2 + 1
    samples = b.tensor("samples", 1, kernels.STEP)
    frame, valid = b.tensor("frame", 1, 1, kernels.WINDOW), b.tensor("valid", dtype=np.bool_)
    b.signal(
        "Framer",
        [samples],
        [frame, valid],
        frame_size=kernels.WINDOW,
        frame_step=kernels.STEP,
        prefill=True,
    )
    window = b.constant("window", kernels.window_weights())
    weighted = b.tensor("weighted", 1, 1, kernels.WINDOW)
    b.signal("Window", [frame, window], [weighted], shift=kernels.SHIFT)
    flat = b.tensor("flat", kernels.WINDOW)
    b.add("RESHAPE", [weighted, b.constant("to", np.array([-1], np.int32))], [flat])
    scaled, bits = b.tensor("scaled", kernels.WINDOW), b.tensor("bits", dtype=np.int32)
    b.signal("FftAutoScale", [flat], [scaled, bits])
    pairs = b.tensor("spectrum", 2 * bins)
    b.signal("Rfft", [scaled], [pairs], T=7, fft_length=kernels.LENGTH)
    energies = b.tensor("energies", bins, dtype=np.uint32)
    b.signal("Energy", [pairs], [energies], start_index=kernels.FIRST, end_index=kernels.END)
    bank = [b.constant(f"bank{n}", each) for n, each in enumerate(kernels.filter_bank())]
    sums = b.tensor("sums", channels, dtype=np.uint64)
    b.signal("FilterBank", [energies, *bank], [sums], num_channels=channels)
    roots, signals, noise, gained = (
        b.tensor(name, channels, dtype=np.uint32)
        for name in ("roots", "signals", "noise", "gained")
    )
    b.signal("FilterBankSquareRoot", [sums, bits], [roots])
    b.signal("FilterBankSpectralSubtraction", [roots], [signals, noise], **kernels.NOISE)
    gains = b.constant("gains", kernels.gain_table())
    b.signal("PCAN", [signals, noise, gains], [gained], snr_shift=kernels.GAIN_SHIFT)
    features = b.tensor("features", channels)
    b.signal(
        "FilterBankLog",
        [gained],
        [features],
        input_correction_bits=kernels.CORRECTION,
        output_scale=kernels.SCALE,
    )
    return samples, features


def front_end_model():
    b = _Builder()
    samples, features = front_end(b)
    return file_of(b.tensors, b.operators, [samples], [features])


# Features become bytes as in the library's example of micro speech: 256 / 666 of them, less 128.
_UP, _DOWN = 256, 666


def bytes_of(features):
    return np.clip((features.astype(np.int64) * _UP + _DOWN // 2) // _DOWN - 128, -128, 127)


def stream_model(network):
    """The file of a wake word that runs once a frame, with the first graph of a network's file for
    int8 [1, frames, 1, CHANNELS]."""
    file = open_file(network, "network.tflite").subgraphs[0]
    given = file.tensors[file.inputs[0]]
    frames, scale = given.shape[1], {"scale": float(given.quantisation.scale[0])}
    scale["zero"] = int(given.quantisation.zero_point[0])
    b = _Builder()
    samples, features = front_end(b)
    count, ints = kernels.CHANNELS, lambda *numbers: np.array(numbers, np.int32)
    wide, times, sums, parts, less, low, high = (
        b.tensor(name, count, dtype=np.int32)
        for name in ("wide", "times", "sums", "parts", "less", "low", "high")
    )
    types = dict(InDataType=7, OutDataType=2)
    b.add("CAST", [features], [wide], "CastOptions", **types)
    b.add("MUL", [wide, b.constant("up", ints(_UP))], [times], "MulOptions")
    b.add("ADD", [times, b.constant("half", ints(_DOWN // 2))], [sums], "AddOptions")
    b.add("DIV", [sums, b.constant("down", ints(_DOWN))], [parts], "DivOptions")
    b.add("ADD", [parts, b.constant("middle", ints(-128))], [less], "AddOptions")
    b.add("MINIMUM", [less, b.constant("most", ints(127))], [low])
    b.add("MAXIMUM", [low, b.constant("least", ints(-128))], [high])
    row, newest = (
        b.tensor("row", count, dtype=np.int8, **scale),
        b.tensor("newest", 1, 1, 1, count, dtype=np.int8, **scale),
    )
    b.add("CAST", [high], [row], "CastOptions", InDataType=2, OutDataType=9)
    b.add("RESHAPE", [row, b.constant("shape", ints(1, 1, 1, count))], [newest])
    handle = b.tensor("handle", dtype=np.int32, type_number=_RESOURCE)
    named = dict(table="VarHandleOptions", Container="c", SharedName=_FRAMES)
    b.add("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=1)
    b.add("VAR_HANDLE", [], [handle], **named)
    kept, rest, window = (
        b.tensor(name, 1, size, 1, count, dtype=np.int8, **scale)
        for name, size in (("kept", frames), ("rest", frames - 1), ("frames", frames))
    )
    b.add("READ_VARIABLE", [handle], [kept])
    ends = [
        b.constant(f"e{n}", each)
        for n, each in enumerate((ints(0, 1, 0, 0), ints(1, frames, 1, count), ints(1, 1, 1, 1)))
    ]
    b.add("STRIDED_SLICE", [kept, *ends], [rest], "StridedSliceOptions")
    b.add("CONCATENATION", [rest, newest], [window], "ConcatenationOptions", Axis=1)
    b.add("ASSIGN_VARIABLE", [handle, window], [])
    results = _append(b, file, {file.inputs[0]: window})
    start = Graph(
        [
            Tensor("h", (), np.int32, type_number=_RESOURCE),
            Tensor("start", data=np.full((1, frames, 1, count), -128, np.int8), **scale),
        ],
        [Operator("VAR_HANDLE", [], [0], **named), Operator("ASSIGN_VARIABLE", [0, 1], [])],
    )
    return file_of(b.tensors, b.operators, [samples], results, more=[start])


def _append(b, graph, numbers):
    """Adds a graph that was read from a file; `numbers` are the tensors that take the place of its
    inputs. Returns its results."""
    numbers = dict(numbers)
    for place, tensor in enumerate(graph.tensors):
        if place in numbers:
            continue
        found, scale = tensor.quantisation, {}
        if found is not None:
            scale = {"scale": found.scale, "zero": found.zero_point.tolist(), "axis": found.axis}
        dtype = {"i8": np.int8, "i32": np.int32}[tensor.dtype]
        if tensor.data is None:
            numbers[place] = b.tensor(tensor.name, *tensor.shape, dtype=dtype, **scale)
        else:
            b.tensors.append(Tensor(tensor.name, data=tensor.data, **scale))
            numbers[place] = len(b.tensors) - 1
    for each in graph.operators:
        b.add(
            each.name,
            [numbers[place] if place >= 0 else -1 for place in each.inputs],
            [numbers[place] for place in each.outputs],
            each.options_name or None,
            **each.options,
        )
    return [numbers[place] for place in graph.outputs]


def sounds(count, seed=0):
    """Frames of seeded samples: noise of both kinds, tones and silence."""
    random, found = np.random.default_rng(seed), []
    for number in range(count):
        kind = number % 4
        tone = 20000 * np.sin(np.arange(kernels.STEP) * random.uniform(0, 3))
        noise = random.standard_normal(kernels.STEP) * random.uniform(1, 4000)
        loud = random.integers(-32768, 32768, kernels.STEP)
        found.append((noise, tone, loud, np.zeros(kernels.STEP))[kind].astype(np.int16))
    return [each.reshape(1, -1) for each in found]
