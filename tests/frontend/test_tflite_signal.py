"""The signal library of TensorFlow Lite Micro, beside what its kernels compute."""

import numpy as np
import pytest

import tc

pytest.importorskip(
    "tflite",
    reason="files of TensorFlow Lite are read by the package tflite, which is not installed",
)
from ..support import models_folder  # noqa: E402
from . import signal_kernels as kernels  # noqa: E402
from .stream_models import bytes_of, front_end_model, sounds, stream_model  # noqa: E402
from .tflite_files import Operator, Tensor, file_of  # noqa: E402


def test_the_front_end_of_a_stream():
    """Bit for bit, with what it keeps from frame to frame: samples, and the noise."""
    module, exact = tc.compile(front_end_model(), log=False), kernels.Kernels()
    assert sorted(module.state) == ["noise_estimate_8", "samples_0"]
    found = []
    for samples in sounds(24):
        found.append(module(samples))
        np.testing.assert_array_equal(found[-1], exact(samples[0]))
    assert len({each.tobytes() for each in found}) > 12 and max(each.max() for each in found) > 400
    module.reset_state()
    np.testing.assert_array_equal(module(sounds(1)[0]), found[0])


def transform(count, length):
    tensors = [Tensor("x", (count,), np.int16), Tensor("y", (length + 2,), np.int16)]
    operator = Operator("CUSTOM", [0], [1], custom="SignalRfft", T=7, fft_length=length)
    return file_of(tensors, [operator], [0], [1])


@pytest.mark.parametrize("count, length", [(16, 16), (27, 32), (64, 64), (100, 128), (512, 512)])
def test_transforms(count, length):
    """With a stage of radix 2 and without one; of the largest samples as well."""
    module, random = tc.compile(transform(count, length), log=False), np.random.default_rng(length)
    for samples in (
        random.integers(-32768, 32768, count),
        np.where(random.random(count) < 0.5, -32768, 32767),
        np.full(count, -32768),
    ):
        found = module(samples.astype(np.int16))
        np.testing.assert_array_equal(found, kernels.real_transform(samples, length).ravel())


def roots():
    count = np.arange(1, 41, dtype=np.uint64)
    powers = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))
    random = np.random.default_rng(0)
    drawn = random.integers(0, 1 << 64, 500, np.uint64) >> random.integers(0, 64, 500, np.uint64)
    squares = (drawn >> np.uint64(32)) ** np.uint64(2)
    ends = np.array([0, 0xFFFF**2, 0xFFFE0001 + 0xFFFF, (1 << 32) - 1, (1 << 64) - 1], np.uint64)
    near = [squares, squares + np.uint64(1), squares - np.uint64(1)]
    return np.concatenate([count, powers, powers - np.uint64(1), drawn, *near, ends])


def test_square_roots():
    values = roots()
    tensors = [
        Tensor("x", values.shape, np.uint64),
        Tensor("bits", (), np.int32),
        Tensor("y", values.shape, np.uint32),
    ]
    operator = Operator("CUSTOM", [0, 1], [2], custom="SignalFilterBankSquareRoot")
    module = tc.compile(file_of(tensors, [operator], [0, 1], [2]), log=False)
    for bits in (0, 3):
        wanted = [kernels.square_root(int(value)) >> bits for value in values]
        np.testing.assert_array_equal(module(values, np.int32(bits)), wanted)


def test_a_wake_word_as_a_stream():
    """Each run of the stream gives what the network gives for the features of the last frames."""
    path = models_folder() / "mlperf_tiny" / "str_ww_ref_model.tflite"
    stream, network = (
        tc.compile(stream_model(path.read_bytes()), log=False),
        tc.compile(path, log=False),
    )
    exact, shape = kernels.Kernels(), network.inputs[0].shape
    window, results = np.full(shape, -128, np.int8), set()
    for samples in sounds(40):
        newest = bytes_of(exact(samples[0])).astype(np.int8).reshape(1, 1, 1, -1)
        window = np.concatenate([window[:, 1:], newest], 1)
        found = stream(samples)
        np.testing.assert_array_equal(found, network(window))
        results.add(found.tobytes())
    assert len(results) > 1
    np.testing.assert_array_equal(stream.state["frames"], window)


X = Tensor("x", (40,), np.int16)


def framer(size, step, prefill):
    """A file that makes frames of so many samples, a step after each other, of X."""
    options = {"frame_size": size, "frame_step": step, "prefill": prefill}
    return file_of(
        [X, Tensor("y", (1, size), np.int16), Tensor("v", (), np.bool_)],
        [Operator("CUSTOM", [0], [1, 2], custom="SignalFramer", **options)],
        [0],
        [1],
    )


