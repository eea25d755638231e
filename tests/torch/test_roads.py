"""A network is the same graph by every road that leads from PyTorch to the compiler
(tests/torch/roads.py), so its kernels are."""

import re

import pytest
import torch
from torch import nn

from tc.torch import read
from tests import zoo
from tests.torch import graphs, roads

ALWAYS = ("nsnet2_step", "squeezenet1_1")
ROWS = roads.written()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in ALWAYS else pytest.mark.full) for name in zoo.NETWORKS],
)
def test_graphs_are_the_same(name, tmp_path):
    texts = roads.graphs_of(roads.forms_of(name, tmp_path))
    assert set(roads.ROADS) - set(texts) <= {"scripted"}
    for road, lines in texts.items():
        assert lines == texts["live"], road


def test_page_tells_of_all():
    assert list(ROWS) == list(zoo.NETWORKS), "stale: python -m tests.torch.roads --write"
    for name, row in ROWS.items():
        cells = {title: row[title] for title in roads.ROADS.values()}
        assert set(cells.values()) <= {"same", "—"}, name
        assert cells.pop("scripted") and "—" not in cells.values(), name
        assert float(row["to float64"]) <= 1e-4 and float(row["to each other"]) <= 1e-6, name


class Layers(nn.Module):
    def __init__(self, *, stride=1, axis=1, turned=False, weight=1.0):
        super().__init__()
        self.layer = nn.Conv2d(2, 3, 3, stride)
        torch.nn.init.constant_(self.layer.weight, weight)
        torch.nn.init.zeros_(self.layer.bias)
        self.axis, self.turned = axis, turned

    def forward(self, x):
        x = self.layer(x).softmax(self.axis)
        return 2 + x.flatten() if self.turned else x.reshape(-1) + 2


def lines_of(module, size=7):
    return graphs.lines_of(read(module, (torch.ones(1, 2, size, size),)).source)


def test_texts_tell_graphs_apart():
    first = lines_of(Layers())
    assert [re.search(r"= (\w+)\(", line).group(1) for line in first[:-1]] == [
        "Conv",
        "Softmax",
        "view",
        "Add",
    ]
    others = [
        lines_of(Layers(**changed)) for changed in ({"stride": 2}, {"axis": 2}, {"weight": 1.5})
    ]
    texts = {"\n".join(lines) for lines in [first, *others, lines_of(Layers(), 8)]}
    assert len(texts) == 5


def test_texts_of_equal_graphs_are_equal():
    assert lines_of(Layers()) == lines_of(Layers(turned=True)) == lines_of(Layers(axis=-3))


def test_subgraphs_are_compared():
    def text(operator):
        return graphs.Graph(f"""graph outer {{
  input x f32[2]
  input c bool[]
  y f32[2] = If(c, x, x) {{else_branch = graph other {{
      capture x f32[2] of "x"
      z f32[2] = Neg(x)
      output z
    }}, then_branch = graph one {{
      capture x f32[2] of "x"
      z f32[2] = {operator}(x)
      output z
    }}}} from "a" "If" 1 "b"
  output y
}}""").lines()

    assert text("Exp") != text("Log")
    assert [line for line in text("Exp") if "Exp(in0 f32[2])" in line and "Neg(in0 f32[2])" in line]
