"""What an artefact's file is before it is opened: whole, or refused in a sentence; without trust,
what tc writes and nothing else."""

import json
import os
import random
import struct
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tc
from tc.native import LIBRARY_FOLDER

from ..qemu import run_riscv64
from ..support import ROOT, emulate_aarch64
from .artefacts import COMPILER, MARK, checksum, library, resealed, sealed
from .linked_models import CLANG, COMPILERS, RUNTIMES

SOURCE = ROOT / "tests/runtime/fake_model.c"
DAMAGED = "the file is damaged: its checksum is not that of its contents"
NO_CHECKSUM = "there is no checksum at the file's end"
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")


def model(path, size=24, weights=None):
    weights = (
        np.random.default_rng(3).standard_normal((size, size)).astype(np.float32)
        if weights is None
        else weights
    )
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Softmax", ["product"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", 1, ["rows", size])],
        [helper.make_tensor_value_info("y", 1, ["rows", size])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path
    )
    return path


@pytest.fixture(name="artefact", scope="module")
def artefact_of_a_product(tmp_path_factory):
    folder = tmp_path_factory.mktemp("artefact")
    tc.compile(model(folder / "model.onnx")).save(folder / "model.so")
    return folder / "model.so"


def refusal(path, **options):
    with pytest.raises(tc.ModelError) as raised:
        tc.load(path, **options)
    said = str(raised.value)
    assert said.startswith(f"{path}: ") and said.isprintable()
    return said[len(str(path)) + 2 :]


def test_the_checksum_is_what_it_is_said_to_be(artefact):
    data = artefact.read_bytes()
    assert data[-24:-8] == MARK
    assert struct.unpack("<Q", data[-8:]) == (checksum(data[:-8]),)


@pytest.mark.parametrize("target", ["rv64gcv", "aarch64", "x86-64-v3"])
def test_artefacts_of_other_machines_have_it_too(target, tmp_path):
    tc.compile(model(tmp_path / "model.onnx"), target=target).save(tmp_path / "model.so")
    data = (tmp_path / "model.so").read_bytes()
    assert data == sealed(data[:-24])


def test_every_flipped_bit_is_found(artefact, tmp_path):
    data = artefact.read_bytes()
    path = tmp_path / "flipped.so"
    pick = random.Random(5)
    for bit in [
        *range(0, 8 * 64, 31),
        *(pick.randrange(8 * len(data)) for _ in range(200)),
        *range(8 * len(data) - 8 * 24, 8 * len(data), 7),
    ]:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        said = refusal(path)
        # The mark itself is no more one, then.
        assert said.startswith(
            NO_CHECKSUM if len(data) - 24 <= bit // 8 < len(data) - 8 else DAMAGED
        ), bit


def test_files_that_are_cut_or_longer(artefact, tmp_path):
    data = artefact.read_bytes()
    path = tmp_path / "other.so"
    for content in (data[:-1], data[:-8], data[:-24], data[:-5000], data + b"\0", data + data):
        path.write_bytes(content)
        assert "cut short" in refusal(path) or content == data + data
    path.write_bytes(data[:-24])
    assert refusal(path) == (
        "there is no checksum at the file's end: it is cut short, another program (strip, for instance) has written it anew, or "
        "an older tc made it. Compile the model again, or open it without the check (tc.load(path, check=False), "
        "TC_OPEN_UNCHECKED in C)"
    )


def test_without_the_check(artefact, tmp_path):
    """What has no checksum is opened, and is compared all the same by who asks for that later."""
    path = tmp_path / "bare.so"
    path.write_bytes(artefact.read_bytes()[:-24])
    x = np.ones((2, 24), np.float32)
    module = tc.load(path, check=False)
    assert np.array_equal(module(x), tc.load(artefact)(x))
    assert refusal(path).startswith(NO_CHECKSUM)
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(artefact.read_bytes()[:-1] + b"?")  # in the checksum: the code is right
    kept = tc.load(damaged, check=False)
    assert refusal(damaged).startswith(DAMAGED) and np.array_equal(kept(x), module(x))


