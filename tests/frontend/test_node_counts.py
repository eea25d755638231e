"""How many node tests of the ONNX project have each operator, and how many of these pass:
docs/operators.md shows the counts."""

import os
from collections import Counter
from pathlib import Path

import onnx
import pytest

from ..support import ROOT
from .test_node_vectors import STRINGS, listed

FILE = Path(ROOT) / "tests/golden/onnx_counts.txt"
VERSION = "1.19"  # of the package whose tests were counted


def operators_of(graph):
    for node in graph.node:
        yield node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"
        for attribute in node.attribute:
            for inside in (attribute.g, *attribute.graphs):
                yield from operators_of(inside)


def counted():
    folder, refused = Path(os.path.dirname(onnx.__file__)) / "backend/test/data/node", listed()
    passed, found = Counter(), Counter()
    for path in sorted(folder.iterdir()):
        if not (path / "model.onnx").exists():
            continue
        operators = set(operators_of(onnx.load(path / "model.onnx").graph))
        found.update(operators)
        if STRINGS in refused.get(path.name, STRINGS):
            passed.update(operators)
    lines = [f"{name} {passed[name]} of {found[name]}" for name in sorted(found)]
    return (
        f"Of the node tests of onnx {VERSION} that have an operator how many pass, by tests/frontend/test_node_counts.py.\n"
        + "\n".join(lines)
        + "\n"
    )


def test_the_counts():
    if not onnx.__version__.startswith(VERSION):
        pytest.skip(f"the tests of onnx {VERSION} are counted, not of {onnx.__version__}")
    text = counted()
    if os.environ.get("TC_UPDATE"):
        (Path(os.environ["TC_UPDATE"]) / FILE.relative_to(ROOT)).write_text(text)
    assert FILE.read_text() == text
