"""SpacemiT's matrix instruction on the simulator Spike, with an extension that knows it: MLPerf
Tiny's files of bytes give the integers of TensorFlow Lite's reference kernels."""

import numpy as np
import pytest
import tc

from ..frontend.tflite_models import path_of, reference, seeded
from .c_models import macros
from .spike import ILLEGAL_INSTRUCTION, MISSING, Trapped, build_extension, run_program
from .test_matrix_instruction import FILES, count_using

pytestmark = pytest.mark.skipif(bool(MISSING), reason="not installed: " + ", ".join(MISSING))
TARGET = "rv64gcv_zvl256b+xsmtvdot"
ISA = "rv64gcv_zicntr_zvl256b_xsmtvdot"
CUSTOM_1 = 0x2B  # the instruction's opcode


@pytest.fixture(scope="module")
def extension(tmp_path_factory):
    """The library with which Spike knows the instruction."""
    return build_extension("smtvdot_extension.cc", tmp_path_factory.mktemp("spike"))


def run(module, x, extension, folder, isa=ISA):
    """The output of the model's program on Spike."""
    module.export(folder / "model.o", kind="bare")
    size = macros(folder / "model.c")["MODEL_OUTPUT_0_BYTES"]
    output = run_program(["model.o"], size, x, isa, extension, folder)
    port = module.outputs[0]
    return np.frombuffer(output, port.dtype).reshape(port.shape)


@pytest.mark.parametrize("task", FILES)
def test_networks_are_exact(task, extension, tmp_path):
    name, least = FILES[task]
    if not path_of(name).exists():
        pytest.skip("the models are not here: see $TC_MODELS")
    module = tc.compile(path_of(name), TARGET, threads=1, log=False)
    assert count_using(module) >= least
    arrays = seeded(module.inputs, 5)
    (theirs,) = reference(path_of(name), arrays)
    mine = run(module, arrays[0], extension, tmp_path)
    assert mine.dtype == theirs.dtype == np.int8
    np.testing.assert_array_equal(mine, theirs)


def test_vectors_of_another_length_do_not_have_it(extension, tmp_path):
    """The extension is no yes-man: with vectors of 512 bits the instruction has another shape, and
    ends the program."""
    path = path_of("mlperf_tiny/kws_ref_model")
    if not path.exists():
        pytest.skip("the models are not here: see $TC_MODELS")
    module = tc.compile(path, TARGET, threads=1, log=False)
    with pytest.raises(Trapped) as trap:
        run(module, seeded(module.inputs, 5)[0], extension, tmp_path, ISA.replace("256", "512"))
    assert trap.value.cause == ILLEGAL_INSTRUCTION and trap.value.value & 0x7F == CUSTOM_1
