"""Small modules written to break importers (tests/torch/semantics): what tc gives is PyTorch's,
with its structure and types, what a call writes into its arguments included; or the refusal says
the reason that the case names."""

import copy
import re
import warnings

import pytest
import torch
from torch.utils import _pytree as pytree

import tc

from .semantics import (
    complex_numbers,
    composed,
    edges,
    indexed_writes,
    linear_algebra,
    scripts,
    structures,
    values,
    views,
    writes,
)
from .semantics.cases import Module, scripted

LIVE = {
    "views": views.CASES,
    "writes": writes.CASES,
    "indexed writes": indexed_writes.CASES,
    "values": values.CASES,
    "edges": edges.CASES,
    "structures": structures.CASES,
    "complex numbers": complex_numbers.CASES,
    "linear algebra": linear_algebra.CASES,
    "composed": composed.CASES,
}
RIGHT = [case for cases in LIVE.values() for case in cases if not case.refused]
# Modules that are compiled as one: a compilation of its own for each takes minutes.
TOGETHER = 30


class Batch(torch.nn.Module):
    def __init__(self, cases):
        super().__init__()
        self.functions = [case.function for case in cases]

    def forward(self, inputs):
        return [function(*given) for function, given in zip(self.functions, inputs)]


def run(module, inputs):
    """What a module gives, and what its arguments are afterwards."""
    inputs = copy.deepcopy(inputs)
    with torch.no_grad():
        return module(*inputs), inputs


def compiled(module, inputs):
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        return tc.compile(module, inputs=copy.deepcopy(inputs), log=False, threads=1)


def assert_same(actual, expected, tolerance=1e-5):
    ones, spec = pytree.tree_flatten(actual)
    others, expected_spec = pytree.tree_flatten(expected)
    assert spec == expected_spec
    for one, other in zip(ones, others):
        if not isinstance(other, torch.Tensor):
            assert type(one) is type(other) and one == other
            continue
        assert one.dtype == other.dtype and one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)


def problems(cases):
    """What is wrong with the cases, by name; a batch that fails is divided."""
    inputs = ([case.inputs for case in cases],)
    try:
        results, after = run(compiled(Batch(cases), inputs), inputs)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told of the case
        if len(cases) > 1:
            half = len(cases) // 2
            return problems(cases[:half]) | problems(cases[half:])
        return {cases[0].name: f"{type(error).__name__}: {error}"[:300]}
    found = {}
    for case, result, given in zip(cases, results, after[0]):
        expected = run(Module(case.function), case.inputs)
        try:
            assert_same((result, given), expected, case.tolerance)
        except AssertionError as error:
            found[case.name] = str(error)[:500]
    return found


def expect_right(cases):
    found = problems(cases)
    assert not found, "\n".join(f"{name}: {why}" for name, why in found.items())


@pytest.mark.parametrize("start", range(0, len(RIGHT), TOGETHER))
def test_modules(start):
    expect_right(RIGHT[start : start + TOGETHER])


@pytest.mark.full
@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.name)
def test_module_alone(case):
    expect_right([case])


@pytest.mark.parametrize(
    "case",
    [case for cases in LIVE.values() for case in cases if case.refused],
    ids=lambda case: case.name,
)
def test_refused_by_name(case):
    with pytest.raises(tc.UnsupportedError, match=case.refused):
        compiled(Module(case.function), case.inputs)


@pytest.mark.parametrize("case", scripts.CASES, ids=lambda case: case.name)
def test_torchscript(case):
    script = scripted(case.function)
    if case.refused:
        with pytest.raises(tc.UnsupportedError, match=case.refused):
            compiled(script, case.inputs)
        return
    expected = run(script, case.inputs)
    assert_same(run(compiled(script, case.inputs), case.inputs), expected)


def test_there_are_enough_and_names_are_unique():
    names = [case.name for cases in (*LIVE.values(), scripts.CASES) for case in cases]
    assert len(names) == len(set(names)) >= 300 and all(
        re.fullmatch(r"\w+", name) for name in names
    )