REFUSED = {
    "no option": (
        lambda: file_of(
            [X, Tensor("w", data=np.zeros(40, np.int16)), Tensor("y", (40,), np.int16)],
            [Operator("CUSTOM", [0, 1], [2], custom="SignalWindow")],
            [0],
            [2],
        ),
        "CUSTOM SignalWindow (operator 0, 'y'): its option shift is None; a whole number from 0 to 31 is needed",
    ),
    "floats": (
        lambda: file_of(
            [Tensor("x", (16,)), Tensor("y", (18,))],
            [Operator("CUSTOM", [0], [1], custom="SignalRfft", fft_length=16)],
            [0],
            [1],
        ),
        "CUSTOM SignalRfft (operator 0, 'y'): 'x' is f32 of shape [16]; i16 is needed here",
    ),
    "rank": (
        lambda: file_of(
            [Tensor("x", (2, 8), np.int16), Tensor("y", (1, 8), np.uint32)],
            [Operator("CUSTOM", [0], [1], custom="SignalEnergy")],
            [0],
            [1],
        ),
        "CUSTOM SignalEnergy (operator 0, 'y'): 'x' is i16 of shape [2, 8]; i16 with 1 axes is needed here",
    ),
    "outputs": (
        lambda: file_of(
            [X, Tensor("y", (40,), np.int16)],
            [Operator("CUSTOM", [0], [1], custom="SignalFftAutoScale")],
            [0],
            [1],
        ),
        "CUSTOM SignalFftAutoScale (operator 0, 'y'): it has 1 outputs; 2 are needed",
    ),
    "no axes": (
        lambda: file_of(
            [Tensor("x", (), np.int16), Tensor("y", (18,), np.int16)],
            [Operator("CUSTOM", [0], [1], custom="SignalRfft", fft_length=16)],
            [0],
            [1],
        ),
        "CUSTOM SignalRfft (operator 0, 'y'): it transforms [] samples to a length of 16; one signal of at most the length, "
        "which is a power of two, is supported",
    ),
    "length": (
        lambda: file_of(
            [X, Tensor("y", (50,), np.int16)],
            [Operator("CUSTOM", [0], [1], custom="SignalRfft", fft_length=48)],
            [0],
            [1],
        ),
        "CUSTOM SignalRfft (operator 0, 'y'): it transforms [40] samples to a length of 48; one signal of at most the length, "
        "which is a power of two, is supported",
    ),
    "frames": (
        lambda: framer(30, 20, prefill=True),
        "CUSTOM SignalFramer (operator 0, 'y'): it gets [40] samples; 20 for one frame of 30 are supported",
    ),
    "no prefill": (
        lambda: framer(60, 40, prefill=False),
        "CUSTOM SignalFramer (operator 0, 'y'): without 'prefill' its first results are no frames",
    ),
    "channels": (
        lambda: file_of(
            [
                Tensor("x", (4,), np.uint32),
                Tensor("y", (4,), np.uint32),
                Tensor("n", (4,), np.uint32),
            ],
            [
                Operator(
                    "CUSTOM",
                    [0],
                    [1, 2],
                    custom="SignalFilterBankSpectralSubtraction",
                    num_channels=5,
                )
            ],
            [0],
            [1],
        ),
        "CUSTOM SignalFilterBankSpectralSubtraction (operator 0, 'y'): it has 5 channels, and 'x' 4",
    ),
    "pieces": (
        lambda: file_of(
            [
                Tensor("x", (4,), np.uint32),
                Tensor("n", (4,), np.uint32),
                Tensor("t", data=np.zeros(9, np.int16)),
                Tensor("y", (4,), np.uint32),
            ],
            [Operator("CUSTOM", [0, 1, 2], [3], custom="SignalPCAN", snr_shift=6)],
            [0, 1],
            [3],
        ),
        "CUSTOM SignalPCAN (operator 0, 'y'): 't' has no pieces for 32 numbers of bits",
    ),
    "bank": (
        lambda: file_of(
            [
                Tensor("x", (9,), np.uint32),
                *(Tensor(f"c{n}", data=np.array([7, 7], np.int16)) for n in range(5)),
                Tensor("y", (1,), np.uint64),
            ],
            [Operator("CUSTOM", [0, 1, 2, 3, 4, 5], [6], custom="SignalFilterBank")],
            [0],
            [6],
        ),
        "CUSTOM SignalFilterBank (operator 0, 'y'): its channels reach beyond their energies or weights",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_of_signals(what):
    make, text = REFUSED[what]
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(make(), log=False)
    assert str(raised.value) == f"model.tflite uses what tc cannot compile: {text}"


def test_other_options_are_no_options():
    """Bytes that are no map of numbers: cut, and with offsets that lead outside."""
    from tc.tflite.flexible import options_of

    whole = bytes.fromhex("73686966740001070101010c04022401")
    assert options_of(whole) == {"shift": 12}
    random = np.random.default_rng(0)
    for cut in range(len(whole)):
        assert isinstance(options_of(whole[cut:]), dict) and options_of(whole[:cut]) in (
            {},
            {"shift": 12},
        )
    for _ in range(2000):
        data = bytearray(whole)
        for place in random.integers(0, len(data), 2):
            data[place] = random.integers(0, 256)
        assert isinstance(options_of(bytes(data)), dict)
