"""What PyTorch's transformers ask of the numbers of a mask."""

import contextlib
from unittest import mock

from torch.nn.modules import transformer


def _is_said_to_be_causal(mask, is_causal=None, size=None):
    """Whether a mask is causal only says how the same may be computed: what the caller does not say is not asked of the mask."""
    return is_causal is True


@contextlib.contextmanager
def known_masks():
    """Meanwhile encoders and decoders ask for no number of a mask."""
    with mock.patch.object(transformer, "_detect_is_causal_mask", _is_said_to_be_causal):
        yield
