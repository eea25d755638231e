"""The operators of PyTorch's fast paths for transformers, which traces under no_grad and scripted modules have, composed of others."""

import math

import torch
from torch.nn import functional as F

from .script_values import ScriptError


class NestedTensor:
    """Sequences of several lengths, as PyTorch's encoder makes them of a padded batch: the batch, and where it is no padding, [batch, time].
    Operators compute the padding as well; it is replaced where the batch is padded again."""

    def __init__(self, padded, keep):
        self.padded, self.keep = padded, keep


def _masked(mask, kind):
    """Where the native operators mask the scores, which broadcasts to [batch, heads, time, time]. A mask of the kind 0 is one of scores,
    1 one of keys of each sequence, 2 one of all."""
    if mask is None:
        return None
    masked = mask.to(torch.bool)
    return masked[:, None, None, :] if kind == 1 else masked


def attention(query, key, value, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None, need_weights=True,
              average_attn_weights=True, mask_type=None):
    """aten::_native_multi_head_attention: (result, weights or None)."""
    if isinstance(query, NestedTensor):
        result, weights = attention(query.padded, query.padded, query.padded, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
                                    proj_bias, ~query.keep, need_weights, average_attn_weights, 1)
        return NestedTensor(result, query.keep), weights
    if query is key and key is value:
        parts = F.linear(query, qkv_weight, qkv_bias).chunk(3, -1)
    else:
        parts = [F.linear(*given) for given in zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3))]
    q, k, v = (part.unflatten(-1, (num_heads, embed_dim // num_heads)).transpose(1, 2) for part in parts)
    masked, weights = _masked(mask, mask_type), None
    if need_weights:
        scores = (q / math.sqrt(embed_dim // num_heads)) @ k.transpose(-2, -1)
        weights = (scores if masked is None else scores.masked_fill(masked, -math.inf)).softmax(-1)
        result = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        result = F.scaled_dot_product_attention(q, k, v, None if masked is None else ~masked)
    return F.linear(result.transpose(1, 2).flatten(-2), proj_weight, proj_bias), weights


def encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
                  norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask=None, mask_type=None):
    """aten::_transformer_encoder_layer_fwd."""
    if isinstance(src, NestedTensor):
        result = encoder_layer(src.padded, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
                               norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
                               ~src.keep, 1)
        return NestedTensor(result, src.keep)

    def attend(x):
        return attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type)[0]

    def feed(x):
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    def first(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x):
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        src = src + attend(first(src))
        return src + feed(second(src))
    src = first(src + attend(src))
    return second(src + feed(src))


def nested(padded, mask, mask_check=True):
    """aten::_nested_tensor_from_mask. PyTorch's encoder pads the batch as it was where a mask has holes; it keeps what the layers computed there."""
    aligned = (mask[:, :-1] | ~mask[:, 1:]).all()
    return NestedTensor(padded, mask | ~aligned) if mask_check else NestedTensor(padded, mask)


def padded(given, padding, output_size=None):
    """aten::to_padded_tensor."""
    if not isinstance(given, NestedTensor):
        raise ScriptError("tensors that are nested before they reach the model are not supported")
    if output_size is None:
        raise ScriptError("a nested tensor is padded to its longest sequence, which depends on data: give output_size")
    return torch.where(given.keep[..., None], given.padded, padding)


# By the operator's name.
COMPOSED = {
    "aten::_native_multi_head_attention": attention, "aten::_transformer_encoder_layer_fwd": encoder_layer,
    "aten::_nested_tensor_from_mask": nested, "aten::to_padded_tensor": padded, "aten::nested_to_padded_tensor": padded,
}
