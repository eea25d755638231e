"""Every network of the zoo by six roads: their graphs after the passes, their results, and their
times where graphs differ.

    python -m tests.torch.roads [NAME …] [--write] [--times] [--rounds 100]

The roads: the ONNX file that PyTorch's exporter writes (which folds nothing into weights here),
TorchScript traced and scripted, an exported program, the live module, and the graph that
torch.compile gives its back end (with torch._dynamo.config.allow_rnn, without which that leaves
recurrent layers to PyTorch). Graphs are compared as tests/torch/graphs.py writes them, results with
float64 and with each other. Where graphs are equal, so are the kernels; the others are timed in one
run, rounds of all by turns. --write renews rows of docs/pytorch_roads.md.
"""

import argparse
import copy
import dataclasses
import re
import tempfile
import time
import warnings
from pathlib import Path

import torch

import tc
from tc.sources import source_of
from tc.torch import read
from tests import zoo
from tests.frontend.torch_calls import captured, roads
from tests.support import ROOT
from tests.torch import graphs
from tests.zoo.layers import Lrn

PAGE = ROOT / "docs" / "pytorch_roads.md"
ROADS = {
    "live": "live module",
    "exported": "torch.export",
    "archive": "traced",
    "scripted": "scripted",
    "torch.compile": "torch.compile",
    "onnx": "ONNX",
}


@dataclasses.dataclass
class Form:
    """A network as it comes by a road."""

    model: object
    inputs: tuple | None  # of models that do not say their shapes
    shapes: dict | None  # of ONNX files with open sizes

    def source(self):
        return (
            source_of(self.model)
            if isinstance(self.model, str)
            else read(self.model, self.inputs).source
        )

    def compiled(self, threads):
        return tc.compile(
            self.model, inputs=self.inputs, shapes=self.shapes, log=False, threads=threads
        )


def onnx_file(name, module, examples, path):
    """The network as the exporter writes it that leaves batch normalisation to the compiler."""
    network = zoo.NETWORKS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            examples,
            str(path),
            dynamo=False,
            opset_version=17,
            training=torch.onnx.TrainingMode.PRESERVE,
            input_names=list(zoo.example(name)),
            output_names=list(network.outputs),
            dynamic_axes=network.symbolic,
        )
    return str(path)


class Response(torch.nn.Module):
    """Local response normalisation by PyTorch's own function; the zoo's is a function of Python,
    which TorchScript does not take."""

    def __init__(self, size: int, alpha: float, beta: float, bias: float):
        super().__init__()
        self.size, self.alpha, self.beta, self.bias = size, alpha, beta, bias

    def forward(self, x):
        return torch.nn.functional.local_response_norm(
            x, self.size, self.alpha, self.beta, self.bias
        )


def plain(module):
    """The module without functions of Python."""
    module = copy.deepcopy(module)
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if isinstance(child, Lrn):
                setattr(parent, name, Response(*child.constants))
    return module


def forms_of(name, folder):
    """{road: Form} of a network; what is not scripted has no such form."""
    examples = tuple(map(torch.from_numpy, zoo.example(name).values()))
    module = zoo.build(name).requires_grad_(False)
    sizes = {
        symbol: zoo.example(name)[port].shape[axis]
        for port, axes in zoo.NETWORKS[name].symbolic.items()
        if port in zoo.example(name)
        for axis, symbol in axes.items()
    }
    with torch._dynamo.config.patch(allow_rnn=True):
        found = {
            road: Form(model, given, None)
            for road, model, given in [
                *roads(plain(module), examples, folder),
                *captured(module, examples),
            ]
            if road in ROADS
        }
    found["onnx"] = Form(onnx_file(name, module, examples, folder / "model.onnx"), None, sizes)
    return found


def graphs_of(forms):
    return {road: graphs.lines_of(form.source(), form.shapes) for road, form in forms.items()}


def apart(lines, others):
    """How many nodes of the one graph the other has not, wherever they stand."""

    def nodes(texts):
        # Without the numbers, which change from the first difference on.
        return [re.sub(r"%\d+(\.\d+)?", "%", text) for text in texts]

    rest = nodes(others)
    return sum(1 for node in nodes(lines) if node not in rest or rest.remove(node))


