"""Models and files that the compiler refuses. What it says of them is in test_model_errors.py."""

import onnx
import onnx.parser
from onnx import TensorProto, helper


def text_model(signature, body, constants="", opset=17):
    constants = f"<{constants}>" if constants else ""
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>\n'
        f"g ({signature}) => (float[N] y) {constants} {{ {body} }}"
    ).SerializeToString()


# Signature, nodes, constants, opset, shapes: a model in ONNX's text form.
X = "float[2,3] x"
MODELS = [
    # The importer.
    (X, "y = Relu(z)"),
    (X, "y = Relu(x) y = Neg(x)"),
    ("float[2] x, float[2] x", "y = Relu(x)"),
    ("float[] x", "y = Relu(x)"),
    ("float[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] x", "y = Relu(x)"),
    ("complex64[2] x", "y = Relu(x)"),
    ("seq(float[2]) x", "y = Relu(x)"),
    (X, "y = Relu(x)", "", 0),
    (X, "y, z = Relu(x)"),
    (X, "y = Relu()"),
    (X, "y = MatMul(, x)"),
    (X, "y = Relu(x, x)"),
    (X, "y = Relu<alpha = 1.0>(x)"),
    (X, 'y = Flatten<axis = "first">(x)'),
    (X, "y = OneHot(x)"),
    (X, "y = LRN(x)"),
    (X, "y = Constant()"),
    ("float[N] x, float[N] z", "y = Add(x, z)", "", 17, {"x": (2,), "z": (3,)}),
    (X, "y = Relu(x)", "", 17, {"x": (2, 3, 4)}),
    (X, "y = Relu(x)", "", 17, {"x": (2, 4)}),
    (X, "y = Relu(x)", "", 17, {"q": (2, 4)}),
    # Control flow.
    ("float[2] x", "y = If<then_branch = t () => (float[2] a) { a = Neg(x) }>(c)", "bool c = {0}"),
    ("float[2] x, bool c", "y = If<then_branch = t () => (float[2] a) { a = Neg(x) }>(c)"),
    (
        "float[2] x, bool c",
        "y = If<then_branch = t () => (float[2] a) { a = Neg(x) }, "
        "else_branch = e () => (float b) { b = Constant<value_float = 1.0>() }>(c)",
    ),
    (
        "float[2] x, bool c",
        "y, z = If<then_branch = t () => (float[2] a) { a = Neg(x) }, "
        "else_branch = e () => (float[2] b) { b = Abs(x) }>(c)",
    ),
    (
        "float[2] x, int64 n, bool c",
        "y = Loop<body = b (int64 i, bool go, float[2] s, float[2] t) => (bool on, float[2] u) "
        "{ on = Identity(go) u = Neg(s) }>(n, c, x)",
    ),
    (
        "float[2] x, int64 n, bool c",
        "y = Loop<body = b (int64 i, bool go, float[2] s) => (bool on) { on = Identity(go) }>(n, c, x)",
    ),
    (
        "float[2] x, int64 n, bool c",
        "y = Loop<body = b (int64 i, bool go, float[2] s) => (bool on, float[2,1] u) "
        "{ on = Identity(go) one = Constant<value_ints = [1]>() u = Unsqueeze(s, one) }>(n, c, x)",
    ),
    (
        "float[2] x, int64[2] n, bool c",
        "y = Loop<body = b (int64 i, bool go, float[2] s) => (bool on, float[2] u) "
        "{ on = Identity(go) u = Neg(s) }>(n, c, x)",
    ),
    (
        "float[2] x, int64 n, bool c",
        "y = Loop<body = b (int64 i, bool go, float[2] s, float[2] t) => (bool on, float[2] u, float[2] w) "
        "{ on = Identity(go) u = Neg(s) w = Neg(t) }>(n, c, , x)",
    ),
    ("float[4,2] x", "y = Scan<body = b (float[2] s) => (float[2] u) { u = Neg(s) }>(x)"),
    (
        "float[4,2] x",
        "y = Scan<body = b (float[2] s) => (float[2] u) { u = Neg(s) }, num_scan_inputs = 3>(x)",
    ),
    (
        "float[4,2] x, float[5,2] z",
        "y = Scan<body = b (float[2] s, float[2] t) => (float[2] u) { u = Add(s, t) }, num_scan_inputs = 2>(x, z)",
    ),
    ("float x", "y = Scan<body = b (float s) => (float u) { u = Neg(s) }, num_scan_inputs = 1>(x)"),
    (
        "float[2] s0, float[4,2] x",
        "y, z = Scan<body = b (float[2] s, float[2] t) => (float[4] u, float[2] v) "
        "{ u = Concat<axis = 0>(s, t) v = Neg(t) }, num_scan_inputs = 1>(s0, x)",
    ),
    (
        "float[4,2] x",
        "y = Scan<body = b (float[4] s) => (float[4] u) { u = Neg(s) }, num_scan_inputs = 1, "
        "scan_input_axes = [2]>(x)",
    ),
    # Shapes and types of elementwise operators.
    ("float[2,3] x, float[4] z", "y = Add(x, z)"),
    ("float[2] x, double[2] z", "y = Add(x, z)"),
    ("bool[2] x", "y = Relu(x)"),
    ("int64[2] x", "y = Softmax(x)"),
    ("float[2] x", "y = Not(x)"),
    ("float[2] x", "y = BitwiseNot(x)"),
    ("float[2] x, float[2] z", "y = Where(x, x, z)"),
    ("bool[2] c, float[2] x, int64[2] z", "y = Where(c, x, z)"),
    ("float[2] x, float[2] z", "y = Clip(x, z)"),
    # Convolution, pooling.
    ("float[2,3] x, float[4,3,3] w", "y = Conv(x, w)"),
    ("float[1,3,8] x, float[4,3] w", "y = Conv(x, w)"),
    ("float[1,3,8,8] x, float[4,3,3,N] w", "y = Conv(x, w)"),
    ("float[1,3,8,8] x, float[4,3,3,3] w", "y = Conv<group = 0>(x, w)"),
    ("float[1,3,8,8] x, float[4,1,3,3] w", "y = Conv<group = 3>(x, w)"),
    ("float[1,3,8,8] x, float[4,5,3,3] w", "y = Conv(x, w)"),
    ("float[1,3,8,8] x, float[4,3,3,3] w", "y = Conv<kernel_shape = [2, 2]>(x, w)"),
    ("float[1,3,8,8] x, float[4,3,3,3] w, float[5] b", "y = Conv(x, w, b)"),
    ("float[1,3,8,8] x, float[4,3,3,3] w", "y = Conv<strides = [1, 0]>(x, w)"),
    ("float[1,3,8,8] x, float[4,3,3,3] w", "y = Conv<strides = [1]>(x, w)"),
    ("float[1,3,8,8] x, float[4,3,9,9] w", "y = Conv(x, w)"),
    (
        "float[1,3,8,N] x, float[4,3,3,3] w",
        'y = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, w)',
    ),
    ("float[1,N,8,8] x, float[4,M,3,3] w", "y = Conv<group = 2>(x, w)"),
    ("float[1,2,8,8] x, float[M,1,3,3] w", "y = Conv<group = 2>(x, w)"),
    ("float[1,3,8,8] x, float[4,3,3,3] w", 'y = Conv<auto_pad = "SAME">(x, w)'),
    ("float[1,2,4,4] x, float[2,2,3,3] w", 'y = ConvTranspose<auto_pad = "SAME">(x, w)'),
    ("float[1,3,8,8] x, float[4,2,3,3] w", "y = ConvTranspose(x, w)"),
    ("float[1,3,8,8] x, float[3,2,3,3] w, float[5] b", "y = ConvTranspose(x, w, b)"),
    ("float[1,3,8,8] x, float[3,2,3,3] w", "y = ConvTranspose<strides = [0, 1]>(x, w)"),
    ("float[1,3,8,N] x, float[3,2,3,3] w", "y = ConvTranspose<output_shape = [10, 10]>(x, w)"),
    (X, "y = MaxPool<kernel_shape = [2, 2]>(x)"),
    ("float[1,3,8,8] x", "y = MaxPool<kernel_shape = [2]>(x)"),
    ("float[1,3,8,8] x", "y = MaxPool<kernel_shape = [0, 2]>(x)"),
    ("float[2,3] x", "y = GlobalAveragePool(x)"),
    # Products.
    ("float x, float[3] z", "y = MatMul(x, z)"),
    ("float[2,3] x, float[4,5] z", "y = MatMul(x, z)"),
    ("float[2,3] x, double[3,5] z", "y = MatMul(x, z)"),
    ("float[7,2,3,4] x, float[5,4,6] z", "y = MatMul(x, z)"),
    ("float[2,3,4] x, float[4,5] z", "y = Gemm(x, z)"),
    ("float[2,3] x, float[4,5] z", "y = Gemm(x, z)"),
    ("float[2,3] x, float[3,5] z, float[4] c", "y = Gemm(x, z, c)"),
    ("float[2,3] x, float[3,5] z, float[2,1,5] c", "y = Gemm(x, z, c)"),
    ("float[2,3] x, double[3,5] z", "y = Gemm(x, z)"),
    ("float[2,3] x, float[3,5] z, double[5] c", "y = Gemm(x, z, c)"),
    ("float[1,3,8,8] x, double[4,3,3,3] w", "y = Conv(x, w)"),
    ("float[1,3,8,8] x, float[4,3,3,3] w, float16[4] b", "y = Conv(x, w, b)"),
    ("uint8[1,3,8,8] x, uint8[4,3,3,3] w", "y = Conv(x, w)"),
    ("float[1,3,8,8] x, double[3,2,3,3] w", "y = ConvTranspose(x, w)"),
    (
        "float[3,1,4] x, float[1,8,4] w, float[1,8,8] r, double[1,16] b",
        "y = RNN<hidden_size = 8>(x, w, r, b)",
    ),
    # Permutations.
    (X, "y = Transpose<perm = [0, -1]>(x)"),
    (X, "y = Transpose<perm = [0, 2]>(x)"),
    (X, "y = Transpose<perm = [1, 1]>(x)"),
    (X, "y = Transpose<perm = [1]>(x)"),
    (X, "z = Transpose(x) y = Transpose<perm = [-2, -1]>(z)"),
    (X, "z = Transpose<perm = [1, 9223372036854775807]>(x) y = Transpose(z)"),
    (X, "y = Einsum(x)"),
    (X, 'y = Einsum<equation = "">(x)'),
    (X, 'y = Einsum<equation = "ij,jk->ik">(x)'),
    (X, 'y = Einsum<equation = "ij->ik">(x)'),
    (X, 'y = Einsum<equation = "ij->ii">(x)'),
    (X, 'y = Einsum<equation = "i1->i">(x)'),
    (X, 'y = Einsum<equation = "i..->i">(x)'),
    (X, 'y = Einsum<equation = "ij->i->j">(x)'),
    (X, 'y = Einsum<equation = "...i...->i">(x)'),
    (X, 'y = Einsum<equation = "i...->i">(x)'),
    (X, 'y = Einsum<equation = "ijk->i">(x)'),
    (X, 'y = Einsum<equation = "...ijk->i">(x)'),
    (X, 'y = Einsum<equation = "ii->i">(x)'),
    ("float[2,3] x, float[4,5] z", 'y = Einsum<equation = "ij,jk->ik">(x, z)'),
    ("float[2,3,4] x, float[3,4,5] z", 'y = Einsum<equation = "...ij,...jk->...ik">(x, z)'),
    ("float[2,3] x, double[3,5] z", 'y = Einsum<equation = "ij,jk->ik">(x, z)'),
    ("bool[2,3] x", 'y = Einsum<equation = "ij->ji">(x)'),
    # Gather and scatter.
    ("float[4] x, float[2] i", "y = Gather(x, i)"),
    ("float[4] x", "y = Gather(x, i)", "int64[1] i = {9}"),
    ("float[4,4] x, int64[5,2] i", "y = GatherElements<axis = 1>(x, i)"),
    ("float[4,4] x, int64[2] i", "y = GatherElements(x, i)"),
    ("float[4] x, int64[2,N] i", "y = GatherND(x, i)"),
    ("float[4] x, int64[2,3] i", "y = GatherND(x, i)"),
    ("float[4] x, int64[2,3] i, float[2] u", "y = ScatterND(x, i, u)"),
    ("float[4] x, int64[2,1] i, float[3] u", "y = ScatterND(x, i, u)"),
    ("float[4] x, int64[2,1] i, int64[2] u", "y = ScatterND(x, i, u)"),
    ("float[4] x, int64[2] i, float[3] u", "y = ScatterElements(x, i, u)"),
    ("float[4] x, int64[2] i, float[2] u", 'y = ScatterElements<reduction = "mean">(x, i, u)'),
    ("int64[4] x, float[2] v", "y = OneHot(x, d, v)", "int64[2] d = {3, 4}"),
    ("int64[4] x, int64 d, float[2] v", "y = OneHot(x, d, v)"),
    ("float[4,4] x, int64[3] n", "y = ReverseSequence(x, n)"),
    ("float[4,4] x, int64[4] n", "y = ReverseSequence<time_axis = 1, batch_axis = 1>(x, n)"),
    ("float[4] x, int64[4] n", "y = ReverseSequence(x, n)"),
    # Movement.
    ("float x, float z", "y = Concat<axis = 0>(x, z)"),
    ("float[2] x, float[2,2] z", "y = Concat<axis = 0>(x, z)"),
    ("float[2] x, double[2] z", "y = Concat<axis = 0>(x, z)"),
    ("float[2,2] x, float[2,3] z", "y = Concat<axis = 0>(x, z)"),
    (X, "y = Concat<axis = 5>(x, x)"),
    ("float[N] x", "y, z = Split(x)", "", 13),
    ("float[6] x", "y, z = Split(x, s)", "int64[3] s = {1, 2, 3}"),
    ("float[6] x", "y, z = Split(x, s)", "int64[2] s = {1, 2}"),
    (X, "y = Slice(x, s, e)", "int64[1] s = {1}, int64[2] e = {2, 2}"),
    (X, "y = Slice(x, s, s, a)", "int64[1] s = {1}, int64[1] a = {7}"),
    (X, "y = Slice(x, s, s, a, t)", "int64[1] s = {1}, int64[1] a = {0}, int64[1] t = {0}"),
    ("float[2,3] x, int64[1] s", "y = Slice(x, s, s)"),
    (X, "y = Transpose<perm = [0, 0]>(x)"),
    (X, "y = Transpose<perm = [-1, 0]>(x)"),
    (X, "y = Transpose<perm = [1, 2]>(x)"),
    (X, "y = Transpose<perm = [0]>(x)"),
    (X, "y = Transpose<perm = [4611686018427387904, 0]>(x)"),
    (X, "a = Transpose<perm = [1, 0]>(x) y = Transpose<perm = [-1, 0]>(a)"),
    ("float[1,3] x", "a = Transpose<perm = [-1, 0]>(x) y = Reshape(a, s)", "int64[1] s = {3}"),
    (X, "y = Tile(x, r)", "int64[1] r = {2}"),
    (X, "y = Expand(x, s)", "int64[2] s = {5, 7}"),
    ("float[1,4,2,2] x", "y = DepthToSpace<blocksize = 0>(x)"),
    (X, "y = DepthToSpace<blocksize = 2>(x)"),
    ("float[1,6,2,2] x", "y = DepthToSpace<blocksize = 2>(x)"),
    ("float[1,4,2,2] x", 'y = DepthToSpace<blocksize = 2, mode = "CDR">(x)'),
    ("uint8[2] x, uint8[2] z", 'y = BitShift<direction = "UP">(x, z)'),
    ("float[2] x", 'y = Gelu<approximate = "sigmoid">(x)', "", 20),
    ("float[1,6,3,2] x", "y = SpaceToDepth<blocksize = 2>(x)"),
    (X, "y = SpaceToDepth<blocksize = 2>(x)"),
    (X, "y = Pad(x, p)", "int64[3] p = {1, 1, 1}"),
    (X, "y = Pad(x, p, , a)", "int64[2] p = {1, 1}, int64[1] a = {5}", 18),
    ("float[2,3] x, int64 v", "y = Pad(x, p, v)", "int64[4] p = {1, 1, 1, 1}"),
    (X, 'y = Pad<mode = "mirror">(x, p)', "int64[4] p = {1, 1, 1, 1}"),
    ("float[0,3] x", 'y = Pad<mode = "edge">(x, p)', "int64[4] p = {1, 1, 1, 1}"),
    (X, 'y = Pad<mode = "reflect">(x, p)', "int64[4] p = {2, 1, 1, 1}"),
    (X, "y = Pad(x, p)", "int64[4] p = {-3, 0, 0, 0}"),
    (X, "y = Reshape(x, s)", "int64[2] s = {4, 2}"),
    (X, "y = Reshape(x, s)", "int64[2] s = {4, -1}"),
    (X, "y = Reshape(x, s)", "int64[2] s = {-1, -1}"),
    (X, "y = Reshape(x, s)", "int64[3] s = {2, 3, 0}"),
    ("float[2,3] x", "y = Reshape<allowzero = 1>(x, s)", "int64[2] s = {0, -1}"),
    ("float[2,3] x, int64[2] s", "y = Reshape(x, s)"),
    (X, "y = Flatten<axis = 7>(x)"),
    (X, "y = Squeeze(x, a)", "int64[1] a = {0}"),
    (X, "y = Unsqueeze(x, a)", "int64[2] a = {0, 0}"),
    (X, "y = Unsqueeze(x, a)", "int64[15] a = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}"),
    # Normalisation.
    ("float[2] x, float[3] s", "y = BatchNormalization(x, s, s, s, s)"),
    ("float[2,3,4] x, float[4] s", "y = BatchNormalization(x, s, s, s, s)"),
    ("float[2,3,4] x, float[3] s", "y = BatchNormalization<spatial = 0>(x, s, s, s, s)", "", 8),
    ("float[2,3,4] x, float[5] s", "y = LayerNormalization(x, s)"),
    ("float[1,4] x, float[5,4] s", "y = LayerNormalization(x, s)"),
    ("float[2] x, float[2] s", "y = InstanceNormalization(x, s, s)"),
    ("float[2,3,4] x, float[4] s", "y = InstanceNormalization(x, s, s)"),
    ("float[2,3,4] x, float[3] s", "y = GroupNormalization<num_groups = 2>(x, s, s)", "", 18),
    ("float[2,4,4] x, float[3] s", "y = GroupNormalization<num_groups = 2>(x, s, s)", "", 18),
    ("float[2] x, float[2] s", "y = GroupNormalization<num_groups = 2>(x, s, s)", "", 18),
    ("float[2] x", "y = LRN<size = 3>(x)"),
    ("float[1,3,2,2] x", "y = LRN<size = 0>(x)"),
    # Types of products.
    ("float[2,3] x, double[3,2] w", "y = Gemm(x, w)"),
    ("float[2,3] x, float[3,2] w, double[2] b", "y = Gemm(x, w, b)"),
    ("uint8[2,3] x, uint8[3,2] w", "y = Gemm(x, w)"),
    ("uint8[2,3] x, uint8[3,2] w", "y = MatMul(x, w)"),
    ("float[1,1,3,3] x, uint8[1,1,2,2] w", "y = Conv(x, w)"),
    ("float[1,1,3,3] x, float[1,1,2,2] w, double[1] b", "y = Conv(x, w, b)"),
    ("uint32[1,1,3,3] x, uint32[1,1,2,2] w", "y = Conv(x, w)"),
    ("float[1,1,3,3] x, float16[1,1,2,2] w", "y = ConvTranspose(x, w)"),
    ("bool[1,1,3,3] x, bool[1,1,2,2] w", "y = ConvTranspose(x, w)"),
    (
        "float[5,1,3] x, float[1,6,3] w, float[1,6,2] r, double[1,1,2] h",
        "y = GRU<hidden_size = 2>(x, w, r, , , h)",
    ),
    # Recurrent.
    ("float[5,1,3] x, double[1,8,3] w, float[1,8,2] r", "y = LSTM<hidden_size = 2>(x, w, r)"),
    ("float[5,3] x, float[1,8,3] w, float[1,8,2] r", "y = LSTM<hidden_size = 2>(x, w, r)"),
    ("float[5,1,3] x, float[1,8,4] w, float[1,8,2] r", "y = LSTM<hidden_size = 2>(x, w, r)"),
    ("float[5,1,3] x, float[1,8,3] w, float[1,9,2] r", "y = LSTM<hidden_size = 2>(x, w, r)"),
    (
        "float[5,1,3] x, float[1,8,3] w, float[1,8,2] r, float[1,8] b",
        "y = LSTM<hidden_size = 2>(x, w, r, b)",
    ),
    (
        "float[5,1,3] x, float[1,8,3] w, float[1,8,2] r, float[1,1,3] h",
        "y = LSTM<hidden_size = 2>(x, w, r, , , h)",
    ),
    ("float[5,1,3] x, float[1,8,3] w, float[1,8,2] r", "y = LSTM<hidden_size = 3>(x, w, r)"),
    (
        "float[5,1,3] x, float[1,8,3] w, float[1,8,2] r",
        'y = LSTM<hidden_size = 2, activations = ["Tanh"]>(x, w, r)',
    ),
    (
        "float[5,1,3] x, float[1,8,3] w, float[1,8,2] r",
        'y = LSTM<hidden_size = 2, activations = ["Tanh", "Tanh", "Cubic"]>(x, w, r)',
    ),
    (
        "float[5,1,3] x, float[1,8,3] w, float[1,8,2] r",
        'y = LSTM<hidden_size = 2, direction = "sideways">(x, w, r)',
    ),
    (
        "float[5,1,3] x, float[1,8,3] w, float[1,8,2] r, int32[2] n",
        "y = LSTM<hidden_size = 2>(x, w, r, , n)",
    ),
    # Reductions.
    ("bool[2] x", "y = ReduceSum(x)"),
    (X, "y = ReduceMax<axes = [5]>(x)"),
    ("float[2,3] x, int64[1] a", "y = ReduceSum(x, a)"),
    (X, "y = CumSum(x, a)", "int64[2] a = {0, 1}"),
    (X, "y, z = TopK(x, k)", "int64[2] k = {1, 1}"),
    (X, "y, z = TopK(x, k)", "int64[1] k = {9}"),
    # Resampling.
    ("float[1,1,4,4] x, float[4] s", "y = Resize(x, , s)"),
    ("float[1,1,4,4] x", "y = Resize(x, , s)", "float[4] s = {1.0, 1.0, -2.0, 2.0}"),
    ("float[1,1,4,4] x", "y = Resize(x, , s)", "float[3] s = {1.0, 1.0, 2.0}"),
    ("float[1,1,4,4] x", "y = Resize(x, , , s)", "int64[3] s = {1, 1, 8}"),
    ("float[1,1,4,4] x, int64[4] s", "y = Resize(x, , , s)"),
    (
        "float[1,1,4,N] x",
        'y = Resize<keep_aspect_ratio_policy = "not_larger", axes = [2, 3]>(x, , , s)',
        "int64[2] s = {8, 8}",
        18,
    ),
    ("float[1,1,4,4] x", "y = Resize<axes = [9]>(x, , , s)", "int64[1] s = {8}", 18),
    ("float[1,1,0,4] x", "y = Resize(x, , , s)", "int64[4] s = {1, 1, 8, 8}"),
    ("float[1,1,4,4] x", "y = Resize(x, , , s)", "int64[4] s = {1, 1, 8, 20000000}"),
    (
        "float[1,1,4,4] x",
        'y = Resize<mode = "spline">(x, , s)',
        "float[4] s = {1.0, 1.0, 2.0, 2.0}",
    ),
    (
        "float[1,1,4,4] x",
        'y = Resize<coordinate_transformation_mode = "tf_crop_and_resize">(x, , s)',
        "float[4] s = {1.0, 1.0, 2.0, 2.0}",
    ),
    (
        "float[1,1,4,4] x",
        'y = Resize<coordinate_transformation_mode = "tf_crop_and_resize">(x, r, s)',
        "float[4] s = {1.0, 1.0, 2.0, 2.0}, float[2] r = {0.0, 1.0}",
    ),
    (
        "float[1,1,4,4] x",
        'y = Resize<coordinate_transformation_mode = "corners">(x, , s)',
        "float[4] s = {1.0, 1.0, 2.0, 2.0}",
    ),
    (
        "float[1,1,4,4] x",
        'y = Resize<nearest_mode = "even">(x, , s)',
        "float[4] s = {1.0, 1.0, 2.0, 2.0}",
    ),
    (
        "float[1,1,4,4] x",
        'y = Resize<keep_aspect_ratio_policy = "maybe">(x, , , s)',
        "int64[4] s = {1, 1, 8, 8}",
        18,
    ),
    (
        "float[1,1,N,N] x",
        's = Shape(x) t = Add(s, s) y = Resize<keep_aspect_ratio_policy = "not_larger">(x, , , t)',
        "",
        18,
    ),
    # Quantisation.
    ("float[2,3] x, float[3] s", "y = QuantizeLinear<axis = 0>(x, s)"),
    ("uint8[4,4] x, float[3,4] s", "y = DequantizeLinear<block_size = 2, axis = 0>(x, s)", "", 21),
    # Shapes as values.
    ("float[N] x", "s = Shape(x) y = Unsqueeze(x, s)"),
    ("int64 a", "y = Range(a, a, a)"),
    ("float a, double b", "y = Range(a, a, b)"),
    (X, "y = Range(a, b, c)", "int64 a = {0}, int64 b = {5}, int64 c = {0}"),
    (X, "y = Range(a, b, c)", "float a = {0.0}, float b = {1.0e30}, float c = {1.0}"),
    ("float[2] x", "y = EyeLike(x)"),
    ("float[2] x", "y = Trilu(x)"),
    (X, "y = ConstantOfShape(s)", "int64[2] s = {-2, 3}"),
    (X, "y = ConstantOfShape(s)", "int64[3] s = {1000000, 1000000, 1000000}"),
    # Old broadcasting.
    ("float[2,3] x, float[2] z", "y = Add<axis = 0, broadcast = 1>(x, z)", "", 7),
    ("float[1,2,3] x, double[1,1,3] u", "y = TensorScatter<axis = 1>(x, u)", "", 24),
    # What only the plan meets.
    ("float[2,3] x", "y = BitwiseNot(x)", "", 18),
    # What a row says of its attributes and of its operands' types.
    (X, "y = Softmax<axis = 2>(x)"),
    ("float x", "y = Softmax(x)"),
    (X, "y = LogSoftmax<axis = -3>(x)"),
    (X, "y = LpNormalization<p = 3>(x)"),
    ("float[2,3] x, double[3] s", "y = LayerNormalization(x, s)"),
    (X, "y = MeanVarianceNormalization<axes = [0, 2]>(x)"),
    (X, "y = Squeeze(x, a)", "int64[1] a = {4}"),
    (
        "float[2,1] x",
        "y = Squeeze(x, a)",
        "int64[20] a = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9}",
    ),
    (
        "float[3] x",
        "s = Shape(x) t = Concat<axis = 0>(s, s, s) y, z = Split(t, n)",
        "int64[2] n = {5, -2}",
    ),
    (X, "y, z = Split<num_outputs = 0>(x)", "", 18),
    ("float[3,4,5,6,7] x", "s = Shape(x) a, b, c, y = Split<num_outputs = 4>(s)", "", 18),
    (X, "y, z = TopK(x)", "", 7),
    ("float[2,3] x, float[3,5] w", "y = Add<broadcast = 1.5>(x, w)", "", 7),
    (X, "y = Slice(x, s, e)", "int64[3] s = {0, 0, 0}, int64[3] e = {1, 1, 1}"),
    ("int64[4] x, float[3] v", "y = OneHot(x, d, v)", "int64[1] d = {3}"),
    ("int64[4] x, float[2] v", "y = OneHot<axis = 3>(x, d, v)", "int64[1] d = {3}"),
    ("int64[4] x, float[2] v", "y = OneHot(x, d, v)", "int64[1] d = {-3}"),
    (X, "y, z = TopK(x, k)", "int64[1] k = {-1}"),
    ("bool[2,3] x", "y, z = TopK(x, k)", "int64[1] k = {1}"),
    ("bool[2,3] x", "y = ArgMax(x)"),
    ("bool[2,3] x", "y = CumSum(x, a)", "int64[1] a = {0}"),
    (X, "y = Tile(x, r)", "int64[2] r = {2, -1}"),
    ("int32[1,3,8,8] x", "y = AveragePool<kernel_shape = [2, 2]>(x)"),
    ("float[1,3,8,8] x", "y = LpPool<kernel_shape = [2, 2], p = 0>(x)"),
    ("float[1,3,8,8] x", "y = MaxPool<kernel_shape = [2, 2], pads = [0, 0, 0, 4294967296]>(x)"),
    ("float[1,3,8,8] x", "y = MaxPool<kernel_shape = [2, 2], dilations = [1, -1]>(x)"),
    ("float[1,3,8,8] x, float[4,3,3,3] w", "y = Conv<group = 4294967296>(x, w)"),
    ("float[1,3,8,8] x, float[4,3,0,3] w", "y = Conv(x, w)"),
    ("float[1,3,8,8] x, float[3,2,3,3] w", "y = ConvTranspose<output_padding = [0, -1]>(x, w)"),
    ("float[1,3,8,8] x, float[3,2,3,3] w", "y = ConvTranspose<output_shape = [10]>(x, w)"),
    ("float[1,3,8,8] x, float[3,2,3,3] w", "y = ConvTranspose<output_shape = [10, 0]>(x, w)"),
    (
        "float[1,3,8,8] x, float[3,2,3,3] w",
        "y = ConvTranspose<strides = [1152921504606846976, 1]>(x, w)",
    ),
    ("float[5,1,3] x, float[1,8,3] w, float[1,8,2] r", "y = LSTM<hidden_size = 0>(x, w, r)"),
    ("bool[2] x, bool[2] z", "y = Sum(x, z)"),
    ("int64[2] x, int64[2] z", "y = Mean(x, z)"),
    ("bool[2] x, float[2] z", "y = Pow(x, z)"),
    (
        "float[2] x, float[2] z",
        "y = Range(a, b, c)",
        "float a = {0.0}, float b = {5.0}, float[2] c = {1.0, 2.0}",
    ),
    (X, "y = Trilu(x, k)", "int64[2] k = {1, 2}"),
    ("float[2,3] x, float s", "y = DequantizeLinear(x, s)"),
    ("int32[1,1,3,3] x, int8[1,1,2,2] w", "y = ConvInteger(x, w)"),
    ("int8[2,3] x, int8[3,2] w, uint8 z", "y = MatMulInteger(x, w, z)"),
    ("double[2,3] x", "y, s, z = DynamicQuantizeLinear(x)"),
    (
        "float[2] x, int64 n, bool[2] c",
        "y = Loop<body = b (int64 i, bool go, float[2] s) => (bool on, float[2] u) { on = Identity(go) u = Neg(s) }>(n, c, x)",
    ),
    (
        "float[2] x, int64 n, bool c",
        "y = Loop<body = b (int64 i, bool go, float[2] s) => (bool on, double[2] u) { on = Identity(go) u = Cast<to = 11>(s) }>(n, c, x)",
    ),
    (
        "float[2] x, float c",
        "y = If<then_branch = t () => (float[2] a) { a = Neg(x) }, "
        "else_branch = e () => (float[2] b) { b = Abs(x) }>(c)",
    ),
    (
        "float[2] x, bool[2] c",
        "y = If<then_branch = t () => (float[2] a) { a = Neg(x) }, "
        "else_branch = e () => (float[2] b) { b = Abs(x) }>(c)",
    ),
    (
        "float[2] x, int64 n, bool c",
        "y, z, w = Loop<body = b (int64 i, bool go, float[2] s) => (bool on, float[2] u) { on = Identity(go) u = Neg(s) }>(n, c, x)",
    ),
    ("float[N] x", "y, z = TopK(x, k)", "int64[1] k = {3000000000}"),
    ("float[2] x", "y = Range<range = [1, 2]>()"),
    ("float[2] x", 'y = Range<numbers = [1.0], dtype = "f32">()'),
    # Sizes that no arithmetic has room for.
    ("float[1099511627776] x, float[1099511627776,1] z", "y = Add(x, z)"),
    ("float[1,1,1099511627776] x, float[1099511627776,1,1] w", "y = Conv(x, w)"),
]


