"""Small files that ask for much memory: what each is, made here. They are read by a process of
their own (test_small_files.py)."""

import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DATA = "data.bin"
DATA_BYTES = 1 << 21


def port(name, dtype=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, value, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def sizes(name, *values):
    return constant(name, values, np.int64)


def model(nodes, constants=(), functions=(), opset=20):
    """The model of `x`, four floats, whose result is `y`."""
    graph = helper.make_graph(
        nodes, "g", [port("x", shape=[4])], [port("y", shape=[4])], list(constants)
    )
    domains = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(each.domain, 1) for each in functions),
    ]
    return helper.make_model(graph, opset_imports=domains, functions=list(functions), ir_version=9)


def largest_added(nodes, constants, names, **options):
    """The model that adds the largest elements of these values."""
    most = [helper.make_node("ReduceMax", [name], [f"most {name}"], keepdims=0) for name in names]
    end = helper.make_node("Sum", ["x", *(f"most {name}" for name in names)], ["y"])
    return model([*nodes, *most, end], constants, **options)


def filled(name, size, value):
    return helper.make_node("ConstantOfShape", [size], [name], value=constant("", [value]))


def ranges(count=700, step=4):
    """Tensors of 1 MB each in one data file, that overlap unless the step is 0."""
    tensors = []
    for number in range(count):
        tensor = TensorProto(
            name=f"w{number}", data_type=FLOAT, dims=[1 << 18], data_location=TensorProto.EXTERNAL
        )
        for key, value in ("location", DATA), ("offset", number * step), ("length", 1 << 20):
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
    return largest_added([], tensors, [tensor.name for tensor in tensors])


def fills(count=30, elements=1 << 26, opset=20):
    return largest_added(
        [filled(f"c{number}", "s", float(number)) for number in range(count)],
        [sizes("s", elements)],
        [f"c{number}" for number in range(count)],
        opset=opset,
    )


def fills_that_are_outputs():
    made = fills()
    made.graph.output.extend(port(f"c{number}", shape=[1 << 26]) for number in range(30))
    return made


def doubled(operator, times, attributes=None, operands=()):
    nodes = [
        helper.make_node(
            operator, [f"c{i}", *(operands or [f"c{i}"])], [f"c{i + 1}"], **(attributes or {})
        )
        for i in range(times)
    ]
    return largest_added(nodes, [constant("c0", [1, 2]), sizes("two", 2)], [f"c{times}"])


def moved():
    """Permutations of one large constant."""
    orders = list(itertools.islice(itertools.permutations(range(6)), 40))
    nodes = [
        helper.make_node("Transpose", ["c"], [f"t{i}"], perm=order)
        for i, order in enumerate(orders)
    ]
    return largest_added(
        [filled("c", "s", 3.0), *nodes],
        [sizes("s", *[16] * 6)],
        [f"t{i}" for i in range(len(orders))],
    )


def reshaped():
    nodes = [helper.make_node("Reshape", ["c", f"s{i}"], [f"v{i}"]) for i in range(20)]
    return largest_added(
        [filled("c", "s", 3.0), *nodes],
        [sizes("s", 1 << 25), *(sizes(f"s{i}", 1 << i, -1) for i in range(20))],
        [f"v{i}" for i in range(20)],
    )


def matrix_of_zeros():
    return largest_added(
        [filled("z", "s", 0.0), helper.make_node("EyeLike", ["z"], ["c"])],
        [sizes("s", 1 << 14, 1 << 14)],
        ["c"],
    )


def branches():
    """Each of 30 branches makes a constant."""
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["is"]),
    ]
    for i in range(30):
        bodies = [
            helper.make_graph([filled(f"{name}{i}", "s", float(i))], name, [], [port(f"{name}{i}")])
            for name in ("then", "else")
        ]
        nodes.append(
            helper.make_node("If", ["is"], [f"c{i}"], then_branch=bodies[0], else_branch=bodies[1])
        )
    return largest_added(
        nodes, [constant("zero", 0), sizes("s", 1 << 25)], [f"c{i}" for i in range(30)]
    )


