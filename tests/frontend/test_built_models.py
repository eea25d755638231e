"""Language models that another process compiles, and that are kept for the next time."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import tc

pytest.importorskip(
    "gguf", reason="GGUF files are read by the package gguf, which is not installed"
)
pytest.importorskip("transformers", reason="the reference is transformers, which is not installed")

from tc.language import built, generating  # noqa: E402

from .test_gguf import written  # noqa: E402


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder of artefacts; no model is kept in memory."""
    folder = tmp_path / "kept"
    monkeypatch.setenv("TC_CACHE", str(folder))
    monkeypatch.setattr(generating, "_kept", {})
    return folder


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    path, _ = written(tmp_path_factory.mktemp("written"), "qwen3")
    return Path(path).read_bytes()


@pytest.fixture
def model(tmp_path, content):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    return path


def text_of(model, monkeypatch):
    monkeypatch.setattr(generating, "_kept", {})
    return tc.generate(model, "ab", max_tokens=4, threads=1)


def no_build(*_):
    raise AssertionError("the model is compiled again")


def test_the_second_process_opens_what_the_first_has_compiled(kept, model, monkeypatch):
    first = text_of(model, monkeypatch)
    (artefact,) = kept.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    compiled = tc.compile(model, threads=1, log=False)
    assert tc.generate(compiled, "ab", max_tokens=4) == first
    with monkeypatch.context() as patch:
        patch.setattr(built, "_build", no_build)
        os.utime(artefact, (1, 1))
        assert text_of(model, monkeypatch) == first
        assert artefact.stat().st_mtime > 1  # it was used
    with monkeypatch.context() as patch:  # another tolerance is another artefact
        patch.setattr(built, "_build", no_build)
        patch.setattr(generating, "_kept", {})
        with pytest.raises(AssertionError, match="compiled again"):
            tc.generate(model, "ab", threads=1, tolerance=0.12)
    os.utime(model, (1, 1))  # another file, as far as anyone can tell
    assert text_of(model, monkeypatch) == first
    assert len(list(kept.iterdir())) == 2


def test_a_process_that_generates_holds_no_compiler(kept, model):
    program = f"""
import sys, tc
print(tc.generate({str(model)!r}, "ab", max_tokens=4, threads=1), file=sys.stderr)
loaded = open("/proc/self/maps").read()
sys.exit("libLLVM" in loaded or "/_tc.so" in loaded)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0


def test_a_damaged_artefact_is_made_anew(kept, model, monkeypatch):
    first = text_of(model, monkeypatch)
    (artefact,) = kept.iterdir()
    artefact.write_bytes(artefact.read_bytes()[:-100])
    assert text_of(model, monkeypatch) == first
    with monkeypatch.context() as patch:
        patch.setattr(built, "_build", no_build)
        assert text_of(model, monkeypatch) == first


def test_nothing_is_kept_where_the_variable_is_empty(tmp_path, model, monkeypatch):
    monkeypatch.setenv("TC_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text_of(model, monkeypatch)
    assert not (tmp_path / "cache").exists()
    monkeypatch.delenv("TC_CACHE")
    assert built.folder() == str(tmp_path / "cache" / "tc" / "language")


def test_a_folder_that_others_may_write_to_is_left_alone(kept, model, monkeypatch):
    kept.mkdir(mode=0o777)
    kept.chmod(0o777)
    text_of(model, monkeypatch)
    assert list(kept.iterdir()) == []


def test_the_least_recently_used_are_removed(kept, model, monkeypatch):
    kept.mkdir(mode=0o700)
    for number, name in enumerate(("new", "old", "older")):
        (kept / f"{name}.so").write_bytes(bytes(1000))
        os.utime(kept / f"{name}.so", (1000 - number, 1000 - number))
    (kept / "other").write_bytes(b"of another program")
    text_of(model, monkeypatch)
    (own,) = {each for each in kept.iterdir() if each.stem not in ("new", "old", "older", "other")}
    monkeypatch.setattr(built, "MAX_BYTES", own.stat().st_size + 1500)
    built._remove_old(str(kept), str(own))
    assert {each.name for each in kept.iterdir()} == {own.name, "new.so", "other"}


def test_what_the_compiler_refuses_is_said(kept, model, content, monkeypatch):
    assert content.count(b"output_norm.weight") == 1
    model.write_bytes(content.replace(b"output_norm.weight", b"output_poem.weight"))
    with pytest.raises(tc.ModelError, match="it has no tensor 'output_norm.weight'") as refused:
        tc.compile(model)
    with pytest.raises(tc.ModelError) as error:
        text_of(model, monkeypatch)
    assert str(error.value) == str(refused.value)
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize(
    "program, kind, text",
    [
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            tc.DeviceError,
            "the process that compiles 'model.gguf' was ended by SIGKILL; the machine may have too little memory",
        ),
        (
            "import sys; sys.exit(3)",
            tc.Error,
            "internal error: the process that compiles 'model.gguf' ended with status 3 and no answer",
        ),
    ],
)
def test_a_process_that_ends_early(kept, model, tmp_path, monkeypatch, program, kind, text):
    (tmp_path / "ends_early.py").write_text(program)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(built, "_PROGRAM", "ends_early")
    with pytest.raises(kind) as error:
        text_of(model, monkeypatch)
    assert str(error.value) == text