def results_of(name, forms, threads):
    """(the largest error against float64, the largest difference between roads, {road:
    compiled})."""
    inputs, expected = zoo.reference(name)
    built = {road: form.compiled(threads) for road, form in forms.items()}
    results = {}
    for road, compiled in built.items():
        found = compiled(*inputs.values())
        results[road] = (
            list(found.values())
            if isinstance(found, dict)
            else list(found)
            if isinstance(found, tuple)
            else [found]
        )
    error = max(
        zoo.distance(one, other)
        for result in results.values()
        for one, other in zip(result, expected.values(), strict=True)
    )
    between = max(
        zoo.distance(one, other)
        for result in results.values()
        for one, other in zip(result, results["live"], strict=True)
    )
    return error, between, built


def times_of(built, inputs, rounds):
    """The fastest run of each in seconds; every round runs all of them, in turning order."""
    best, names = dict.fromkeys(built, float("inf")), list(built)
    for number in range(rounds):
        for road in names[number % len(names) :] + names[: number % len(names)]:
            begin = time.perf_counter()
            built[road](*inputs)
            best[road] = min(best[road], time.perf_counter() - begin)
    return best


def row_of(name, arguments):
    """The network's row: cells by column."""
    with tempfile.TemporaryDirectory() as folder:
        forms = forms_of(name, Path(folder))
        texts = graphs_of(forms)
        differ = {
            road: apart(lines, texts["live"]) or "order"
            for road, lines in texts.items()
            if lines != texts["live"]
        }
        cells = {"network": name, "nodes": str(len(texts["live"]) - 1)}
        for road, title in ROADS.items():
            cells[title] = (
                "—"
                if road not in texts
                else f"{differ[road]} of {len(texts[road]) - 1} differ"
                if road in differ
                else "same"
            )
        error, between, built = results_of(name, forms, arguments.threads)
        cells |= {"to float64": f"{error:.1e}", "to each other": f"{between:.1e}", "times": ""}
        if differ or arguments.times:
            best = times_of(built, list(zoo.example(name).values()), arguments.rounds)
            chosen = ROADS if arguments.times else ["live", *differ]
            cells["times"] = ", ".join(
                f"{ROADS[road]} {best[road] / best['live']:.3f}"
                for road in chosen
                if road in best and road != "live"
            )
    return cells


def written():
    """{network: its cells} of the page."""
    lines = (
        [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
        if PAGE.exists()
        else []
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0], row)) for row in rows[2:]}


HEAD = """# The zoo by every road

Made by `python -m tests.torch.roads --write`: the networks of `tests/zoo` as the ONNX file that PyTorch's exporter writes, as TorchScript traced and
scripted (— where it cannot be), as an exported program, as the live module and as the graph that torch.compile gives its back end. "same": after the passes the graph is the
live module's, constants bit for bit (`tests/torch/graphs.py`), and so are the kernels. Errors are the worst of all roads, of the
largest number of an output; times, where graphs differ, are those of paired runs over the live module's.

The exporter is told to leave batch normalisation alone. What it folds itself, it folds in float32: such weights are others in the last bits.
With `torch._dynamo.config.allow_rnn`, which PyTorch has off, torch.compile gives networks with recurrent layers as one graph; without,
it runs these layers itself.

"""


def write(rows):
    rows = written() | rows
    rows = [rows[name] for name in zoo.NETWORKS if name in rows]
    titles = list(rows[0])
    lines = [
        titles,
        ["---"] * len(titles),
        *([row.get(title, "") for title in titles] for row in rows),
    ]
    PAGE.write_text(HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.torch.roads", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", help="default: all")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--times", action="store_true", help="of all roads, not only of those whose graphs differ"
    )
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.names or zoo.NETWORKS:
        cells = row_of(name, arguments)
        print(cells, flush=True)
        if arguments.write:
            write({name: cells})


if __name__ == "__main__":
    main()