def sparse():
    made = largest_added([], [], [f"w{i}" for i in range(20)])
    for i in range(20):
        made.graph.sparse_initializer.append(
            onnx.SparseTensorProto(
                values=constant(f"w{i}", [1]), indices=sizes("", 5), dims=[1 << 26]
            )
        )
    return made


def looped(operator, attributes=None, operands=(), trips=40):
    """A loop whose state doubles."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going in"], ["going"]),
            helper.make_node(operator, ["s", *(operands or ["s"])], ["t"], **(attributes or {})),
        ],
        "body",
        [port("i", INT64, []), port("going in", BOOL, []), port("s")],
        [port("going", BOOL, []), port("t")],
    )
    loop = helper.make_node("Loop", ["trips", "", "s0"], ["c"], body=body)
    return largest_added(
        [loop], [constant("trips", trips, np.int64), constant("s0", [1, 2]), sizes("two", 2)], ["c"]
    )


def looped_sequence(inner, constants=(), trips=1000):
    """A loop, imported turn by turn, that puts a tensor `l` into a sequence."""
    kinds = [helper.make_tensor_sequence_value_info(name, FLOAT, None) for name in ("s", "t")]
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going in"], ["going"]),
            *inner,
            helper.make_node("SequenceInsert", ["s", "l"], ["t"]),
        ],
        "body",
        [port("i", INT64, []), port("going in", BOOL, []), kinds[0]],
        [port("going", BOOL, []), kinds[1]],
        list(constants),
    )
    nodes = [
        helper.make_node("SequenceConstruct", ["s0"], ["q"]),
        helper.make_node("Loop", ["trips", "", "q"], ["f"], body=body),
        helper.make_node("ConcatFromSequence", ["f"], ["c"], axis=0),
    ]
    return largest_added(
        nodes,
        [
            constant("trips", trips, np.int64),
            constant("s0", [1, 2]),
            sizes("last", -1),
            sizes("many", 1 << 24),
        ],
        ["c"],
    )


def doubled_in_a_sequence():
    return looped_sequence(
        [
            helper.make_node("Squeeze", ["last"], ["place"]),
            helper.make_node("SequenceAt", ["s", "place"], ["a"]),
            helper.make_node("Concat", ["a", "a"], ["l"], axis=0),
        ],
        trips=36,
    )


def scanned():
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["s"], ["t"]),
            helper.make_node("Expand", ["e", "many"], ["o"]),
        ],
        "body",
        [port("s", shape=[]), port("e", shape=[1])],
        [port("t", shape=[]), port("o")],
        [sizes("many", 1 << 20)],
    )
    return largest_added(
        [helper.make_node("Scan", ["s0", "e"], ["f", "c"], body=body, num_scan_inputs=1)],
        [constant("s0", 0), constant("e", np.ones((1000, 1)))],
        ["c"],
    )


def called(nodes, count):
    """A function that is called often, each time with another number."""
    function = helper.make_function(
        "mine", "F", ["s", "k"], ["o"], nodes, [helper.make_opsetid("", 20)]
    )
    calls = [helper.make_node("F", ["s", f"k{i}"], [f"r{i}"], domain="mine") for i in range(count)]
    return largest_added(
        calls,
        [sizes("s", 1 << 22), *(constant(f"k{i}", i) for i in range(count))],
        [f"r{i}" for i in range(count)],
        functions=[function],
    )


def texts(operator, attributes=None):
    nodes = [
        helper.make_node(operator, [f"c{i}", f"c{i}"], [f"c{i + 1}"], **(attributes or {}))
        for i in range(40)
    ]
    nodes += [
        helper.make_node("Equal", ["c40", "c0"], ["same"]),
        helper.make_node("Cast", ["same"], ["c"], to=FLOAT),
    ]
    return largest_added(
        nodes, [helper.make_tensor("c0", TensorProto.STRING, [1], [b"abcdefgh"])], ["c"]
    )


def gathered():
    nodes, constants = (
        [],
        [constant("t", np.arange(5000).reshape(1, -1)), constant("i", np.zeros(800), np.int64)],
    )
    for k in range(40):
        constants.append(constant(f"k{k}", k))
        nodes += [
            helper.make_node("Add", ["t", f"k{k}"], [f"a{k}"]),
            helper.make_node("Gather", [f"a{k}", "i"], [f"c{k}"]),
            helper.make_node("Mul", [f"c{k}", "top"], [f"m{k}"]),
        ]
    top = helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0)
    return largest_added([top, *nodes], constants, [f"m{k}" for k in range(40)])


def products():
    nodes, now = [helper.make_node("Expand", ["x", "wide"], ["e"])], "e"
    for i in range(30):
        nodes += [
            filled(f"w{i}", "s", float(i)),
            helper.make_node("MatMul", [f"w{i}", now], [f"v{i}"]),
        ]
        now = f"v{i}"
    return largest_added(nodes, [sizes("wide", 4096, 4), sizes("s", 4096, 4096)], [now])


def one_node(operator, operands, constants, **attributes):
    return largest_added(
        [helper.make_node(operator, operands, ["c"], **attributes)], constants, ["c"]
    )


QUICK = {
    "a small model": lambda: model([helper.make_node("Relu", ["x"], ["y"])]),
    "ranges that overlap": ranges,
    "ranges that repeat": lambda: ranges(step=0),
    "fills": fills,
    "fills that are outputs": fills_that_are_outputs,
    "reshaped": reshaped,
    "branches": branches,
    "sparse": sparse,
    "a matrix of zeros": matrix_of_zeros,
    "a loop that concatenates": lambda: looped("Concat", {"axis": 0}),
    "a loop that repeats": lambda: looped("Tile", operands=["two"]),
    "a scan": scanned,
    "texts": lambda: texts("StringConcat"),
    "tensors of texts": lambda: texts("Concat", {"axis": 0}),
    "expanded": lambda: one_node(
        "Expand", ["one", "s"], [constant("one", [3]), sizes("s", 1 << 30)]
    ),
    "a function's constants": lambda: called(
        [
            helper.make_node("Constant", [], ["w"], value=constant("", np.arange(10000))),
            helper.make_node("Add", ["w", "k"], ["a"]),
            helper.make_node("ReduceMax", ["a"], ["o"], keepdims=0),
        ],
        300,
    ),
}
SLOW = {
    "concatenated": lambda: doubled("Concat", 30, {"axis": 0}),
    "repeated": lambda: doubled("Tile", 30, operands=["two"]),
    "repeated less often": lambda: doubled("Tile", 22, operands=["two"]),
    "moved": moved,
    "gathered": gathered,
    "products": products,
    "a function that fills": lambda: called(
        [
            filled("a", "s", 1.0),
            helper.make_node("Add", ["a", "k"], ["b"]),
            helper.make_node("ReduceMax", ["b"], ["o"], keepdims=0),
        ],
        100,
    ),
    "a sequence that doubles": doubled_in_a_sequence,
    "a sequence of fills": lambda: looped_sequence([filled("l", "many", 2.0)]),
    "a sequence of a body's constant": lambda: looped_sequence(
        [], [constant("l", np.arange(20000))]
    ),
    "padded": lambda: one_node(
        "Pad", ["w", "p"], [constant("w", [1, 2]), sizes("p", 1 << 29, 1 << 29)]
    ),
    "a range": lambda: one_node(
        "Range", ["a", "b", "d"], [constant("a", 0), constant("b", 1 << 24), constant("d", 1)]
    ),
    "resized": lambda: one_node(
        "Resize",
        ["w", "", "", "s"],
        [constant("w", np.ones((1, 1, 2))), sizes("s", 1, 1, 1 << 29)],
        mode="nearest",
    ),
    "one hot": lambda: one_node(
        "OneHot",
        ["i", "d", "v"],
        [
            constant("i", np.zeros(1000), np.int64),
            constant("d", 1 << 22, np.int64),
            constant("v", [0, 1]),
        ],
    ),
}
