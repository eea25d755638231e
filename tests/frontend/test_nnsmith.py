"""Graphs that NNSmith generates are right or refused by name."""

import pytest

pytestmark = pytest.mark.full

pytest.importorskip("nnsmith", reason="nnsmith is not installed")
pytest.importorskip("torch", reason="PyTorch is not installed")

from . import nnsmith_corpus  # noqa: E402

PARTS, COUNT = 10, 50


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_generated_graphs(part):
    counts, rest = nnsmith_corpus.run(part * COUNT, COUNT, nodes=10)
    assert counts.get("right", 0) > COUNT / 2
    assert [each for each in rest if each[1] != "refused"] == []
