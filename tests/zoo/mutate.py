"""Breaks one layer of an exported model, to show that comparisons would notice."""

from pathlib import Path

import numpy
import onnx
import onnxruntime
from onnx import numpy_helper

# Where each layer type keeps its weights, and which of their axes the products are summed over:
# a tap is one index into these axes.
_WEIGHTS = {
    "Conv": (1, (1, 2, 3)),
    "ConvTranspose": (1, (0, 2, 3)),
    "Gemm": (1, (0,)),
    "MatMul": (1, (0,)),
    "GRU": (1, (2,)),
}


def weighted_layers(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The convolutions, dense and recurrent layers with constant weights, in graph order."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [
        node
        for node in model.graph.node
        if node.op_type in _WEIGHTS and node.input[_WEIGHTS[node.op_type][0]] in constants
    ]


def drop_tap(path: Path, layer_index: int, folder: Path) -> Path:
    """Writes a copy of the model into `folder` in which one layer has lost one tap.

    `layer_index` counts `weighted_layers`. The tap is the kernel's centre of one input channel,
    or one input of a dense layer: the one of median magnitude among those that are not zero for
    the reference's inputs (NAME.ref.npz beside the model).
    """
    model = onnx.load(path)
    layer = weighted_layers(model)[layer_index]
    position, axes = _WEIGHTS[layer.op_type]
    if any(a.name == "transB" and a.i for a in layer.attribute):
        axes = (1,)
    tensor = next(t for t in model.graph.initializer if t.name == layer.input[position])
    weights = numpy_helper.to_array(tensor).copy()
    tap = [slice(None)] * weights.ndim
    for axis in axes:
        tap[axis] = weights.shape[axis] // 2
    tap[axes[0]] = _live_channel(path, model, layer) % weights.shape[axes[0]]
    weights[tuple(tap)] = 0
    tensor.CopyFrom(numpy_helper.from_array(weights, tensor.name))
    result = Path(folder) / f"{path.stem}.without_tap_{layer_index}.onnx"
    onnx.save(model, result)
    return result


def run(model: Path | onnx.ModelProto, inputs: dict, threads: int = 1) -> dict[str, numpy.ndarray]:
    """ONNX Runtime's outputs by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))


def _live_channel(path, model, layer):
    with numpy.load(path.with_suffix(".ref.npz")) as file:
        inputs = {key[4:]: file[key] for key in file if key.startswith("in__")}
    wanted = layer.input[0]
    if wanted not in inputs:
        probe = onnx.ModelProto()
        probe.CopyFrom(model)
        del probe.graph.output[:]
        probe.graph.output.add().name = wanted
        source = run(probe, inputs)[wanted]
    else:
        source = inputs[wanted]
    axis = 1 if layer.op_type.startswith("Conv") else source.ndim - 1
    magnitude = numpy.abs(numpy.moveaxis(source, axis, 0).reshape(source.shape[axis], -1)).mean(1)
    live = numpy.flatnonzero(magnitude)
    return int(live[numpy.argsort(magnitude[live])[len(live) // 2]])
