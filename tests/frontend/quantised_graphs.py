"""Random quantised graphs, drawn from a seed, with what their integers may be.

Between DequantizeLinear and QuantizeLinear the operators are those of floats. The reference
evaluates each on its own in float64, where sums of 8-bit integers are exact, and rounds. A number
that lies at a tie may become either neighbour (the specification's float32 may fall on either
side), so a tensor is kept as the least and the largest integers that it may have, and what follows
computes with both. With quantised="fast" each operator may be one step beside that, and the results
are compared with those of "exact" too. Seeds from 5000 on draw further operators: those of ONNX
Runtime's own domain, means over axes, slices.

    python -m tests.frontend.quantised_graphs --count 2000 --target x86-64-v3
    python -m tests.frontend.quantised_graphs --count 500 --first 5000 --quantised fast
    python -m tests.frontend.quantised_graphs --count 300 --target rv64gcv --vlen 128 256 512
"""

import argparse
import tempfile
from pathlib import Path

import numpy
import torch
from onnx import TensorProto, helper

import tc

from ..support import count_under_qemu, output_file
from .quantised_tensors import MICROSOFT, Tensors, activation, between, window

TYPES = {numpy.dtype(numpy.uint8): TensorProto.UINT8, numpy.dtype(numpy.int8): TensorProto.INT8}
FURTHER = 5000  # the first seed that draws further operators


