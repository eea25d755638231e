"""Families of ONNX models that grow: each a function of the number of nodes that are left when
functions are in place of their calls."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def model(nodes, constants=(), outputs=(("y", [4, 8]),), functions=(), shape=(4, 8)):
    """A model of one input x; constants are pairs of name and array."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants],
    )
    opsets = [helper.make_opsetid("", OPSET)] + ([helper.make_opsetid("f", 1)] if functions else [])
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=8)


def chained(count, make, first="x", last="y", prefix="v"):
    """Nodes of make(index, input, output), each behind the one before."""
    names = [first, *(f"{prefix}{index}" for index in range(1, count)), last]
    return [made for index in range(count) for made in make(index, names[index], names[index + 1])]


def products(count):
    return model(
        chained(count, lambda i, a, b: [helper.make_node("MatMul", [a, "w"], [b])]),
        [("w", np.eye(8, dtype=np.float32))],
    )


def elementwise(count):
    def make(index, a, b):
        return (
            [helper.make_node("Relu", [a], [b])]
            if index % 2
            else [helper.make_node("Add", [a, "c"], [b])]
        )

    return model(chained(count, make), [("c", np.full((8,), 0.25, np.float32))])


def convolutions(count):
    weights = np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype(np.float32) / 6
    nodes = chained(
        count, lambda i, a, b: [helper.make_node("Conv", [a, "w"], [b], pads=[1, 1, 1, 1])]
    )
    return model(nodes, [("w", weights)], [("y", [1, 4, 6, 6])], shape=(1, 4, 6, 6))


def views(count):
    def make(index, a, b):
        if index % 2:
            return [helper.make_node("Transpose", [a], [b], perm=[1, 0])]
        return [helper.make_node("Reshape", [a, "wide" if index % 4 else "tall"], [b])]

    return model(
        chained(count, make),
        [("wide", np.array([4, 8])), ("tall", np.array([8, 4]))],
        [("y", None)],
    )


