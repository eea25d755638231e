"""Language models of GGUF files: the same logits as transformers, with all that came before or
without, and what is refused."""

import importlib
import sys

import numpy as np
import pytest

import tc

pytest.importorskip(
    "gguf", reason="GGUF files are read by the package gguf, which is not installed"
)
pytest.importorskip("transformers", reason="the reference is transformers, which is not installed")
from ..support import worst_error  # noqa: E402
from . import gguf_models  # noqa: E402
from .gguf_files import write_model  # noqa: E402

RANDOM = np.random.default_rng(7)


def written(folder, name, divided=False):
    """(path of a small model's file, the model of transformers)"""
    architecture, *_, more = gguf_models.MODELS[name]
    model, configuration = gguf_models.made(name)
    return write_model(
        folder / "tiny.gguf",
        architecture,
        model,
        configuration,
        more,
        gguf_models.factor_tensors(name),
        divided,
    ), model


def empty(module, batch=1, content=np.nan):
    """Caches with room for 24 positions; what is in them counts for nothing."""
    return [
        np.full((batch, port.shape[1], 24, port.shape[3]), content, np.float32)
        for port in module.inputs[2:]
    ]


def after(count, batch):
    return np.full(batch, count, np.int64)


# One of each architecture; others with --full.
FEW = (
    "llama with biases, tied",
    "qwen2moe",
    "smollm3",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3",
    "phi3",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in FEW else pytest.mark.full)
        for name in gguf_models.MODELS
    ],
)
def test_logits_are_those_of_transformers(name, tmp_path):
    path, model = written(tmp_path, name)
    module = tc.compile(path, threads=1, log=False)
    ids = RANDOM.integers(0, gguf_models.VOCABULARY, (2, 21))
    expected = gguf_models.logits_of(model, ids)
    logits, *_ = module(ids, after(0, 2), *empty(module, 2))
    assert worst_error(logits, expected) <= 2e-5
    # The same in parts. Longer texts than those of training have other angles, which keys of the
    # past do not get.
    if "long" in name:
        expected = gguf_models.logits_of(model, ids[:, :12])
        ids = ids[:, :12]
    parts, kept = [], empty(module, 2)
    for begin, end in ((0, 7), (7, 8), (8, 9), (9, ids.shape[1])):
        logits, *kept = module(ids[:, begin:end], after(begin, 2), *kept)
        parts.append(logits)
    assert worst_error(np.concatenate(parts, axis=1), expected) <= 2e-5
    # Sequences of several lengths, in place: each goes on from where it is. The shorter one's slots
    # up to the longest one's length are multiplied by 0.
    caches, lengths = empty(module, 2, 3.0), np.array([9, 4])
    module.run_in_place(ids[:, :9], after(0, 2), *caches)
    new = np.stack([row[count : count + 2] for row, count in zip(ids, lengths)])
    logits, *given = module.run_in_place(new, lengths, *caches)
    assert all(one is other for one, other in zip(given, caches, strict=True))
    wanted = np.stack([row[count : count + 2] for row, count in zip(expected, lengths)])
    assert worst_error(logits, wanted) <= 2e-5


def test_experts_with_tensors_of_their_own(tmp_path):
    """Old files of llama.cpp, in which ffn_gate.0 is the gate of expert 0."""
    path, model = written(tmp_path, "mixtral", divided=True)
    assert b"ffn_gate.5.weight" in path.read_bytes() and b"_exps" not in path.read_bytes()
    module = tc.compile(path, shapes={"batch": 1}, threads=1, log=False)
    ids = RANDOM.integers(0, gguf_models.VOCABULARY, (1, 9))
    logits, *_ = module(ids, after(0, 1), *empty(module))
    assert worst_error(logits, gguf_models.logits_of(model, ids)) <= 2e-5


def test_ports_have_the_names_of_other_exporters(tmp_path):
    path, _ = written(tmp_path, "llama")
    module = tc.compile(path, threads=1, log=False)
    assert module.name == "tiny.gguf"
    assert [(port.name, port.dtype, port.shape) for port in module.inputs[:4]] == [
        ("input_ids", "int64", ("batch", "seq")),
        ("length", "int64", ("batch",)),
        ("past_key_values.0.key", "float32", ("batch", 2, "capacity", 8)),
        ("past_key_values.0.value", "float32", ("batch", 2, "capacity", 8)),
    ]
    assert [port.name for port in module.outputs[:3]] == [
        "logits",
        "present.0.key",
        "present.0.value",
    ]
    assert module.in_place == {
        f"present.{layer}.{what}": f"past_key_values.{layer}.{what}"
        for layer in range(2)
        for what in ("key", "value")
    }
    assert tc.check(path) == []
    assert tc.check(path.read_bytes()) == []


def test_without_the_package(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("tc.gguf")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(tc.Error) as raised:
        importlib.import_module("tc.gguf")
    assert str(raised.value) == (
        "GGUF files are read by the package gguf, which is not installed here: "
        "pip install 'tc-compiler[gguf]'"
    )
    monkeypatch.undo()
    importlib.import_module("tc.gguf")