def test_the_command_line_says_it_in_one_line(artefact, tmp_path):
    path = tmp_path / "flipped.so"
    data = bytearray(artefact.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-m", "tc", "run", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and done.stdout == ""
    assert (
        done.stderr.startswith("tc: ")
        and DAMAGED in done.stderr
        and str(path) in done.stderr
        and done.stderr.count("\n") == 1
    )


def test_the_check_takes_little(tmp_path):
    """20 ms for 100 MB, at a third of that. The best of some: other programs run beside this
    one."""
    size = 3000
    tc.compile(
        model(tmp_path / "large.onnx", size, np.ones((size, size), np.float32)), tolerance=0
    ).save(tmp_path / "large.so")
    assert os.path.getsize(tmp_path / "large.so") > 36e6

    def seconds(**options):
        begin = time.thread_time()
        module = tc.load(tmp_path / "large.so", **options)
        taken = time.thread_time() - begin
        del module
        return taken

    assert min(seconds() for _ in range(5)) - min(seconds(check=False) for _ in range(5)) < 0.02
    tc.load(tmp_path / "large.so", trusted=False)  # constants that begin a huge page


def test_without_trust(artefact):
    x = np.ones((3, 24), np.float32)
    assert np.array_equal(tc.load(artefact, trusted=False)(x), tc.load(artefact)(x))


# Opens nothing: a static program has no loader.
SHAPE = """
#include <fcntl.h>
#include <stdint.h>
#include "runtime/artefact_file.h"

int main(int, char** arguments) {
  const int file = open(arguments[1], O_RDONLY);
  uint64_t descriptor = 0;
  bool there = false;
  using namespace tc::runtime;
  const bool good = check_checksum(file, "", &there) == TC_OK && there && check_file(file, "") == TC_OK;
  return !good ? 1 : check_shape(file, "", &descriptor) == TC_OK && descriptor != 0 ? 0 : 2;
}
"""


@pytest.mark.parametrize("target", ["aarch64", "rv64gcv"])
def test_the_shape_on_other_machines(target, tmp_path):
    """Damage is found there as here, and what is no artefact of tc by its shape."""
    if not os.path.exists(CLANG):
        pytest.skip("there is no clang")
    tc.compile(model(tmp_path / "model.onnx"), target=target).save(tmp_path / "good.so")
    data = (tmp_path / "good.so").read_bytes()
    (tmp_path / "damaged.so").write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    elf = Elf(data)
    elf.put("I", elf.entry(RELA)[1] + 8, 1)
    (tmp_path / "hostile.so").write_bytes(resealed(bytes(elf.data)))
    (tmp_path / "shape.cc").write_text(SHAPE)
    archive = os.path.join(LIBRARY_FOLDER, RUNTIMES[target], "libtc_runtime.a")
    subprocess.run(
        [
            *COMPILERS[target]["clang"],
            "-x",
            "c++",
            "-std=c++20",
            f"-I{ROOT}",
            f"-I{ROOT}/runtime",
            tmp_path / "shape.cc",
            "-x",
            "none",
            archive,
            "-o",
            tmp_path / "shape",
        ],
        check=True,
    )
    for name, code in (("good", 0), ("damaged", 1), ("hostile", 2)):
        arguments = [str(tmp_path / f"{name}.so")]
        found = (
            emulate_aarch64(tmp_path / "shape", arguments).returncode
            if target == "aarch64"
            else run_riscv64(tmp_path / "shape", arguments)[0]
        )
        assert found == code, name


OURS = ["-nostdlib", "-Wl,-z,now", "-Wl,--hash-style=gnu"]
CONSTRUCTOR = '#include <stdlib.h>\n__attribute__((constructor)) static void come(void) { setenv("CAME", "1", 1); }\n'
RUNS = {
    "constructor": (
        "volatile int here;\n__attribute__((constructor)) static void come(void) { here = 1; }\n",
        OURS,
        "constructors, which run when the file is opened (DT_INIT_ARRAY)",
    ),
    "init": (
        "int come(void) { return 1; }\n",
        [*OURS, "-Wl,-init,come"],
        "a constructor, which runs when the file is opened (DT_INIT)",
    ),
    "destructor": (
        "volatile int here;\n__attribute__((destructor)) static void go(void) { here = 1; }\n",
        OURS,
        "destructors, which run when the file is closed (DT_FINI_ARRAY)",
    ),
    "fini": (
        "int go(void) { return 1; }\n",
        [*OURS, "-Wl,-fini,go"],
        "a destructor, which runs when the file is closed (DT_FINI)",
    ),
    "needed": (
        "",
        ["-nostartfiles", "-Wl,--no-as-needed", "-lm"],
        "need of another library (DT_NEEDED)",
    ),
    "folder": (
        "",
        [*OURS, "-Wl,-rpath,/tmp", "-Wl,--enable-new-dtags"],
        "folders of other libraries (DT_RUNPATH)",
    ),
    "ifunc": (
        'static int one(void) { return 1; }\nstatic void* pick(void) { return one; }\nint picked(void) __attribute__((ifunc("pick")));\n'
        "int (*const table)(void) = picked;\n",
        OURS,
        None,
    ),
    "stack": ("", [*OURS, "-Wl,-z,execstack"], "its stack is executable"),
    "writable": ("", [*OURS, "-Wl,--omagic"], None),
    "threads": ("__thread int each = 5;\n", OURS, "it has variables of threads (PT_TLS)"),
    "undefined": ("extern int elsewhere(void); int (*const call)(void) = elsewhere;\n", OURS, None),
}


@needs_compiler
@pytest.mark.parametrize("name", RUNS)
def test_what_runs_when_it_is_opened_is_refused(name, tmp_path):
    """Each is an artefact by its symbol and its checksum, and has what tc never writes."""
    source, options, told = RUNS[name]
    path = library(tmp_path / f"{name}.so", source + SOURCE.read_text(), *options)
    said = refusal(path, trusted=False)
    assert said.startswith("not opened without trust, for it is not what tc writes (")
    assert said.endswith("); compile the model again, or open the file as one that you trust")
    assert told is None or told in said
    assert "CAME" not in os.environ


@needs_compiler
def test_constructors_do_not_run(tmp_path):
    path = library(tmp_path / "constructor.so", CONSTRUCTOR + SOURCE.read_text())
    script = (
        "import ctypes, sys, tc\n"
        "for trusted in (False, True):\n"
        "    try: tc.load(sys.argv[1], trusted=trusted)\n"
        "    except tc.ModelError: pass\n"
        "    print(bool(ctypes.CDLL(None).getenv(b'CAME')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\nTrue\n"


class Elf:
    """An artefact's bytes, with names for what tests change in them."""

    def __init__(self, data):
        self.data = bytearray(data)
        self.segments = [
            (64 + 56 * i, *struct.unpack_from("<IIQQQQ", data, 64 + 56 * i))
            for i in range(data[56])
        ]
        self.dynamic = next(segment[3] for segment in self.segments if segment[1] == 2)

    def entry(self, tag):
        """Where the dynamic entry of the tag is, and its value."""
        for at in range(self.dynamic, self.dynamic + 16 * 64, 16):
            found, value = struct.unpack_from("<QQ", self.data, at)
            if found == tag:
                return at, value
        raise KeyError(tag)

    def segment(self, kind, flags=0):
        return next(
            at for at, found, has, *_ in self.segments if found == kind and has & flags == flags
        )

    def put(self, form, at, value):
        struct.pack_into("<" + form, self.data, at, value)

    def descriptor(self):
        """Where it lies in the file: the second symbol's address, in the segment that can be
        written."""
        (address,) = struct.unpack_from("<Q", self.data, self.entry(6)[1] + 24 + 8)
        _, _, _, offset, begin, *_ = next(
            segment for segment in self.segments if segment[1] == 1 and segment[2] & 2
        )
        return address - begin + offset


RELA, RELASZ, SYMTAB, HASH, FLAGS = 7, 8, 6, 0x6FFFFEF5, 0x1E
CHANGES = {
    "its segments are not laid out as tc's linker does": lambda elf: elf.put(
        "Q", elf.segment(1, 1) + 48, 3
    ),
    "a segment can be written and executed": lambda elf: elf.put("I", elf.segment(1, 2) + 4, 7),
    "it has a segment of type 7fffffff": lambda elf: elf.put(
        "I", elf.segment(0x6474E551), 0x7FFFFFFF
    ),
    "its program headers are damaged": lambda elf: elf.put("Q", elf.segment(6) + 16, 128),
    "what is read-only after its relocations is not in one segment": lambda elf: elf.put(
        "Q", elf.segment(0x6474E552) + 40, 1 << 30
    ),
    "its table of dynamic entries is damaged": lambda elf: elf.put("Q", elf.entry(FLAGS)[0] + 8, 4),
    "it has a dynamic entry of type 6ffffef9": lambda elf: elf.put(
        "Q", elf.entry(FLAGS)[0], 0x6FFFFEF9
    ),
    "its table of dynamic entries has no end": lambda elf: [
        elf.put("Q", elf.segment(2) + at, 11 * 16) for at in (32, 40)
    ],
    "its table of symbols is damaged": lambda elf: elf.put("I", elf.entry(SYMTAB)[1] + 24, 1 << 30),
    "it needs a symbol of another library": lambda elf: elf.put(
        "H", elf.entry(SYMTAB)[1] + 24 + 6, 0
    ),
    "it has a symbol for which the loader calls a function (STT_GNU_IFUNC)": lambda elf: elf.put(
        "B", elf.entry(SYMTAB)[1] + 24 + 4, 0x1A
    ),
    "its table of symbols' hashes is damaged": lambda elf: elf.put("I", elf.entry(HASH)[1] + 8, 3),
    "its table of relocations is damaged": lambda elf: elf.put("Q", elf.entry(RELASZ)[0] + 8, 25),
    "it has a relocation for which the loader calls a function (ifunc)": lambda elf: elf.put(
        "I", elf.entry(RELA)[1] + 8, 37
    ),
    "it has a relocation of type 6": lambda elf: elf.put("I", elf.entry(RELA)[1] + 8, 6),
    "a relocation leads to where none may": lambda elf: elf.put(
        "Q", elf.entry(RELA)[1], elf.entry(RELA)[1]
    ),
    "its descriptor lies outside the file": lambda elf: [
        elf.put("Q", elf.entry(SYMTAB)[1] + 24 * i + 8, 1 << 30) for i in (1, 2)
    ],
    # The address of its inputs.
    "what an address in its descriptor leads to is not what has to be there": lambda elf: elf.put(
        "I", elf.descriptor() + 48, 60000
    ),
}


@pytest.mark.parametrize("told", CHANGES)
@pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="the numbers of relocations are those of x86-64"
)
def test_what_is_damaged_on_purpose_is_refused(told, artefact, tmp_path):
    """With the checksum that belongs to it: the loader would take it, and die of it or do what it
    says."""
    elf = Elf(artefact.read_bytes())
    CHANGES[told](elf)
    path = tmp_path / "hostile.so"
    path.write_bytes(resealed(bytes(elf.data)))
    assert f"({told})" in refusal(path, trusted=False)


def test_magic_and_version_are_told_without_trust_as_with_it(artefact, tmp_path):
    elf = Elf(artefact.read_bytes())
    elf.put("I", elf.descriptor() + 4, 99)
    path = tmp_path / "newer.so"
    path.write_bytes(resealed(bytes(elf.data)))
    assert refusal(path, trusted=False).startswith("the model has interface version 99")


def open_mutants(artefact, folder, first, count):
    """Counts by kind, of a process that opened so many mutants without a fault."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.runtime.artefact_mutants",
            artefact,
            folder,
            str(first),
            str(count),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    number = (folder / "NUMBER").read_text().strip() if (folder / "NUMBER").exists() else "none"
    assert (done.returncode, done.stderr) == (0, ""), f"at mutant {number}: {done.stderr[-2000:]}"
    counts = json.loads(done.stdout)
    assert sum(counts.values()) == count
    return counts


def test_mutants(artefact, tmp_path):
    counts = open_mutants(artefact, tmp_path, 0, 400)
    assert {
        f"{kind}: refused" for kind in ("bit", "cut", "bytes", "header", "moved", "hostile")
    } <= counts.keys()


@pytest.mark.full
@pytest.mark.parametrize("part", range(5))
def test_more_mutants(artefact, tmp_path, part):
    open_mutants(artefact, tmp_path, 1000 + 1000 * part, 1000)
