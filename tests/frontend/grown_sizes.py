"""Models with sizes without a bound, which a run computes."""

import numpy as np
from onnx import helper

from tests.frontend.data_sizes import FLOAT, INT64, model


def node(op, inputs, output, **attributes):
    return helper.make_node(
        op,
        inputs,
        output if isinstance(output, list) else [output],
        name=(output if isinstance(output, str) else output[0]) + "_node",
        **attributes,
    )


def count_of(x="x", name="k"):
    """Nodes that count the elements of `x` that are not 0: a scalar i64 that no shape tells."""
    return [
        node("NonZero", [x], f"{name}_where"),
        node("Shape", [f"{name}_where"], f"{name}_shape", start=1),
        node("Squeeze", [f"{name}_shape"], f"{name}_bounded"),
        # The sum of the elements, so that nothing bounds it.
        node("ReduceSum", [x], f"{name}_sum", keepdims=0),
        node("Cast", [f"{name}_sum"], name, to=INT64),
    ]


def ones(count, of=8):
    x = np.zeros(of, np.float32)
    x[:count] = 1
    return x


def summing(nodes, outputs, constants=(), inputs=()):
    return model(
        count_of() + nodes,
        [("x", FLOAT, [8]), *inputs],
        outputs,
        {"one": np.array([1]), **dict(constants)},
    )
