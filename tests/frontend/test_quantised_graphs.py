"""Random graphs of quantised operators give the integers of their unfused evaluation
(quantised_graphs.py). The counts are printed."""

import numpy
import pytest

from ..levels import NATIVE_AND_LEVELS
from .quantised_graphs import FURTHER, Graph, compare, compare_meanings, text, text_of_meanings


def judged(counts, wrong, what, capsys):
    with capsys.disabled():
        print("\n" + text(counts, what))
    assert not wrong, "\n".join(wrong)
    # What lies at ties is little, else nothing would be compared; one graph of 12 may have many.
    assert counts[1] < 0.1 * counts[0]


ORDER = ["x86-64-v3", "native", "x86-64-v4"]


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
def test_graphs(part, target, request, capsys):
    count = 500 if request.config.getoption("--full") else 12
    # Graphs of one target are none of the others'.
    first = part * count + 4 * count * ORDER.index(target)
    judged(*compare(range(first, first + count), target), f"{count} graphs on {target}", capsys)


@pytest.mark.parametrize("target", NATIVE_AND_LEVELS)
def test_graphs_of_further_operators(target, request, capsys):
    count = 500 if request.config.getoption("--full") else 12
    first = FURTHER + count * ORDER.index(target)
    judged(
        *compare(range(first, first + count), target),
        f"{count} graphs of further operators on {target}",
        capsys,
    )


@pytest.mark.parametrize("first", [0, FURTHER])
def test_graphs_in_fixed_point(first, request, capsys):
    count = 300 if request.config.getoption("--full") else 12
    counts, wrong = compare_meanings(range(first, first + count), "native")
    with capsys.disabled():
        print("\n" + text_of_meanings(counts, f"{count} graphs on native"))
    assert not wrong, "\n".join(wrong)
    assert counts[1] > 0.9 * counts[0] and counts[3] < 0.05 * counts[0]


@pytest.mark.parametrize("vlen", [128, 256, 512])
def test_graphs_on_riscv(vlen, request, capsys):
    count = 100 if request.config.getoption("--full") else 3
    judged(
        *compare(range(vlen, vlen + count), "rv64gcv", vlen),
        f"{count} graphs on rv64gcv of {vlen} bits",
        capsys,
    )


def test_sums_that_cancel():
    """A convolution whose input is its zero point everywhere, and whose result's scale is far below
    that of its sums."""
    counts, wrong = compare([23], "x86-64-v3")
    assert counts[0] > 0 and not wrong


def test_the_comparison_fails_for_a_neighbour():
    graph = next(graph for graph in map(Graph, range(99)) if graph.outputs)
    results = {each.name: each.low.copy() for each in graph.outputs}
    assert graph.judge(results)[2] == 0
    first = results[graph.outputs[0].name].reshape(-1)
    low = graph.outputs[0].low.reshape(-1)[0]
    first[0] = (
        low - 1 if low > numpy.iinfo(low.dtype).min else graph.outputs[0].high.reshape(-1)[0] + 1
    )
    assert graph.judge(results)[2] == 1