class Graph(Tensors):
    """Draws operators one after the other; each reads tensors drawn before."""

    def __init__(self, seed, slack=0):
        super().__init__(seed, slack)
        self.further = seed >= FURTHER
        for _ in range(int(self.random.integers(1, 6))):
            self.draw()
        read = {name for node in self.nodes for name in node.input}
        self.outputs = [
            each for each in self.tensors if each.name not in read and each.name not in self.inputs
        ]

    def draw(self):
        images = [each for each in self.tensors if len(each.shape) == 4]
        rows = [each for each in self.tensors if len(each.shape) == 2]
        kinds = (
            (
                ["conv"] * 4
                + ["depthwise", "transposed", "pool", "means", "resize", "pad", "split", "flatten"]
                if images
                else []
            )
            + (["gemm", "matmul"] if rows else [])
            + ["add", "mul", "concat", "activation", "activation", "order", "softmax"]
        )
        if self.further:
            kinds += ["slice", "axes_mean", "linear_two", "linear_one", "linear_concat"] + (
                ["linear_pool", "counted_pool", "linear_means"] if images else []
            )
        kind = self.random.choice(kinds)
        of_images = kind in ("linear_pool", "counted_pool", "linear_means") or kind in (
            "conv",
            "depthwise",
            "transposed",
            "pool",
            "means",
            "resize",
            "pad",
            "split",
            "flatten",
        )
        choice = images if of_images else rows if kind in ("gemm", "matmul") else self.tensors
        # Mostly the last, so that graphs are deep.
        x = choice[-1] if self.random.random() < 0.7 else choice[self.random.integers(len(choice))]
        getattr(self, f"draw_{kind}")(x)

    # --- sums of products ---

    def draw_conv(self, x, depthwise=False):
        random, channels = self.random, x.shape[1]
        groups = channels if depthwise else 2 if channels % 2 == 0 and random.random() < 0.15 else 1
        filters = channels if depthwise else int(random.choice([2, 6, 16, 24, 32, 40]))
        size, stride = int(random.choice([1, 3, 3, 5])), int(random.choice([1, 1, 2]))
        pads = [int(each) for each in random.integers(0, size // 2 + 1, 4)]
        if min(x.shape[2] + pads[0] + pads[2], x.shape[3] + pads[1] + pads[3]) < size:
            size, pads = 1, [0, 0, 0, 0]
        name, weights, scales = self.weights((filters, channels // groups, size, size), 0)
        bias, added = self.bias(x, scales)
        value = self.node(
            "Conv", [self.floats(x), name, *bias], group=groups, strides=[stride, stride], pads=pads
        )

        def apply(real, weights):
            real = torch.nn.functional.pad(
                torch.from_numpy(real), (pads[1], pads[3], pads[0], pads[2])
            )
            return torch.nn.functional.conv2d(
                real, torch.from_numpy(weights), None, stride, groups=groups
            ).numpy()

        self.finish_sum(
            value, [each + added[:, None, None] for each in self.linear(x, weights, apply)]
        )

    def draw_depthwise(self, x):
        self.draw_conv(x, depthwise=True)

    def draw_transposed(self, x):
        random, channels = self.random, x.shape[1]
        filters, size, stride = (
            int(random.choice([1, 4, 8, 16])),
            int(random.choice([2, 3, 4])),
            int(random.choice([1, 2, 2])),
        )
        pad = int(random.integers(0, size // 2 + 1)) if min(x.shape[2:]) > 2 else 0
        name, weights, scales = self.weights((channels, filters, size, size), 1)
        bias, added = self.bias(x, scales)
        value = self.node(
            "ConvTranspose", [self.floats(x), name, *bias], strides=[stride, stride], pads=[pad] * 4
        )

        def apply(real, weights):
            return torch.nn.functional.conv_transpose2d(
                torch.from_numpy(real), torch.from_numpy(weights), None, stride, pad
            ).numpy()

        self.finish_sum(
            value, [each + added[:, None, None] for each in self.linear(x, weights, apply)]
        )

    def draw_gemm(self, x):
        columns, transposed = (
            int(self.random.choice([1, 3, 16, 33, 64])),
            bool(self.random.random() < 0.5),
        )
        inner = x.shape[1]
        name, weights, scales = self.weights(
            (columns, inner) if transposed else (inner, columns), 0 if transposed else 1
        )
        bias, added = self.bias(x, scales)
        value = self.node("Gemm", [self.floats(x), name, *bias], transB=int(transposed))
        self.finish_sum(
            value,
            [
                each + added
                for each in self.linear(x, weights.T if transposed else weights, numpy.matmul)
            ],
        )

    def draw_matmul(self, x):
        name, weights, _ = self.weights((x.shape[1], int(self.random.choice([1, 4, 12, 32]))), 1)
        self.finish_sum(
            self.node("MatMul", [self.floats(x), name]), self.linear(x, weights, numpy.matmul)
        )

    # --- of two tensors ---

    def draw_add(self, x):
        y = self.another(x)
        value = self.node("Add", [self.floats(x), self.floats(y)])
        self.finish_sum(value, [a + b for a, b in zip(x.reals(), y.reals())])

    def draw_mul(self, x):
        y = self.another(x)
        value = self.node("Mul", [self.floats(x), self.floats(y)])
        self.quantise(value, between([a * b for a in x.reals() for b in y.reals()]))

    def draw_concat(self, x):
        operands = [x] + [self.another(x) for _ in range(int(self.random.integers(1, 4)))]
        value = self.node("Concat", [self.floats(each) for each in operands], axis=1)
        reals = [numpy.concatenate(each, 1) for each in zip(*(each.reals() for each in operands))]
        self.quantise(value, reals, like=x if self.random.random() < 0.4 else None)

    # --- of one ---

    def draw_activation(self, x):
        name = self.random.choice(["Relu", "Clip", "LeakyRelu", "Sigmoid", "HardSwish", "Tanh"])
        attributes = {"alpha": 0.125} if name == "LeakyRelu" else {}
        limits = (
            [self.constant(numpy.float32(0)), self.constant(numpy.float32(6))]
            if name == "Clip"
            else []
        )
        value = self.node(str(name), [self.floats(x), *limits], **attributes)
        # At most a few integers each: HardSwish falls and rises.
        ends = [activation(name, each, attributes) for each in x.reals()]
        steps = int((x.high.astype(int) - x.low).max())
        for step in range(1, min(steps, 8)):
            between_them = numpy.minimum(x.low.astype(numpy.float64) + step, x.high) - float(x.zero)
            ends.append(activation(name, between_them * float(x.scale), attributes))
        self.quantise(value, between(ends))

    def draw_softmax(self, x):
        value = self.node("Softmax", [self.floats(x)], axis=1)
        low, high = x.reals()

        def share(own, others, unknown):
            """With its own number from one end, and the others' from the other; unknown where both
            vanish beside a third."""
            largest = max(float(own.max()), float(others.max()))
            own, others = numpy.exp(own - largest), numpy.exp(others - largest)
            before = numpy.cumsum(others, 1) - others
            behind = numpy.flip(numpy.cumsum(numpy.flip(others, 1), 1), 1) - others
            total = own + numpy.maximum(before, 0) + numpy.maximum(behind, 0)
            return numpy.where(total > 1e-12, own / numpy.maximum(total, 1e-12), unknown)

        exact = (x.low == x.high).all()
        spread = low - low.max(1, keepdims=True)
        plain = numpy.exp(spread) / numpy.exp(spread).sum(1, keepdims=True)
        self.quantise(
            value, [plain, plain] if exact else [share(low, high, 0.0), share(high, low, 1.0)]
        )

    def draw_pool(self, x):
        kind, size, stride = (
            self.random.choice(["MaxPool", "AveragePool"]),
            int(self.random.choice([2, 3])),
            int(self.random.choice([1, 2])),
        )
        pads = [int(each) for each in self.random.integers(0, size // 2 + 1, 4)]
        if min(x.shape[2:]) < size:
            return
        value = self.node(
            str(kind),
            [self.floats(x)],
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=pads,
        )
        reals = [window(each, kind, size, stride, pads) for each in x.reals()]
        self.quantise(value, reals, like=x if self.random.random() < 0.6 else None)

    def draw_means(self, x):
        value = self.node("GlobalAveragePool", [self.floats(x)])
        self.quantise(value, [each.mean((2, 3), keepdims=True) for each in x.reals()])

    def draw_resize(self, x):
        sizes = self.constant(numpy.array([1, 1, 2, 2], numpy.float32))
        value = self.node(
            "Resize",
            [self.floats(x), "", sizes],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        self.quantise(
            value,
            [each.repeat(2, 2).repeat(2, 3) for each in x.reals()],
            like=x if self.random.random() < 0.7 else None,
        )

    def draw_pad(self, x):
        pads = [int(each) for each in self.random.integers(0, 3, 4)]
        number = numpy.float32(self.random.choice([0.0, 0.0, 0.37]))
        value = self.node(
            "Pad",
            [
                self.floats(x),
                self.constant(numpy.array([0, 0, *pads[:2], 0, 0, *pads[2:]])),
                self.constant(number),
            ],
        )
        around = [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])]
        reals = [numpy.pad(each, around, constant_values=float(number)) for each in x.reals()]
        self.quantise(value, reals, like=x if self.random.random() < 0.7 else None)

    def draw_split(self, x):
        if x.shape[1] < 2:
            return
        first = int(self.random.integers(1, x.shape[1]))
        sizes = self.constant(numpy.array([first, x.shape[1] - first]))
        values = self.node("Split", [self.floats(x), sizes], outputs=2, axis=1)
        low, high = x.reals()
        for value, part in zip(values, (slice(None, first), slice(first, None))):
            self.quantise(
                value, [low[:, part], high[:, part]], like=x if self.random.random() < 0.6 else None
            )

    def draw_flatten(self, x):
        value = self.node("Flatten", [self.floats(x)])
        self.quantise(value, [each.reshape(1, -1) for each in x.reals()], like=x)

    def draw_order(self, x):
        order = [int(each) for each in self.random.permutation(len(x.shape))]
        order = [0, 1, 3, 2] if len(x.shape) == 4 else order
        value = self.node("Transpose", [self.floats(x)], perm=order)
        self.quantise(
            value,
            [each.transpose(order) for each in x.reals()],
            like=x if self.random.random() < 0.7 else None,
        )

    # --- further operators ---

    def draw_slice(self, x):
        axis = int(self.random.integers(1, len(x.shape)))
        first, step = (
            int(self.random.integers(0, x.shape[axis])),
            int(self.random.choice([1, 1, 2])),
        )
        last = int(self.random.integers(first + 1, x.shape[axis] + 1))
        limits = [self.constant(numpy.array([number])) for number in (first, last, axis, step)]
        part = (slice(None),) * axis + (slice(first, last, step),)
        self.quantise(
            self.node("Slice", [self.floats(x), *limits]),
            [each[part] for each in x.reals()],
            like=x if self.random.random() < 0.6 else None,
        )

    def draw_axes_mean(self, x):
        axes = [[2, 3], [1], [3]][int(self.random.integers(3))] if len(x.shape) == 4 else [1]
        keep = int(self.random.random() < 0.5 or len(x.shape) == 2 or len(axes) == 1)
        value = self.node("ReduceMean", [self.floats(x)], axes=axes, keepdims=keep)
        self.quantise(value, [each.mean(tuple(axes), keepdims=bool(keep)) for each in x.reals()])

    def draw_linear_two(self, x):
        fitting = [
            each for each in self.tensors if each.shape == x.shape and each.low.dtype == x.low.dtype
        ]
        y = fitting[self.random.integers(len(fitting))]
        inputs = [x.name, *self.units(x), y.name, *self.units(y)]
        if self.random.random() < 0.5:
            self.quantise(
                ("QLinearAdd", inputs, {}),
                [a + b for a, b in zip(x.reals(), y.reals())],
                like=self.of_kind(x),
            )
        else:
            self.quantise(
                ("QLinearMul", inputs, {}),
                between([a * b for a in x.reals() for b in y.reals()]),
                like=self.of_kind(x),
            )

    def draw_linear_one(self, x):
        name = str(self.random.choice(["LeakyRelu", "Sigmoid"]))
        attributes = {"alpha": 0.125} if name == "LeakyRelu" else {}
        self.quantise(
            (f"QLinear{name}", [x.name, *self.units(x)], attributes),
            [activation(name, each, attributes) for each in x.reals()],
            like=self.of_kind(x),
        )

    def draw_linear_concat(self, x):
        fitting = [
            each for each in self.tensors if each.shape == x.shape and each.low.dtype == x.low.dtype
        ]
        operands = [x, fitting[self.random.integers(len(fitting))]]
        inputs = [None] + [name for each in operands for name in (each.name, *self.units(each))]
        reals = [numpy.concatenate(each, 1) for each in zip(*(each.reals() for each in operands))]
        self.quantise(("QLinearConcat", inputs, {"axis": 1}), reals, like=self.of_kind(x))

    def draw_linear_means(self, x):
        self.quantise(
            ("QLinearGlobalAveragePool", [x.name, *self.units(x)], {"channels_last": 0}),
            [each.mean((2, 3), keepdims=True) for each in x.reals()],
            like=self.of_kind(x),
        )

    def draw_linear_pool(self, x):
        if min(x.shape[2:]) < 2:
            return
        attributes = {"kernel_shape": [2, 2], "strides": [int(self.random.choice([1, 2]))] * 2}
        self.quantise(
            ("QLinearAveragePool", [x.name, *self.units(x)], attributes),
            [
                window(each, "AveragePool", 2, attributes["strides"][0], [0, 0, 0, 0])
                for each in x.reals()
            ],
            like=self.of_kind(x),
        )

    def draw_counted_pool(self, x):
        """Means in which padding counts as 0."""
        if min(x.shape[2:]) < 3:
            return
        pads = [int(each) for each in self.random.integers(0, 2, 4)]
        value = self.node(
            "AveragePool", [self.floats(x)], kernel_shape=[3, 3], pads=pads, count_include_pad=1
        )
        around = (pads[1], pads[3], pads[0], pads[2])
        reals = [
            torch.nn.functional.avg_pool2d(
                torch.nn.functional.pad(torch.from_numpy(each), around), 3, 1
            ).numpy()
            for each in x.reals()
        ]
        self.quantise(value, reals, like=x if self.random.random() < 0.4 else None)

    # --- the whole ---

    def model(self):
        graph = helper.make_graph(
            self.nodes,
            "quantised",
            [
                helper.make_tensor_value_info(name, TYPES[array.dtype], array.shape)
                for name, array in self.inputs.items()
            ],
            [
                helper.make_tensor_value_info(each.name, TYPES[each.low.dtype], each.shape)
                for each in self.outputs
            ],
            self.constants,
        )
        return helper.make_model(
            graph,
            ir_version=8,
            opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)],
        ).SerializeToString()

    def judge(self, results):
        """(elements, of which may be either of several integers, of which are wrong)."""
        counts = numpy.zeros(3, numpy.int64)
        for each in self.outputs:
            y = results[each.name]
            assert y.dtype == each.low.dtype and y.shape == each.shape
            counts += [
                y.size,
                int((each.low != each.high).sum()),
                int(((y < each.low) | (y > each.high)).sum()),
            ]
        return counts


def run(graph, target, vlen=None, quantised="exact"):
    module = tc.compile(graph.model(), target=target, threads=1, quantised=quantised)
    if vlen is None:
        return module.run(graph.inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph"
        module.export(str(path), kind="executable")
        outputs, _ = count_under_qemu(
            path, graph.inputs, folder, vlen=vlen, arguments=["--threads", "1"]
        )
        return {each.name: outputs[output_file(each.name)] for each in graph.outputs}


def sentence(seed, graph, target, found):
    operators = ", ".join(
        node.op_type for node in graph.nodes if not node.op_type.endswith("quantizeLinear")
    )
    return f"graph {seed} ({operators}) on {target}: {found[2]} of {found[0]} elements are wrong"


def compare(seeds, target, vlen=None):
    """Judges graphs of these seeds; returns the counts, and a sentence for each graph with wrong
    elements."""
    counts, wrong = numpy.zeros(3, numpy.int64), []
    for seed in seeds:
        graph = Graph(seed)
        found = (
            graph.judge(run(graph, target, vlen)) if graph.outputs else numpy.zeros(3, numpy.int64)
        )
        counts += found
        if found[2]:
            wrong.append(sentence(seed, graph, target, found))
    return counts, wrong


def compare_meanings(seeds, target):
    """The same of quantised="fast", whose every operator may be one step beside; the counts are
    (elements, equal to those of "exact", one step from them, farther behind several operators)."""
    counts, wrong = numpy.zeros(4, numpy.int64), []
    for seed in seeds:
        graph = Graph(seed, slack=1)
        if not graph.outputs:
            continue
        exact, fast = run(graph, target), run(graph, target, quantised="fast")
        found = graph.judge(fast)
        if found[2]:
            wrong.append(sentence(seed, graph, target, found))
        for each in graph.outputs:
            distance = numpy.abs(exact[each.name].astype(int) - fast[each.name])
            counts += [
                distance.size,
                (distance == 0).sum(),
                (distance == 1).sum(),
                (distance > 1).sum(),
            ]
    return counts, wrong


def text_of_meanings(counts, what):
    return f"{what}, fast: {counts[0]} elements, {counts[1]} equal to those of exact, {counts[2]} one step from them, {counts[3]} farther behind several operators"


def text(counts, what):
    return f"{what}: {counts[0]} elements, {counts[0] - counts[1]} with one exact integer, {counts[1]} at or behind a tie, {counts[2]} wrong"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--target", default="native")
    parser.add_argument("--vlen", type=int, nargs="*", default=[None])
    parser.add_argument("--quantised", choices=("exact", "fast"), default="exact")
    arguments = parser.parse_args()
    failed = False
    seeds = range(arguments.first, arguments.first + arguments.count)
    if arguments.quantised == "fast":
        counts, wrong = compare_meanings(seeds, arguments.target)
        print(
            text_of_meanings(counts, f"{arguments.count} graphs on {arguments.target}"),
            *wrong,
            sep="\n",
        )
        return bool(wrong)
    for vlen in arguments.vlen:
        counts, wrong = compare(seeds, arguments.target, vlen)
        print(
            text(
                counts,
                f"{arguments.count} graphs on {arguments.target}"
                + (f" of {vlen} bits" if vlen else ""),
            ),
            *wrong,
            sep="\n",
        )
        failed = failed or bool(wrong)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