def without_opset(signature, body, other_domain):
    model = onnx.load_model_from_string(text_model(signature, body))
    del model.opset_import[:]
    if other_domain:
        model.opset_import.add(domain="com.microsoft", version=1)
    return model.SerializeToString()


def endless():
    """A function that calls itself."""
    model = onnx.load_model_from_string(text_model("float[2] x", "y = Relu(x)"))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    call = helper.make_node("again", ["x"], ["y"], domain="own")
    model.functions.append(helper.make_function("own", "again", ["x"], ["y"], [call], opsets))
    model.graph.node[0].CopyFrom(call)
    return model.SerializeToString()


def with_tensor(**fields):
    """x + w, where w is a tensor of these fields."""
    model = onnx.load_model_from_string(text_model("float[2] x", "y = Add(x, w)"))
    tensor = model.graph.initializer.add(name="w")
    for name, value in fields.items():
        if name == "external":
            tensor.data_location = TensorProto.EXTERNAL
            for key, text in value.items():
                tensor.external_data.add(key=key, value=text)
        elif isinstance(value, list):
            getattr(tensor, name).extend(value)
        else:
            setattr(tensor, name, value)
    return model.SerializeToString()


EXTERNAL = {"location": "w.bin", "offset": "0", "length": "8"}
FILES = {
    "empty": b"",
    "garbage": b"no model" * 9,
    "cut": text_model(X, "y = Relu(x)")[:40],
    "no graph": helper.make_model(helper.make_graph([], "g", [], []))
    .SerializeToString()
    .replace(b"\x3a\x03\x12\x01g", b""),
    "no opset": without_opset(X, "y = Relu(x)", False),
    "no opset of the default domain": without_opset(
        "float[2,3] x, float[2] z", "y = Add<axis = 2, broadcast = 1>(x, z)", True
    ),
    "endless": endless(),
    "negative size": with_tensor(data_type=1, dims=[-2]),
    "many elements": with_tensor(data_type=1, dims=[1 << 30, 1 << 30]),
    "rank 17": with_tensor(data_type=1, dims=[1] * 17),
    "raw data too short": with_tensor(data_type=1, dims=[2], raw_data=b"1234"),
    "numbers missing": with_tensor(data_type=1, dims=[2], float_data=[1.0]),
    "string tensor": with_tensor(data_type=8, dims=[1], string_data=[b"a"]),
    "no size": with_tensor(data_type=1, dims=[2], external={**EXTERNAL, "length": "eight"}),
    "other length": with_tensor(data_type=1, dims=[2], external={**EXTERNAL, "length": "12"}),
    "given as bytes": with_tensor(data_type=1, dims=[2], external=EXTERNAL),
}
EXTERNAL_FILES = {
    "absolute": "/etc/passwd",
    "outside": "../secret.bin",
    "link": "link.bin",
    "missing": "missing.bin",
    "hard link": "hard.bin",
    "folder": "inside",
    "too short": "short.bin",
    "no name": "",
}
