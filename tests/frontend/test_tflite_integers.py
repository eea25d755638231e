"""Integers with scales: the results of TensorFlow Lite's kernels, bit for bit.

What these make of every case is in tests/golden/tflite_integers.txt as checksums; where ai-edge-litert is installed, its kernels are run as well.
TC_UPDATE rewrites the file by them."""

import os
import zlib
from pathlib import Path

import numpy as np
import pytest

import tc

from ..support import ROOT

pytest.importorskip("tflite", reason="files of TensorFlow Lite are read by the package tflite, which is not installed")
from .tflite_integer_cases import GROUPS, group_of  # noqa: E402

FILE = ROOT / "tests/golden/tflite_integers.txt"


def kernels_results(name, group):
    """What TensorFlow Lite's kernels make of a group, or None where they are not installed."""
    try:
        from ai_edge_litert import interpreter as package
    except ImportError:
        return None
    kinds = package.OpResolverType
    kind = kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES if name.startswith("sums") else kinds.BUILTIN_REF
    interpreter = package.Interpreter(model_content=group.data(), num_threads=1, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    for number, array in zip(group.inputs, group.arrays):
        interpreter.set_tensor(number, array)
    interpreter.invoke()
    return [interpreter.get_tensor(number) for number in group.outputs]


def checksum(array):
    return f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"


def recorded():
    """{(group, case): checksum}"""
    return dict((tuple(line.rsplit(" | ", 1)[0].split(" | ")), line.rsplit(" | ", 1)[1]) for line in FILE.read_text().splitlines())


@pytest.mark.parametrize("name", GROUPS)
def test_integers_are_those_of_the_kernels(name):
    group = group_of(name)
    expected = kernels_results(name, group)
    sums = recorded()
    if expected is not None and "TC_UPDATE" not in os.environ:
        assert [sums[name, case] for case in group.names] == [checksum(array) for array in expected], "the file is not what the kernels give"
    module = tc.compile(group.data(), threads=1, log=False)
    found = module(*group.arrays)
    found = found if isinstance(found, tuple) else (found,)
    wrong = [case for case, mine in zip(group.names, found) if sums[name, case] != checksum(mine)]
    details = "" if expected is None or not wrong else str([(case, int(np.max(np.abs(mine.astype(np.float64) - theirs)))) for case, mine, theirs in
                                                            zip(group.names, found, expected) if case in wrong])
    assert not wrong and len(found) == len(group.names), f"other integers than the kernels': {wrong} {details}"


def test_the_file_has_these_cases():
    groups = {name: group_of(name) for name in GROUPS}
    if "TC_UPDATE" in os.environ:
        lines = [f"{name} | {case} | {checksum(array)}" for name, group in groups.items()
                 for case, array in zip(group.names, kernels_results(name, group), strict=True)]
        (Path(os.environ["TC_UPDATE"]) / FILE.relative_to(ROOT)).write_text("\n".join(lines) + "\n")
    assert list(recorded()) == [(name, case) for name, group in groups.items() for case in group.names]
