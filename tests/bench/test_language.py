"""The comparison of engines that generate text measures, and reports what is missing."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

for name in "gguf", "tokenizers", "transformers":
    pytest.importorskip(name, reason=f"{name} is not installed")
from tests.bench import language, language_files  # noqa: E402
from tests.frontend.test_gguf import written  # noqa: E402
from tests.support import ROOT  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return written(tmp_path_factory.mktemp("tiny"), "qwen3")[0]


def bench(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "tests.bench.language", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        text=True,
        capture_output=True,
        check=False,
    )


def test_rows_and_table(model, tmp_path):
    # A peer that is not installed, wherever this runs.
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "xllamacpp.py").write_text("import a_part_that_nobody_has\n")
    (tmp_path / "packages" / "openvino_genai.py").write_text("class LLMPipeline:\n    pass\n")
    done = bench(
        model,
        "--packages",
        tmp_path / "packages",
        "--lengths",
        8,
        24,
        4096,
        "--tokens",
        6,
        "--rounds",
        2,
        "--json",
        tmp_path / "rows.json",
    )
    assert done.returncode == 0, done.stderr
    *rows, facts, read, head, first, second = [
        line
        for line in done.stdout.splitlines()
        if not any(f" {name} " in line for name in ("tc-8bit", "llama.cpp", "openvino-genai"))
    ]
    rows = [json.loads(row) for row in rows]
    assert [(row["engine"], row["length"]) for row in rows] == [
        (engine, length)
        for length in (8, 24)
        for engine in ("tc", "tc-8bit", "llama.cpp", "openvino-genai")
    ]
    for row in [*rows[::4], *rows[1::4]]:
        assert len(row["prefill_seconds"]) == len(row["decode_seconds"]) == 2
        assert row["decode_per_second"] == 5 / min(row["decode_seconds"])
        assert row["prefill_per_second"] == row["length"] / min(row["prefill_seconds"])
        assert 0 < row["share"] < 2 and row["peak_megabytes"] > 20 and row["build_seconds"] > 0
        assert row["alike"] >= 6 and row["format"] == "F32"
    assert rows[2]["missing"] == "No module named 'a_part_that_nobody_has'"
    assert rows[3]["failed"].startswith("TypeError: ")
    assert facts.startswith("tiny.gguf: F32, 0.1 MB of weights a token") and read.startswith(
        "1 thread read "
    )
    assert (
        head == language.HEAD
        and first.startswith("     8       1 tc  ")
        and second.startswith("    24  ")
    )
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == rows
    assert (
        "llama.cpp          not installed (No module named 'a_part_that_nobody_has')" in done.stdout
    )


def test_bytes_of_a_token(model):
    from tc.gguf.file import open_file

    file = open_file(model)
    facts, whole = language.facts_of(file), sum(tensor.size for tensor in file.tensors.values())
    table = file.tensors["token_embd.weight"].size
    assert facts["context"] == 64
    assert facts["bytes"] == whole - (table if "output.weight" in file.tensors else 0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--lengths", "64"], "the model's context of 64 tokens has room for none of the lengths"),
        (
            ["--model", "x"],
            "--model takes ENGINE=PATH of tc, tc-8bit, llama.cpp, onnxruntime-genai, openvino-genai, not 'x'",
        ),
        (
            ["--tokens", "1"],
            "give answers of at least 2 tokens, and lengths, threads and rounds of at least 1",
        ),
    ],
)
def test_wrong_uses(model, arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["language", str(model), *arguments])
    with pytest.raises(SystemExit) as end:
        language.main()
    assert end.value.code == 2 and capsys.readouterr().err.endswith(f"error: {message}\n")


@pytest.mark.full
@pytest.mark.parametrize(
    "engine, package", [("llama.cpp", "xllamacpp"), ("openvino-genai", "openvino_genai")]
)
def test_peers_that_are_installed(engine, package):
    """With the real model of $TC_GGUF: the answers begin alike."""
    from tests.frontend.test_generate import real_model

    pytest.importorskip(package, reason=f"{package} is not installed")
    done = bench(
        real_model(), "--engines", "tc", engine, "--lengths", 128, "--tokens", 8, "--rounds", 1
    )
    assert done.returncode == 0, done.stderr
    own, other = [json.loads(line) for line in done.stdout.splitlines()[:2]]
    assert other["engine"] == engine and other["decode_per_second"] > 0
    assert own["alike"] > 0


# --- files in other formats ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_0", "Q4_1", "Q4_K"])
def test_a_format_keeps_the_weights(kind):
    from gguf.quants import dequantize

    weights = np.random.default_rng(1).standard_normal((6, 512), dtype=np.float32)
    weights[1] = 0
    weights[2] = np.abs(weights[2])  # of one sign
    stored, own = language_files.packed(weights, kind)
    error = np.abs(dequantize(stored, own).reshape(weights.shape) - weights).max(axis=1)
    steps = {"F16": 2**-11, "Q8_0": 1 / 250}.get(kind, 1 / 7.9)
    assert own.name == kind
    assert (error <= steps * np.abs(weights).max(axis=1)).all(), (kind, error)


def test_rows_that_are_no_blocks_of_256():
    stored, own = language_files.packed(np.ones((2, 96), np.float32), "Q4_K")
    assert own.name == "Q5_0"
    assert stored.shape[0] == 2


def test_seeded_files_and_other_formats_are_read(model, tmp_path, monkeypatch):
    import tc

    shape = language_files.Shape("qwen2", 64, 96, 2, 4, 2, 48, 1e4, 64, biases=True)
    monkeypatch.setitem(language_files.SHAPES, "tiny", shape)
    for arguments in (["tiny", "F16", "--tokens-of", model], [model, "Q8_0"]):
        out = tmp_path / "out.gguf"
        monkeypatch.setattr(
            sys,
            "argv",
            ["language_files", *map(str, arguments[:2]), str(out), *map(str, arguments[2:])],
        )
        assert language_files.main() == 0
        module = tc.compile(out, shapes={"batch": 1}, threads=1)
        logits = module.prefill([3, 4, 5])
        assert np.isfinite(np.asarray(logits)).all()
    monkeypatch.setattr(sys, "argv", ["language_files", "tiny", "F16", str(out)])
    with pytest.raises(SystemExit):
        language_files.main()
