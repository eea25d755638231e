"""ONNX files in the form that ONNX Runtime GenAI's model builder gives to a language model (its
version 0.18, for processors), in each of its formats of weights, and what they compute in
float64."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, HIDDEN, VOCABULARY, CONTEXT = 2, 64, 96, 41, 64
HEADS, KEY_HEADS, SIZE, BLOCK = 4, 2, 16, 32
EPSILON = 1e-6
MS = "com.microsoft"


# --- weights of 4 bits --------------------------------------------------------------------------


def quantised(matrix, with_zeros):
    """(digits 0 to 15 [N, blocks, BLOCK], scales [N, blocks], zeros [N, blocks]) of [N, K].
    Without zero points, which then are 8, the largest number of a block becomes the digit 0: scales
    have its opposite sign, as the kernels of ONNX Runtime's quantiser have it."""
    blocks = matrix.reshape(len(matrix), -1, BLOCK)
    if with_zeros:
        low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
        scales = (high - low) / 15
        zeros = np.clip(np.round(-low / scales), 0, 15)
    else:
        largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)[..., 0]
        scales, zeros = largest / -8, np.full(largest.shape, 8.0)
        assert (scales < 0).any() and (scales > 0).any()
    digits = np.clip(np.round(blocks / scales[..., None]) + zeros[..., None], 0, 15)
    return digits.astype(np.uint8), scales.astype(np.float32), zeros.astype(np.uint8)


def packed(digits):
    """Two digits in a byte, the first in the lower half; a last one alone is padded by 0."""
    if digits.shape[-1] % 2:
        digits = np.concatenate([digits, np.zeros_like(digits[..., :1])], -1)
    return digits[..., 0::2] | digits[..., 1::2] << 4


def numbers(digits, scales, zeros):
    """The matrix [N, K] that these stand for, in float64."""
    found = (digits.astype(np.float64) - zeros[..., None]) * scales.astype(np.float64)[..., None]
    return found.reshape(len(digits), -1)


# --- the graph ----------------------------------------------------------------------------------

# name: (how weights are stored, zero points, the embedding is that of the last layer, the way of
# queries and keys: "packed" in one product, which GroupQueryAttention takes apart and turns, or
# "separate" with nodes that turn them, "norms" with a norm of each head too)
FORMS = {
    "fp32": ("float", False, False, "packed"),
    "fp32, separate": ("float", False, False, "separate"),
    "int4": ("nbits", False, False, "packed"),
    "int4 with zero points": ("nbits", True, False, "packed"),
    "int4, flat scales": ("flat", True, False, "separate"),
    "int4, norms of heads": ("nbits", False, False, "norms"),
    "int4, tied": ("nbits", False, True, "packed"),
    "int4 with zero points, tied": ("nbits", True, True, "packed"),
    "QDQ": ("qdq", False, False, "packed"),
    "QDQ with zero points": ("qdq", True, False, "packed"),
    "QDQ, transposed": ("transposed", False, False, "separate"),
    "QDQ with zero points, transposed": ("transposed", True, False, "packed"),
}


