"""Files of PyTorch that are cut, changed or hostile, and programs without sense: one sentence, and
nothing in them is run."""

import contextlib
import io
import os
import pickle
import zipfile

import pytest
import torch
from torch import nn

import tc
from tc.torch import models
from tests.support import models_folder

from .torch_refusals import refusal


CANARY = []


class Calls:
    """A pickle that calls something when it is read."""

    def __reduce__(self):
        return CANARY.append, (1,)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "model.pt"
    torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU())).save(str(path))
    return path


def rewritten(archive, path, **changes):
    """The archive with other files: {name in the archive: bytes}."""
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            name = entry.filename.partition("/")[2]
            new.writestr(entry.filename, changes.pop(name, None) or old.read(entry))
        for name, data in changes.items():
            new.writestr(
                name, data, zipfile.ZIP_DEFLATED if len(data) > 1 << 20 else zipfile.ZIP_STORED
            )
    return path


def shape_of(path):
    return lambda: tc.compile(path, shapes={"input": (2, 8)}, log=False)


def test_truncated_archives(archive, tmp_path):
    data = archive.read_bytes()
    path = tmp_path / "cut.pt"
    for size in range(0, len(data) - 1, 1000 if len(data) > 20000 else 500):
        path.write_bytes(data[:size])
        assert "'cut.pt' is " in refusal(shape_of(path), tc.ModelError)


def test_changed_bytes_do_no_harm(archive, tmp_path, request):
    """Every 997th byte is another (397th with --full): compiled, or refused in one sentence."""
    data = bytearray(archive.read_bytes())
    path = tmp_path / "changed.pt"
    for place in range(0, len(data), 397 if request.config.getoption("--full") else 997):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            tc.check(path, shapes={"input": (2, 8)})
        except tc.Error as error:
            assert "internal error" not in str(error), (place, str(error))


