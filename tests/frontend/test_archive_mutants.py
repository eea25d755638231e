"""Archives of PyTorch that are damaged in any place are refused in a sentence, or read as they are.

The program that reads them runs here without its walls, forked from this process, which has PyTorch
already: what is damaged by chance is after nothing, and walls take no part in what is said."""

import collections
import io
import json
import os
import resource
import select
import signal
import struct
import zipfile
from random import Random

import pytest
import torch

import tc
from tc.archives import reader, reading, walls
from tc.native import compiler
from tc.torch import archived

from . import hostile_archives as hostile

SECONDS = 20


class Forked:
    """Takes the place of walls.Reading."""

    def __init__(self, archive, store_bytes, request, packages=()):
        self.store = walls._shared(store_bytes)
        self.pipe, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._read(archive, writing, json.loads(request))
        os.close(writing)

    def _read(self, archive, writing, request):
        try:
            for descriptor in 1, 2:
                os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
            signal.alarm(SECONDS)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for kind in "DescribedNode", "GraphDescription", "ModelDescription":
                setattr(
                    compiler,
                    kind,
                    getattr(reader.importlib.import_module("tc.archives.recorder"), kind),
                )
            reader.ARCHIVE, reader.STORE = f"/proc/self/fd/{archive}", self.store
            reader._limit(request["memory"], request["seconds"])
            with open(writing, "w", encoding="utf-8") as file:
                json.dump(reader._answered(request), file)
        finally:
            os._exit(0)

    def answer(self, name, seconds, most_bytes):
        said = b""
        while select.select([self.pipe], [], [], 2 * SECONDS)[0]:
            data = os.read(self.pipe, 1 << 16)
            said += data
            if not data:
                _, status = os.waitpid(self.pid, 0)
                # Nobody promises that PyTorch's loader survives; that it ends is what is looked at.
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) not in (
                    signal.SIGALRM,
                    signal.SIGXCPU,
                ):
                    raise tc.ModelError(f"'{name}' ended the program")
                assert not os.WIFSIGNALED(status), "it does not end"
                return said, walls._sealed(self.store, name)
        raise AssertionError("it does not end")

    def end(self):
        for descriptor in self.pipe, self.store:
            try:
                os.close(descriptor)
            except OSError:
                pass


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """{kind: (bytes of an archive, example inputs)}."""
    folder = tmp_path_factory.mktemp("honest")
    exported = {
        name: content
        for name, content in hostile.exported(folder).items()
        if not name.startswith("data/sample_inputs/")
    }
    scripted = io.BytesIO()
    torch.jit.save(torch.jit.script(hostile.Scaled()), scripted)
    return {
        "pt2": (hostile.zipped(exported), None),
        "pt": (scripted.getvalue(), (torch.ones(3, 4),)),
    }


# --- what is damaged ------------------------------------------------------------------------------


def flipped(data, random):
    """Some bits anywhere."""
    data = bytearray(data)
    for _ in range(random.choice([1, 1, 3, 20])):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def with_field(data, random):
    """A field of a header of the container is another number."""
    data = bytearray(data)
    begins = [
        place
        for magic in (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06")
        for place in _all(data, magic)
    ]
    place = random.choice(begins) + random.randrange(4, 30)
    form = random.choice(["<B", "<H", "<I"])
    value = random.choice(
        [0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, random.randrange(1 << 32)]
    ) % (1 << 8 * struct.calcsize(form))
    if place + 4 <= len(data):
        struct.pack_into(form, data, place, value)
    return bytes(data)


def _all(data, magic):
    place = data.find(magic)
    while place >= 0:
        yield place
        place = data.find(magic, place + 1)


def cut(data, random):
    """Bytes are missing, or there twice."""
    begin, length = random.randrange(len(data)), random.choice([1, 16, 1000])
    return data[:begin] + (
        data[begin + length :]
        if random.random() < 0.5
        else data[begin : begin + length] + data[begin:]
    )


def packed_anew(change):
    """Files of the archive are changed, and its sums made right."""

    def mutate(data, random):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = {entry.filename: archive.read(entry) for entry in archive.infolist()}
        change(files, random)
        return hostile.zipped(files, root="")

    return mutate


def _swap(files, random):
    """Two files have each other's contents, or one is missing."""
    first, second = random.sample(sorted(files), 2)
    if random.random() < 0.5:
        files[first], files[second] = files[second], files[first]
    else:
        del files[first]


def _edit(files, random):
    """Text or bytes of one file are others."""
    name = random.choice(sorted(files))
    content = bytearray(files[name])
    for _ in range(random.choice([1, 1, 4])):
        place = random.randrange(len(content) + 1)
        content[place : place + random.choice([0, 1, 8])] = random.choice(
            [
                b"",
                b"{",
                b'"',
                b"[" * 9,
                b"9" * 30,
                b"\\",
                b"true",
                b"null",
                b"\xff",
                b"\0",
                b".",
                b"q\x01",
            ]
        )
    files[name] = bytes(content)


def _restructure(files, random):
    """A part of a file of JSON is another; of what has none, an edit."""
    names = sorted(name for name in files if name.endswith(".json"))
    if not names:
        return _edit(files, random)
    name = random.choice(names)
    files[name] = json.dumps(
        changed(json.loads(files[name]), random, random.randrange(10))
    ).encode()


def changed(value, random, rest):
    """The value with one of its parts another, so many levels below."""
    if not isinstance(value, (list, dict)) or not value:
        return random.choice(
            [None, -1, 0, 7, 1 << 40, 1 << 70, 0.5, "", "x", "9**9**9", [], {}, True]
        )
    key = random.choice(list(value) if isinstance(value, dict) else range(len(value)))
    part = (
        changed(value[key], random, rest - 1)
        if rest
        else random.choice([None, -1, 1 << 40, "", "x", [], {}, False])
    )
    result = value.copy()
    result[key] = part
    if random.random() < 0.1:
        del result[key]
    return result


MUTATIONS = (
    flipped,
    with_field,
    cut,
    packed_anew(_swap),
    packed_anew(_edit),
    packed_anew(_restructure),
)


@pytest.mark.parametrize("count", [60, pytest.param(5000, marks=pytest.mark.full)])
def test_mutants_end_in_a_sentence_or_a_model(count, honest, monkeypatch):
    monkeypatch.setattr(reading, "Reading", Forked)
    outcomes = collections.Counter()
    for seed in range(count):
        random = Random(seed)
        data, inputs = honest[("pt", "pt2")[seed % 2]]
        mutant = MUTATIONS[seed // 2 % len(MUTATIONS)](data, random)
        try:
            archive = reading.Archive(mutant)
            program = archive.start(inputs, None)
            try:
                model = archived.model_of(archive, archive.answer(program), inputs, None)
            finally:
                program.end()
            if seed % 50 == 0:
                tc.check(model.source, shapes=model.shapes)
            outcomes["read"] += 1
        except tc.Error as error:
            text = str(error)
            assert (
                type(error) is not tc.Error
                and "internal error" not in text
                and "Traceback" not in text
                and text.isprintable()
                and len(text) < 5000
            ), (seed, text)
            outcomes["refused"] += 1
    print(dict(outcomes))
    assert outcomes["read"] >= count // 50 and outcomes["refused"] >= count // 4
