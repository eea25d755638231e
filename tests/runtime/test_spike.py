"""Programs whose core executes an accelerator's instructions, on the simulator Spike with an
extension that knows them: the same bits as the interpreter's."""

import numpy as np
import pytest
import tc

from ..placements import quantised_layers
from ..support import models_folder
from .c_models import macros
from .spike import ILLEGAL_INSTRUCTION, MISSING, Trapped, build_extension, run_program
from .test_accelerators import bytes_of, convolution, product, quantised_convolution

TARGET = "rv64gc+accel:gemmini16"
CUSTOM_3 = 0x7B  # the opcode of Gemmini's instructions
pytestmark = pytest.mark.skipif(bool(MISSING), reason="not installed: " + ", ".join(MISSING))


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    """The library with which Spike knows Gemmini."""
    return build_extension("gemmini_extension.cc", tmp_path_factory.mktemp("spike"))


def run(module, x, extension, folder):
    """The output of the model's program on Spike."""
    module.export(folder / "model.c", kind="c")
    assert "gemmini16_MATMUL(" in (folder / "model.c").read_text()
    size = macros(folder / "model.c")["MODEL_OUTPUT_0_BYTES"]
    files, isa = ["model.c", "model_weights.c"], "rv64gc_zicntr_xgemmini"
    output = run_program(files, size, x, isa, extension, folder)
    port = module.outputs[0]
    return np.frombuffer(output, port.dtype).reshape(port.shape)


def compare(model, x, extension, folder):
    module = tc.compile(model, TARGET, log=False)
    np.testing.assert_array_equal(
        run(module, x, extension, folder), tc.compile(model, log=False)(x)
    )


@pytest.mark.parametrize("seed", range(4))
def test_random_layers(seed, extension, tmp_path):
    random = np.random.default_rng(seed)
    signed = seed % 2 == 0
    if seed < 2:
        model, shape = product(random, *random.integers(1, 70, 3).tolist(), signed=signed)
    else:
        model, shape = convolution(random, 24, 40, 11, 3, seed - 1, int(signed), signed=signed)
    compare(model, bytes_of(random, shape, signed), extension, tmp_path)


def test_quantised_layers(extension, tmp_path):
    random = np.random.default_rng(5)
    compare(
        quantised_convolution(random, 16, 20, 9, 3),
        bytes_of(random, (1, 16, 9, 9)),
        extension,
        tmp_path,
    )
    model = quantised_layers(random, [(16, 0, False), (24, 3, False), (8, 1, False)], 8)
    compare(model, bytes_of(random, (1, 16, 8, 8)), extension, tmp_path)


def test_resnet_of_mlperf_tiny(extension, tmp_path):
    path = models_folder() / "mlperf_tiny" / "pretrainedResnet_quant.tflite"
    if not path.exists():
        pytest.skip("the models are not here: see $TC_MODELS")
    x = np.random.default_rng(7).integers(-128, 128, (1, 32, 32, 3)).astype(np.int8)
    compare(path, x, extension, tmp_path)


def test_instructions_leave_the_memories(extension, tmp_path):
    """The extension is no yes-man: a word with an address outside of the accumulators ends the
    program."""
    model, shape = product(np.random.default_rng(8), 16, 16, 16)
    module = tc.compile(model, TARGET, log=False)
    x = bytes_of(np.random.default_rng(9), shape)
    run(module, x, extension, tmp_path)
    header = tmp_path / "gemmini16.h"
    text = header.read_text()
    assert text.count("INT64_C(1)) << 31") > 1
    header.write_text(text.replace("INT64_C(1)) << 31", "INT64_C(1)) << 28"))
    module.export = lambda *_, **__: None  # the changed header stays
    with pytest.raises(Trapped) as trap:
        run(module, x, extension, tmp_path)
    assert trap.value.cause == ILLEGAL_INSTRUCTION and trap.value.value & 0x7F == CUSTOM_3
