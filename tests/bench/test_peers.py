"""The comparison with other runtimes measures, reports what is missing or wrong, and judges."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import zoo
from tests.bench import peers

ROOT = Path(__file__).resolve().parent.parent.parent


def test_measures_onnx_runtime():
    results = peers.compare(zoo.export("nsnet2_step"), ["onnxruntime"], 1, 2, 0.01)["onnxruntime"]
    assert results["error"] < 1e-4
    assert 0 < results["best_ms"] <= results["median_ms"]
    assert results["runs"] >= 6
    assert results["peak_megabytes"] > 20


def test_reports_a_peer_that_fails(tmp_path):
    (tmp_path / "broken.onnx").write_bytes(b"not a model")
    source = zoo.export("nsnet2_step").with_suffix(".ref.npz")
    (tmp_path / "broken.ref.npz").write_bytes(source.read_bytes())
    result = peers.compare(tmp_path / "broken.onnx", ["onnxruntime"], 1, 1, 0.01)["onnxruntime"]
    assert "INVALID_PROTOBUF" in result["failed"]


def test_reports_a_process_that_dies():
    worker = peers.Worker("onnxruntime", zoo.export("nsnet2_step"), 1)
    assert "error" in worker.state
    worker.process.kill()
    worker.process.wait()
    worker.measure(0.01)
    worker.close()
    assert worker.state == {"failed": "exit status -9: no message"}


def test_ratio_is_of_the_best_peer():
    results = {"onnxruntime": {"best_ms": 3.0}, "openvino": {"best_ms": 2.0},
               "tc": {"best_ms": 4.0}}
    assert peers.ratio(results) == 0.5
    assert peers.ratio({"onnxruntime": {"best_ms": 3.0}, "tc": {"missing": "tc"}}) is None
    assert peers.geometric_mean([0.5, 2.0]) == pytest.approx(1)


def row(ratio, **own):
    return {"network": "n", "threads": 1, "ratio": ratio, "peers": {"tc": own}}


def test_judges():
    good = [row(0.5, error=1e-6), row(2.0, error=1e-6)]
    assert peers.complaints(good, 0.99, 0.4) == []
    assert peers.complaints(good, 1.1, 0.4) == ["the geometric mean on 1 is below 1.1"]
    assert peers.complaints(good, 0, 0.6) == ["n on 1: best peer / tc is 0.5, below 0.6"]
    assert peers.complaints([row(1.0, error=2e-4)], 0, 0) == [
        "n on 1: tc is wrong by 2.0e-04 of the largest output"]
    assert peers.complaints([row(None, failed="why")], 0, 0) == ["n on 1: tc failed: why"]
    assert len(peers.complaints([row(None, missing="tc")], 0.7, 0.35)) == 2


@pytest.mark.full
@pytest.mark.parametrize("threads", [1, 2])
def test_is_fast_untuned(threads, tmp_path):
    """Best peer / tc over the zoo: a geometric mean of 0.7, no network below 0.35."""
    pytest.importorskip("openvino")
    result = subprocess.run(
        [sys.executable, "-m", "tests.bench.peers", "--threads", str(threads), "--least-mean", "0.7",
         "--least", "0.35", "--json", str(tmp_path / "peers.json")],
        cwd=ROOT, capture_output=True, text=True)
    table = json.loads((tmp_path / "peers.json").read_text()) if result.returncode in (0, 1) else []
    assert len(table) == len(zoo.NETWORKS), result.stdout + result.stderr
    assert result.returncode == 0, result.stdout
