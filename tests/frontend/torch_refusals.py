"""The sentence in which a model of PyTorch is refused."""

import pytest

import tc


def refusal(call, kind=tc.UnsupportedError):
    with pytest.raises(tc.Error) as raised:
        call()
    assert type(raised.value) is kind, raised.value
    text = str(raised.value)
    assert "\n" not in text and "internal error" not in text
    return text
