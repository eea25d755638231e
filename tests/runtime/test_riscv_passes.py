"""What passes and choices of their own leave in the code of RISC-V's vectors; each test fails where its pass is left out."""

import re

import numpy as np
import onnx
import pytest
import tc

from .test_riscv_spills import draw, model, pooling


def assembly_of(tmp_path, network):
    """The assembly of the model's one kernel."""
    path = tmp_path / "model.onnx"
    onnx.save(network, path)
    kernels = tc.kernels(path, "rv64gcv_zvl256b", threads=1)
    return max((kernel.schedule().assembly for kernel in kernels), key=len)


# expand_maxima (codegen/maxima.h): two instructions for an element of a window of nine. A comparison for each would be there
# without it, as `llvm.maximum` is expanded.
def test_maxima_of_windows_compare_once(tmp_path):
    text = assembly_of(tmp_path, pooling("MaxPool", 3, 2))
    maxima, comparisons = (len(re.findall(rf"\t{name}\.v", text)) for name in ("vfmax", "vmf(?:eq|ne|gt|lt|ge|le)"))
    assert maxima > 0 and 2 * comparisons < maxima, (maxima, comparisons)


# may_double (scheduler/default/choices.cc): sums of four registers share a scalar load where a panel of weights does not stay
# in the first cache, of two where it does.
@pytest.mark.parametrize("depth, lanes", [(1200, 4), (128, 2)])
def test_products_of_long_sums_have_twice_the_lanes(tmp_path, depth, lanes):
    text = assembly_of(tmp_path, model({"x": [128, depth]}, [("MatMul", "x w", "y", {})], w=draw(depth, 256)))
    widths = []   # of each product of a vector and an element
    width = None
    for line in text.splitlines():
        if found := re.match(r"\tvset\w*vli\t.*, m(\d)", line):
            width = int(found[1])
        if re.match(r"\tvfmacc\.vf\t", line):
            widths.append(width)
    assert widths and np.median(widths) == lanes, sorted(widths)