def normalizations(count):
    """Layer normalisation spelled out in nine nodes, with a product between two of them."""

    def make(index, a, b):
        part = [
            f"{name}{index}"
            for name in (
                "mean",
                "centred",
                "square",
                "variance",
                "stable",
                "root",
                "unit",
                "scaled",
                "shifted",
            )
        ]
        mean, centred, square, variance, stable, root, unit, scaled, shifted = part
        return [
            helper.make_node("ReduceMean", [a], [mean], axes=[-1]),
            helper.make_node("Sub", [a, mean], [centred]),
            helper.make_node("Mul", [centred, centred], [square]),
            helper.make_node("ReduceMean", [square], [variance], axes=[-1]),
            helper.make_node("Add", [variance, "epsilon"], [stable]),
            helper.make_node("Sqrt", [stable], [root]),
            helper.make_node("Div", [centred, root], [unit]),
            helper.make_node("Mul", [unit, "scale"], [scaled]),
            helper.make_node("Add", [scaled, "shift"], [shifted]),
            helper.make_node("MatMul", [shifted, "w"], [b]),
        ]

    constants = [
        ("epsilon", np.array(1e-5, np.float32)),
        ("scale", np.full(8, 1.5, np.float32)),
        ("shift", np.full(8, 0.5, np.float32)),
        ("w", np.eye(8, dtype=np.float32)),
    ]
    return model(chained(max(1, count // 10), make), constants)


def parallel(count):
    nodes = [helper.make_node("Relu", ["x"], [f"p{index}"]) for index in range(count - 1)]
    return model([*nodes, helper.make_node("Sum", [node.output[0] for node in nodes], ["y"])])


def joined(count):
    """Half of the nodes are products side by side, each with an elementwise node; all are
    joined."""
    pairs = [
        (
            helper.make_node("MatMul", ["x", f"w{i % 3}"], [f"p{i}"]),
            helper.make_node("Tanh", [f"p{i}"], [f"t{i}"]),
        )
        for i in range(count // 2)
    ]
    nodes = [node for pair in pairs for node in pair]
    names = [pair[1].output[0] for pair in pairs]
    weights = np.random.default_rng(0).standard_normal((3, 8, 8)).astype(np.float32)
    return model(
        [*nodes, helper.make_node("Concat", names, ["y"], axis=1)],
        [(f"w{i}", weights[i]) for i in range(3)],
        [("y", [4, 8 * len(names)])],
    )


def distinct_constants(count):
    """Sums of the input and constants that all differ, each multiplied into what is there."""
    constants = [
        (f"c{index}", np.random.default_rng(index).standard_normal(8).astype(np.float32))
        for index in range(count // 2)
    ]
    nodes, value = [], "x"
    for index, (name, _) in enumerate(constants):
        last = index + 1 == len(constants)
        nodes += [
            helper.make_node("Add", ["x", name], [f"s{index}"]),
            helper.make_node("Max", [value, f"s{index}"], ["y" if last else f"m{index}"]),
        ]
        value = f"m{index}"
    return model(nodes, constants)


def functions(count):
    """Functions that each call the one before twice: the last is the product of a chain of nodes
    whose number is a power of two."""
    made = [
        helper.make_function(
            "f",
            "f0",
            ["a"],
            ["b"],
            [helper.make_node("MatMul", ["a", "w"], ["b"])],
            [helper.make_opsetid("", OPSET)],
        )
    ]
    made[0].input.append("w")
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("f", 1)]
    while 2 ** len(made) <= count:
        inner = f"f{len(made) - 1}"
        calls = [
            helper.make_node(inner, ["a", "w"], ["m"], domain="f"),
            helper.make_node(inner, ["m", "w"], ["b"], domain="f"),
        ]
        made.append(helper.make_function("f", f"f{len(made)}", ["a", "w"], ["b"], calls, imports))
    call = helper.make_node(f"f{len(made) - 1}", ["x", "w"], ["y"], domain="f")
    return model([call], [("w", np.eye(8, dtype=np.float32))], functions=made)


def branches(count):
    """Ifs behind each other, with a product in each branch."""

    def make(index, a, b):
        def branch(op):
            return helper.make_graph(
                [helper.make_node(op, [a, "w"], ["r"])],
                op,
                [],
                [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)],
            )

        return [
            helper.make_node(
                "If", ["positive"], [b], then_branch=branch("MatMul"), else_branch=branch("Add")
            )
        ]

    condition = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
    ]
    constants = [("w", np.eye(4, dtype=np.float32)), ("zero", np.array(0, np.float32))]
    return model(
        [*condition, *chained(max(1, count // 3), make)], constants, [("y", [4, 4])], shape=(4, 4)
    )


def nested_branches(depth):
    """Ifs in both branches of Ifs would double; here one branch of each holds the next."""

    def branch(level):
        if level == depth:
            nodes = [helper.make_node("Relu", ["x"], [f"r{level}"])]
        else:
            nodes = [
                helper.make_node(
                    "If",
                    ["positive"],
                    [f"r{level}"],
                    then_branch=branch(level + 1),
                    else_branch=helper.make_graph(
                        [helper.make_node("Neg", ["x"], [f"n{level}"])],
                        "e",
                        [],
                        [helper.make_tensor_value_info(f"n{level}", TensorProto.FLOAT, [4, 8])],
                    ),
                )
            ]
        return helper.make_graph(
            nodes,
            f"b{level}",
            [],
            [helper.make_tensor_value_info(f"r{level}", TensorProto.FLOAT, [4, 8])],
        )

    whole = branch(0)
    condition = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["positive"]),
    ]
    return model([*condition, *whole.node], [("zero", np.array(0, np.float32))], [("r0", [4, 8])])


def loop_body(count):
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["goes"]),
            *chained(
                count, lambda i, a, b: [helper.make_node("MatMul", [a, "w"], [b])], "state", "next"
            ),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [4, 8]),
        ],
        [
            helper.make_tensor_value_info("goes", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [4, 8]),
        ],
    )
    return model(
        [helper.make_node("Loop", ["trip", "", "x"], ["y"], body=body)],
        [("trip", np.array(3)), ("w", np.eye(8, dtype=np.float32))],
    )


def many_outputs(count):
    nodes = chained(count, lambda i, a, b: [helper.make_node("MatMul", [a, "w"], [b])])
    return model(
        nodes, [("w", np.eye(8, dtype=np.float32))], [(node.output[0], [4, 8]) for node in nodes]
    )


def many_initializers(count):
    weights = np.random.default_rng(0).standard_normal((count, 8, 8)).astype(np.float32) / 3
    nodes = chained(count, lambda i, a, b: [helper.make_node("MatMul", [a, f"w{i}"], [b])])
    return model(nodes, [(f"w{index}", weights[index]) for index in range(count)])


def shape_arithmetic(count):
    """Six nodes that compute a shape that is known, and reshape by it."""

    def make(index, a, b):
        part = [f"{name}{index}" for name in ("shape", "first", "second", "joined", "product")]
        shape, first, second, joined_, flat = part
        return [
            helper.make_node("Shape", [a], [shape]),
            helper.make_node("Gather", [shape, "zero"], [first]),
            helper.make_node("Gather", [shape, "one"], [second]),
            helper.make_node("Concat", [second, first], [joined_], axis=0),
            helper.make_node("Reshape", [a, joined_], [flat]),
            helper.make_node("Relu", [flat], [b]),
        ]

    return model(
        chained(max(1, count // 6), make),
        [("zero", np.array([0])), ("one", np.array([1]))],
        [("y", None)],
    )


FAMILIES = {
    each.__name__: each
    for each in (
        products,
        elementwise,
        convolutions,
        views,
        normalizations,
        parallel,
        joined,
        distinct_constants,
        functions,
        branches,
        loop_body,
        many_outputs,
        many_initializers,
        shape_arithmetic,
    )
}
