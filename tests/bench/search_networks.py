"""Small networks for the bench of the search, each with one kind of kernels."""

import numpy as np

DEPTHS = {"block": (1,), "resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3), "pair": (1, 1)}
BLOCK = 32  # weights of 4 bits that have a scale


class _Graph:
    """Collects nodes and constants of an ONNX graph."""

    def __init__(self):
        self.nodes, self.weights, self.random = [], [], np.random.default_rng(0)

    def node(self, kind, values, outputs=None, **attributes):
        from onnx import helper

        names = outputs or [f"{kind.lower()}{len(self.nodes)}"]
        self.nodes.append(
            helper.make_node(kind, values, names, f"{kind}{len(self.nodes)}", **attributes)
        )
        return names[-1]

    def constant(self, array):
        from onnx import numpy_helper

        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def normal(self, *shape, scale=1.0):
        drawn = self.random.standard_normal(shape, np.float32)
        return self.constant(drawn * np.float32(scale))

    def save(self, path, inputs, outputs, sparse=()):
        """Ports are {name: (type, shape)}."""
        import onnx
        from onnx import helper

        ports = [
            [helper.make_tensor_value_info(name, *port) for name, port in some.items()]
            for some in (inputs, outputs)
        ]
        graph = helper.make_graph(
            self.nodes, "g", *ports, self.weights, sparse_initializer=list(sparse)
        )
        opset = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
        return path


def _f32(*shape):
    return 1, shape  # TensorProto.FLOAT


# --- bottleneck blocks ----------------------------------------------------------------------------


def _convolution(graph, value, inputs, outputs, kernel, stride=1, scale=1.0):
    spread = scale * np.sqrt(2 / (inputs * kernel * kernel))
    weights = graph.normal(outputs, inputs, kernel, kernel, scale=spread)
    return graph.node("Conv", [value, weights], pads=[kernel // 2] * 4, strides=[stride, stride])


def _block(graph, value, inputs, width, stride):
    body = graph.node("Relu", [_convolution(graph, value, inputs, width, 1)])
    body = graph.node("Relu", [_convolution(graph, body, width, width, 3, stride)])
    body = _convolution(graph, body, width, 4 * width, 1, scale=0.3)
    if stride > 1 or inputs != 4 * width:
        value = _convolution(graph, value, inputs, 4 * width, 1, stride)
    return graph.node("Relu", [graph.node("Add", [value, body])])


def save_network(path, depths, width, size):
    """Bottleneck blocks of these numbers, the first of `width` channels, on a `size` x `size`
    image."""
    graph = _Graph()
    value = graph.node("Relu", [_convolution(graph, "x", 3, width, 3, 2)])
    inputs = width
    for stage, depth in enumerate(depths):
        for number in range(depth):
            stride = 2 if stage and not number else 1
            value = _block(graph, value, inputs, width << stage, stride)
            inputs = 4 * (width << stage)
    value = graph.node("GlobalAveragePool", [value])
    return graph.save(path, {"x": _f32(1, 3, size, size)}, {value: _f32(1, inputs, 1, 1)})


# --- one kind of kernels each ---------------------------------------------------------------------


def _save_convolutions(path, width, size):
    return save_network(path, DEPTHS["pair"], width, size)


def _save_bytes(path, width, size):
    """Two convolutions of int8, as a quantiser writes them."""
    graph = _Graph()
    quarter, channels = size // 4, 2 * width
    scale, zero = np.float32(0.02), np.uint8(117)
    value = "x"
    for number in range(2):
        kernel = 3 if number == 0 else 1
        weights = graph.random.integers(-128, 128, (channels, channels, kernel, kernel))
        scales = graph.constant(graph.random.uniform(0.002, 0.01, channels).astype(np.float32))
        constants = [graph.constant(scale), graph.constant(zero)]
        body = graph.node("DequantizeLinear", [value, *constants])
        matrix = graph.node(
            "DequantizeLinear",
            [
                graph.constant(weights.astype(np.int8)),
                scales,
                graph.constant(np.zeros(channels, np.int8)),
            ],
            axis=0,
        )
        body = graph.node("Relu", [graph.node("Conv", [body, matrix], pads=[kernel // 2] * 4)])
        scale, zero = np.float32(0.3), np.uint8(0)
        value = graph.node("QuantizeLinear", [body, graph.constant(scale), graph.constant(zero)])
    shape = (1, channels, quarter, quarter)
    return graph.save(path, {"x": (2, shape)}, {value: (2, shape)})  # TensorProto.UINT8


def _save_packed(path, width, size):
    """Products of one row and of several by weights of 4 bits, with a scale for each 32."""
    graph, columns = _Graph(), 16 * width
    outputs, inputs = {}, {}
    for rows in (1, size // 8):
        blocks = columns // BLOCK
        packed = graph.random.integers(0, 256, (columns, blocks, BLOCK // 2)).astype(np.uint8)
        scales = graph.random.uniform(0.005, 0.02, columns * blocks).astype(np.float32)
        value = graph.node(
            "MatMulNBits",
            [f"x{rows}", graph.constant(packed), graph.constant(scales)],
            domain="com.microsoft",
            K=columns,
            N=columns,
            bits=4,
            block_size=BLOCK,
        )
        inputs[f"x{rows}"] = outputs[value] = _f32(rows, columns)
    return graph.save(path, inputs, outputs)


def _save_attention(path, width, size):
    """Four heads, and the product behind them."""
    graph, heads, rows = _Graph(), 4, size // 2
    ports = {name: _f32(1, heads, rows, width) for name in "qkv"}
    key = graph.node("Transpose", ["k"], perm=[0, 1, 3, 2])
    scores = graph.node(
        "Mul", [graph.node("MatMul", ["q", key]), graph.constant(np.float32(width**-0.5))]
    )
    value = graph.node("MatMul", [graph.node("Softmax", [scores], axis=-1), "v"])
    value = graph.node("Transpose", [value], perm=[0, 2, 1, 3])
    value = graph.node("Reshape", [value, graph.constant(np.array([rows, heads * width]))])
    weights = graph.normal(heads * width, heads * width, scale=0.1)
    value = graph.node("MatMul", [value, weights])
    return graph.save(path, ports, {value: _f32(rows, heads * width)})


def _save_gru(path, width, size):
    """A few steps of a GRU."""
    graph, hidden, steps = _Graph(), 4 * width, size // 8
    weights = [graph.normal(1, 3 * hidden, hidden, scale=0.1) for _ in range(2)]
    bias = graph.normal(1, 6 * hidden, scale=0.1)
    value = graph.node(
        "GRU", ["x", *weights, bias], ["", "last"], hidden_size=hidden, linear_before_reset=1
    )
    return graph.save(path, {"x": _f32(steps, 1, hidden)}, {value: _f32(1, 1, hidden)})


def _save_sparse(path, width, size):
    """A product by a matrix of which a tenth is stored. (tc fills such a one up with zeros.)"""
    from onnx import helper

    graph, columns, rows = _Graph(), 8 * width, size // 4
    count = columns * columns // 10
    places = np.sort(graph.random.choice(columns * columns, count, replace=False))
    numbers = graph.random.standard_normal(count).astype(np.float32)
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("m", 1, [count], numbers),
        helper.make_tensor("places", 7, [count], places.astype(np.int64)),
        [columns, columns],
    )
    value = graph.node("Relu", [graph.node("MatMul", ["x", "m"])])
    return graph.save(path, {"x": _f32(rows, columns)}, {value: _f32(rows, columns)}, [sparse])


# Functions of (path, width, size), which write a network and return the path.
NETWORKS = {
    "convolutions": _save_convolutions,
    "int8": _save_bytes,
    "packed": _save_packed,
    "attention": _save_attention,
    "gru": _save_gru,
    "sparse": _save_sparse,
}
