"""Random networks of feature maps with one to three spatial axes agree with PyTorch in float64, on
each kind of target: 39 of them, and 3,000 with --full. `python -m tests.frontend.random_maps`
compares others."""

import pytest

pytest.importorskip("torch")

from ..levels import x86_levels
from . import random_maps

AXES = (1, 2, 3)


def count(request, usual):
    return 1000 if request.config.getoption("--full") else usual


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("tolerance", [0.0, 1e-4])
def test_on_this_machine(axes, tolerance, request):
    assert random_maps.compare(range(count(request, 4)), axes, "native", None, tolerance) == []


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("target", x86_levels())
def test_on_levels(axes, target, request):
    assert random_maps.compare(range(count(request, 4)), axes, target) == []


# Blocks of channels differ between targets of one length and code for any.
@pytest.mark.parametrize(
    "target, lengths",
    [("rv64gcv", (128, 256)), ("rv64gcv_zvl256b", (256,)), ("rv64gcv_zvl512b", (512,))],
)
@pytest.mark.parametrize("axes", AXES)
def test_on_riscv64(axes, target, lengths, request):
    seeds = range(1000, 1000 + (20 if request.config.getoption("--full") else 1))
    assert [
        each for vlen in lengths for each in random_maps.compare(seeds, axes, target, vlen)
    ] == []


def test_networks_have_all_operators():
    seen = {node.op_type for seed in range(60) for node in random_maps.Network(seed).nodes}
    assert len(seen) >= 16


def test_a_wrong_result_is_seen():
    network = random_maps.Network(0)
    right = dict(network.outputs)
    assert random_maps.what_is_wrong(network, right) == []
    name = next(iter(right))
    right[name] = right[name] * 1.001
    assert random_maps.what_is_wrong(network, right) != []