class Shifted(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def erase_output(program):
    program.graph.erase_node(next(node for node in program.graph.nodes if node.op == "output"))


def erase_operands(program):
    next(node for node in program.graph.nodes if node.op == "call_function").args = ()


def erase_values(program):
    for node in program.graph.nodes:
        node.meta.pop("val", None)


@pytest.mark.parametrize(
    "change",
    [
        erase_output,
        erase_operands,
        erase_values,
        lambda program: program._graph_signature.input_specs.clear(),
    ],
)
def test_programs_without_sense(change, tmp_path, monkeypatch):
    program = torch.export.export(Shifted(), (torch.ones(3),))
    change(program)
    for call in lambda: tc.compile(program, log=False), lambda: tc.check(program):
        assert refusal(call, tc.ModelError).startswith("the model is no program that can be read: ")
    # The same of a file, as PyTorch's loader would give it.
    monkeypatch.setattr(models, "open_archive", lambda *_: program)
    (tmp_path / "model.pt2").write_bytes(b"PK\3\4")
    assert refusal(
        lambda: tc.check(tmp_path / "model.pt2", trust_archive=True), tc.ModelError
    ).startswith("'model.pt2' is no program that can be read: ")


def test_the_loaders_tracebacks_are_not_shown(tmp_path, capfd):
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as file:
        for name in "models/model.json", "archive_format", "data/weights/model_weights_config.json":
            file.writestr(f"m/{name}", "{}")
    assert "'model.pt2' " in refusal(lambda: tc.check(path, trust_archive=True), tc.ModelError)
    assert capfd.readouterr() == ("", "")


def test_files_that_are_no_models(archive, tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(b"\0" * 100)
    assert refusal(shape_of(path), tc.ModelError) == (
        "'x.pt' is no file of PyTorch: it begins with b'\\x00\\x00\\x00\\x00', and "
        "TorchScript archives and .pt2 files are zip archives"
    )
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/readme", "x")
    assert refusal(shape_of(path), tc.ModelError) == (
        "'x.pt' is a zip archive, but no model of PyTorch: it has neither TorchScript nor "
        "an exported program"
    )
    assert "cannot be read: No such file or directory" in refusal(
        lambda: tc.compile(tmp_path / "no.pt"), tc.ModelError
    )
    (tmp_path / "folder.pt").mkdir()
    assert "is a folder, not a model's file" in refusal(
        lambda: tc.compile(tmp_path / "folder.pt"), tc.ModelError
    )
    # The container's own errors.
    path.write_bytes(b"PK\3\4" + b"\0" * 50)
    assert "'x.pt' is a damaged archive: " in refusal(shape_of(path), tc.ModelError)
    rewritten(archive, path, **{"data.pkl": b"\x80\x02N."})
    assert "'x.pt' is a damaged TorchScript file: " in refusal(shape_of(path), tc.ModelError)


def test_pickles_are_not_run(archive, tmp_path):
    path = tmp_path / "pickled.pt"
    for zipped in True, False:
        torch.save(nn.Linear(2, 2), path, _use_new_zipfile_serialization=zipped)
        assert (
            "'pickled.pt' is a pickle that torch.save wrote (a module or its weights): reading it would run what is in it"
            in refusal(lambda: tc.compile(path))
        )
    path.write_bytes(pickle.dumps(Calls()))
    refusal(lambda: tc.compile(path))
    for name in "data.pkl", "constants.pkl":
        rewritten(archive, path, **{name: pickle.dumps(Calls(), protocol=2)})
        refusal(shape_of(path), tc.ModelError)
    assert CANARY == []


def test_exported_programs_are_read_without_running_pickles(tmp_path):
    exported = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    path = tmp_path / "model.pt2"
    torch.export.save(exported, str(path))
    with zipfile.ZipFile(path) as file:
        names = [entry.filename for entry in file.infolist()]
    for name in names:
        if name.endswith((".pt", ".pkl")) or "weights" in name or "constants" in name:
            changed = tmp_path / "changed.pt2"
            with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
                for entry in old.infolist():
                    new.writestr(
                        entry.filename,
                        pickle.dumps(Calls()) if entry.filename == name else old.read(entry),
                    )
            with contextlib.suppress(tc.Error):  # of some of these files nothing is read
                tc.compile(changed, log=False)
    assert CANARY == []


def test_bombs_and_paths(archive, tmp_path):
    path = tmp_path / "bomb.pt"
    rewritten(archive, path, **{"model/code/big.py": b" " * (300 << 20)})
    assert os.path.getsize(path) < 1 << 20
    assert refusal(shape_of(path), tc.ModelError).startswith(
        "'bomb.pt' is an archive whose compressed files unfold to 3"
    )
    rewritten(archive, path, **{"model/../../outside.py": b"x = 1"})
    assert (
        refusal(shape_of(path), tc.ModelError)
        == "'bomb.pt' is an archive with the file 'model/../../outside.py', which lies outside of it"
    )
    # Entries that share their bytes: more is stored than there is.
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("model/constants.pkl", b"x" * 1000)
        entry = file.infolist()[0]
        for number in range(5):
            copy = zipfile.ZipInfo(f"model/{number}")
            copy.header_offset, copy.CRC, copy.compress_size, copy.file_size = (
                entry.header_offset,
                entry.CRC,
                1000,
                1000,
            )
            file.filelist.append(copy)
            file.NameToInfo[copy.filename] = copy
    path.write_bytes(data.getvalue())
    assert "is a damaged archive: its files have 6000 bytes, and it has " in refusal(
        shape_of(path), tc.ModelError
    )


def test_real_archives_cut_anywhere(tmp_path):
    data = (models_folder() / "torchsharp_ts" / "linrelu.script.dat").read_bytes()
    path = tmp_path / "cut.pt"
    for size in range(0, len(data) - 1, 1000):
        path.write_bytes(data[:size])
        refusal(shape_of(path), tc.ModelError)
