"""Names that drive a terminal, hide, lie about lines or never end, and models, files and records
that have them everywhere."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tc.errors import MAX_OF_LINE

# What a reader would take for a line of ours.
FORGED = "FORGED: all is well"
NAMES = {
    "codes of a terminal": "a\x1b[2J\x1b[31mb",
    "a title of a window": "a\x1b]0;title\x07b",
    "codes of one byte": "a\x9b31mb\x85c",
    "a line end": f"a\n{FORGED}",
    "a return": f"a\r{FORGED}",
    "another line end": f"a\u2028{FORGED}\u2029b",
    "the other direction": "a\u202egnirts\u2066b",
    "no width": "a\u200b\u200d\ufeff\u00adb",
    "hidden letters": "a\U000e0041\U000e0042\u3164b",
    "deleted letters": "abc\b\b\b\x7fd",
    "quotes": "it's 'a' \"b\" `c` \\d",
    "what is long": "n" * 12_000,
    "long codes": "\x1b[7m\n" * 2_400,
}
NAMES["all at once"] = "".join(NAMES[kind] for kind in list(NAMES)[:11])
LONGEST_LINE = 10 * MAX_OF_LINE  # of a text for people: an escape has at most ten letters


def assert_fit_to_be_seen(text):
    for character in text:
        assert (character.isprintable() and character != "\u3164") or character in "\n\t", (
            character,
            text[:2000],
        )
    for line in text.split("\n"):
        assert len(line) <= LONGEST_LINE, line[:500]
        assert not line.startswith(FORGED), text[:2000]


def model(name):
    """y = double(max(x w, 0)) with the name for everything that has one: the graph, its nodes,
    values and sizes, a function and its domain."""

    def named(part):
        return f"{name}.{part}"

    weights = numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), named("w"))
    function = helper.make_function(
        named("domain"),
        named("double"),
        [named("p")],
        [named("q")],
        [helper.make_node("Add", [named("p"), named("p")], [named("q")], named("add"))],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        helper.make_node("MatMul", [named("x"), named("w")], [named("s")], named("product")),
        helper.make_node("Relu", [named("s")], [named("r")], named("relu")),
        helper.make_node(
            named("double"), [named("r")], [named("y")], named("call"), domain=named("domain")
        ),
    ]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(named("x"), TensorProto.FLOAT, [named("n"), 4])],
        [helper.make_tensor_value_info(named("y"), TensorProto.FLOAT, [named("n"), 3])],
        [weights],
        doc_string=name,
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(named("domain"), 1)],
        functions=[function],
        producer_name=name,
        producer_version=name,
        ir_version=8,
    )
    helper.set_model_props(made, {name: name})
    return made


def refused_model(name):
    """The same with operators that nobody has."""
    made = model(name)
    made.graph.node[1].domain, made.graph.node[1].op_type = f"{name}.other", f"{name}.operator"
    made.opset_import.append(helper.make_opsetid(f"{name}.other", 1))
    made.graph.node.append(
        helper.make_node("NonMaxSuppression2", [f"{name}.s"], [f"{name}.z"], f"{name}.last")
    )
    return made


def save(made, path):
    onnx.save(made, str(path))
    return str(path)
