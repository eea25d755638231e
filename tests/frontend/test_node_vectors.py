"""Node tests of the ONNX project by the call that users make: tc.compile(path).run(inputs), nothing turned into a constant."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import tc

from ..support import ROOT

# Every so many of those that pass (tests/golden/onnx_node.txt lists those that do not).
EVERY = 25


def passing():
    folder = Path(os.path.dirname(onnx.__file__)) / "backend/test/data/node"
    listed = (Path(ROOT) / "tests/golden/onnx_node.txt").read_text().splitlines()[1:]
    refused = {line.split(":")[0] for line in listed}
    return [path for path in sorted(folder.iterdir()) if (path / "model.onnx").exists() and path.name not in refused]


def arrays(folder, kind, names):
    result = {}
    for number, name in enumerate(names):
        file = folder / f"{kind}_{number}.pb"
        if file.exists():
            result[name] = numpy_helper.to_array(onnx.load_tensor(file))
    return result


def check(path):
    graph = onnx.load(path / "model.onnx").graph
    data = path / "test_data_set_0"
    constants = {tensor.name for tensor in graph.initializer}
    given = arrays(data, "input", [port.name for port in graph.input if port.name not in constants])
    expected = arrays(data, "output", [port.name for port in graph.output])
    found = tc.compile(path / "model.onnx").run(given)
    for name, value in expected.items():
        assert found[name].dtype.name == value.dtype.name and found[name].shape == value.shape
        if value.dtype.kind in "biu":
            # Quantised values may fall on the other side of a tie.
            slack = 1 if value.dtype.itemsize == 1 and value.dtype.kind != "b" else 0
            assert np.abs(found[name].astype(np.int64) - value.astype(np.int64)).max(initial=0) <= slack
        else:
            half = value.dtype.itemsize == 2
            np.testing.assert_allclose(found[name].astype(np.float64), value.astype(np.float64),
                                       rtol=1e-2 if half else 1e-3, atol=1e-3 if half else 1e-5)


def test_a_sample_of_vectors(request):
    tests = passing()
    chosen = tests if request.config.getoption("--full") else tests[::EVERY]
    wrong = {}
    for path in chosen:
        try:
            check(path)
        except (AssertionError, tc.Error) as error:
            wrong[path.name] = str(error)
    assert not wrong
    assert len(tests) > 1100


@pytest.mark.parametrize("name", ["test_reduce_sum_keepdims_random", "test_resize_upsample_sizes_cubic", "test_slice",
                                  "test_range_int32_type_negative_delta_expanded"])
def test_operands_of_a_run(name):
    found = [path for path in passing() if path.name == name]
    assert found, f"{name} is no longer among those that pass"
    check(found[0])
