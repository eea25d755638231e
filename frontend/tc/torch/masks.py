"""Where PyTorch's transformers look at the numbers of a mask, and how to avoid that."""

import contextlib
from unittest import mock

from torch.nn.modules import transformer


def _is_said_to_be_causal(mask, is_causal=None, size=None):
    """A causal mask only allows another way to compute the same result, so this uses what the
    caller says and never looks at the mask."""
    return is_causal is True


@contextlib.contextmanager
def known_masks():
    """In this context encoders and decoders do not look at the numbers of a mask."""
    with mock.patch.object(transformer, "_detect_is_causal_mask", _is_said_to_be_causal):
        yield
