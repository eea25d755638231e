"""Node tests of the newest ONNX standard that only tc.Module runs, and how many pass in all:
tests/frontend/onnx_node_test.cc runs the others."""

import os
from pathlib import Path

import onnx
import pytest

from ..support import ROOT
from .test_node_vectors import STRINGS, check, listed


def folder():
    named = os.environ.get("TC_ONNX_NEWEST_NODE_TESTS")
    if not named:
        pytest.skip(
            "no node tests of the newest ONNX standard here; build_rules/newest_node_tests.sh makes them"
        )
    return Path(named)


def newest():
    """{name: reason} of those that no compiled code passes, but for those whose files are as
    before."""
    lines = (Path(ROOT) / "tests/golden/onnx_node_newest.txt").read_text().splitlines()[1:]
    return dict(line.split(": ", 1) for line in lines)


def same_files(name):
    """Whether the installed package has the test with the same files."""
    before, now = (
        Path(os.path.dirname(onnx.__file__)) / "backend/test/data/node" / name,
        folder() / name,
    )
    files = {path.relative_to(now) for path in now.rglob("*.*") if path.is_file()}
    there = (
        {path.relative_to(before) for path in before.rglob("*.*") if path.is_file()}
        if before.exists()
        else None
    )
    return files == there and all(
        (now / file).read_bytes() == (before / file).read_bytes() for file in files
    )


def test_how_many_pass():
    failing = {
        name for name, reason in listed().items() if STRINGS not in reason and same_files(name)
    }
    failing |= {name for name, reason in newest().items() if STRINGS not in reason}
    tests = [path for path in folder().iterdir() if (path / "model.onnx").exists()]
    assert len(tests) == 1884 and len(tests) - len(failing) == 1867


def test_those_of_the_host():
    pytest.importorskip("PIL.Image", reason="Pillow, which decodes images, is not installed")
    for name, reason in newest().items():
        if STRINGS in reason:
            check(folder() / name)
