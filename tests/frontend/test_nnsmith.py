"""Graphs that NNSmith generates are right or refused by name."""

import numpy as np
import pytest

from tc.comparing import compared

from . import nnsmith_corpus

PARTS, COUNT = 10, 50


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_generated_graphs(part):
    pytest.importorskip("nnsmith", reason="nnsmith is not installed")
    pytest.importorskip("torch", reason="PyTorch is not installed")
    counts, rest = nnsmith_corpus.run(part * COUNT, COUNT, nodes=10)
    assert counts.get("right", 0) > COUNT / 2
    assert [each for each in rest if each[1] != "refused"] == []


def test_each_output_is_judged_by_its_own_distance():
    """Whether an output is right says nothing of another one: booleans that agree have no
    distance."""
    same = compared("b", "bool", np.array([True]), np.array([True]), 1e-3)
    near, far, farther = (
        compared("y", "f32", np.array([value]), np.array([1.0]), 1e-3) for value in (1.0, 1.5, 3.1)
    )
    row = {"name": "y", "relative": 1.0}
    assert nnsmith_corpus.judgement([same, near], [], None) == (
        "right",
        "within the limit of float64",
    )
    assert nnsmith_corpus.judgement([same, far], [row], None)[0] == "right"
    assert nnsmith_corpus.judgement([same, farther], [row], None)[0] == "wrong"
    assert (
        nnsmith_corpus.judgement([same, far], [{"name": "b", "relative": 1.0}], None)[0] == "wrong"
    )
    assert (
        nnsmith_corpus.judgement([same, far], [{"name": "y", "relative": None}], None)[0] == "wrong"
    )
