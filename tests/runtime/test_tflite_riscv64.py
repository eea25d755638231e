"""Files of MLPerf Tiny as static executables for RISC-V: the same integers as the reference kernels
of TensorFlow Lite at each length of vectors."""

import struct

import numpy as np
import pytest

import tc

from ..frontend.tflite_models import litert, path_of, reference, seeded
from ..support import count_under_qemu, output_file

# Executed instructions of the whole process at 256 bits, in millions, at most.
FILES = {
    "keyword spotting": ("mlperf_tiny/kws_ref_model", 3.0),
    "streaming wake word": ("mlperf_tiny/str_ww_ref_model", 1.0),
    "visual wake words": ("mlperf_tiny/vww_96_int8", 9.0),
}


def needs_libraries(program):
    """Whether a 64-bit ELF file asks for a loader of shared libraries, by its program headers."""
    interpreter = 3
    (start,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    return any(
        struct.unpack_from("<I", program, start + number * size)[0] == interpreter
        for number in range(count)
    )


@pytest.mark.parametrize("length", [128, 256, 512])
@pytest.mark.parametrize("task", FILES)
def test_static_executable(task, length, tmp_path):
    litert()
    name, most = FILES[task]
    module = tc.compile(path_of(name), "rv64gcv", threads=1, log=False)
    executable = tmp_path / "model"
    module.export(str(executable), kind="executable")
    arrays = seeded(module.inputs, 5)
    named = {port.name: array for port, array in zip(module.inputs, arrays)}
    outputs, classes = count_under_qemu(
        executable, named, tmp_path, vlen=length, arguments=["--threads", "1"]
    )
    print(
        f"{task} at {length} bits: {classes['total'] / 1e6:.2f} M instructions, {executable.stat().st_size / 1e3:.0f} kB"
    )
    (theirs,) = reference(path_of(name), arrays)
    (port,) = module.outputs
    mine = outputs[output_file(port.name)]
    assert mine.dtype == theirs.dtype == np.int8
    np.testing.assert_array_equal(mine, theirs)
    assert classes["total"] <= most * 1e6
    assert not needs_libraries(executable.read_bytes())
