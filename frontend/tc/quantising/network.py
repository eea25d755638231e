"""A float network in the form on which the quantiser works: constants by name, and which node makes
and which nodes read a value."""

import copy
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..errors import ModelError, UnsupportedError
from ..foreign_models import refuse_file, refuse_object

MIN_OPSET = 13  # the first with a scale per channel


def read(model):
    """(a separate ModelProto of the model, its name in errors); the model is a path, bytes or a
    ModelProto."""
    if isinstance(model, onnx.ModelProto):
        return copy.deepcopy(model), "model.onnx"
    refuse_file(model)
    try:
        if isinstance(model, (bytes, bytearray, memoryview)):
            return onnx.load_model_from_string(bytes(model)), "model.onnx"
        name = os.path.basename(os.fsdecode(model))
        return onnx.load(os.fspath(model)), name
    except TypeError:
        refuse_object(model)
        raise ModelError(
            f"quantize takes the path of an ONNX file, its bytes or an onnx.ModelProto, not a {type(model).__name__}"
        ) from None
    except OSError as error:
        raise ModelError(f"{os.fsdecode(model)} cannot be read: {error.strerror}") from None
    except Exception as error:  # which exception protobuf raises depends on its version
        raise ModelError(
            f"the model cannot be read as ONNX ({type(error).__name__}); quantize takes ONNX files alone"
        ) from None


class Network:
    def __init__(self, model):
        self.proto, self.name = read(model)
        opset = next(
            (each.version for each in self.proto.opset_import if each.domain in ("", "ai.onnx")), 0
        )
        if opset < MIN_OPSET:
            try:
                self.proto = onnx.version_converter.convert_version(self.proto, MIN_OPSET)
            except Exception as error:  # the converter raises anything for what it does not know
                raise UnsupportedError(
                    f"{self.name} has opset {opset}, quantising needs {MIN_OPSET} or later, and the package onnx cannot "
                    f"convert it ({str(error).strip().splitlines()[0]}); export it again"
                ) from None
        graph = self.proto.graph
        if any(
            attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
            for node in graph.node
            for attribute in node.attribute
        ):
            raise UnsupportedError(
                f"{self.name} has subgraphs (If, Loop, Scan), whose values are not measured; quantise a model without"
            )
        self.constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        self.inputs = [each for each in graph.input if each.name not in self.constants]
        self.outputs = [each.name for each in graph.output]
        self.nodes = []
        for number, node in enumerate(graph.node):
            if (
                node.op_type == "Constant"
                and len(node.attribute) == 1
                and node.attribute[0].name == "value"
            ):
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
                continue
            node.name = node.name or f"{node.op_type}_{number}"
            self.nodes.append(node)
        if any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in self.nodes):
            raise UnsupportedError(
                f"{self.name} is quantised already: node '{self._quantised().name}'; give the network in floats"
            )

    def _quantised(self):
        return next(
            node for node in self.nodes if node.op_type in ("QuantizeLinear", "DequantizeLinear")
        )

    def producers(self):
        return {name: node for node in self.nodes for name in node.output if name}

    def readers(self):
        """{value: nodes that read it, once for each input}; outputs of the graph are read by None,
        too."""
        found = {}
        for node in self.nodes:
            for name in node.input:
                found.setdefault(name, []).append(node)
        for name in self.outputs:
            found.setdefault(name, []).append(None)
        return found

    def constant(self, node, number):
        """The constant that is this input of the node, or None."""
        return (
            self.constants.get(node.input[number])
            if len(node.input) > number and node.input[number]
            else None
        )

    def own_constant(self, node, number, array):
        """Replaces an input of the node by a new constant that no other node reads."""
        name = f"{node.name}_{number}_own"
        self.constants[name] = np.ascontiguousarray(array)
        while len(node.input) <= number:
            node.input.append("")
        node.input[number] = name

    def data(self, nodes=None, outputs=None, extra=None):
        """The bytes of a model with these nodes; `outputs` are names of float values that replace
        the graph's outputs."""
        constants = self.constants | (extra or {})
        nodes = self.nodes if nodes is None else nodes
        read = {name for node in nodes for name in node.input}
        graph = self.proto.graph
        declared = (
            list(graph.output)
            if outputs is None
            else [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        )
        made = helper.make_graph(
            nodes,
            graph.name or "network",
            self.inputs,
            declared,
            [
                numpy_helper.from_array(np.asarray(array), name)
                for name, array in constants.items()
                if name in read
            ],
        )
        model = helper.make_model(
            made,
            ir_version=max(self.proto.ir_version, 8),
            opset_imports=list(self.proto.opset_import),
            functions=list(self.proto.functions),
            producer_name="tc",
        )
        return model.SerializeToString()


def attribute(node, name, fallback=None):
    return next(
        (helper.get_attribute_value(each) for each in node.attribute if each.name == name), fallback
    )


def channel_axis(node):
    """The axis of the weights of a convolution or product along which the output channels are."""
    if node.op_type == "Conv":
        return 0
    if node.op_type == "Gemm":
        return 0 if attribute(node, "transB", 0) else 1
    return 1 if node.op_type == "ConvTranspose" else -1
