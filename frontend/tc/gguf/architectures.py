"""The architectures of language models that are known, as rows of one table.

All of them are the same chain of blocks: a norm, attention and a residual sum, then a norm, a gated
network of two layers, or several of which each token chooses some (experts), and a residual sum. A
row says where an architecture differs; sizes and constants are in the model's file (parameters.py),
and network.py makes the graph of a row.
"""

import dataclasses

from ..errors import UnsupportedError, printable


@dataclasses.dataclass(frozen=True)
class Architecture:
    name: str  # the value of `general.architecture`
    # Which elements of a head are turned together: "halves" pairs element i with i + half,
    # "neighbours" 2i with 2i + 1.
    rotary: str = "halves"
    biases: tuple = ()  # the projections that have a bias in every file
    head_norms: bool = False  # each head of queries and keys has a norm before its rotation
    fused_heads: bool = False  # queries, keys and values are one product
    fused_gate: bool = False  # the gate and what it scales are one product
    post_norms: bool = False  # results of attention and network have a norm before they are added
    activation: str = "silu"  # the gate's activation; or "gelu_tanh"
    scaled_embedding: bool = False  # embeddings times the root of their length
    caps: bool = False  # scores and logits are limited (by tanh) where the file has a cap
    experts: bool = False  # the network may be experts; how many there are is in the file
    # The shares with which the results of a token's experts are added are divided by their sum,
    # where the file does not say.
    shares_of_chosen: bool = True
    shared_expert: bool = False  # a further network is for all tokens, with a gate of its own
    # In each group of `window_period` layers, all but the last see only a window of keys. 0: no
    # layer has a window; 1: all have.
    window_period: int = 0
    # The base of the angles in layers with a window, whose angles are then not scaled; 0 where all
    # layers have the same base.
    window_base: float = 0.0
    # In each group of `unturned_period` layers, the last has no rotation; 0: all layers have one.
    unturned_period: int = 0
    # Models with these numbers of layers scale their scores by the square root of (width / number
    # of heads) instead of the square root of a head's length.
    scaled_by_width: tuple = ()

    def has_window(self, layer):
        """Whether a layer sees a window of keys, in a model that has windows."""
        if self.window_period < 2:
            return self.window_period == 1
        return layer % self.window_period != self.window_period - 1

    def turns(self, layer):
        return not self.unturned_period or (layer + 1) % self.unturned_period != 0


_ROWS = (
    # Also the architecture of files of SmolLM, SmolLM2, Mistral and Mixtral.
    Architecture("llama", rotary="neighbours", experts=True),
    Architecture("smollm3", rotary="neighbours", unturned_period=4),
    Architecture("qwen2", biases=("attn_q", "attn_k", "attn_v")),
    Architecture(
        "qwen2moe",
        biases=("attn_q", "attn_k", "attn_v"),
        experts=True,
        shares_of_chosen=False,
        shared_expert=True,
    ),
    Architecture("qwen3", head_norms=True),
    Architecture("qwen3moe", head_norms=True, experts=True),
    Architecture("gemma", activation="gelu_tanh", scaled_embedding=True),
    Architecture(
        "gemma2",
        activation="gelu_tanh",
        scaled_embedding=True,
        post_norms=True,
        caps=True,
        window_period=2,
        scaled_by_width=(46,),
    ),
    Architecture(
        "gemma3",
        activation="gelu_tanh",
        scaled_embedding=True,
        post_norms=True,
        caps=True,
        head_norms=True,
        window_period=6,
        window_base=10000.0,
        scaled_by_width=(62,),
    ),
    Architecture("phi3", fused_heads=True, fused_gate=True, window_period=1),
)
ARCHITECTURES = {row.name: row for row in _ROWS}


def architecture_of(file):
    """The row for a file's architecture."""
    if file.row is not None:
        return file.row
    name = file.fields.get("general.architecture")
    if name not in ARCHITECTURES:
        what = "no architecture" if name is None else f"the architecture '{printable(name)}'"
        raise UnsupportedError(f"{file.name} has {what}; known are {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]
