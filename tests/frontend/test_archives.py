"""Archives of PyTorch that are hostile are refused or held, in a sentence; honest ones that are
trusted run."""

import io
import os
import pickle
import re
import resource
import subprocess
import sys
import time

import pytest
import torch

import tc
from tc.archives import contents, expressions, reading, walls

from .archive_files import refusal
from .archive_files import files, no_reader  # noqa: F401  Fixtures.
from . import hostile_archives as hostile

EXPORTED = [
    *(f"a size that is {name}" for name in hostile.SIZES),
    "a pickled weight",
    "a pickled constant",
    "an opaque constant",
    "a custom constant",
    "an opaque constant's file alone",
    "legacy weights",
    "legacy constants",
    "native code",
    "native code of another name",
    "another runtime's program",
    "a further file",
    "a tensor elsewhere",
    "a tensor with a number for a name",
    "use_pickle that is a number",
    "no list of tensors",
    "escaped names",
    "a second program",
    "a program that is no text",
    "the older form",
]
CONTAINERS = [
    "two files of one name",
    "two archives in one",
    "a link",
    "a device",
    "a path upwards",
    "an absolute path",
    "a path upwards by backslashes",
    "a name with an escape code",
    "a file of another compression",
    "a file that unfolds",
    "an encrypted file",
    "a file longer than it is",
    "a file of two lengths",
    "a file with another name inside",
    "a file that lies in another",
    "a file beyond the end",
    "a sum that is wrong",
    "half of an archive",
    "no folder",
    "torch.package",
    "what torch.save writes",
    "a bare pickle",
]


@pytest.fixture(scope="module")
def all_canaries(tmp_path_factory):
    made = hostile.Canaries(tmp_path_factory.mktemp("canaries"))
    yield made
    made.server.close()


@pytest.fixture
def canaries(all_canaries):
    yield all_canaries
    assert all_canaries.are_untouched()


@pytest.fixture(scope="module")
def exported_kinds(files, all_canaries):
    return hostile.of_export(files, all_canaries.payload)


@pytest.fixture(scope="module")
def container_kinds(files):
    return hostile.containers(files)


@pytest.mark.parametrize("kind", EXPORTED)
def test_programs_with_what_no_model_needs(kind, exported_kinds, canaries, tmp_path, no_reader):
    data, text = exported_kinds[kind]
    path = tmp_path / "model.pt2"
    path.write_bytes(data)
    for model in path, data:
        assert text in refusal(lambda model=model: tc.compile(model, log=False))
    assert text in refusal(lambda: tc.check(path))


def test_all_kinds_are_tried(exported_kinds, container_kinds):
    assert list(exported_kinds) == EXPORTED and list(container_kinds) == CONTAINERS


@pytest.mark.parametrize("kind", CONTAINERS)
def test_containers_that_are_not_what_they_look_like(
    kind, container_kinds, canaries, tmp_path, no_reader
):
    data, text = container_kinds[kind]
    path = tmp_path / "model.pt2"
    path.write_bytes(data)
    assert text in refusal(lambda: tc.check(path))
    if data[:2] == b"PK":  # whatever it is called
        other = tmp_path / "model.onnx"
        other.write_bytes(data)
        assert text in refusal(lambda: tc.check(other))


def test_pipes_and_devices_are_no_files(tmp_path, no_reader):
    os.mkfifo(tmp_path / "pipe.pt")
    os.symlink("/dev/zero", tmp_path / "zero.pt")
    for name in "pipe.pt", "zero.pt":
        assert "is a pipe or a device, not a model's file" in refusal(
            lambda name=name: tc.check(tmp_path / name)
        )


