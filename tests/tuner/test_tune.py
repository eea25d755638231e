"""Tuning end to end: agents on this machine and a simulated board, the log, builds that read it."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import tc
from tc import fleet
from tc.cli import main

from .tuning import save_small_model

pytest.importorskip("onnx")


def small_model():
    """A convolution with its epilogue and a product: two kernels that can be tuned."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(3)
    weights = {"w": (24, 16, 3, 3), "b": (24,), "m": (24, 40)}
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("GlobalAveragePool", ["r"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("MatMul", ["f", "m"], ["y"]),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 20, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 40])],
        [
            numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) * 0.2, name)
            for name, shape in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pooling_model():
    """An average and a product, the first of which has a faster schedule than the untuned one."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(3).standard_normal((24, 40)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("GlobalAveragePool", ["x"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("MatMul", ["f", "m"], ["y"]),
        ],
        "pooling",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 24, 20, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 40])],
        [numpy_helper.from_array(weights, "m")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def shared_bytes(tmp_path, model, **options):
    tc.compile(model, threads=1, **options).save(tmp_path / "model.so")
    return hashlib.sha256((tmp_path / "model.so").read_bytes()).hexdigest()


def test_tuning_works_where_the_path_of_temporary_files_is_long(tmp_path, monkeypatch):
    """The address of a Unix socket holds 107 characters; no folder of the agent's stays behind."""
    long = tmp_path / ("a" * 60) / ("b" * 60)
    long.mkdir(parents=True)
    monkeypatch.setenv("TMPDIR", str(long))
    before = set(Path("/tmp").glob("tc-agent-*"))
    result = tc.tune(small_model(), threads=1, trials=4, log=tmp_path / "log.db")
    assert result.measured == 4
    assert set(Path("/tmp").glob("tc-agent-*")) <= before and not list(long.iterdir())


@pytest.mark.parametrize(
    "scheme, builders, trials", [("sqlite", "processes:2", 12), ("memory", "in-process", 8)]
)
def test_tuning_here_fills_a_log_that_builds_use(tmp_path, scheme, builders, trials):
    log, model = f"{scheme}:{tmp_path}/log.db", small_model()
    seen = []
    result = tc.tune(
        model, threads=1, trials=trials, log=log, builders=builders, progress=seen.append
    )
    assert result.measured == trials and result.stopped == "budget" and result.unit == "seconds"
    # A busy machine makes times noisy; everything else is a fault.
    assert not any(set(kernel.failures) - {"noisy"} for kernel in result.kernels), result.summary()
    assert seen and seen[-1]["doing"] == "done"
    assert f"schedules tried, {trials} measured now" in result.summary()
    records = tc.Log(log).records()
    assert len(records) == trials and {record.outcome for record in records} <= {"ok", "noisy"}
    assert all(record.worst_error <= 1e-4 for record in records if record.outcome == "ok")

    again = tc.tune(model, threads=1, trials=trials, log=log, builders=builders)
    assert again.measured == 0 and again.trials == trials
    x = np.random.default_rng(0).standard_normal((1, 16, 20, 20)).astype(np.float32)
    untuned = tc.compile(model, threads=1, log=False)
    tuned = tc.compile(model, threads=1, log=log)
    np.testing.assert_allclose(tuned(x), untuned(x), rtol=1e-4, atol=1e-5)
    assert shared_bytes(tmp_path, model, log=log) == shared_bytes(tmp_path, model, log=log)

    exported = tmp_path / "log.jsonl"
    assert tc.Log(log).export(exported) == trials
    assert tc.Log.import_into(tmp_path / "copy.db", exported) == trials
    assert shared_bytes(tmp_path, model, log=tmp_path / "copy.db") == shared_bytes(
        tmp_path, model, log=log
    )
    with tc.Log(log) as opened:
        assert shared_bytes(tmp_path, model, log=opened) == shared_bytes(tmp_path, model, log=log)


