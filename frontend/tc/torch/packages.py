"""Tells torch.export about classes of other packages that it cannot handle itself. None of these
packages is imported here; only those already loaded are considered."""

import contextlib
import sys

import torch
from torch.utils import _pytree as pytree


def know_caches():
    """Registers the caches of the package transformers as structures of tensors, with the package's
    own functions, if it is in use."""
    if "transformers" not in sys.modules:
        return
    with contextlib.suppress(ImportError):
        from transformers.integrations import executorch

        for kind in "dynamic", "encoder_decoder":
            getattr(executorch, f"register_{kind}_cache_export_support", lambda: None)()
        from transformers.cache_utils import EncoderDecoderCache

        if EncoderDecoderCache not in pytree.SUPPORTED_NODES:
            _know_pair_of_caches(EncoderDecoderCache)


def _know_pair_of_caches(kind):
    """Registers the cache of encoder-decoder models, which is a pair: for the decoder's own tokens
    and for the encoder's."""
    names = "self_attention_cache", "cross_attention_cache"

    def parts(cache):
        return [getattr(cache, name) for name in names], None

    def parts_with_keys(cache):
        return [(pytree.GetAttrKey(name), getattr(cache, name)) for name in names], None

    pytree.register_pytree_node(
        kind,
        parts,
        lambda values, _: kind(*values),
        flatten_with_keys_fn=parts_with_keys,
        serialized_type_name=f"{kind.__module__}.{kind.__name__}",
    )
    torch.fx._pytree.register_pytree_flatten_spec(kind, lambda cache, spec: parts(cache)[0])
