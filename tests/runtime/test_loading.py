"""tc.load after anything that was loaded, or refused, before: each file is itself, whatever was
open under its name or number."""

import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import tc

from ..support import ROOT
from .artefacts import COMPILER, library, resealed

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(name="models", scope="module")
def models_of_sums(tmp_path_factory):
    """Three artefacts that add another number: 20, 21 and 22."""
    folder = tmp_path_factory.mktemp("models")
    text = (ROOT / "tests/runtime/fake_model.c").read_text()
    return [
        library(
            folder / f"model{added}.so",
            text.replace("+ y[i];", f"+ y[i] + {added - 20};").replace('"fake"', f'"adds{added}"'),
        )
        for added in (20, 21, 22)
    ]


def added_by(path, threads=1):
    """What the artefact adds, and that its name is of the same file."""
    module = tc.load(path, threads=threads)
    number = int(module(X, X)[0][0, 0])
    assert module._model.info()["model"] in ("fake", f"adds{number}")
    return number


def no_models(folder, model):
    """Files that are no models, and what is said of each."""
    data = model.read_bytes()
    stays = (
        '__attribute__((constructor)) static void loaded(void) { putenv("LOADED_A_STRANGER=1"); }\n'
    )
    files = {
        "stranger.so": (
            "#include <stdlib.h>\n" + stays,
            "it has no symbol tc_model_descriptor",
            ["-Wl,-z,nodelete"],
        ),
        "asks.so": (
            "extern const int tc_model_descriptor; const int* where(void) { return &tc_model_descriptor; }",
            "undefined symbol: tc_model_descriptor",
            [],
        ),
        "liar.so": (
            'const char tc_model_descriptor[400] = "no model";',
            "its descriptor starts with",
            ["-Wl,-z,nodelete"],
        ),
    }
    made = {
        library(folder / name, text, *options): told
        for name, (text, told, options) in files.items()
    }
    others = {
        "text.so": (b"This is no library.\n" * 20, "it is no ELF file"),
        "empty.so": (b"", "the file is empty"),
        "cut.so": (data[: len(data) // 2], "the file is cut short"),
        "head.so": (data[:20], "the file is too short for an ELF header"),
        "sections.o": (
            resealed(data[:16] + (1).to_bytes(2, "little") + data[18:]),
            "it is no shared library",
        ),
    }
    for name, (content, told) in others.items():
        (folder / name).write_bytes(content)
        made[folder / name] = told
    return made


def test_a_good_file_after_each_that_is_none(models, tmp_path):
    """The number of a file that is closed is given to the next one that is opened."""
    refused = no_models(tmp_path, models[0])
    for _ in range(2):
        for path, told in refused.items():
            with pytest.raises(tc.ModelError) as raised:
                tc.load(path)
            assert str(raised.value).startswith(f"{path}: not a compiled model (") and told in str(
                raised.value
            )
            assert "/proc/self" not in str(raised.value)
            assert [added_by(model) for model in models] == [20, 21, 22]


def test_what_is_no_model_is_not_executed(models, tmp_path):
    """Its constructor would set a variable of the environment."""
    path = next(path for path in no_models(tmp_path, models[0]) if path.name == "stranger.so")
    script = (
        "import os, sys, tc, ctypes\n"
        "try: tc.load(sys.argv[1])\n"
        "except tc.ModelError as error: print(error)\n"
        "print(bool(ctypes.CDLL(None).getenv(b'LOADED_A_STRANGER')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
    )
    assert (
        done.stdout
        == f"{path}: not a compiled model (it has no symbol tc_model_descriptor)\nFalse\n"
    )


def test_a_file_twice_and_others_between(models):
    """The second handle keeps the library when the first goes; a third file does not become it."""
    first = tc.load(models[0])
    second = tc.load(models[0])
    del first
    assert [added_by(model) for model in models] == [20, 21, 22]
    assert int(second(X, X)[0][0, 0]) == 20
    del second
    assert [added_by(model) for model in reversed(models)] == [22, 21, 20]


def test_a_path_that_is_replaced(models, tmp_path):
    path = tmp_path / "model.so"
    kept = []
    for model, added in [(models[0], 20), (models[1], 21), (models[2], 22), (models[0], 20)]:
        shutil.copy(model, tmp_path / "new.so")
        os.replace(tmp_path / "new.so", path)
        kept.append((tc.load(path), added))
    assert [int(module(X, X)[0][0, 0]) for module, _ in kept] == [added for _, added in kept]


def test_a_path_that_is_overwritten(models, tmp_path):
    """Overwriting a file in place spoils what is loaded of it; the next load has what is there
    now."""
    path = tmp_path / "model.so"
    shutil.copyfile(models[0], path)
    assert added_by(path) == 20
    shutil.copyfile(models[1], path)
    assert added_by(path) == 21
    script = (
        "import os, sys, shutil, numpy as np, tc\n"
        "x = np.zeros((2, 3), np.float32)\n"
        "kept = []\n"
        "for source in sys.argv[2:]:\n"
        "    shutil.copyfile(source, sys.argv[1])\n"
        "    kept += [tc.load(sys.argv[1]), tc.load(sys.argv[1])]\n"
        "    print([int(each(x, x)[0][0, 0]) for each in kept[-2:]], flush=True)\n"
        "os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path, *models], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "[20, 20]\n[21, 21]\n[22, 22]\n"), done.stderr


def test_by_other_names(models, tmp_path):
    """A link, a link in a folder that is one, and a name that is bytes are the same file."""
    os.symlink(models[1], tmp_path / "link.so")
    os.symlink(tmp_path, tmp_path / "folder")
    os.link(models[1], tmp_path / "hard.so")
    modules = [
        tc.load(path)
        for path in (
            models[1],
            tmp_path / "link.so",
            tmp_path / "folder" / "link.so",
            os.fsencode(tmp_path / "hard.so"),
        )
    ]
    assert [int(module(X, X)[0][0, 0]) for module in modules] == [21] * 4


def test_files_stay_closed(models, tmp_path):
    """Neither a refusal nor a model keeps a file open."""
    before = len(os.listdir("/proc/self/fd"))
    kept = [tc.load(model) for model in models for _ in range(5)]
    for path in no_models(tmp_path, models[0]):
        for _ in range(5):
            with pytest.raises(tc.ModelError):
                tc.load(path)
    assert len(os.listdir("/proc/self/fd")) == before and len(kept) == 15


def test_many_loads_in_threads(models, tmp_path):
    refused, wrong = list(no_models(tmp_path, models[0])), []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(40):
            number = int(random.integers(0, 3 + len(refused)))
            try:
                found = added_by(models[number] if number < 3 else refused[number - 3])
                if found != 20 + number:
                    wrong.append((number, found))
            except tc.ModelError:
                if number < 3:
                    wrong.append(number)
            except AssertionError as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
