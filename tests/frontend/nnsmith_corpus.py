"""Graphs that NNSmith (PyPI) generates, compiled and compared:

    python -m tests.frontend.nnsmith_corpus [--count 100] [--first 0] [--nodes 10] [--keep FOLDER]

NNSmith is not among the project's packages: `pip install --no-deps --target FOLDER nnsmith
z3-solver hydra-core omegaconf 'antlr4-python3-runtime==4.9.*' multipledispatch appdirs psutil`, and
FOLDER in PYTHONPATH; it needs PyTorch. The graphs are written by PyTorch's exporter. A graph is
right within 1e-3 of PyTorch, or where tc.verify finds it within that of float64, or no farther from
it than twice ONNX Runtime is: graphs of random operators meet poles and steps, on which rounding
decides. The rest is wrong.
"""

import argparse
import math
import sys
import warnings
from pathlib import Path

import numpy as np

import tc

LIMIT = 1e-3
MAX_ELEMENTS = 4096  # of a tensor
MAX_MILLISECONDS = 5000  # of the search for a graph


def generator():
    """NNSmith's class of ONNX models and its operators."""
    import torch
    from nnsmith.abstract.extension import activate_ext
    from nnsmith.materialize import Model

    export = torch.onnx.export
    if not hasattr(export, "of_nnsmith"):

        def by_script(model, arguments, file, *, verbose=False, **options):
            return export(model, arguments, file, dynamo=False, **options)

        by_script.of_nnsmith = True
        torch.onnx.export = by_script
    model = Model.init("onnx", backend_target="cpu")
    model.add_seed_setter()
    operators = [each for each in model.operators() if not each.limit_domain]
    activate_ext(opset=operators, factory=None)
    return model, operators


def made(seed, nodes, source):
    """(ONNX bytes, inputs, expected outputs by name), or the reason why there is no graph for this
    seed."""
    from nnsmith.graph_gen import model_gen

    model, operators = source
    try:
        found = model_gen(
            opset=operators,
            method="symbolic-cinit",
            seed=seed,
            max_nodes=nodes,
            timeout_ms=MAX_MILLISECONDS,
            max_elem_per_tensor=MAX_ELEMENTS,
        )
        graph = model.from_gir(found.make_concrete())
        graph.refine_weights()
        oracle = graph.make_oracle()
    except Exception as error:  # of NNSmith, the exporter or PyTorch
        return f"{type(error).__name__}: {(str(error).splitlines() or ['?'])[0][:100]}"
    return graph.native_model.SerializeToString(), oracle.input, oracle.output


def outcome(data, inputs, expected):
    """("right" | "wrong" | "refused" | "internal error", what is said)."""
    from tests.support import worst_error

    try:
        compiled = tc.compile(data, threads=1, log=False)
        inputs = {port.name: np.asarray(inputs[port.name]) for port in compiled.inputs}
        found = compiled.run(inputs)
    except tc.Error as error:
        return ("internal error" if "internal error" in str(error) else "refused"), str(error)[:300]
    with np.errstate(all="ignore"):
        error = max(worst_error(found[name], expected[name]) for name in found)
    if error <= LIMIT:
        return "right", ""
    judged = tc.verify(data, inputs=inputs, threads=1, budget=LIMIT, log=False)
    return judgement(judged.outputs, (judged.peer or {}).get("outputs", ()), judged.culprit)


def judgement(outputs, peers, culprit):
    """("right" | "wrong", why) of the differences that tc.verify found; those of ONNX Runtime are
    rows of its report."""
    peers = {each["name"]: each["relative"] for each in peers}
    beyond, wrong = [], []
    for each in outputs:
        if each.within:
            continue
        # None: where shapes or what is no number differ.
        own, peer = (
            math.inf if relative is None else relative
            for relative in (each.relative, peers.get(each.name))
        )
        far = f"{each.name} is {own:.1e} from float64, ONNX Runtime's {peer:.1e}"
        (beyond if own <= 2 * peer < math.inf else wrong).append(far)
    if wrong:
        return "wrong", "; ".join(wrong) + f"; {culprit and culprit['detail']}"
    return "right", "; ".join(beyond) or "within the limit of float64"


def run(first, count, nodes, keep=None, say=print):
    """Counts of outcomes, and (seed, outcome, reason) of those that are not right."""
    source = generator()
    counts, rest = {}, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + count):
            graph = made(seed, nodes, source)
            if isinstance(graph, str):
                counts["not made"] = counts.get("not made", 0) + 1
                continue
            if keep:
                Path(keep, f"{seed}.onnx").write_bytes(graph[0])
            state, reason = outcome(*graph)
            counts[state] = counts.get(state, 0) + 1
            if state != "right":
                rest.append((seed, state, reason))
                say(f"{seed}: {state}: {reason}", flush=True)
    return counts, rest


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.frontend.nnsmith_corpus", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--first", type=int, default=0, help="seed of the first graph")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=10, help="operators of a graph at most")
    parser.add_argument("--keep", metavar="FOLDER", help="write the models there")
    arguments = parser.parse_args()
    counts, rest = run(arguments.first, arguments.count, arguments.nodes, arguments.keep)
    print(", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    return 1 if any(state in ("wrong", "internal error") for _, state, _ in rest) else 0


if __name__ == "__main__":
    sys.exit(main())
