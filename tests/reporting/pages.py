"""What the tests of reports share: small models, and a page read as a browser reads it."""

import html.parser

import numpy as np
from onnx import TensorProto, helper, numpy_helper

VOID = {"meta", "br"}


def array(shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def model(nodes, inputs, outputs, **constants):
    graph = helper.make_graph(
        nodes,
        "reported",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def small_network():
    """A convolution with its activation, a pool, a branch that is added, a product."""
    return model(
        [
            helper.make_node("Conv", ["x", "k1"], ["a"], pads=[1, 1, 1, 1], name="first"),
            helper.make_node("Relu", ["a"], ["b"], name="activation"),
            helper.make_node(
                "MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2], name="pool"
            ),
            helper.make_node("Conv", ["c", "k2"], ["d"], name="second"),
            helper.make_node("Add", ["c", "d"], ["e"], name="sum"),
            helper.make_node("GlobalAveragePool", ["e"], ["g"], name="mean"),
            helper.make_node("Flatten", ["g"], ["h"], name="flat"),
            helper.make_node("MatMul", ["h", "w"], ["y"], name="classes"),
        ],
        {"x": [1, 8, 24, 24]},
        ["y"],
        k1=array((16, 8, 3, 3), 1, 0.1),
        k2=array((16, 16, 1, 1), 2, 0.1),
        w=array((16, 10), 3, 0.1),
    )


def chain(count):
    """So many equal products, one after the other: one kernel, many steps."""
    nodes = [
        helper.make_node(
            "MatMul", [f"v{at}" if at else "x", "w"], [f"v{at + 1}"], name=f"layer.{at}.product"
        )
        for at in range(count)
    ]
    return model(nodes, {"x": [4, 16]}, [f"v{count}"], w=np.eye(16, dtype=np.float32))


class Page(html.parser.HTMLParser):
    """A page's elements, attributes and texts; `faults` tells what is not closed as it should
    be."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.attributes, self.faults = [], [], []
        self.texts, self._open = [], []
        self.feed(text)
        self.close()
        self.faults += [f"<{name}> is never closed" for name in self._open]

    def handle_starttag(self, name, attributes):
        self.elements.append(name)
        self.attributes += [(name, key, value) for key, value in attributes]
        if name not in VOID:
            self._open.append(name)

    def handle_startendtag(self, name, attributes):
        self.elements.append(name)
        self.attributes += [(name, key, value) for key, value in attributes]

    def handle_endtag(self, name):
        if not self._open or self._open.pop() != name:
            self.faults.append(f"</{name}> closes nothing")

    def handle_comment(self, text):
        self.faults.append(f"a comment: {text[:50]}")

    def handle_data(self, text):
        where = self._open[-1] if self._open else ""
        self.texts.append((where, text))

    def text(self):
        """What is read, without the style."""
        return "\n".join(text for where, text in self.texts if where != "style")

    def of(self, name):
        """The texts directly in elements of that name."""
        return [text for where, text in self.texts if where == name]
