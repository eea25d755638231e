"""Makes the graph of a language model from a row of the table of architectures, a file's parameters
and its weights."""

import dataclasses

import numpy as np

from ..errors import UnsupportedError
from .graph import Graph
from .parameters import parameters_of
from .rotary import frequencies
from .weights import Weights, order_of_halves

_MAX_SHOWN = 5
_TOKENS = "token_embd.weight"


def describe(file, last_only=False):
    """The Graph of a file. Its inputs are `input_ids`, `length` (the number of earlier tokens) and
    the caches of keys and values; its outputs are the logits and the caches with the new keys and
    values. With `last_only` there are only the logits of the last token."""
    network = _Network(file, parameters_of(file))
    network.run(last_only)
    unused = network.weights.unused()
    if unused:
        shown = ", ".join(f"'{name}'" for name in unused[:_MAX_SHOWN])
        shown += ", …" if len(unused) > _MAX_SHOWN else ""
        raise UnsupportedError(
            f"{file.name} has {len(unused)} tensors of which the architecture "
            f"'{network.row.name}' knows nothing: {shown}; "
            "it is a variant that is not supported"
        )
    return network.graph


@dataclasses.dataclass
class _Angles:
    """The rotation of heads in some layers: names of cosines and sines, [batch, positions,
    pairs]."""

    cos: str
    sin: str


