"""The models beside the node tests of the Python package `onnx`, by a plain compile and run: those
of its folders `simple`, `pytorch-operator` and `pytorch-converted`. What fails is listed, exactly.
tests/frontend/test_models.py has the networks of `light`."""

from pathlib import Path

import onnx
import pytest

import tc

from .test_node_vectors import compare, values

DATA = Path(onnx.__file__).parent / "backend/test/data"

# Folder and name of what is refused, and a part of what is said.
REFUSED = {
    "simple/test_sequence_model8": "splits axis 0, whose size 'n' is not known, so that the number of tensors is not",
    **{
        f"simple/test_gradient_of_{name}": "ai.onnx.preview.training::Gradient"
        for name in ("add", "add_and_mul")
    },
}


def models():
    for folder in ("simple", "pytorch-operator", "pytorch-converted"):
        for path in sorted((DATA / folder).glob("test_*")):
            yield f"{folder}/{path.name}"


@pytest.mark.parametrize("name", list(models()))
def test_model(name):
    folder = DATA / name
    model = onnx.load(folder / "model.onnx")
    constants = {array.name for array in model.graph.initializer}
    if name in REFUSED:
        with pytest.raises(tc.UnsupportedError) as caught:
            tc.compile(str(folder / "model.onnx"), log=False)
        assert REFUSED[name] in str(caught.value)
        return
    data = folder / "test_data_set_0"
    module = tc.compile(str(folder / "model.onnx"), log=False)
    inputs = [port for port in model.graph.input if port.name not in constants]
    found = module.run(values(data, "input", inputs))
    for name, expected in values(data, "output", model.graph.output).items():
        compare(found[name], expected)
