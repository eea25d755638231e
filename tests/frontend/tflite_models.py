"""Models of TensorFlow Lite: of one operator, and as its reference kernels run them."""

import numpy as np
import pytest

from ..support import models_folder

pytest.importorskip(
    "tflite",
    reason="files of TensorFlow Lite are read by the package tflite, which is not installed",
)
from .tflite_files import Operator, Tensor, file_of  # noqa: E402


def litert():
    return pytest.importorskip(
        "ai_edge_litert.interpreter",
        reason="the reference kernels are those of ai-edge-litert, which is not installed",
    )


def reference(model, arrays):
    """What TensorFlow Lite's reference kernels make of the arrays; `model` is a path or bytes."""
    package = litert()
    source = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    interpreter = package.Interpreter(
        **source, num_threads=1, experimental_op_resolver_type=package.OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    for row, array in zip(interpreter.get_input_details(), arrays):
        interpreter.set_tensor(row["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(row["index"]) for row in interpreter.get_output_details()]


def seeded(ports, seed):
    random = np.random.default_rng(seed)
    return [
        random.standard_normal(port.shape).astype(np.float32)
        if port.dtype == "float32"
        else random.integers(-128, 128, port.shape).astype(port.dtype)
        for port in ports
    ]


def path_of(name):
    return models_folder() / f"{name}.tflite"


RANDOM = np.random.default_rng(3)


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def one(name, operands, result, table=None, **options):
    """A file of one operator: operands are shapes (inputs) or arrays (constants), the results'
    shapes follow."""
    tensors, inputs = [], []
    for number, operand in enumerate(operands):
        if isinstance(operand, tuple):
            inputs.append(number)
            tensors.append(Tensor(f"x{number}", operand))
        else:
            tensors.append(Tensor(f"c{number}", data=operand))
    shapes = result if isinstance(result, list) else [result]
    outputs = list(range(len(tensors), len(tensors) + len(shapes)))
    tensors += [Tensor(f"y{number}", shape) for number, shape in enumerate(shapes)]
    return file_of(
        tensors,
        [Operator(name, list(range(len(operands))), outputs, table, **options)],
        inputs,
        outputs,
    )


def ints(*numbers):
    return np.array(numbers, np.int32)


IMAGE = (1, 6, 5, 4)


X, Y = Tensor("x", (2, 3)), Tensor("y", (2, 3))
ABS = Operator("ABS", [0], [1])


def relu(tensors=(X, Y), operators=(ABS,), inputs=(0,), outputs=(1,), **more):
    return file_of(list(tensors), list(operators), list(inputs), list(outputs), **more)