class Maker:
    """The graph of a form while it is being made. `weights` has the matrices [N, K] and vectors
    that the file stands for, in float64."""

    def __init__(self, form, seed=5):
        self.kind, self.with_zeros, self.tied, self.heads = FORMS[form]
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants, self.weights = [], {}, {}
        self.run()

    def constant(self, name, value, dtype=None):
        """Adds a tensor; `dtype` is that of 4-bit ones, whose digits are given."""
        if dtype is None:
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        else:
            data = packed((value & 15).reshape(-1).astype(np.uint8)).tobytes()
            self.constants[name] = helper.make_tensor(name, dtype, value.shape, data, raw=True)
        return name

    def node(self, op, inputs, output, domain="", outputs=(), **attributes):
        node = helper.make_node(
            op, inputs, [output, *outputs], name=output, domain=domain, **attributes
        )
        self.nodes.append(node)
        return output

    def vector(self, name, size):
        value = (self.random.standard_normal(size) * 0.2 + 1).astype(np.float32)
        self.weights[name] = value.astype(np.float64)
        return self.constant(name, value)

    def planes(self, name, rows, columns):
        """The parts of a packed matrix [rows, columns]."""
        matrix = self.random.standard_normal((rows, columns)) * 0.3
        parts = quantised(matrix, self.with_zeros)
        self.weights[name] = numbers(*parts)
        return parts

    def linear(self, x, name, rows, columns, output=None):
        """A product by a matrix, in the form's way."""
        output = output or f"/{name}/output_0"
        if self.kind == "float":
            matrix = (self.random.standard_normal((rows, columns)) * 0.3).astype(np.float32)
            self.weights[name] = matrix.astype(np.float64)
            return self.node("MatMul", [x, self.constant(f"{name}.weight", matrix.T)], output)
        digits, scales, zeros = self.planes(name, rows, columns)
        if self.kind in ("nbits", "flat"):
            shape = (lambda array: array.reshape(-1)) if self.kind == "flat" else np.asarray
            inputs = [
                x,
                self.constant(f"{name}.weight_Q4", packed(digits)),
                self.constant(f"{name}.weight_scales", shape(scales)),
            ]
            if self.with_zeros:
                points = shape(packed(zeros))
                inputs.append(self.constant(f"{name}.weight_zero_points", points))
            sizes = {"K": columns, "N": rows, "bits": 4, "block_size": BLOCK}
            return self.node("MatMulNBits", inputs, output, MS, **sizes, accuracy_level=4)
        # DequantizeLinear of [K, N], or of [N, K] with a Transpose behind it.
        along = 0 if self.kind == "qdq" else 1
        digits, scales, zeros = (
            array.transpose(*range(1, array.ndim), 0) if along == 0 else array
            for array in (digits, scales, zeros)
        )
        digits = digits.reshape((columns, rows) if along == 0 else (rows, columns))
        dtype = TensorProto.UINT4 if self.with_zeros else TensorProto.INT4
        moved = 0 if self.with_zeros else 8  # signed digits have no zero point
        inputs = [
            self.constant(f"{name}.weight_DQ_Q4", digits.astype(np.int16) - moved, dtype),
            self.constant(f"{name}.weight_DQ_scales", scales),
        ]
        if self.with_zeros:
            points = zeros.astype(np.int16)
            inputs.append(self.constant(f"{name}.weight_DQ_zero_points", points, dtype))
        weight = self.node(
            "DequantizeLinear", inputs, f"/{name}/DQ", axis=along - 2 * along, block_size=BLOCK
        )
        if along:
            weight = self.node("Transpose", [weight], f"/{name}/Transpose", perm=[1, 0])
        return self.node("MatMul", [x, weight], output)

    # --- parts of the network -------------------------------------------------------------------

    def lengths(self):
        """What GroupQueryAttention is told of the attention mask."""
        one = self.constant("/model/constants/INT64/1", np.array(1, np.int64))
        ones = self.constant("/model/constants/INT64/[1]", np.array([1], np.int64))
        total = self.node("ReduceSum", ["attention_mask", ones], "/mask/ReduceSum", keepdims=0)
        total = self.node("Sub", [total, ones], "/mask/Sub")
        seen = self.node("Cast", [total], "/mask/Sub/Cast", to=TensorProto.INT32)
        shape = self.node("Shape", ["attention_mask"], "/mask/Shape")
        length = self.node("Gather", [shape, one], "/mask/Gather", axis=0)
        return seen, self.node("Cast", [length], "/mask/Gather/Cast", to=TensorProto.INT32)

    def embedding(self):
        if not self.tied:
            table = self.random.standard_normal((VOCABULARY, WIDTH)).astype(np.float32)
            self.weights["embed"] = table.astype(np.float64)
            table = self.constant("model.embed_tokens.weight", table)
            return self.node("Gather", [table, "input_ids"], "/model/embed_tokens/Gather")
        # The matrix of the last layer, which is made behind it.
        sizes = np.array([VOCABULARY, WIDTH // 2], np.int64)
        sizes = self.constant("/model/constants/sizes", sizes)
        rows = self.node("Reshape", ["lm_head.weight_Q4", sizes], "/model/embed_tokens/Reshape")
        inputs = [rows, "input_ids", "lm_head.weight_scales"]
        inputs += ["lm_head.weight_zero_points"] if self.with_zeros else []
        kinds = {"bits": 4, "block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1}
        return self.node("GatherBlockQuantized", inputs, "/model/embed_tokens", MS, **kinds)

    def head_norm(self, x, name, heads):
        shapes = [
            self.constant(f"{name}.{key}", np.array(shape, np.int64))
            for key, shape in (("by_head", [0, -1, SIZE]), ("back", [0, -1, heads * SIZE]))
        ]
        x = self.node("Reshape", [x, shapes[0]], f"/{name}/Reshape_1")
        inputs = [x, self.vector(name, SIZE)]
        options = {"epsilon": EPSILON, "axis": -1, "stash_type": 1}
        x = self.node("SimplifiedLayerNormalization", inputs, f"/{name}/Norm", **options)
        return self.node("Reshape", [x, shapes[1]], f"/{name}/Reshape_2")

    def attention(self, layer, x, seen, total):
        at = f"model.layers.{layer}.attn"
        sizes = [HEADS * SIZE, KEY_HEADS * SIZE, KEY_HEADS * SIZE]
        own = self.heads != "packed"
        if own:
            qkv = [
                self.linear(x, f"{at}.{each}_proj.MatMul", size, WIDTH)
                for each, size in zip("qkv", sizes)
            ]
            for place, (each, heads) in enumerate((("q", HEADS), ("k", KEY_HEADS))):
                if self.heads == "norms":
                    qkv[place] = self.head_norm(qkv[place], f"{at}.{each}_norm", heads)
                qkv[place] = self.node(
                    "RotaryEmbedding",
                    [qkv[place], "position_ids", "cos_cache", "sin_cache"],
                    f"/{at}/{each}_rotary/RotaryEmbedding/output_0",
                    MS,
                    interleaved=0,
                    num_heads=0,
                    rotary_embedding_dim=0,
                )
        else:
            qkv = [self.linear(x, f"{at}.qkv_proj.MatMul", sum(sizes), WIDTH), "", ""]
        past = [f"past_key_values.{layer}.{what}" for what in ("key", "value")]
        turning = ["", ""] if own else ["cos_cache", "sin_cache"]
        y = self.node(
            "GroupQueryAttention",
            [*qkv, *past, seen, total, *turning, "", "", ""],
            f"/{at}/GroupQueryAttention/output_0",
            MS,
            [f"present.{layer}.{what}" for what in ("key", "value")],
            num_heads=HEADS,
            kv_num_heads=KEY_HEADS,
            scale=SIZE**-0.5,
            local_window_size=-1,
            softcap=0.0,
            do_rotary=int(not own),
            rotary_interleaved=0,
        )
        return self.linear(y, f"{at}.o_proj.MatMul", WIDTH, HEADS * SIZE)

    def gated(self, layer, x):
        at = f"model.layers.{layer}.mlp"
        gate = self.linear(x, f"{at}.gate_proj.MatMul", HIDDEN, WIDTH)
        up = self.linear(x, f"{at}.up_proj.MatMul", HIDDEN, WIDTH)
        turned = self.node("Sigmoid", [gate], f"/{at}/act_fn/Sigmoid")
        turned = self.node("Mul", [gate, turned], f"/{at}/act_fn/Mul")
        both = self.node("Mul", [turned, up], f"/{at}/Mul")
        return self.linear(both, f"{at}.down_proj.MatMul", WIDTH, HIDDEN)

    def run(self):
        seen, total = self.lengths()
        turns = 10000.0 ** -(np.arange(0, SIZE, 2) / SIZE) * np.arange(CONTEXT)[:, None]
        self.constant("cos_cache", np.cos(turns).astype(np.float32))
        self.constant("sin_cache", np.sin(turns).astype(np.float32))
        x = self.embedding()
        options = {"epsilon": EPSILON}
        first = [x, self.vector("model.layers.0.input_layernorm", WIDTH)]
        y = self.node(
            "SimplifiedLayerNormalization", first, "/first", **options, axis=-1, stash_type=1
        )
        for layer in range(LAYERS):
            at = f"model.layers.{layer}"
            y = self.attention(layer, y, seen, total)
            for part, following in (
                ("post_attention", True),
                (f"{layer + 1}.input", layer + 1 < LAYERS),
            ):
                name = f"{at}.{part}_layernorm"
                sums = ["", "", f"/{name}/output_3"] if following else []
                inputs = [x, y, self.vector(name, WIDTH)]
                op = "SkipSimplifiedLayerNormalization"
                y = self.node(op, inputs, f"/{name}/output_0", MS, sums, **options)
                x = f"/{name}/output_3"
                if part == "post_attention":
                    y = self.gated(layer, y)
        self.linear(y, "lm_head", VOCABULARY, WIDTH, "logits")

    def model(self):
        def port(name, dtype, sizes):
            return helper.make_tensor_value_info(name, dtype, sizes)

        def caches(stem, length):
            shape = ["batch_size", KEY_HEADS, length, "kv_cache_dim"]
            return [
                port(f"{stem}.{layer}.{what}", TensorProto.FLOAT, shape)
                for layer in range(LAYERS)
                for what in ("key", "value")
            ]

        whole = TensorProto.INT64
        inputs = [
            port("input_ids", whole, ["batch_size", "sequence_length"]),
            port("attention_mask", whole, ["batch_size", "total_sequence_length"]),
        ]
        if self.heads != "packed":
            inputs.append(port("position_ids", whole, ["batch_size", "sequence_length"]))
        shape = ["batch_size", "sequence_length", VOCABULARY]
        outputs = [port("logits", TensorProto.FLOAT, shape)]
        graph = helper.make_graph(
            self.nodes,
            "main_graph",
            inputs + caches("past_key_values", "past_sequence_length"),
            outputs + caches("present", "total_sequence_length"),
            list(self.constants.values()),
        )
        opsets = [helper.make_opsetid("", 22), helper.make_opsetid(MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def write(self, path):
        """Writes the file, and the constants beside it in one of their own, as the builder does."""
        onnx.save(
            self.model(),
            path,
            save_as_external_data=True,
            location=f"{path.name}.data",
            size_threshold=64,  # shapes stay in the file
        )
        return path


# --- the numbers --------------------------------------------------------------------------------


def normalised(x, weight):
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + EPSILON) * weight


def turned(x, first):
    """Heads [batch, heads, positions, SIZE] after their rotation; the first position is `first`."""
    turns = 10000.0 ** -(np.arange(0, SIZE, 2) / SIZE)
    angles = (first + np.arange(x.shape[2]))[:, None] * turns
    left, right = np.split(x, 2, -1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([left * cos - right * sin, left * sin + right * cos], -1)


def expected(maker, ids, past):
    """{name of an output: array in float64} for tokens [batch, new] and caches [layer][key, value]
    of those before them."""
    weights, found = maker.weights, {}
    batch, new = ids.shape
    before = past[0][0].shape[2]
    x = weights["lm_head" if maker.tied else "embed"][ids]
    norm = "model.layers.0.input_layernorm"
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        y = normalised(x, weights[norm])
        if maker.heads == "packed":
            qkv = y @ weights[f"{at}.attn.qkv_proj.MatMul"].T
            qkv = np.split(qkv, [HEADS * SIZE, (HEADS + KEY_HEADS) * SIZE], -1)
        else:
            qkv = [y @ weights[f"{at}.attn.{each}_proj.MatMul"].T for each in "qkv"]
        q, k, v = (each.reshape(batch, new, -1, SIZE).swapaxes(1, 2) for each in qkv)
        if maker.heads == "norms":
            q = normalised(q, weights[f"{at}.attn.q_norm"])
            k = normalised(k, weights[f"{at}.attn.k_norm"])
        q, k = turned(q, before), turned(k, before)
        k, v = (np.concatenate([old, each], 2) for old, each in zip(past[layer], (k, v)))
        found[f"present.{layer}.key"], found[f"present.{layer}.value"] = k, v
        k, v = (np.repeat(each, HEADS // KEY_HEADS, 1) for each in (k, v))
        scores = q @ k.swapaxes(2, 3) / np.sqrt(SIZE)
        hidden = np.arange(before + new) > before + np.arange(new)[:, None]
        scores = np.exp(np.where(hidden, -np.inf, scores - scores.max(-1, keepdims=True)))
        y = (scores / scores.sum(-1, keepdims=True)) @ v
        y = y.swapaxes(1, 2).reshape(batch, new, HEADS * SIZE)
        x = x + y @ weights[f"{at}.attn.o_proj.MatMul"].T
        y = normalised(x, weights[f"{at}.post_attention_layernorm"])
        gate = y @ weights[f"{at}.mlp.gate_proj.MatMul"].T
        up = y @ weights[f"{at}.mlp.up_proj.MatMul"].T
        both = gate / (1 + np.exp(-gate)) * up
        x = x + both @ weights[f"{at}.mlp.down_proj.MatMul"].T
        norm = f"{at}.{layer + 1}.input_layernorm"
    found["logits"] = normalised(x, weights[norm]) @ weights["lm_head"].T
    return found