@pytest.mark.parametrize(
    "text",
    [
        "Add(Mod(Mul(Integer(7), Symbol('s77', positive=True, integer=True)), Integer(5)), Integer(1))",
        "Integer(-3)",
        "true",
        "Max(Integer(1), TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s17', positive=True, integer=True)))))",
        "Pow(Symbol('s0', positive=True, integer=True), Integer(2))",
        "Eq(Symbol('u0', integer=True), Rational(1, 2))",
        "s0",
    ],
)
def test_sizes_of_models_are_read(text):
    assert expressions.check_expression(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Add(",
        "Add()",
        "Add(Integer(1)",
        "Integer()",
        "Pow(Integer(2))",
        "1 +",
        "s0(",
        "'s0'",
        "Symbol(s0)",
        "Add(Integer(1))x",
    ],
)
def test_what_is_no_expression_is_not_read(text):
    assert expressions.check_expression(text)


# --- held behind walls ----------------------------------------------------------------------------

# 4 times the file and 400 MB, beside what PyTorch takes by itself.
PYTORCH = 700 << 20


def held(path):
    """The sentence for an archive that does something where it is opened, and nothing beside it."""
    start = time.monotonic()
    text = refusal(lambda: tc.check(path, shapes={"x": (4,)}))
    assert time.monotonic() - start <= 20 * max(1, os.getloadavg()[0] / os.cpu_count())
    assert resource.getrusage(
        resource.RUSAGE_CHILDREN
    ).ru_maxrss << 10 <= PYTORCH + 4 * os.path.getsize(path) + (400 << 20)
    return text


SENTENCES = {
    "reads a file": r"is a damaged TorchScript file: .*No such file",
    "writes a file": r"is a damaged TorchScript file: ",
    "never ends": r"was not read in 8 s of the processor",
    "fills the memory": r"needs more memory to be read",
    "doubles a list": r"needs more memory to be read|was not read in 8 s|ended the program",
    "doubles a string": r"needs more memory|ended the program",
    "prints for ever": r"was not read in 8 s",
    "allocates at once": r"needs more memory to be read",
    "raises": r"is a damaged TorchScript file: ",
    "waits for itself": r"was not read in 8 s",
}
QUICK = ("writes a file", "allocates at once")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind in QUICK else pytest.mark.full)
        for kind in hostile.SCRIPTS
    ],
)
def test_scripts_that_run_where_they_are_opened(kind, canaries, tmp_path):
    assert re.search(SENTENCES[kind], held(hostile.script(kind, tmp_path, canaries)))


@pytest.mark.parametrize(
    "kind",
    [
        "an opaque constant",
        *(
            pytest.param(kind, marks=pytest.mark.full)
            for kind in (
                "a pickled weight",
                "a pickled constant",
                "a custom constant",
                "legacy weights",
                "legacy constants",
                "a size that is a call",
                "a size that is powers of powers",
                "the older form",
            )
        ),
    ],
)
def test_walls_hold_what_is_not_refused_before(
    kind, exported_kinds, canaries, tmp_path, monkeypatch
):
    path = tmp_path / "model.pt2"
    path.write_bytes(exported_kinds[kind][0])
    monkeypatch.setattr(contents, "refuse_code", lambda file, kind, name: 0)
    try:
        tc.check(path)
    except tc.Error as error:
        assert str(error).isprintable()


RUN_TRUSTED = """
import sys, tc
try: tc.check(sys.argv[1], trust_archive=True)
except tc.Error as error: print(error)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", ["an opaque constant", "a pickled weight", "a size that is a call"]
)
def test_what_is_trusted_runs(kind, files, tmp_path):
    """These archives are what they claim to be: unheld, they get what they are after."""
    canaries = hostile.Canaries(tmp_path)
    path = tmp_path / "model.pt2"
    path.write_bytes(hostile.of_export(files, canaries.payload)[kind][0])
    subprocess.run([sys.executable, "-c", RUN_TRUSTED, str(path)], check=True)
    assert not canaries.are_untouched()


def test_sample_inputs_are_not_read(files, canaries):
    module = tc.compile(
        hostile.zipped(
            {
                **files,
                "data/sample_inputs/model.pt": pickle.dumps(hostile.Running(canaries.payload)),
            }
        ),
        log=False,
    )
    x = torch.randn(5, 4)
    weight, bias = (
        torch.frombuffer(bytearray(files[f"data/weights/weight_{number}"]), dtype=torch.float32)
        for number in (0, 1)
    )
    torch.testing.assert_close(module(x), (x @ weight.reshape(4, 4).T + bias) * 5)


# PR_SET_SECCOMP: unshare(2) and clone(2) with namespaces fail, as where a container forbids them.
FORBID = """
import ctypes, platform, struct
numbers = {"x86_64": (272, 56), "aarch64": (97, 220), "riscv64": (97, 220)}[platform.machine()]
code = [(0x20, 0, 0, 0), (0x15, 1, 0, numbers[0]), (0x15, 0, 3, numbers[1]), (0x20, 0, 0, 16), (0x45, 0, 1, 0x7e020000), (0x06, 0, 0, 0x00050001),
        (0x06, 0, 0, 0x7fff0000)]