class _Network:
    def __init__(self, file, parameters):
        self.file, self.parameters, self.row = file, parameters, parameters.row
        self.graph = Graph(file.name.removesuffix(".gguf"))
        self.weights = Weights(file, self.graph)
        # The number of positions of each sequence before a run and after it: [batch].
        self.begin = self.end = None

    def run(self, last_only):
        graph, parameters = self.graph, self.parameters
        graph.model.range("capacity", 1, parameters.context)
        graph.model.range("seq", 1, parameters.context)
        ids = graph.input("input_ids", "i64", ["batch", "seq"])
        length = graph.input("length", "i64", ["batch"])
        caches = [
            [
                graph.input(
                    f"past_key_values.{layer}.{what}",
                    "f32",
                    ["batch", parameters.key_heads, "capacity", size],
                )
                for what, size in (("key", parameters.key_size), ("value", parameters.value_size))
            ]
            for layer in range(parameters.layers)
        ]
        vocabulary = self.vocabulary()
        graph.where = "embedding"
        x = self.weights.rows(_TOKENS, (vocabulary, parameters.width), ids)
        if self.row.scaled_embedding:
            x = graph.node("Mul", [x, graph.number(np.sqrt(parameters.width))])
        full, windowed = self.angles(ids, length)
        for layer in range(parameters.layers):
            graph.where = f"blk.{layer}"
            with_window = parameters.window > 0 and self.row.has_window(layer)
            x = self.block(layer, x, caches[layer], windowed if with_window else full, with_window)
        graph.where = "output"
        if last_only:
            x = graph.node("Gather", [x, graph.ints(-1)], axis=1)
        x = self.norm(x, "output_norm.weight", parameters.width)
        # Where the file has no separate matrix for the last layer, it is that of the embedding.
        name = "output.weight" if self.weights.has("output.weight") else _TOKENS
        logits = self.weights.product(x, name, (vocabulary, parameters.width))
        if parameters.logit_cap:
            cap = graph.number(parameters.logit_cap)
            logits = graph.node("Tanh", [graph.node("Div", [logits, cap])])
            logits = graph.node("Mul", [logits, cap])
        graph.where = ""
        graph.node("Identity", [logits], names=[graph.fresh("logits")])
        graph.output("logits", "f32")
        for layer in range(parameters.layers):
            for what in ("key", "value"):
                graph.output(f"present.{layer}.{what}", "f32")

    def vocabulary(self):
        """The number of tokens."""
        found = self.file.tensors.get(_TOKENS)
        # A missing tensor is reported where it is read.
        return found.shape[0] if found is not None else 0

    # --- positions -------------------------------------------------------------------------------

    def angles(self, ids, length):
        """The angles for layers that see all keys, and for those with a window."""
        graph = self.graph
        graph.where = "positions"
        count = graph.node("Shape", [ids], start=1, end=2)
        zero, one = (graph.constant(np.array(each, np.int64)) for each in (0, 1))
        new = graph.node("Range", [zero, graph.node("Squeeze", [count, graph.ints(0)]), one])
        # [batch, positions]
        positions = graph.node("Add", [graph.node("Unsqueeze", [length, graph.ints(1)]), new])
        positions = graph.node("Cast", [positions], to=1)
        positions = graph.node("Unsqueeze", [positions, graph.ints(2)])
        self.begin, self.end = length, graph.node("Add", [length, count])
        full = self._turned(self.parameters.rotary, positions)
        if self.parameters.window_rotary == self.parameters.rotary:
            return full, full
        return full, self._turned(self.parameters.window_rotary, positions)

    def _turned(self, rotary, positions):
        graph = self.graph
        turns, factor = frequencies(rotary)
        by_pair = self._by_pair(rotary, turns)
        angles = graph.node("Mul", [positions, by_pair])  # [batch, positions, pairs]
        both = [graph.node(op, [angles]) for op in ("Cos", "Sin")]
        if factor != 1:
            both = [graph.node("Mul", [each, graph.number(factor)]) for each in both]
        return _Angles(*both)

    def _by_pair(self, rotary, turns):
        """Radians per position for each pair, divided by the pairs' factors where a file has them:
        [pairs], or [batch, 1, pairs]."""
        weights, pairs = self.weights, len(turns)
        if weights.has("rope_factors_long.weight") and rotary is self.parameters.rotary:
            short, long = (
                turns / weights.numbers(f"rope_factors_{name}.weight", pairs)
                for name in ("short", "long")
            )
            # The whole length chooses the factors: those for short contexts apply up to the
            # original context of the training.
            is_long = self.graph.node(
                "Greater", [self.end, self.graph.ints(rotary.original_context)]
            )
            is_long = self.graph.node("Unsqueeze", [is_long, self.graph.ints(1, 2)])
            return self.graph.node(
                "Where",
                [
                    is_long,
                    *(self.graph.constant(each.astype(np.float32)) for each in (long, short)),
                ],
            )
        if weights.has("rope_freqs.weight") and rotary is self.parameters.rotary:
            turns = turns / weights.numbers("rope_freqs.weight", pairs)
        return self.graph.constant(turns.astype(np.float32))

    def turned(self, x, heads, angles):
        """Heads [batch, positions, heads * size] after their rotation."""
        size = self.parameters.rotary.size
        return self.graph.node(
            "RotaryEmbedding",
            [x, angles.cos, angles.sin],
            num_heads=heads,
            rotary_embedding_dim=0 if size == self.parameters.key_size else size,
        )

    # --- one block -------------------------------------------------------------------------------

    def norm(self, x, name, length):
        return self.graph.node(
            "RMSNormalization",
            [x, self.weights.vector(name, length)],
            axis=-1,
            epsilon=self.parameters.epsilon,
        )

    def linear(self, x, name, rows, columns, order=None):
        """A projection, with its bias where it has one."""
        result = self.weights.product(x, f"{name}.weight", (rows, columns), order)
        if self.weights.has(f"{name}.bias") or name.rpartition(".")[2] in self.row.biases:
            result = self.graph.node(
                "Add", [result, self.weights.vector(f"{name}.bias", rows, order)]
            )
        return result

    def block(self, layer, x, caches, angles, with_window):
        graph, parameters, blk = self.graph, self.parameters, f"blk.{layer}"
        y = self.norm(x, f"{blk}.attn_norm.weight", parameters.width)
        y = self.attention(layer, y, caches, angles, with_window)
        if self.row.post_norms:
            y = self.norm(y, f"{blk}.post_attention_norm.weight", parameters.width)
        x = graph.node("Add", [x, y])
        y = self.norm(x, f"{blk}.ffn_norm.weight", parameters.width)
        if parameters.experts:
            y = self.of_experts(blk, y, parameters.experts)
        else:
            y = self.gated(blk, y)
        if self.row.post_norms:
            y = self.norm(y, f"{blk}.post_ffw_norm.weight", parameters.width)
        return graph.node("Add", [x, y])

    def heads(self, blk, x):
        """Queries, keys and values, [batch, positions, heads * size] each."""
        parameters, width = self.parameters, self.parameters.width
        sizes = [
            parameters.heads * parameters.key_size,
            parameters.key_heads * parameters.key_size,
            parameters.key_heads * parameters.value_size,
        ]
        if self.row.fused_heads:
            fused = self.linear(x, f"{blk}.attn_qkv", sum(sizes), width)
            return self.graph.node("Split", [fused, self.graph.ints(*sizes)], 3, axis=-1)
        orders = [None] * 3
        if self.row.rotary == "neighbours":
            # Rotation is faster if the pairs are the two halves of a head. Scores do not change if
            # keys are reordered in the same way as queries.
            orders = [
                order_of_halves(count, parameters.key_size, parameters.rotary.size)
                for count in (parameters.heads, parameters.key_heads)
            ]
            orders.append(None)
        return [
            self.linear(x, f"{blk}.attn_{name}", rows, width, order)
            for name, rows, order in zip("qkv", sizes, orders)
        ]

    def head_norm(self, x, name, heads):
        """Applies the norm to each head of [batch, positions, heads * size]."""
        size = self.parameters.key_size
        x = self.graph.node("Reshape", [x, self.graph.ints(0, 0, heads, size)])
        return self.graph.node(
            "Reshape", [self.norm(x, name, size), self.graph.ints(0, 0, heads * size)]
        )

    def attention(self, layer, x, caches, angles, with_window):
        graph, parameters, blk = self.graph, self.parameters, f"blk.{layer}"
        q, k, v = self.heads(blk, x)
        if self.row.head_norms:
            q = self.head_norm(q, f"{blk}.attn_q_norm.weight", parameters.heads)
            k = self.head_norm(k, f"{blk}.attn_k_norm.weight", parameters.key_heads)
        if self.row.turns(layer):
            q = self.turned(q, parameters.heads, angles)
            k = self.turned(k, parameters.key_heads, angles)
        attributes = {"is_causal": 1, "scale": parameters.scale}
        if parameters.score_cap:
            attributes["softcap"] = parameters.score_cap
        if with_window:
            # ONNX does not count the query's own position as part of the window.
            attributes["left_window_size"] = parameters.window - 1
        q = self.by_head(q, parameters.heads, parameters.key_size)
        # The new keys and values are written into the caches after the earlier ones, and attention
        # reads the caches.
        new = (
            self.by_head(k, parameters.key_heads, parameters.key_size),
            self.by_head(v, parameters.key_heads, parameters.value_size),
        )
        k, v = (
            graph.node(
                "TensorScatter",
                [cache, each, self.begin],
                names=[graph.fresh(f"present.{layer}.{what}")],
                axis=2,
            )
            for cache, each, what in zip(caches, new, ("key", "value"))
        )
        y = graph.node(
            "Attention",
            [q, k, v, None, None, None, self.end],
            names=[graph.fresh(f"{blk}.attention")],
            **attributes,
        )
        y = graph.node(
            "Reshape",
            [
                graph.node("Transpose", [y], perm=[0, 2, 1, 3]),
                graph.ints(0, 0, parameters.heads * parameters.value_size),
            ],
        )
        return self.linear(
            y, f"{blk}.attn_output", parameters.width, parameters.heads * parameters.value_size
        )

    def by_head(self, x, heads, size):
        """[batch, positions, heads * size] as [batch, heads, positions, size]."""
        x = self.graph.node("Reshape", [x, self.graph.ints(0, 0, heads, size)])
        return self.graph.node("Transpose", [x], perm=[0, 2, 1, 3])

    def gated(self, blk, x, suffix="", hidden=None):
        """The gated network, whose tensors' names have the suffix."""
        parameters = self.parameters
        width, hidden = parameters.width, hidden or parameters.hidden
        if self.row.fused_gate:
            both = self.linear(x, f"{blk}.ffn_up", 2 * hidden, width)
            gate, up = self.graph.node("Split", [both, self.graph.ints(hidden, hidden)], 2, axis=-1)
        else:
            gate, up = (
                self.linear(x, f"{blk}.ffn_{name}{suffix}", hidden, width)
                for name in ("gate", "up")
            )
        return self.linear(self.activated(gate, up), f"{blk}.ffn_down{suffix}", width, hidden)

    def activated(self, gate, up):
        graph = self.graph
        if self.row.activation == "silu":
            return graph.node("SwiGLU", [gate, up])
        return graph.node("Mul", [graph.node("Gelu", [gate], approximate="tanh"), up])

    def of_experts(self, blk, x, experts):
        """The sum of the results of each token's experts, by the shares that a product gives them.
        Only the weights of chosen experts are read."""
        graph, weights, width = self.graph, self.weights, self.parameters.width
        shares = weights.product(x, f"{blk}.ffn_gate_inp.weight", (experts.count, width))
        shares = graph.node("Softmax", [shares], axis=-1)
        shares, chosen = graph.node("TopK", [shares, graph.ints(experts.used)], 2, axis=-1)
        if experts.shares_of_chosen:
            total = graph.node("ReduceSum", [shares, graph.ints(-1)], keepdims=1)
            shares = graph.node("Div", [shares, total])
        shape = (experts.count, experts.hidden, width)
        gate, up = (
            weights.product_of_chosen(x, chosen, f"{blk}.ffn_{name}_exps.weight", shape)
            for name in ("gate", "up")
        )
        y = weights.product_of_chosen(
            self.activated(gate, up),
            chosen,
            f"{blk}.ffn_down_exps.weight",
            (experts.count, width, experts.hidden),
        )
        y = graph.node("Mul", [y, graph.node("Unsqueeze", [shares, graph.ints(-1)])])
        y = graph.node("ReduceSum", [y, graph.ints(-2)], keepdims=0)
        if not experts.shared_hidden:
            return y
        gate = weights.vector(f"{blk}.ffn_gate_inp_shexp.weight", width)
        gate = graph.node("ReduceSum", [graph.node("Mul", [x, gate]), graph.ints(-1)], keepdims=1)
        shared = self.gated(blk, x, "_shexp", experts.shared_hidden)
        shared = graph.node("Mul", [shared, graph.node("Sigmoid", [gate])])
        return graph.node("Add", [y, shared])
