"""Descriptions and values that the program behind walls gives back of archives of PyTorch: honest
ones are as where the archive is trusted, and those that lie are refused."""

import os
import zipfile
from random import Random

import numpy as np
import pytest
import torch
from torch import nn

import tc
from tc.archives import reading, replay, values
from tc.torch import archived

from .archive_files import refusal
from .archive_files import files, no_reader  # noqa: F401  Fixtures.
from . import hostile_archives as hostile


# --- what comes back is believed as little --------------------------------------------------------


def described(**changes):
    graph = {
        "name": "g",
        "inputs": [["x", "f32", [4]]],
        "formals": [],
        "outputs": [["y", "f32"]],
        "nodes": [["Add", ["x", "w"], ["y"], "", "add", "add at a.py:1", {}, {}]],
    }
    return {
        "graph": graph | changes.pop("graph", {}),
        "constants": [["w", "f32", [4], 0, 16]],
        "ranges": {},
    } | changes


def test_descriptions_are_described_again():
    store = np.arange(4, dtype=np.float32).tobytes() + bytes(48)
    source = replay.source_of(described(), store, "model")
    module = tc.compile(source, log=False)
    np.testing.assert_array_equal(
        module(np.ones(4, np.float32)), np.arange(4, dtype=np.float32) + 1
    )


DEEP = {"name": "b", "inputs": [], "formals": [], "nodes": [], "outputs": []}
for _ in range(100):
    DEEP = {**DEEP, "nodes": [["If", ["x"], ["y"], "", "n", "", {}, {"then_branch": DEEP}]]}


@pytest.mark.parametrize(
    "changes",
    [
        {"constants": [["w", "f32", [4], 60, 16]]},
        {"constants": [["w", "f32", [4], -4, 16]]},
        {"constants": [["w", "f32", [1 << 60], 0, 16]]},
        {"constants": [["w", "f32", [4], 0, 15]]},
        {"constants": [["w", "f32", [4], 0, 16], ["v", "f32", [4], 8, 16]]},
        {"constants": [["w", "f32", [4], 0, 16], ["w", "f32", [4], 16, 16]]},
        {"constants": [["w", "no type", [4], 0, 16]]},
        {"constants": 3},
        {"constants": [["w", "f32", [True], 0, 16]]},
        {"constants": [["w", "f32", [4.0], 0, 16]]},
        {"constants": [[1, "f32", [4], 0, 16]]},
        {"graph": {"nodes": [["Add"]]}},
        {"graph": {"nodes": [["Add", ["x", 3], ["y"], "", "", "", {}, {}]]}},
        {"graph": {"nodes": [["Add", ["x", "w"], ["y"], "", "", "", {"a": None}, {}]]}},
        {"graph": {"nodes": [["Add", ["x"], ["y"], "", "", "", {"a": [[1]]}, {}]]}},
        {"graph": {"inputs": [["x", "f32", [-(1 << 70)]]]}},
        {"graph": {"inputs": [["x" * (1 << 17), "f32", [4]]]}},
        {"graph": DEEP},
        {"graph": {"inputs": [["x", "torch.package", [4]]]}},
        {"ranges": {"n": [0]}},
        {"ranges": {"n": ["a", "b"]}},
        {"graph": {"outputs": [["y"]]}},
    ],
)
def test_descriptions_that_lie(changes):
    store = bytes(64)
    reason = "graphs nested too deep" if changes == {"graph": DEEP} else "(Type|Value|Key)Error"
    with pytest.raises(
        tc.ModelError, match=f"the description of 'model' cannot be read: .*{reason}"
    ):
        replay.believed(lambda: replay.source_of(described(**changes), store, "model"), "model")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -0.5,
        "text",
        (1, [2, {"a": None}]),
        {"x": (1, 2)},
        torch.float16,
        torch.device("cpu"),
        1 + 2j,
    ],
)
def test_values_come_back(value):
    again = values.read(values.written(value, None), None)
    assert again == value and type(again) is type(value)


@pytest.mark.parametrize(
    "row",
    [
        {"list": 3},
        {"dict": [1]},
        {"dict": [[{"list": []}, 1]]},
        {"named": ["x", ["_a"], [1]]},
        {"named": ["x; import os", ["a"], [1]]},
        {"dtype": "load"},
        {"device": "cuda"},
        {"no": 1},
        [1],
        {"tuple": [], "list": []},
        {"layout": "nn"},
        {"named": ["x", ["a"] * 2, [1, 2]]},
        {"complex": [1, "x"]},
    ],
)
def test_values_that_lie(row):
    with pytest.raises(
        tc.ModelError,
        match="the description of a value cannot be read|the description of a named tuple cannot be read|the description of "
        "'model' cannot be read",
    ):
        replay.believed(lambda: values.read(row, None), "model")


def test_tensors_of_no_type():
    with pytest.raises(tc.ModelError, match="a type of tensors that is none"):
        replay.believed(
            lambda: archived._Described({"model": described()}, bytes(64), "model")._tensor(
                ["qint8", [1], 0]
            ),
            "model",
        )


