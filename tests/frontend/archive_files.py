"""Honest archives of PyTorch for the tests, and the sentence in which a hostile one is refused."""

import pytest

import tc
from tc.archives import reading

from . import hostile_archives as hostile


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return hostile.exported(tmp_path_factory.mktemp("honest"))


def refusal(call):
    """The sentence of a refusal: one line of printable text."""
    with pytest.raises(tc.Error) as caught:
        call()
    text = str(caught.value)
    assert (
        text.isprintable() and "internal error" not in text and type(caught.value) is not tc.Error
    ), text
    return text


@pytest.fixture
def no_reader(monkeypatch):
    """What is refused here needs no program behind walls."""
    monkeypatch.setattr(reading, "Reading", None)
