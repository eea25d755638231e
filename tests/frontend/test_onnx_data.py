"""The models beside the node tests of the Python package `onnx`, by a plain compile and run: those of its folders
`simple`, `pytorch-operator` and `pytorch-converted`. What fails is listed, exactly. tests/frontend/test_models.py has
the networks of `light`."""

from pathlib import Path

import numpy
import onnx
import pytest
from onnx import numpy_helper

import tc

DATA = Path(onnx.__file__).parent / "backend/test/data"

# Folder and name of what is refused, and a part of what is said.
REFUSED = {
    **{f"simple/test_sequence_model{i}": "operators are not supported: S" for i in range(1, 9)},
    **{f"simple/test_strnorm_model_monday_{name}": "StringNormalizer" for name in
       ("casesensintive_lower", "casesensintive_nochangecase", "casesensintive_upper", "empty_output", "insensintive_upper_twodim")},
    "simple/test_strnorm_model_nostopwords_nochangecase": "StringNormalizer",
    **{f"simple/test_gradient_of_{name}": "ai.onnx.preview.training::Gradient" for name in ("add", "add_and_mul")},
}


def models():
    for folder in ("simple", "pytorch-operator", "pytorch-converted"):
        for path in sorted((DATA / folder).glob("test_*")):
            yield f"{folder}/{path.name}"


def tensor(path):
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


@pytest.mark.parametrize("name", list(models()))
def test_model(name):
    folder = DATA / name
    model = onnx.load(folder / "model.onnx")
    constants = {array.name for array in model.graph.initializer}
    inputs = [port.name for port in model.graph.input if port.name not in constants]
    if name in REFUSED:
        with pytest.raises(tc.UnsupportedError) as caught:
            tc.compile(str(folder / "model.onnx"), log=False)
        assert REFUSED[name] in str(caught.value)
        return
    data = folder / "test_data_set_0"
    module = tc.compile(str(folder / "model.onnx"), log=False)
    found = module.run({key: tensor(data / f"input_{i}.pb") for i, key in enumerate(inputs)})
    for i, port in enumerate(model.graph.output):
        expected = tensor(data / f"output_{i}.pb")
        assert found[port.name].dtype == expected.dtype and found[port.name].shape == expected.shape
        numpy.testing.assert_allclose(found[port.name], expected, rtol=1e-3, atol=1e-5)