def changed(value, random, rest):
    """The value with one of its parts another, the `rest`-th from here."""
    if isinstance(value, (list, dict)) and value:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = random.choice(list(keys))
        if rest and isinstance(value[key], (list, dict)) and value[key]:
            part = changed(value[key], random, rest - 1)
        else:
            part = random.choice(
                [
                    None,
                    -1,
                    0,
                    7,
                    1 << 40,
                    1 << 70,
                    0.5,
                    "",
                    "x",
                    "f32",
                    [],
                    {},
                    [1, 2],
                    {"a": 1},
                    {"tuple": [1]},
                    {"tensor": ["float32", [9], 0]},
                ]
            )
        if isinstance(value, dict):
            return (
                {**value, key: part}
                if random.random() < 0.9
                else {each: value[each] for each in value if each != key}
            )
        if random.random() < 0.2:
            return [*value[:key], *value[key + 1 :]] if random.random() < 0.5 else [*value, part]
        return [*value[:key], part, *value[key + 1 :]]
    return random.choice([None, 3, "x"])


@pytest.fixture(scope="module")
def keeping(tmp_path_factory):
    """A script's path, its example inputs, the module compiled of it, and (archive, what was said
    of it, tensors)."""
    said, answer = [], reading.Archive.answer
    path = tmp_path_factory.mktemp("keeping") / "model.pt"
    torch.jit.script(Keeping()).save(str(path))
    inputs = (torch.tensor([1.0, -1.0]), (torch.tensor([5.0, 6.0]), torch.tensor([7.0, 8.0])))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            reading.Archive,
            "answer",
            lambda self, program: said.append((self, *answer(self, program))) or said[-1][1:],
        )
        module = tc.compile(path, inputs=inputs, log=False)
    return path, inputs, module, said[0]


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.full)])
def test_mutants_of_descriptions(full, keeping):
    """Whatever the program behind walls says: a model, or a sentence."""
    _, inputs, _, (archive, text, store) = keeping
    refused, count = 0, 2000 if full else 200
    for seed in range(count):
        random = Random(seed)
        mutant = changed(text, random, random.randrange(8))
        try:
            model = archived.model_of(archive, (mutant, store), inputs, None)
            tc.check(model.source, shapes=model.shapes)
            module = (
                tc.compile(model.source, shapes=model.shapes, log=False) if seed % 20 == 0 else None
            )
            assert module is None or module.inputs
        except tc.Error as error:
            assert "internal error" not in str(error), (seed, str(error))
            refused += 1
    assert count / 4 < refused < count


@pytest.mark.parametrize("count", [300, pytest.param(2500, marks=pytest.mark.full)])
def test_mutants_of_programs(count, files, tmp_path, no_reader, monkeypatch):
    """Of the texts of an archive: what is looked into before anything is opened ends in a sentence,
    or goes on to the program."""
    monkeypatch.setattr(reading.Archive, "start", lambda *_: pytest.fail("started"))
    torch.jit.script(Keeping()).save(str(tmp_path / "model.pt"))
    with zipfile.ZipFile(tmp_path / "model.pt") as archive:
        script = {
            entry.filename.partition("/")[2]: archive.read(entry) for entry in archive.infolist()
        }
    for seed in range(count):
        random = Random(seed)
        texts = script if seed % 3 == 0 else files
        name = random.choice(
            [each for each in texts if each.endswith((".json", ".py", ".pkl", "version"))]
        )
        content = bytearray(texts[name])
        for _ in range(random.choice([1, 1, 5, 50])):
            place = random.randrange(len(content) + 1)
            content[place : place + random.choice([0, 1, 8])] = random.choice(
                [b"", b"{", b'"', b"[" * 9, b"9" * 30, b"\\", b"true", b"Pow(", b"\xff", b"\0"]
            )
        data = bytearray(hostile.zipped({**texts, name: bytes(content)}))
        if seed % 2:
            for _ in range(3):
                data[random.randrange(-300, len(data))] = random.randrange(256)
        try:
            reading.Archive(bytes(data))
        except tc.Error as error:
            assert (
                str(error).isprintable()
                and "internal error" not in str(error)
                and type(error) is not tc.Error
            )


# --- honest archives ------------------------------------------------------------------------------


class Keeping(nn.Module):
    """State, structures and numbers: what a description has beside the graph."""

    def __init__(self):
        super().__init__()
        self.count = 0
        self.last = torch.zeros(2)
        self.register_buffer("scale", torch.tensor([2.0, 3.0]))

    def forward(
        self, x: torch.Tensor, pair: tuple[torch.Tensor, torch.Tensor], times: int = 2
    ) -> dict[str, torch.Tensor]:
        y = x * self.scale * times + self.last
        if self.count > 0:
            y = y + pair[0]
        self.count = self.count + 1
        self.last = y
        return {"y": y, "z": y - pair[1]}


@pytest.mark.parametrize("calls", [2, pytest.param(3, marks=pytest.mark.full)])
def test_state_and_structures_are_as_where_it_is_trusted(calls, keeping):
    path, inputs, module, _ = keeping
    reference = torch.jit.load(str(path))
    module.reset_state()
    # The second call is another structure, for which the archive is read again.
    for _ in range(calls):
        actual, expected = module(*inputs), reference(*inputs)
        assert list(actual) == list(expected) and all(
            torch.equal(actual[key], expected[key]) for key in expected
        )
    assert module.state["count"] == calls
    about = os.stat(path)
    os.utime(path, (1, 1))
    assert "is not the file any more" in refusal(lambda: module(*inputs, 3))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.full
def test_the_artefact_of_a_script_with_state(keeping):
    """Whether it can keep the state is found behind the walls, by running the model."""
    path, inputs, _, _ = keeping
    assert "keeps 'count', which is 1 after one call and 2 after two" in refusal(
        tc.torch.read(path, inputs).program_of_artefact
    )
