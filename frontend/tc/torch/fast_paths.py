"""The operators of PyTorch's fast paths for transformers, composed of other operators. Graphs that
were traced under no_grad contain them."""

import math
import typing

import torch
from torch.nn import functional as F

from .script_values import ScriptError


class NestedTensor:
    """Stands for the nested tensor that PyTorch's encoder makes from a padded batch: the batch, and
    [batch, time], true where it is not padding. Operators compute the padding as well; it is
    overwritten where the batch is padded again."""

    def __init__(self, padded, keep):
        self.padded, self.keep = padded, keep


def _masked(mask, kind):
    """Where the native operators mask the scores; broadcasts to [batch, heads, time, time]. `kind`
    is that of the mask: 0 for scores, 1 for the keys of each sequence, 2 for both."""
    if mask is None:
        return None
    masked = mask.to(torch.bool)
    return masked[:, None, None, :] if kind == 1 else masked


class _Heads(typing.NamedTuple):
    """The arguments of attention that come between its operands and its mask."""

    embed_dim: int
    num_heads: int
    qkv_weight: torch.Tensor
    qkv_bias: torch.Tensor
    proj_weight: torch.Tensor
    proj_bias: torch.Tensor

    def parts(self, query, key, value):
        """The projections of query, key and value, [batch, heads, time, features]."""
        if query is key and key is value:
            parts = F.linear(query, self.qkv_weight, self.qkv_bias).chunk(3, -1)
        else:
            parts = [
                F.linear(*given)
                for given in zip(
                    (query, key, value), self.qkv_weight.chunk(3), self.qkv_bias.chunk(3)
                )
            ]
        return [
            part.unflatten(-1, (self.num_heads, self.embed_dim // self.num_heads)).transpose(1, 2)
            for part in parts
        ]


def attention(query, key, value, *arguments):
    """aten::_native_multi_head_attention: (result, weights or None)."""
    heads, (mask, need_weights, average, kind) = _Heads(*arguments[:6]), arguments[6:]
    if isinstance(query, NestedTensor):
        batch = query.padded
        result, weights = attention(
            batch, batch, batch, *heads, ~query.keep, need_weights, average, 1
        )
        return NestedTensor(result, query.keep), weights
    q, k, v = heads.parts(query, key, value)
    masked, weights = _masked(mask, kind), None
    if need_weights:
        scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)
        weights = (scores if masked is None else scores.masked_fill(masked, -math.inf)).softmax(-1)
        result = weights @ v
        weights = weights.mean(1) if average else weights
    else:
        result = F.scaled_dot_product_attention(q, k, v, None if masked is None else ~masked)
    return F.linear(result.transpose(1, 2).flatten(-2), heads.proj_weight, heads.proj_bias), weights


class _Layer(typing.NamedTuple):
    """The arguments of an encoder layer that come after those of its attention."""

    use_gelu: bool
    norm_first: bool
    eps: float
    norm_weight_1: torch.Tensor
    norm_bias_1: torch.Tensor
    norm_weight_2: torch.Tensor
    norm_bias_2: torch.Tensor
    ffn_weight_1: torch.Tensor
    ffn_bias_1: torch.Tensor
    ffn_weight_2: torch.Tensor
    ffn_bias_2: torch.Tensor

    def feed(self, x):
        inner = F.linear(x, self.ffn_weight_1, self.ffn_bias_1)
        return F.linear(
            F.gelu(inner) if self.use_gelu else F.relu(inner), self.ffn_weight_2, self.ffn_bias_2
        )

    def first(self, x):
        return F.layer_norm(x, x.shape[-1:], self.norm_weight_1, self.norm_bias_1, self.eps)

    def second(self, x):
        return F.layer_norm(x, x.shape[-1:], self.norm_weight_2, self.norm_bias_2, self.eps)


def encoder_layer(src, *arguments):
    """aten::_transformer_encoder_layer_fwd."""
    heads, layer, (mask, kind) = arguments[:6], _Layer(*arguments[6:17]), arguments[17:]
    if isinstance(src, NestedTensor):
        return NestedTensor(encoder_layer(src.padded, *arguments[:17], ~src.keep, 1), src.keep)

    def attend(x):
        return attention(x, x, x, *heads, mask, False, True, kind)[0]

    if layer.norm_first:
        src = src + attend(layer.first(src))
        return src + layer.feed(layer.second(src))
    src = layer.first(src + attend(src))
    return layer.second(src + layer.feed(src))


def nested(padded, mask, mask_check=True):
    """aten::_nested_tensor_from_mask. Where a mask has holes, PyTorch's encoder does not remove the
    padding, and keeps what the layers computed there."""
    aligned = (mask[:, :-1] | ~mask[:, 1:]).all()
    return NestedTensor(padded, mask | ~aligned) if mask_check else NestedTensor(padded, mask)


def padded(given, padding, output_size=None):
    """aten::to_padded_tensor."""
    if not isinstance(given, NestedTensor):
        raise ScriptError("tensors that are nested before they reach the model are not supported")
    if output_size is None:
        raise ScriptError(
            "a nested tensor is padded to its longest sequence, which depends on data: give output_size"
        )
    return torch.where(given.keep[..., None], given.padded, padding)


# Functions that compose an operator, by its name.
COMPOSED = {
    "aten::_native_multi_head_attention": attention,
    "aten::_transformer_encoder_layer_fwd": encoder_layer,
    "aten::_nested_tensor_from_mask": nested,
    "aten::to_padded_tensor": padded,
    "aten::nested_to_padded_tensor": padded,
}


def _decomposition(operator, compose):
    arguments = operator._schema.arguments

    def decompose(*args, **kwargs):
        given = list(args) + [
            kwargs.get(each.name, each.default_value) for each in arguments[len(args) :]
        ]
        result = compose(*given)
        # A result that is not wanted is an empty tensor.
        return (
            tuple(given[0].new_empty(0) if each is None else each for each in result)
            if isinstance(result, tuple)
            else result
        )

    return decompose


def decompositions():
    """{operator: function} for the operators that also occur outside of TorchScript."""
    operators = (
        torch.ops.aten._native_multi_head_attention.default,
        torch.ops.aten._transformer_encoder_layer_fwd.default,
    )
    return {
        operator: _decomposition(operator, COMPOSED[operator._schema.name])
        for operator in operators
    }
