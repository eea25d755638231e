"""The ruler: the machine's limits, profiles of whole models, shares of the roof."""

import json
import subprocess
import sys

import numpy as np
import pytest

tc = pytest.importorskip("tc")
from tc import profile as ruler  # noqa: E402

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

# A share above 1 would be a limit measured too low, or work counted twice; other programs disturb
# the measurement of both.
MOST = 1.25


def array(shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def model(nodes, inputs, output, **constants):
    graph = helper.make_graph(
        nodes,
        "ruler",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in inputs.items()
        ],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def network():
    """Several kinds of kernels, of which the convolutions have the time."""
    return model(
        [
            helper.make_node("Conv", ["x", "k1"], ["a"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node(
                "Conv", ["b", "k2"], ["c"], group=64, pads=[1, 1, 1, 1], strides=[2, 2]
            ),
            helper.make_node("Conv", ["c", "k3"], ["d"]),
            helper.make_node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("GlobalAveragePool", ["e"], ["g"]),
            helper.make_node("Flatten", ["g"], ["h"]),
            helper.make_node("Gemm", ["h", "w"], ["y"]),
        ],
        {"x": [1, 32, 40, 40]},
        "y",
        k1=array((64, 32, 3, 3), 1, 0.1),
        k2=array((64, 1, 3, 3), 2, 0.3),
        k3=array((96, 64, 1, 1), 3, 0.1),
        w=array((96, 50), 4, 0.1),
    )


@pytest.fixture(scope="module")
def module():
    return tc.compile(network(), threads=1, tolerance=0)  # shares of float32 multiply-adds


@pytest.fixture(scope="module")
def found(module):
    assert "measured" not in module.explain()
    return module.profile(array((1, 32, 40, 40)), seconds=0.3)


def test_limits_of_the_machine():
    limits = ruler.limits(threads=1)
    assert ruler.limits(threads=1) is limits  # measured once
    peaks = {
        (row["instructions"], row["types"]): row["flops_per_second"] for row in limits["peaks"]
    }
    assert min(peaks.values()) > 1e9
    for instructions in {instructions for instructions, types in peaks if types == "f64"}:
        # Twice as many lanes.
        assert 1.4 < peaks[instructions, "f32"] / peaks[instructions, "f64"] < 2.8
    if ("AVX-512-VNNI", "u8 x i8 to i32") in peaks:
        assert peaks["AVX-512-VNNI", "u8 x i8 to i32"] > 1.4 * peaks["AVX-512", "f32"]
    if ("AMX", "bf16 to f32") in peaks:
        assert peaks["AMX", "bf16 to f32"] > 2 * peaks["AVX-512", "f32"]
    rows = limits["bandwidths"]
    assert [row["level"] for row in rows][:2] == ["L1", "L2"] and rows[-1]["level"] == "memory"
    assert [row["bytes"] for row in rows] == sorted(row["bytes"] for row in rows)
    for direction in ("read", "write"):
        rates = [row[f"{direction}_bytes_per_second"] for row in rows]
        assert min(rates) > 1e8 and rates[0] > 1.5 * rates[-1]
    assert 0 < limits["call_seconds"] < 1e-3
    text = ruler.limits_text(limits)
    assert "limits measured on 1 thread\n" in text and "memory" in text and "GFLOP/s" in text


def test_bandwidths_between_the_measured_sizes():
    limits = {
        "bandwidths": [
            {
                "level": "L1",
                "bytes": 1000,
                "read_bytes_per_second": 4e9,
                "write_bytes_per_second": 2e9,
            },
            {
                "level": "memory",
                "bytes": 100000,
                "read_bytes_per_second": 1e9,
                "write_bytes_per_second": 5e8,
            },
        ]
    }
    assert ruler.bandwidth(limits, 1) == pytest.approx(4e9)
    assert ruler.bandwidth(limits, 10000) == pytest.approx(2e9)
    assert ruler.bandwidth(limits, 1e9, "write") == pytest.approx(5e8)
    assert [ruler.level(limits, size) for size in (1, 1001, 1e9)] == ["L1", "memory", "memory"]


def test_limits_with_two_threads_and_fewer_instructions():
    limits = ruler.limits("x86-64-v3", 2)
    assert {row["instructions"] for row in limits["peaks"]} == {"AVX2"}
    assert limits["threads"] == 2
    assert min(limits["awake_seconds"], limits["asleep_seconds"]) > 0


def test_shares_of_the_roof(module, found):
    totals = found.summary()
    assert totals["runs"] >= 3
    assert 0 < totals["step_seconds"] <= totals["run_seconds"] <= totals["median_run_seconds"]
    kernels = [row for row in found.rows if row.roof is not None]
    assert len(kernels) >= len(module.kernels)
    for row in kernels:
        assert 0 < row.share <= MOST, row
        assert 0 < row.seconds <= row.median_seconds
        assert row.bytes > 0 and row.calls == 1
    assert 0 < totals["share"] <= MOST
    assert sum(row.flops for row in found.rows) >= 1.7 * sum(
        k["multiply_adds"] for k in module.kernels
    )
    kinds = {item["kind"]: item for item in found.classes}
    assert {"conv 3x3", "depthwise 3x3/2", "conv 1x1", "pool 2x2/2", "matrix x vector"} <= set(
        kinds
    )
    # 2 * 9 * 32 * 64 * 40 * 40 without the products that meet padding.
    (conv,) = [row for row in found.rows if row.kind == "conv 3x3"]
    assert 0.94 * 58982400 < conv.flops < 1.01 * 58982400
    assert conv.bytes == 4 * (32 * 1600 + 64 * 1600 + 64 * 32 * 9)
    assert conv.roof == "compute" and conv.share > 0.2
    assert sum(item["seconds"] for item in found.classes) == pytest.approx(totals["step_seconds"])
    for item in found.classes:
        assert item["lost_seconds"] == pytest.approx(item["seconds"] - item["roof_seconds"])


def test_texts(module, found):
    text = str(found)
    assert "depthwise 3x3/2" in text and "% of the roof" in text and "predicted" in text
    assert len(text.splitlines()) == len(found.rows) + len(found.classes) + 5
    explained = module.explain()
    assert explained.count("measured") == len(module.kernels) + 1
    assert f"measured {found.run_seconds * 1e3:.3f} ms" in explained


def test_json(found):
    value = json.loads(json.dumps(found.to_dict()))
    assert set(value) == {
        "runs",
        "run_seconds",
        "median_run_seconds",
        "step_seconds",
        "roof_seconds",
        "share",
        "predicted_seconds",
        "threads",
        "classes",
        "rows",
    }
    assert set(value["rows"][0]) == {
        "step",
        "label",
        "kind",
        "calls",
        "seconds",
        "median_seconds",
        "flops",
        "gflops_per_second",
        "bytes",
        "roof",
        "roof_seconds",
        "share",
        "predicted_seconds",
    }
    assert set(value["classes"][0]) == {
        "kind",
        "steps",
        "seconds",
        "gflops_per_second",
        "roof_seconds",
        "share",
        "lost_seconds",
        "predicted_seconds",
    }


def test_perfetto(found, tmp_path):
    found.to_perfetto(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["args"]["step"] for event in events] == [row.step for row in found.rows]
    at = 0
    for event in events:
        assert event["ts"] == pytest.approx(at) and event["dur"] > 0  # one after the other
        at = event["ts"] + event["dur"]
    assert at <= found.run_seconds * 1e6
    with pytest.raises(tc.DeviceError, match="cannot be written"):
        found.to_perfetto(tmp_path / "missing" / "trace.json")


def test_two_threads(found):
    two = tc.compile(network(), threads=2, tolerance=0).profile(array((1, 32, 40, 40)), seconds=0.1)
    assert two.threads in (1, 2)  # other runs may hold the worker
    assert two.limits["threads"] == two.threads
    assert two.summary()["step_seconds"] <= two.run_seconds
    if two.threads == 2:
        # The convolution is divided, what is too small is not.
        one = {row.label: row.predicted_seconds for row in found.rows}
        parts = {
            round(one[row.label] / row.predicted_seconds, 6)
            for row in two.rows
            if one.get(row.label) and row.predicted_seconds
        }
        assert parts == {1, 2}


def test_loops_are_profiled_step_by_step():
    """A recurrence: its steps have rows of their own, done once per frame."""
    units = 64
    source = model(
        [helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=units, linear_before_reset=1)],
        {"x": ["frames", 1, 32]},
        "y",
        w=array((1, 3 * units, 32), 1, 0.1),
        r=array((1, 3 * units, units), 2, 0.1),
    )
    module = tc.compile(source, threads=1)
    flops = {}
    for frames in (5, 20):
        found = module.profile(array((frames, 1, 32)), seconds=0.05)
        inner = [row for row in found.rows if row.calls > 1]
        assert inner and all(row.calls == frames for row in inner)
        assert any(
            row.kind == "loop" and row.calls == 1 and row.share is None for row in found.rows
        )
        assert found.summary()["step_seconds"] <= found.run_seconds
        assert all(0 < row.share <= MOST for row in found.rows if row.share is not None)
        flops[frames] = sum(row.flops for row in found.rows)
        # Both matrices.
        assert flops[frames] >= 2 * frames * 3 * units * (32 + units)
    assert flops[20] == pytest.approx(4 * flops[5], rel=0.01)
    assert f"({20} times)" in str(found)


def test_a_loaded_artefact_knows_its_times(module, tmp_path):
    module.save(tmp_path / "model.so")
    found = tc.load(tmp_path / "model.so", threads=1).profile(array((1, 32, 40, 40)), seconds=0.02)
    assert found.limits is None and found.summary()["share"] is None
    assert all(row.share is None and row.flops is None and row.seconds > 0 for row in found.rows)
    assert [row.label for row in found.rows] == [
        row.label for row in module.profile(x=array((1, 32, 40, 40)), seconds=0.02).rows
    ]
    assert " - " in str(found)


def test_refusals(module):
    with pytest.raises(tc.ShapeError, match="takes 1 inputs, not 2"):
        module.profile(array((1, 32, 40, 40)), array((1,)))
    with pytest.raises(tc.ShapeError, match="profile: seconds is -1; give a number of at least 0"):
        module.profile(array((1, 32, 40, 40)), seconds=-1)
    with pytest.raises(tc.TargetError, match="does not run here"):
        tc.compile(network(), "rv64gcv").profile(array((1, 32, 40, 40)))
    with pytest.raises(tc.TargetError, match="the limits of rv64gcv cannot be measured here: "):
        ruler.limits("rv64gcv", 1)


def test_command(tmp_path):
    (tmp_path / "model.onnx").write_bytes(network())

    def bench(*arguments):
        result = subprocess.run(
            [
                sys.executable,
                "-m",
                "tc",
                "bench",
                str(tmp_path / "model.onnx"),
                "--roof",
                "--threads",
                "1",
                "--seconds",
                "0.1",
                *arguments,
            ],
            capture_output=True,
            text=True,
        )
        return result.returncode, result.stdout, result.stderr

    code, out, err = bench("--json")
    assert (code, err) == (0, "")
    value = json.loads(out)
    assert value["limits"]["threads"] == value["profile"]["threads"] == 1
    assert value["profile"]["rows"][0]["seconds"] > 0 and value["min_ms"] > 0
    code, out, err = bench()
    assert (code, err) == (0, "")
    assert (
        "limits measured on 1 thread" in out and "by kind, the one with the most time first" in out
    )
    code, out, err = bench("--target", "rv64gcv")
    assert code == 1 and "does not run here" in err
