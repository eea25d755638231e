"""The table of exported networks: its rows are what they say. (The table itself: python -m tests.frontend.networks.)"""

import numpy as np
import pytest
from onnx import parser

from . import networks

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(4, 6, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.projection, self.norm = nn.Linear(8, 24), nn.LayerNorm(8)

    def forward(self, x):
        query, key, value = self.projection(x).chunk(3, -1)
        return self.norm(x + nn.functional.scaled_dot_product_attention(query, key, value))


TINY = {
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                           nn.Linear(8, 5)), (1, 3, 8, 8)),
    "attention": (Attention, (2, 5, 8)),
    "a recurrent one": (Recurrent, (2, 5, 4)),
}


@pytest.mark.parametrize("label", TINY)
@pytest.mark.filterwarnings("ignore")
def test_a_tiny_network_is_right(label):
    make, shape = TINY[label]
    torch.manual_seed(networks.SEED)
    x = torch.randn(shape)
    row = networks.result_of(networks.exported(make().eval(), {"x": x}, "script"), {"x": x.numpy()})
    assert row["state"] == "right" and row["error"] < 1e-5 and row["ratio"] > 0


def test_a_refused_model_is_a_row_with_its_reason():
    """ONNX Runtime takes this operator, tc does not."""
    model = parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2,2] x) => (float[2,2] y) { y = Inverse(x) }')
    model.graph.node[0].domain = "com.microsoft"
    model.opset_import.add(domain="com.microsoft", version=1)
    row = networks.result_of(model.SerializeToString(), {"x": np.eye(2, dtype=np.float32)})
    assert row["state"] == "refused" and "com.microsoft::Inverse (node 'y', opset 1)" in row["reason"]


def test_the_page():
    rows = [{"package": "timm", "name": "a", "exporter": "script", "state": "right", "reason": "", "error": 1e-6, "ratio": 2.0},
            {"package": "timm", "name": "b", "exporter": "script", "state": "right", "reason": "", "error": 1e-6, "ratio": 0.5},
            {"package": "timm", "name": "c", "exporter": "dynamo", "state": "refused", "reason": "x | y"}]
    text = networks.table_text(rows)
    assert "3 exports: 1 refused, 2 right; geometric mean of the ratios 1.00." in text
    assert "| timm a | script | right | 1.0e-06 | 2.00 |" in text
    assert "| timm c | dynamo | refused: x \\| y |  |  |" in text
    assert len({(package, name) for package, name, _ in networks.NETWORKS}) == len(networks.NETWORKS) >= 40
