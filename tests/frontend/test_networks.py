"""The table of exported networks: its rows are what they say. (The table itself: python -m
tests.frontend.networks.)"""

import numpy as np
import pytest
from onnx import parser

from . import network_list, networks

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from . import network_makers  # noqa: E402


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
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 5),
        ),
        (1, 3, 8, 8),
    ),
    "attention": (Attention, (2, 5, 8)),
    "a recurrent one": (Recurrent, (2, 5, 4)),
}


@pytest.mark.parametrize("label", TINY)
@pytest.mark.filterwarnings("ignore")
def test_a_tiny_network_is_right(label):
    make, shape = TINY[label]
    torch.manual_seed(network_makers.SEED)
    x = torch.randn(shape)
    data, arrays = network_makers.exported(make().eval(), {"x": x}, "script"), {"x": x.numpy()}
    row = networks.result_of(data, arrays)
    assert row["state"] == "right" and row["error"] < 1e-5
    times = networks.measured(data, arrays)
    assert times["seconds"]["tc"] > 0 and networks.ratio_of(times) > 0


def test_a_refused_model_is_a_row_with_its_reason():
    """ONNX Runtime takes this operator, tc does not."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,2] x) => (float[2,2] y) { y = Inverse(x) }'
    )
    model.graph.node[0].domain = "com.microsoft"
    model.opset_import.add(domain="com.microsoft", version=1)
    row = networks.result_of(model.SerializeToString(), {"x": np.eye(2, dtype=np.float32)})
    assert (
        row["state"] == "refused" and "com.microsoft::Inverse (node 'y', opset 1)" in row["reason"]
    )


def test_a_wrong_result_is_a_row_with_its_error(monkeypatch):
    import tc

    run = tc.Module.run
    monkeypatch.setattr(
        tc.Module,
        "run",
        lambda self, inputs: {
            name: array + np.float32(0.1) for name, array in run(self, inputs).items()
        },
    )
    monkeypatch.setattr(networks, "judged", lambda data, arrays: {"reason": "said by verify"})
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
    ).SerializeToString()
    row = networks.result_of(model, {"x": np.ones(2, np.float32)})
    assert (
        row["state"] == "wrong"
        and row["reason"] == "said by verify"
        and row["error"] == pytest.approx(0.1)
    )


@pytest.mark.parametrize(
    "work, state, reason",
    [
        (lambda: {"state": "right"}, "right", ""),
        (lambda: 1 // 0, "crashed", "ZeroDivisionError: integer division or modulo by zero"),
        (lambda: networks.os.kill(networks.os.getpid(), 9), "crashed", "exit code -9"),
        (lambda: networks.time.sleep(60), "too slow", "more than 1 s"),
        (lambda: bytearray(1 << 40), "crashed", "MemoryError: ?"),
    ],
)
def test_a_process_that_ends_is_a_row(monkeypatch, work, state, reason):
    monkeypatch.setattr(networks, "MAX_SECONDS", 1 if state == "too slow" else 60)
    row = networks.in_process(work)
    assert row["state"] == state and row.get("reason", "") == reason


def test_what_is_in_the_cache_is_not_done_again(tmp_path, monkeypatch, capsys):
    """The second call goes on where the first one ended."""
    entries = [(network_list.Network("timm", name, "picture"), "script", 17) for name in ("a", "b")]
    done = []
    monkeypatch.setattr(networks, "exports", lambda: iter(entries))
    monkeypatch.setattr(networks, "preload", lambda exporting: None)
    monkeypatch.setattr(
        networks,
        "in_process",
        lambda work: (
            done.append(work)
            or {"state": "not exported", "exporter": "script", "opset": 17, "reason": "why"}
        ),
    )
    arguments = ["networks", "--cache", str(tmp_path), "--write", str(tmp_path / "page.md")]
    for names, count in ((["timm a"], 1), ([], 2), ([], 2), (["timm b", "--export-again"], 3)):
        monkeypatch.setattr(networks.sys, "argv", [*arguments, *names])
        assert networks.main() == 0
        assert len(done) == count
    assert "1 networks: 1 not exported" in (tmp_path / "page.md").read_text()


def row(state, exporter="script", reason="", times=None, **more):
    result = {"state": state, "reason": reason, **more}
    return {
        "export": {"state": "exported", "exporter": exporter, "opset": 17, "reason": ""},
        "result": result,
        **({"times": {"seconds": times}} if times else {}),
    }


def test_the_page():
    rows = {
        "timm a": row("right", error=1e-6, times={"tc": 1.0, "onnxruntime": 2.0, "openvino": 4.0}),
        "timm b": row("right", error=1e-6, times={"tc": 2.0, "onnxruntime": 1.0}),
        "timm c": row("refused", "dynamo", "x | y"),
        "timm d": {
            "export": {"state": "not exported", "exporter": "script", "opset": 17, "reason": "no"}
        },
    }
    text = networks.table_text(rows)
    assert (
        "4 networks: 1 not exported, 1 refused, 2 right. Of 3 that are exported, 2 are right (66.7 %)."
        in text
    )
    assert "Geometric mean of 2 time ratios: 1.00; 1 below 0.95." in text
    assert "| timm a | script | 17 | right | 1.0e-06 | 2.00 |" in text
    assert "| timm c | dynamo | 17 | refused: x \\| y |  |  |" in text


def test_the_list():
    rows = list(network_list.exports())
    assert len({network.label for network, *_ in rows}) == len(rows) >= 250
    assert {exporter for _, exporter, _ in rows} == {"script", "dynamo"} and {
        opset for *_, opset in rows
    } >= {17, 18, 19, 20, 21, 23}
    assert {
        "detection",
        "segmentation",
        "video",
        "flow",
        "text",
        "cache",
        "two texts",
        "sound",
        "picture",
    } <= {network.kind for network, *_ in rows}