def test_many_models_share_a_budget(tmp_path, capsys):
    """Each has a table of its own; a kernel that both have is measured once, and counts in both."""
    import onnx

    paths = [str(tmp_path / name) for name in ("one.onnx", "two.onnx", "products.onnx")]
    onnx.save(small_model(), paths[0])
    onnx.save(small_model(), paths[1])
    save_small_model(paths[2])
    words = ["tune", *paths, "--threads", "1", "--trials", "12", "--builders", "processes:2"]
    assert main([*words, "--log", str(tmp_path / "log.db"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["trials"] == found["measured"] == 12 == len(tc.Log(tmp_path / "log.db").records())
    one, two, other = found["models"]
    assert [row["model"] for row in (one, two, other)] == [Path(path).name for path in paths]
    shared = [(row["label"], row["trials"], row["best"]) for row in one["kernels"]]
    assert shared == [(row["label"], row["trials"], row["best"]) for row in two["kernels"]]
    assert one["trials"] + other["trials"] == 12 and other["trials"] >= len(other["kernels"]) > 0
    assert found["kernels"] == len(one["kernels"]) + len(other["kernels"])

    again = tc.tune(paths, threads=1, trials=12, log=tmp_path / "log.db")
    assert again.measured == 0 and again.trials == 12 and len(again.models) == 3
    text = again.summary()
    assert f"3 models: {found['kernels']} kernels, of which models share {len(shared)};" in text
    assert text.count("log: ") == 1 and "times as fast as untuned:" in text
    assert repr(again).startswith("<tc.TuneResults of 3 models: ")
    with pytest.raises(tc.Error, match="there is no model to tune"):
        tc.tune([], log=tmp_path / "log.db")


@pytest.mark.skipif(shutil.which("qemu-riscv64") is None, reason="qemu-riscv64 is not installed")
def test_whole_models_are_built_by_the_builders_and_here_alike(tmp_path):
    """The tuner builds those itself whose file has not all of it."""
    import onnx

    model, own = pooling_model(), tmp_path / "own.onnx"
    onnx.save(
        pooling_model(), own, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    found = []
    with fleet.Local(["--name", "board", "--runner", "qemu", "--vector-bits", "256"]) as programs:
        for name, builders in ("a", "processes:2"), ("b", "in-process"), ("own", "processes:2"):
            result = tc.tune(
                own if name == "own" else model,
                "rv64gcv",
                threads=1,
                trials=30,
                log=tmp_path / f"{name}.db",
                insecure=True,
                tracker=programs.address,
                builders=builders,
            )
            assert result.model_gain is not None and result.model_gain > 1, result.summary()
            records = tc.Log(tmp_path / f"{name}.db").records()
            found.append(
                (result.model_gain, sorted((r.trace, r.median, r.chosen) for r in records))
            )
    assert found[0] == found[1] == found[2]


@pytest.mark.skipif(shutil.which("qemu-riscv64") is None, reason="qemu-riscv64 is not installed")
def test_a_simulated_board_answers_alike_and_results_stay_with_their_target(tmp_path):
    model = small_model()
    with fleet.Local(["--name", "board", "--runner", "qemu", "--vector-bits", "256"]) as programs:

        def tune(name):
            return tc.tune(
                model,
                "rv64gcv",
                threads=1,
                trials=10,
                log=tmp_path / name,
                insecure=True,
                tracker=programs.address,
            )

        first, second = tune("one.db"), tune("two.db")
        assert first.unit == "simulated cycles"
        assert [kernel.best for kernel in first.kernels] == [
            kernel.best for kernel in second.kernels
        ]
        assert all(kernel.best <= kernel.untuned for kernel in first.kernels)
        with pytest.raises(tc.DeviceError, match="x86-64"):
            tc.tune(
                model,
                "x86-64-v3",
                threads=1,
                trials=2,
                log=tmp_path / "three.db",
                insecure=True,
                tracker=programs.address,
            )
    # Nothing that was measured for another target is used.
    assert shared_bytes(
        tmp_path, model, target="x86-64-v3", log=tmp_path / "one.db"
    ) == shared_bytes(tmp_path, model, target="x86-64-v3", log=False)
    plain = tc.compile(model, "rv64gcv", threads=1, log=False)
    tuned = tc.compile(model, "rv64gcv", threads=1, log=tmp_path / "one.db")
    assert "kernels run schedules of the tuning log" in tuned.explain()
    assert "tuning log" not in plain.explain()


def test_a_record_that_is_illegal_is_refused_and_the_build_goes_on(tmp_path):
    model, log = small_model(), tmp_path / "log.db"
    tc.tune(model, threads=1, trials=3, log=log)
    tc.Log(log).export(tmp_path / "rows")
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    for row in rows:
        row["trace"] = row["trace"] + ["split nothing 4 as a b"]
    (tmp_path / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tc.Log.import_into(tmp_path / "bad.db", tmp_path / "rows")
    module = tc.compile(model, threads=1, log=tmp_path / "bad.db")
    assert "is not used" in module.explain() and "nothing" in module.explain()
    assert shared_bytes(tmp_path, model, log=tmp_path / "bad.db") == shared_bytes(
        tmp_path, model, log=False
    )


def test_what_cannot_be_tuned_is_told(tmp_path, capsys):
    model, log = small_model(), tmp_path / "log.db"
    with pytest.raises(tc.DeviceError, match="127.0.0.1:1"):
        tc.tune(model, trials=1, log=log, tracker="127.0.0.1:1", insecure=True)
    with pytest.raises(tc.TargetError, match="start a tracker and an agent on a board"):
        tc.tune(model, "rv64gcv", trials=1, log=log)
    with pytest.raises(tc.Error, match="trials is 0"):
        tc.tune(model, trials=0, log=log)
    with pytest.raises(tc.Error, match="time_limit is -1"):
        tc.tune(model, time_limit=-1, log=log)
    with pytest.raises(
        tc.DeviceError, match=r"builders is 'threads'; give one of processes\[:N\] \("
    ):
        tc.tune(model, trials=1, log=log, builders="threads")
    with pytest.raises(
        tc.DeviceError,
        match="builders is 'processes:0'; give processes:N with a number from 1 to 1024",
    ):
        tc.compile(model, tune=True, trials=1, log=log, builders="processes:0")
    assert (
        main(
            [
                "tune",
                "none.onnx",
                "--trials",
                "1",
                "--log",
                str(log),
                "--builders",
                "processes:many",
            ]
        )
        == 1
    )
    assert "processes:N with a number" in capsys.readouterr().err
    (tmp_path / "text.db").write_text("x" * 5000)
    with pytest.raises(tc.LogError, match="the log is damaged"):
        tc.tune(model, trials=1, log=tmp_path / "text.db")
    with pytest.raises(tc.LogError, match="no such log"):
        tc.compile(model, log=tmp_path / "none.db")
    (tmp_path / "rows").write_text("no json\n")
    with pytest.raises(tc.LogError, match="line 1 is no record"):
        tc.Log.import_into(tmp_path / "new.db", tmp_path / "rows")
    (tmp_path / "rows").write_text("{}\n")
    with pytest.raises(tc.LogError, match="a record lacks the field 'workload'"):
        tc.Log.import_into(tmp_path / "new.db", tmp_path / "rows")
    assert main(["log", "stats", str(tmp_path / "none.db")]) == 1
    assert "no such log" in capsys.readouterr().err


def test_the_demo_compares_by_turns():
    """Copies of a name take turns, and names do in each round."""
    from tc.demo import medians_by_turns

    met = []
    calls = {
        "a": [lambda values, copy=copy: met.append(("a", copy)) for copy in range(3)],
        "b": [lambda values: met.append(("b", 0))],
    }
    times = medians_by_turns(calls, None, seconds=0, least_rounds=6)
    assert list(times) == ["a", "b"] and all(time >= 0 for time in times.values())
    rounds = met[4:]  # after a first call of each
    assert rounds == [pair for number in range(6) for pair in (("a", number % 3), ("b", 0))]
