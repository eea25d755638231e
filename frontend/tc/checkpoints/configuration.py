"""config.json as the fields of a GGUF file."""

import dataclasses
import math

import numpy as np

from ..errors import ModelError, UnsupportedError, printable
from ..gguf.architectures import ARCHITECTURES

# Names of model_type that differ from the architecture's name in GGUF files.
_ROWS = {
    "gemma3_text": "gemma3",
    "mistral": "llama",
    "mixtral": "llama",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
}
# Fields, by the names of config.json: sizes and constants that both have.
_FIELDS = {
    "max_position_embeddings": "context_length",
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "num_local_experts": "expert_count",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
    "norm_topk_prob": "expert_weights_norm",
}
_ACTIVATIONS = {"silu": ("silu", "swish"), "gelu_tanh": ("gelu_pytorch_tanh", "gelu_new")}


class Configuration:
    """What config.json says, checked as far as it is read here."""

    def __init__(self, name, values):
        self.name, self.values = name, values
        kind = values.get("model_type")
        self.row_name = _ROWS.get(kind, kind) if isinstance(kind, str) else None
        if self.row_name not in ARCHITECTURES:
            known = sorted({*ARCHITECTURES, *_ROWS})
            raise UnsupportedError(
                f"{name}: the model_type {printable(repr(kind))} is not known; known are "
                f"{', '.join(known)}"
            )
        # Heads are turned by halves in all of transformers' models of the table.
        self.row = dataclasses.replace(ARCHITECTURES[self.row_name], rotary="halves")
        self._refuse_variants()

    def _wrong(self, key, needed):
        return ModelError(
            f"'config.json' of {self.name}: '{key}' is {printable(repr(self.values.get(key)))}, and "
            f"{needed} is needed; fetch the folder again"
        )

    def _refuse(self, key, why):
        raise UnsupportedError(
            f"{self.name}: '{key}' is {printable(repr(self.values[key]))} in config.json, {why}"
        )

    def _refuse_variants(self):
        """Refuses what the row of the architecture does not say."""
        values = self.values
        activation = values.get("hidden_activation") or values.get("hidden_act", "silu")
        if activation not in _ACTIVATIONS[self.row.activation]:
            self._refuse(
                "hidden_act" if "hidden_act" in values else "hidden_activation",
                f"and models of {self.row_name} have {_ACTIVATIONS[self.row.activation][0]}",
            )
        if not self.row.window_period and values.get("sliding_window") is not None:
            if values.get("use_sliding_window", True):
                self._refuse("sliding_window", "and windows are not known of such models")
        kinds = values.get("layer_types")
        if self.row.window_period and values.get("sliding_window") and kinds is not None:
            wanted = [
                "sliding_attention" if self.row.has_window(layer) else "full_attention"
                for layer in range(len(kinds))
            ]
            if self.row.window_period > 1 and kinds != wanted:
                self._refuse("layer_types", "another order of layers than that of such models")
        for key, usual in (("decoder_sparse_step", 1), ("mlp_only_layers", [])):
            if values.get(key) not in (None, usual):
                self._refuse(key, "and layers that are no experts are not known of such models")
        unturned = values.get("no_rope_layers")
        if self.row.unturned_period and isinstance(unturned, list):
            if unturned != [int(self.row.turns(layer)) for layer in range(len(unturned))]:
                self._refuse("no_rope_layers", "other layers than those of such models")

    def size(self, key, default=None):
        """A whole number."""
        value = self.values.get(key, default)
        value = default if value is None else value
        if type(value) is not int or not 0 < value < 1 << 32:
            raise self._wrong(key, "a whole number above 0")
        return value

    def number(self, key, values=None, default=None):
        value = (self.values if values is None else values).get(key, default)
        value = default if value is None else value
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self._wrong(key, "a number")
        return value

    @property
    def head_size(self):
        return self.size("head_dim", self.size("hidden_size") // self.size("num_attention_heads"))

    def fields(self):
        """(the fields of a GGUF file, {name: array} of further tensors)"""
        own = {
            field: self.values[key]
            for key, field in _FIELDS.items()
            if self.values.get(key) is not None
        }
        own["attention.key_length"] = own["attention.value_length"] = self.head_size
        if self.row.window_period and self.values.get("sliding_window"):
            own["attention.sliding_window"] = self.size("sliding_window")
        if "query_pre_attn_scalar" in self.values:
            own["attention.scale"] = self.number("query_pre_attn_scalar") ** -0.5
        rotary, tensors = self._rotary()
        own.update(rotary)
        return {
            "general.architecture": self.row_name,
            **{f"{self.row_name}.{key}": value for key, value in own.items()},
        }, tensors

    # --- rotary positions ------------------------------------------------------------------------

    def _parameters(self):
        """(rope parameters of layers that see all keys, base of layers with a window or None):
        older files have rope_theta, rope_scaling and rope_local_base_freq, newer ones
        rope_parameters."""
        found = self.values.get("rope_parameters")
        if found is None:
            scaling = self.values.get("rope_scaling") or {}
            local = self.values.get("rope_local_base_freq")
            found = {"rope_theta": self.values.get("rope_theta", 10000.0), **scaling}
            return found, local
        if not isinstance(found, dict):
            raise self._wrong("rope_parameters", "an object")
        if "full_attention" in found:
            windows = found.get("sliding_attention") or {}
            return found["full_attention"], windows.get("rope_theta")
        return found, None

    def _rotary(self):
        found, local = self._parameters()
        if not isinstance(found, dict):
            raise self._wrong("rope_scaling", "an object")
        kind = found.get("rope_type", found.get("type", "default"))
        share = self.number("partial_rotary_factor", default=1.0)
        size = int(self.head_size * share)
        fields = {
            "rope.freq_base": float(self.number("rope_theta", found, 10000.0)),
            "rope.dimension_count": size,
        }
        if local is not None:
            fields["rope.freq_base_swa"] = float(local)
        if kind == "default":
            return fields, {}
        makers = {
            "linear": self._linear,
            "yarn": self._yarn,
            "llama3": self._llama3,
            "longrope": self._longrope,
        }
        if kind not in makers:
            raise UnsupportedError(
                f"{self.name}: rotary positions are scaled by {printable(repr(kind))} in config.json; "
                f"known are {', '.join(makers)}"
            )
        more, tensors = makers[kind](found, fields["rope.freq_base"], size)
        return {**fields, **more}, tensors

    def _linear(self, found, *_):
        return {
            "rope.scaling.type": "linear",
            "rope.scaling.factor": float(self.number("factor", found)),
        }, {}

    def _original(self, found):
        return int(
            self.number(
                "original_max_position_embeddings",
                found,
                self.values.get("original_max_position_embeddings")
                or self.size("max_position_embeddings"),
            )
        )

    def _yarn(self, found, *_):
        unknown = sorted({"beta_fast", "beta_slow", "mscale", "mscale_all_dim"} & found.keys())
        defaults = {"beta_fast": 32, "beta_slow": 1}
        if any(found[key] not in (None, defaults.get(key)) for key in unknown):
            raise UnsupportedError(
                f"{self.name}: yarn has {', '.join(unknown)} in config.json, which is not supported"
            )
        return {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": float(self.number("factor", found)),
            "rope.scaling.original_context_length": self._original(found),
            # The root of a logarithm of the factor is part of the scaling itself.
            **(
                {"rope.scaling.attn_factor": self._yarn_attention(found)}
                if found.get("attention_factor") is not None
                else {}
            ),
        }, {}

    def _yarn_attention(self, found):
        factor = self.number("factor", found)
        usual = 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0
        return float(self.number("attention_factor", found)) / usual

    def _llama3(self, found, base, size):
        """As tensor: what the radians of each pair are divided by."""
        low, high, factor = (
            self.number(key, found) for key in ("low_freq_factor", "high_freq_factor", "factor")
        )
        original = self._original(found)
        turns = base ** -(np.arange(0, size, 2) / size)
        length = 2 * np.pi / turns
        smooth = (original / length - low) / (high - low)
        between = 1 / ((1 - smooth) / factor + smooth)
        factors = np.where(length > original / low, factor, between)
        factors = np.where(length < original / high, 1, factors)
        return {}, {"rope_freqs.weight": factors.astype(np.float32)}

    def _longrope(self, found, _, size):
        original, context = self._original(found), self.size("max_position_embeddings")
        factor = found.get("factor")
        factor = context / original if factor is None else self.number("factor", found)
        usual = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
        tensors = {}
        for name in ("long", "short"):
            values = found.get(f"{name}_factor")
            if not isinstance(values, list) or len(values) != size // 2:
                raise self._wrong("rope_scaling", f"a list of {size // 2} numbers '{name}_factor'")
            tensors[f"rope_factors_{name}.weight"] = np.array(values, np.float32)
        return {
            "rope.scaling.type": "longrope",
            "rope.scaling.original_context_length": original,
            "rope.scaling.attn_factor": float(self.number("attention_factor", found, usual)),
        }, tensors
