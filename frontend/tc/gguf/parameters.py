"""The sizes and constants of a model, from the fields of its file, checked."""

import dataclasses
import math
import typing

import numpy as np

from ..errors import ModelError, UnsupportedError
from .architectures import Architecture, architecture_of

_MAX_LAYERS = 1024
_MOST = 1 << 24  # the largest value of any size
_MAX_EXPERTS = 1 << 12
_DEFAULT_BASE = 10000.0
_SCALINGS = ("none", "linear", "yarn", "longrope")


@dataclasses.dataclass(frozen=True)
class Rotary:
    """How the angles of a layer are computed from positions."""

    size: int  # elements of a head that are rotated
    base: float
    scaling: str = "none"  # one of _SCALINGS
    factor: float = 1.0  # how many times as long as in training the context is
    original_context: int = 0  # the context in training
    attention_factor: float = 1.0  # multiplies cosines and sines, where the file has one


@dataclasses.dataclass(frozen=True)
class Experts:
    """The networks of a layer, of which each token chooses some."""

    count: int
    used: int  # by each token
    hidden: int  # width inside each
    shared_hidden: int  # of the one that is for all tokens; 0: there is none
    shares_of_chosen: bool  # the shares of the chosen ones add up to 1


@dataclasses.dataclass(frozen=True)
class Parameters:
    row: Architecture
    context: int  # the most positions
    width: int  # length of the vectors between blocks
    layers: int
    heads: int  # number of heads of queries
    key_heads: int  # number of heads of keys and values
    key_size: int  # length of a head
    value_size: int
    hidden: int  # width inside the gated network
    experts: typing.Optional[Experts]  # in place of the one network
    epsilon: float
    scale: float  # multiplies the scores
    window: int  # number of keys that layers with a window see; 0: all
    score_cap: float  # 0: none
    logit_cap: float
    rotary: Rotary  # of layers without a window, or of all
    window_rotary: Rotary


class _Fields:
    """The fields of a file whose keys begin with its architecture's name."""

    def __init__(self, file, prefix):
        self.file, self.prefix = file, prefix

    def wrong(self, key, value, needed):
        return ModelError(
            f"'{self.file.name}' is a damaged {self.file.kind}: the field '{key}' is {value!r}, and "
            f"{needed} is needed; fetch or "
            "convert it again"
        )

    def value(self, key, default):
        key = f"{self.prefix}.{key}"
        if key in self.file.fields:
            return key, self.file.fields[key]
        if default is None:
            raise ModelError(
                f"'{self.file.name}' is a damaged {self.file.kind}: it has no field '{key}'; fetch or "
                f"convert it again"
            )
        return key, default

    def whole(self, key, default=None, least=1, most=_MOST):
        key, value = self.value(key, default)
        if isinstance(value, np.ndarray) and len(value) and (value == value[0]).all():
            value = value[0].item()  # the file has one for each layer
        if isinstance(value, np.ndarray) and len(value):
            raise UnsupportedError(
                f"{self.file.name}: the field '{key}' differs from layer to layer, which is not "
                f"supported"
            )
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(key, value, f"a whole number from {least} to {most}")
        return value

    def real(self, key, default=None, least=0.0, most=1e12):
        key, value = self.value(key, default)
        if (
            type(value) not in (int, float)
            or not math.isfinite(value)
            or not least <= value <= most
        ):
            raise self.wrong(key, value, f"a number from {least:g} to {most:g}")
        return float(value)


def parameters_of(file):
    row = architecture_of(file)
    fields = _Fields(file, row.name)
    width, heads = fields.whole("embedding_length"), fields.whole("attention.head_count")
    layers = fields.whole("block_count", most=_MAX_LAYERS)
    key_heads = fields.whole("attention.head_count_kv", heads)
    if heads % key_heads:
        raise fields.wrong(
            f"{row.name}.attention.head_count_kv",
            key_heads,
            f"a divisor of the {heads} heads of queries",
        )
    key_size = fields.whole("attention.key_length", max(1, width // heads))
    by_length = 1 / math.sqrt(width / heads if layers in row.scaled_by_width else key_size)
    rotary, window_rotary = _rotaries(fields, row, key_size)
    return Parameters(
        row=row,
        context=fields.whole("context_length"),
        width=width,
        layers=layers,
        heads=heads,
        key_heads=key_heads,
        key_size=key_size,
        value_size=fields.whole("attention.value_length", key_size),
        hidden=fields.whole("feed_forward_length"),
        experts=_experts(fields, row),
        epsilon=fields.real("attention.layer_norm_rms_epsilon", most=1.0),
        scale=fields.real("attention.scale", 0.0) or by_length,
        window=fields.whole("attention.sliding_window", 0, 0, (1 << 31) - 1)
        if row.window_period
        else 0,
        score_cap=fields.real("attn_logit_softcapping", 0.0) if row.caps else 0.0,
        logit_cap=fields.real("final_logit_softcapping", 0.0) if row.caps else 0.0,
        rotary=rotary,
        window_rotary=window_rotary,
    )


def _experts(fields, row):
    count = fields.whole("expert_count", 0, 0, _MAX_EXPERTS)
    if not count:
        return None
    if not row.experts:
        raise UnsupportedError(
            f"{fields.file.name}: experts are not supported in models of '{row.name}' "
            f"('{row.name}.expert_count' is {count})"
        )
    hidden = fields.whole("feed_forward_length")
    key, of_chosen = fields.value("expert_weights_norm", row.shares_of_chosen)
    if type(of_chosen) is not bool:
        raise fields.wrong(key, of_chosen, "true or false")
    return Experts(
        count,
        fields.whole("expert_used_count", most=count),
        fields.whole("expert_feed_forward_length", hidden),
        fields.whole("expert_shared_feed_forward_length", hidden) if row.shared_expert else 0,
        of_chosen,
    )


def _rotaries(fields, row, key_size):
    """The Rotary of layers that see all keys, and that of layers with a window."""
    size = fields.whole("rope.dimension_count", key_size, 2, key_size)
    if size % 2:
        raise fields.wrong(f"{row.name}.rope.dimension_count", size, "an even number")
    base = fields.real("rope.freq_base", _DEFAULT_BASE, 1.0)
    key, scaling = fields.value("rope.scaling.type", "none")
    if scaling not in _SCALINGS:
        raise UnsupportedError(
            f"{fields.file.name}: the field '{key}' is {scaling!r}; known are "
            f"{', '.join(_SCALINGS)}"
        )
    rotary = Rotary(
        size,
        base,
        scaling,
        fields.real("rope.scaling.factor", 1.0, 1e-6),
        fields.whole("rope.scaling.original_context_length", fields.whole("context_length")),
        fields.real("rope.scaling.attn_factor", 1.0, 1e-6),
    )
    if not row.window_base:
        return rotary, rotary
    return rotary, Rotary(size, fields.real("rope.freq_base_swa", row.window_base, 1.0))