program = b"".join(struct.pack("HBBI", *each) for each in code)
buffer = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
fields = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer))
assert libc.prctl(22, 2, ctypes.create_string_buffer(fields), 0, 0) == 0
"""


# Without PyTorch in the process that asks, and with it.
ASKING = """
import sys, tc
from tc.archives import reading
archive = reading.Archive(sys.argv[1])
try: archive.answer(archive.start())
except tc.UnsupportedError as error: print(error)
print([])
"""
CHECKING = """
import sys, tc
try: tc.check(sys.argv[1])
except tc.UnsupportedError as error: print(error)
print(tc.check(sys.argv[1], trust_archive=True))
"""


@pytest.mark.parametrize("script", [ASKING, pytest.param(CHECKING, marks=pytest.mark.full)])
def test_where_there_are_no_walls_a_sentence_says_so(script, files, tmp_path):
    path = tmp_path / "model.pt2"
    path.write_bytes(hostile.zipped(files))
    done = subprocess.run(
        [sys.executable, "-c", FORBID + script, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.fullmatch(
        r"'model\.pt2' is an archive of PyTorch, which can run code where it is read, and this system has not what would hold it: "
        r"[a-z ,()]*a mount namespace[a-z ,()]*\. Pass trust_archive=True \(--trust-archive\) if you wrote the file, or trust who did: "
        r"its code then runs as yours\n\[\]\n",
        done.stdout,
    ), done.stdout


# --- programs that say something else -------------------------------------------------------------

SAYING = "import os, sys, time; say = lambda data: os.write(int(sys.argv[1]), data); "
READY = "say(b'ready\\n'); "


@pytest.mark.parametrize(
    "script,kind,text",
    [
        (
            READY + "say(b'no description')",
            tc.ModelError,
            "what the program says that reads 'model.pt' cannot be read: no description",
        ),
        (
            READY + "say(b'[' * 100000)",
            tc.ModelError,
            "what the program says that reads 'model.pt' cannot be read: [[[",
        ),
        (
            READY + "say(b'[1]')",
            tc.ModelError,
            "what the program says that reads 'model.pt' cannot be read",
        ),
        (
            READY + "say(b'{}')",
            tc.ModelError,
            "the description of 'model.pt' cannot be read: KeyError: 'model'",
        ),
        (
            READY + "\nwhile True: say(b'x' * 65536)",
            tc.UnsupportedError,
            " bytes, which is far more than the file has",
        ),
        (
            READY + "time.sleep(60)",
            tc.UnsupportedError,
            "'model.pt' was not read in 0 s of the processor, which is more than a file of its size takes; pass trust",
        ),
        (
            READY + "sys.exit(137)",
            tc.UnsupportedError,
            "'model.pt' was not read in 0 s of the processor",
        ),
        (
            READY + "sys.exit(139)",
            tc.UnsupportedError,
            "'model.pt' ended the program that reads it (signal 11): it is damaged, or needs more memory than",
        ),
        (
            READY + "sys.exit(1)",
            tc.UnsupportedError,
            "'model.pt' ended the program that reads it (exit code 1): it is damaged",
        ),
        (
            "sys.exit('mount\x1b[2J')",
            tc.Error,
            "the program that reads archives did not start: mount\\x1b[2J",
        ),
        (
            READY + r"""say(b'{"error": ["ShapeError", "a\\u001b[2J", []]}')""",
            tc.ShapeError,
            "a\\x1b[2J",
        ),
        (READY + r"""say(b'{"error": ["SystemExit", "x", []]}')""", tc.ModelError, "x"),
        (READY + r"""say(b'{"error": 3}')""", tc.ModelError, "'model.pt' cannot be read"),
        (
            READY + r"""say(b'{"error": ["MemoryError", "", []]}')""",
            tc.UnsupportedError,
            "needs more memory to be read than 4 times its bytes and 400 MB; pass trust_archive",
        ),
    ],
)
def test_whatever_the_program_says_is_a_sentence(script, kind, text, files, monkeypatch):
    monkeypatch.setattr(
        walls,
        "_command",
        lambda archive, store, answer, packages: [
            sys.executable,
            "-I",
            "-S",
            "-c",
            SAYING + script,
            str(answer),
        ],
    )
    monkeypatch.setattr(reading.Archive, "seconds", 0.25)
    with pytest.raises(tc.Error) as caught:
        tc.check(hostile.zipped(files))
    assert (
        type(caught.value) is kind
        and str(caught.value).startswith(("'model.pt' ", ""))
        and text in str(caught.value)
        and str(caught.value).isprintable()
    )


def test_a_program_that_waits_ends_as_one_that_computes(files, monkeypatch):
    """A program may wait no longer than it may compute, whatever it computed before with many
    threads."""
    busy = "\nimport threading\ntasks = [threading.Thread(target=sorted, args=(range(2000000),)) for _ in range(4)]\nfor each in tasks: each.start()\n"
    for before in "", busy:
        monkeypatch.setattr(
            walls,
            "_command",
            lambda archive, store, answer, packages, before=before: [
                sys.executable,
                "-I",
                "-S",
                "-c",
                SAYING + READY + before + "time.sleep(60)",
                str(answer),
            ],
        )
        monkeypatch.setattr(reading.Archive, "seconds", 1.0)
        start = time.monotonic()
        assert "'model.pt' was not read in 1 s of the processor" in refusal(
            lambda: tc.check(hostile.zipped(files))
        )
        assert time.monotonic() - start <= 3 * max(1, os.getloadavg()[0] / os.cpu_count())


def test_a_program_that_is_not_there(files, monkeypatch):
    monkeypatch.setattr(walls, "_command", lambda *_: ["/nowhere/tc-walls"])
    text = refusal(lambda: tc.check(hostile.zipped(files)))
    assert (
        text.startswith("the program that reads archives cannot be started ([Errno 2]")
        and "; pass trust_archive=True (--trust-archive) if you" in text
    )


def test_arguments_that_cannot_be_given(files, no_reader):
    with pytest.raises(
        tc.ShapeError,
        match="a set cannot be given to a model of an archive: tensors, numbers, text, and tuples, lists and dictionaries of "
        "them can",
    ):
        tc.check(hostile.zipped(files), inputs=({1, 2},))
    with pytest.raises(
        tc.ShapeError, match="an example input is torch.sparse_coo; dense tensors are taken"
    ):
        tc.check(hostile.zipped(files), inputs=(torch.eye(2).to_sparse(),))


def test_much_text_is_not_read(files, monkeypatch, no_reader):
    monkeypatch.setattr(contents, "_MAX_TEXT", 1000)
    assert re.search(
        "has [0-9]+ bytes of text in 'm/models/model.json'; at most 1000 are read",
        refusal(lambda: tc.check(hostile.zipped(files))),
    )


@pytest.mark.full
def test_bytes_of_an_archive_are_read(files):
    x = torch.randn(2, 4)
    outputs = [
        tc.compile(model, log=False)(x)
        for model in (hostile.zipped(files), torch.export.load(io.BytesIO(hostile.zipped(files))))
    ]
    assert torch.equal(*outputs)
