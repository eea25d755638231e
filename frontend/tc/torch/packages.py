"""What packages of models have that torch.export does not see through. None of them is imported here: what is there is known."""

import contextlib
import sys

import torch
from torch.utils import _pytree as pytree


def know_caches():
    """Caches of transformers are structures of tensors, if the package is used at all: it has functions that say so."""
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
    """The caches of an encoder-decoder: that of its own tokens and that of the encoder's."""
    names = "self_attention_cache", "cross_attention_cache"

    def parts(cache):
        return [getattr(cache, name) for name in names], None

    def parts_with_keys(cache):
        return [(pytree.GetAttrKey(name), getattr(cache, name)) for name in names], None

    pytree.register_pytree_node(kind, parts, lambda values, _: kind(*values), flatten_with_keys_fn=parts_with_keys,
                                serialized_type_name=f"{kind.__module__}.{kind.__name__}")
    torch.fx._pytree.register_pytree_flatten_spec(kind, lambda cache, spec: parts(cache)[0])
