"""`python -m tc report`."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from .pages import Page, array, model, small_network


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.onnx"
    path.write_bytes(small_network().SerializeToString())
    return path


def run(*arguments, folder, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "tc", "report", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "TC_LOG": "", **environment},
    )
    return done.returncode, done.stdout, done.stderr


FAST = ("--threads", "1", "--seconds", "0.01")


def test_a_page_and_its_files(file, tmp_path):
    code, out, err = run(
        file, *FAST, "--verify", "--trace", "run.json", "--onnx", "steps.onnx", folder=tmp_path
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("report small.onnx for ") and lines[1].startswith(
        "time   fastest run "
    )
    assert "of the machine's limit" in lines[1] and lines[2] == "errors right, budget 0.0001"
    assert lines[3:] == ["wrote  small.html", "wrote  run.json", "wrote  steps.onnx"]
    read = Page((tmp_path / "small.html").read_text(encoding="utf-8"))
    assert "Error by layer" in read.of("h2")
    (command,) = read.of("pre")
    assert command == (
        f"python -m tc report {file} --threads 1 --seconds 0.01 --verify --trace run.json --onnx steps.onnx"
    )
    assert json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    assert (tmp_path / "steps.onnx").stat().st_size > 100


def test_json_alone_writes_nothing(file, tmp_path):
    code, out, err = run(file, *FAST, "--json", folder=tmp_path)
    assert (code, err) == (0, "") and not list(tmp_path.glob("*.html"))
    facts = json.loads(out)
    assert facts["subject"] == "model" and facts["files"] == [] and facts["steps"]
    assert (
        facts["summary"]["run_seconds"] > 0 and facts["provenance"]["file"]["name"] == "small.onnx"
    )
    code, out, _ = run(file, *FAST, "--json", "-o", "page.html", folder=tmp_path)
    assert code == 0 and json.loads(out)["files"] == ["page.html"]


def test_given_inputs_and_sizes(tmp_path):
    from onnx import helper

    path = tmp_path / "open.onnx"
    path.write_bytes(
        model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n", 4]}, ["y"]).SerializeToString()
    )
    code, out, err = run(path, *FAST, folder=tmp_path)
    assert code == 1 and "tc: input 'x' has the open size 'n'; bind it with --shape n=1" in err
    code, out, err = run(path, *FAST, "--shape", "n=3", folder=tmp_path)
    assert (code, err) == (0, "")
    np.save(tmp_path / "x.npy", array((5, 4)))
    code, out, err = run(path, *FAST, "--json", "--input", f"x={tmp_path}/x.npy", folder=tmp_path)
    facts = json.loads(out)
    assert facts["summary"]["sizes"] == {"x": [5, 4]} and facts["summary"]["seeded"] == []


def test_without_graphviz_the_graph_is_a_table(file, tmp_path):
    code, _, err = run(file, *FAST, folder=tmp_path, PATH="")
    assert (code, err) == (0, "")
    text = Page((tmp_path / "small.html").read_text(encoding="utf-8")).text()
    assert "The graph is a table here: the program dot of graphviz is not installed." in text
    assert "Steps and the steps that they read from" in text


def test_foreign_targets(file, tmp_path):
    code, out, err = run(file, "--target", "rv64gcv", "--threads", "1", folder=tmp_path)
    assert (code, err) == (0, "")
    assert "time   none: model 'small.onnx' is compiled for rv64gcv and does not run here" in out
    code, _, err = run(
        file, "--target", "rv64gcv", "--threads", "1", "--trace", "run.json", folder=tmp_path
    )
    assert code == 1 and "there is no trace of 'small.onnx': it did not run here" in err


def test_a_log_without_records(file, tmp_path):
    (tmp_path / "rows.jsonl").write_text("")
    log = tmp_path / "none.db"
    subprocess.run(
        [sys.executable, "-m", "tc", "log", "import", str(log), str(tmp_path / "rows.jsonl")],
        check=True,
        capture_output=True,
    )
    code, _, err = run(file, *FAST, "--log", log, folder=tmp_path)
    assert (code, err) == (0, "")
    text = Page((tmp_path / "small.html").read_text(encoding="utf-8")).text()
    assert "has no record of this model's kernels for" in text


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("missing.onnx",), "tc: missing.onnx: cannot be read: No such file or directory"),
        (
            ("small.onnx", *FAST, "-o", "small.onnx"),
            "'small.onnx' is the model itself, which the report would replace",
        ),
        (("small.onnx", *FAST, "--trace", "small.onnx"), "'small.onnx' is the model itself"),
        (
            ("small.onnx", *FAST, "-o", "no/page.html"),
            "page.html' cannot be written: there is no folder",
        ),
        (("small.onnx", *FAST, "--log", "no.db"), "no.db"),
        (("small.onnx", *FAST, "--input", "z=x.npy"), "--input takes NAME=FILE.npy"),
        (("small.onnx", "--target", "abacus"), "abacus"),
    ],
)
def test_errors_are_one_sentence(file, tmp_path, arguments, message):
    code, out, err = run(*arguments, folder=tmp_path)
    assert (code, out) == (1, "") and err.startswith("tc: ") and message in err
    assert err.count("\n") == 1 and "Traceback" not in err and "internal error" not in err
    assert file.read_bytes() == small_network().SerializeToString()
    code, out, _ = run(*arguments, "--json", folder=tmp_path)
    assert code == 1 and message.removeprefix("tc: ") in json.loads(out)["error"]["text"]


def test_wrong_usage(tmp_path):
    code, _, err = run("--seconds", "-1", "small.onnx", folder=tmp_path)
    assert code == 2 and "--seconds" in err
