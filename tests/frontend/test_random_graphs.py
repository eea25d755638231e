"""Random graphs are right against a reference in float64, or refused by name; 100 of them, and
10,000 with --full. `python -m tests.frontend.random_graphs` draws others, and shrinks what
fails."""

import argparse
import sys

import numpy
import pytest

pytest.importorskip("onnxruntime")

from . import random_graphs

PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_random_graphs(part, request):
    count = (10000 if request.config.getoption("--full") else 100) // PARTS
    for seed in range(part * count, (part + 1) * count):
        graph = random_graphs.draw(seed)
        wrong = random_graphs.what_is_wrong(graph)
        if wrong:
            small = random_graphs.shrink(
                graph, lambda smaller: random_graphs.what_is_wrong(smaller) is not None
            )
            pytest.fail(f"seed {seed}: {wrong}\n{random_graphs.describe(small)}")


def test_the_same_seed_draws_the_same_graph():
    assert (
        random_graphs.draw(3).model().SerializeToString()
        == random_graphs.draw(3).model().SerializeToString()
    )


def test_graphs_differ_and_have_all_operators():
    seen = {node.op_type for seed in range(300) for node in random_graphs.draw(seed).nodes}
    assert len(seen) > 90


def test_what_fails_is_shrunk_to_the_node_that_does_it():
    """A comparison that calls every graph with a MatMul wrong leaves the MatMul alone."""
    for seed in range(200):
        graph = random_graphs.draw(seed)
        if len(graph.nodes) > 5 and "MatMul" in {node.op_type for node in graph.nodes}:
            break
    small = random_graphs.shrink(
        graph, lambda part: any(node.op_type == "MatMul" for node in part.nodes)
    )
    assert [node.op_type for node in small.nodes] == ["MatMul"]


def test_a_wrong_result_is_seen(monkeypatch):
    """Of a module whose results are changed a little, or are of another shape."""
    import tc

    graph = next(
        graph
        for graph in map(random_graphs.draw, range(100))
        if all(dtype == numpy.float32 for dtype, _ in graph.outputs.values())
        and all(array.size for array in random_graphs.in_doubles(graph).values())
    )
    run = tc.Module.run
    monkeypatch.setattr(
        tc.Module,
        "run",
        lambda self, inputs: {
            name: array + numpy.float32(0.01 + abs(array).max(initial=0) / 100)
            for name, array in run(self, inputs).items()
        },
    )
    assert "has an error of" in random_graphs.what_is_wrong(graph)
    monkeypatch.setattr(
        tc.Module,
        "run",
        lambda self, inputs: {name: array[None] for name, array in run(self, inputs).items()},
    )
    assert "has shape" in random_graphs.what_is_wrong(graph)


def test_what_ends_a_process_fails_its_seed(tmp_path, monkeypatch, capsys):
    """A process that ends at seed 1, one that ends within ONNX Runtime at seed 3: those after them
    are checked as well."""
    program = tmp_path / "program"
    program.write_text(f"""#!{sys.executable}
import os, sys
at = sys.argv.index("--seeds")
for seed in range(int(sys.argv[at + 1]), int(sys.argv[at + 2])):
    print(seed, "drawn", file=sys.stderr, flush=True)
    if seed == 1:
        os.abort()
    if seed == 3:
        print(seed, "run by ONNX Runtime", file=sys.stderr, flush=True)
        os.abort()
    print("checked", seed, flush=True)
""")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    options = argparse.Namespace(seeds=(0, 5), target="native", keep=None, heap=False)
    assert random_graphs.check_in_processes(options) == 1
    assert capsys.readouterr().out.splitlines() == [
        "seed 1: ended the process: SIGABRT when it was drawn",
        "seed 3: ended the process: SIGABRT when it was run by ONNX Runtime",
    ]
