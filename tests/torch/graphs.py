"""One text for each graph, whatever its values are called and in which order its nodes stand: equal
texts, equal graphs.

What a model's file chooses and no kernel sees is written one way: attributes that say what is so
without them, an axis counted from the end, a constant before what it is added to, and views, which
are named by the shape that they give. All else is compared: operators, attributes, types, shapes,
constants by their bytes.
"""

import hashlib
import re

import onnx

from tc.arguments import Options, options_of
from tc.native import compiler

_NAME = r'(?:"(?:[^"\\]|\\.)*"|[\w.\-]+)'
_VALUE = re.compile(rf"({_NAME}) (\w+\[[^\]]*\])(?: elements \[[^\]]*\])?")
_NODE = re.compile(
    r"(?P<outputs>.*?) = (?P<op>\w+)\((?P<inputs>.*?)\)(?: \{(?P<attributes>.*)\})?(?: from \".*)?",
    re.DOTALL,
)
_EITHER_WAY = ("Add", "Mul", "And", "Or", "Xor", "Equal")
_ROWS = ("Softmax", "LogSoftmax", "LayerNormalization")
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def simplified(source, shapes=None):
    """The text of a model's graph after the passes over graphs."""
    return compiler.import_model(source, options_of(Options(target="x86-64-v3", shapes=shapes)))[0]


def _statements(lines):
    """The statements of a graph's text from `lines` on, those with graphs in them whole, up to the
    brace that ends it."""
    statement, depth = [], 0
    for line in lines:
        depth += line.rstrip().endswith("{") - line.lstrip().startswith("}")
        if depth < 0:
            return
        statement.append(line.strip())
        if depth == 0:
            yield "\n".join(statement)
            statement = []


def _parts(attributes):
    """[(name, value)] of the text of a node's attributes."""
    parts, start, depth, quoted = [], 0, 0, False
    for place, letter in enumerate(attributes + ","):
        if letter == '"' and attributes[place - 1 : place] != "\\":
            quoted = not quoted
        depth += 0 if quoted else (letter in "[{(") - (letter in "]})")
        if letter == "," and depth == 0 and not quoted:
            parts.append(attributes[start:place].strip().partition(" = ")[::2])
            start = place + 1
    return [part for part in parts if part[0]]


def _says_nothing(op, name, value):
    """Whether an attribute says what the operator does without it."""
    if op in ("Conv", "ConvTranspose", "MaxPool", "AveragePool"):
        if name in ("dilations", "strides") and set(re.findall(r"\d+", value)) == {"1"}:
            return True
        if name in ("pads", "output_padding") and set(re.findall(r"\d+", value)) == {"0"}:
            return True
        if name == "kernel_shape" and op.startswith("Conv"):
            return True  # the weights' own
    if not onnx.defs.has(op):
        return False
    default = onnx.defs.get_schema(op).attributes.get(name)
    if default is None or not default.default_value.ByteSize():
        return False
    usual = onnx.helper.get_attribute_value(default.default_value)
    usual = f'"{usual.decode()}"' if isinstance(usual, bytes) else repr(usual)
    return value == usual or (
        value.replace(".", "").isdigit()
        and usual.replace(".", "").isdigit()
        and float(value) == float(usual)
    )


class _Node:
    def __init__(self, text):
        found = _NODE.fullmatch(text)
        if found is None:
            raise ValueError(f"no node of a graph: {text[:200]}")
        self.op, self.inputs = found["op"], re.findall(_NAME, found["inputs"])
        self.outputs = re.findall(
            rf"(?:^|, )({_NAME})", re.sub(r"\[[^\]]*\]", "", found["outputs"])
        )
        self.types = [each[1] for each in _VALUE.findall(found["outputs"])]
        self.bodies, self.attributes = [], []
        for name, value in _parts(found["attributes"] or ""):
            if value.startswith("graph "):
                body = Graph(value)
                self.bodies.append((name, body))
                self.inputs += [outer for outer, _ in body.captures]
            elif not _says_nothing(self.op, name, value):
                self.attributes.append(f"{name} = {value}")
        if self.op in _ROWS and not any(each.startswith("axis = ") for each in self.attributes):
            self.attributes.append("axis = -1")
        self.attributes = [self._forward(each) for each in self.attributes]
        if self.op in _VIEWS:
            self.op, self.inputs, self.attributes = "view", self.inputs[:1], []

    def _forward(self, attribute):
        """An axis counted from the front, as far as the result tells how many there are."""
        name, _, value = attribute.partition(" = ")
        if name == "axis" and self.op in _ROWS and value.startswith("-"):
            return f"axis = {int(value) + self.types[0].count(',') + 1}"
        return attribute

    def text(self, inputs, constant):
        """`constant` says of each input whether it is one."""
        if self.op in _EITHER_WAY and len(inputs) == 2 and constant == [True, False]:
            inputs = inputs[::-1]
        bodies = [f"{name} = [{' ; '.join(body.lines())}]" for name, body in self.bodies]
        return " ".join(
            [f"{', '.join(self.types)} = {self.op}({', '.join(inputs)})", *self.attributes, *bodies]
        )


class Graph:
    """The text of a graph, read."""

    def __init__(self, text):
        self.inputs, self.captures, self.constants, self.makers, self.outputs, self.symbols = (
            [],
            [],
            {},
            {},
            [],
            [],
        )
        for statement in _statements(text.splitlines()[1:]):
            word, _, rest = statement.partition(" ")
            name = re.match(_NAME, rest).group() if rest else ""
            if word == "input":
                self.inputs.append(_VALUE.match(rest).groups())
            elif word == "capture":
                outer = rest.rpartition(" of ")[2]
                plain = outer[1:-1]
                self.captures.append(
                    (
                        plain if re.fullmatch(r"[A-Za-z_]\w*", plain) else outer,
                        _VALUE.match(rest).groups(),
                    )
                )
            elif word == "constant":
                self.constants[name] = rest[len(name) + 1 :]
            elif word == "output":
                self.outputs = re.findall(_NAME, rest)
            elif word in ("symbol", "size"):
                self.symbols.append(statement)
            else:
                node = _Node(statement)
                self.makers |= {output: (node, place) for place, output in enumerate(node.outputs)}

    def lines(self):
        """A line for each node that the outputs need, operands before what reads them, and one of
        the outputs."""
        given = {
            name: f"in{number} {kind}"
            for number, (name, kind) in enumerate(
                [*self.inputs, *(each for _, each in self.captures)]
            )
        }
        done, lines = {}, list(self.symbols)

        def text_of(name):
            if name == "_" or name in given or name in self.constants:
                return given.get(name) or self.constants.get(name) or "_"
            node, place = self.makers[name]
            return f"{done[id(node)]}.{place}"

        todo = [(name, False) for name in reversed(self.outputs)]
        while todo:
            name, ready = todo.pop()
            if name not in self.makers or id(self.makers[name][0]) in done:
                continue
            node = self.makers[name][0]
            if ready:
                done[id(node)] = f"%{len(done)}"
                lines.append(
                    f"{done[id(node)]} {node.text(list(map(text_of, node.inputs)), [each in self.constants for each in node.inputs])}"
                )
            else:
                todo += [(name, True), *((each, False) for each in reversed(node.inputs))]
        return [*lines, "output " + ", ".join(map(text_of, self.outputs))]


def lines_of(source, shapes=None):
    return Graph(simplified(source, shapes)).lines()


def mark_of(lines):
    """A short word for a graph."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]
