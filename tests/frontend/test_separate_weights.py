"""Weights in a file beside the artefact (tc.compile(weights="separate")): the same results, one
file for artefacts with the same bytes, pages that processes share, and what is refused."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tc
from onnx import TensorProto, helper, numpy_helper

from ..qemu import cores, qemu_cpu, qemu_path

ROOT = Path(__file__).parents[2]
SIZE = 640
BYTES = SIZE * SIZE * 4  # of the large constant


def network(seed=0):
    """y = tanh(x W + b), with 1.6 MB of seeded weights."""
    random = np.random.default_rng(seed)
    weights = (random.standard_normal((SIZE, SIZE)) / 25).astype(np.float32)
    bias = random.standard_normal(SIZE).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Tanh", ["s"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, SIZE]) for name in "xy"]
    constants = [numpy_helper.from_array(weights, "W"), numpy_helper.from_array(bias, "b")]
    graph = helper.make_graph(nodes, "dense", ports[:1], ports[1:], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return made.SerializeToString(), lambda x: np.tanh(x @ weights + bias)


def compiled(target="native", seed=0, threads=1, weights="separate"):
    return tc.compile(network(seed)[0], target, threads=threads, log=False, weights=weights)


def some_input():
    return np.random.default_rng(9).standard_normal((2, SIZE)).astype(np.float32)


def weights_in(folder):
    """The path of the only file of weights in the folder."""
    (found,) = [name for name in os.listdir(folder) if name.endswith(".weights")]
    return Path(folder) / found


@pytest.fixture(scope="module")
def module():
    return compiled()


@pytest.fixture
def saved(module, tmp_path):
    """A folder with dense.so and its weights."""
    module.save(tmp_path / "dense.so")
    return tmp_path


def run_program(path, folder, emulator=()):
    """(finished process, output) of an executable on some_input()."""
    os.makedirs(folder, exist_ok=True)
    np.save(folder / "x.npy", some_input())
    options = ["--input", f"x={folder / 'x.npy'}", "--output-dir", str(folder)]
    done = subprocess.run(
        [*emulator, str(path), *options], capture_output=True, text=True, check=False
    )
    return done, np.load(folder / "y.npy") if done.returncode == 0 else None


def test_results_are_those_of_weights_inside(module, saved):
    assert sorted(os.listdir(saved)) == sorted(["dense.so", weights_in(saved).name])
    assert os.path.getsize(saved / "dense.so") < 100_000
    assert BYTES < weights_in(saved).stat().st_size < BYTES + 100_000
    x = some_input()
    expected = compiled(weights="inside")(x)
    np.testing.assert_allclose(expected, network()[1](x), rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(module(x), expected)
    for options in ({}, {"check": False}, {"trusted": False}):
        loaded = tc.load(saved / "dense.so", threads=1, **options)
        np.testing.assert_array_equal(loaded(x), expected)
        assert loaded.memory.constants >= BYTES


@pytest.mark.parametrize("target", ["native", "rv64gcv"])
def test_executables(target, tmp_path):
    compiled(target).export(tmp_path / "dense", kind="executable")
    assert os.path.getsize(tmp_path / "dense") < BYTES
    emulator = (
        [] if target == "native" else [qemu_path(), "-cpu", qemu_cpu(cores()["generic"], 256)]
    )
    if None in emulator:
        pytest.skip("qemu-riscv64 is not installed")
    done, y = run_program(tmp_path / "dense", tmp_path / "out", emulator)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(y, network()[1](some_input()), rtol=1e-3, atol=1e-4)
    weights_in(tmp_path).unlink()
    done, _ = run_program(tmp_path / "dense", tmp_path / "out", emulator)
    assert done.returncode == 1
    assert "dense: its weights are in the file '" in done.stderr
    assert "No such file or directory" in done.stderr


def test_equal_weights_are_written_once(module, saved):
    file = weights_in(saved)
    before = file.stat()
    module.save(saved / "again.so")
    module.export(saved / "program", kind="executable")
    compiled(threads=2).save(saved / "two.so")
    assert weights_in(saved) == file  # which finds no other one
    after = file.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    compiled(seed=1).save(saved / "other.so")
    names = [name for name in os.listdir(saved) if name.endswith(".weights")]
    assert len(names) == 2
    for name, seed in (("again.so", 0), ("two.so", 0), ("other.so", 1)):
        y = tc.load(saved / name)(some_input())
        np.testing.assert_allclose(y, network(seed)[1](some_input()), rtol=1e-3, atol=1e-4)


def test_a_damaged_file_is_written_anew(module, saved):
    file = weights_in(saved)
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    module.save(saved / "dense.so")
    assert file.read_bytes() == whole


def test_a_pipe_in_its_place_is_refused(module, saved):
    """Opening it to compare its bytes would wait for a program that writes."""
    file = weights_in(saved)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(tc.DeviceError, match="no program reads from the pipe"):
        module.save(saved / "dense.so")


READER = """
import sys
import numpy as np
import tc

module = tc.load(sys.argv[1], threads=1)
module(np.ones((2, int(sys.argv[2])), np.float32))
print("ready", flush=True)
sys.stdin.readline()  # until the other process has run, too
print(open("/proc/self/smaps").read())
print("end", flush=True)
sys.stdin.readline()  # until the other process has told its mappings, too
"""


def mappings(reader):
    """What a reader prints of its address space: for each mapping, the fields of its first line
    (address, permissions, offset, device, inode, path), and its sizes in kilobytes by name."""
    found = []
    while (line := reader.stdout.readline().strip()) != "end":
        assert line or reader.poll() is None
        if re.match("[0-9a-f]+-", line):
            found.append((line.split(), {}))
        elif size := re.fullmatch(r"(\w+): +(\d+) kB", line):
            found[-1][1][size[1]] = int(size[2])
    return found


def test_processes_share_the_pages(module, saved):
    """Two processes, each with another artefact of the same weights."""
    module.save(saved / "again.so")
    file = weights_in(saved)
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(saved / name), str(SIZE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for name in ("dense.so", "again.so")
    ]
    for reader in readers:
        assert reader.stdout.readline() == "ready\n"
    for reader in readers:
        reader.stdin.write("\n")
        reader.stdin.flush()
        mapped = mappings(reader)
        ((fields, sizes),) = [found for found in mapped if found[0][-1].endswith(file.name)]
        assert fields[1] == "r--s" and int(fields[4]) == file.stat().st_ino
        assert sizes["Rss"] * 1024 >= BYTES
        assert sizes["Anonymous"] == 0  # no page is this process's own copy
        # Each process is counted for half of the pages that both have.
        assert sizes["Pss"] <= 0.6 * sizes["Rss"]
    for reader in readers:
        reader.communicate("\n", timeout=60)
        assert reader.returncode == 0


def loop(file):
    file.unlink()
    file.symlink_to(file)


def folder(file):
    file.unlink()
    file.mkdir()


def pipe(file):
    file.unlink()
    os.mkfifo(file)


def another(file):
    """The weights of another model with the same sizes."""
    other = file.parent / "other"
    other.mkdir()
    compiled(seed=1).save(other / "dense.so")
    shutil.copy(weights_in(other), file)
    shutil.rmtree(other)


def change(file, place):
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


DAMAGES = {
    "missing": (lambda file: file.unlink(), "No such file or directory"),
    "loop": (loop, "Too many levels of symbolic links"),
    "folder": (folder, "it is no regular file"),
    "pipe": (pipe, "it is no regular file"),
    "empty": (lambda file: file.write_bytes(b""), "it has 0 bytes and not "),
    "truncated": (lambda file: file.write_bytes(file.read_bytes()[:-1]), "bytes and not "),
    "longer": (lambda file: file.write_bytes(file.read_bytes() + b"\0"), "bytes and not "),
    "zeros": (lambda file: file.write_bytes(bytes(len(file.read_bytes()))), "tc did not write it"),
    "another": (another, "it has those of another model"),
    "damaged": (lambda file: change(file, 1000), "its checksum is not that of its contents"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_wrong_files(module, saved, damage):
    module.export(saved / "program", kind="executable")
    file = weights_in(saved)
    make, why = DAMAGES[damage]
    make(file)
    with pytest.raises(tc.ModelError) as refused:
        tc.load(saved / "dense.so")
    done, _ = run_program(saved / "program", saved / "out")
    assert done.returncode == 1
    for said in (str(refused.value), done.stderr):
        assert why in said and file.name in said
        assert "compile the model again" in said
        assert ("copy that file to where the artefact is" in said) == ("opened" in said)
    assert "dense.so: " in str(refused.value)
    # Sizes and names are compared in any case, contents only where that is asked for.
    if damage == "damaged":
        tc.load(saved / "dense.so", check=False)
    else:
        with pytest.raises(tc.ModelError, match="weights"):
            tc.load(saved / "dense.so", check=False)


def test_what_was_refused_can_be_loaded_later(saved):
    file = weights_in(saved)
    file.rename(saved / "away")
    with pytest.raises(tc.ModelError):
        tc.load(saved / "dense.so")
    (saved / "away").rename(file)
    tc.load(saved / "dense.so")(some_input())


def test_a_manipulated_descriptor(saved):
    """Names of files in other folders, and an address at which nothing may be written."""
    artefact, name = saved / "dense.so", weights_in(saved).name.encode()
    whole = artefact.read_bytes()
    for other in (b"../" + name[3:], bytes(len(name)), b"a/b" + name[3:]):
        artefact.write_bytes(whole.replace(name, other))
        with pytest.raises(tc.ModelError, match="the file of its weights has a name that is none"):
            tc.load(artefact, check=False)
    artefact.write_bytes(whole.replace(name, b"\n" + name[1:]))
    with pytest.raises(tc.ModelError, match="not what has to be there"):
        tc.load(artefact, check=False, trusted=False)
    # The last relocation of the descriptor is that of the variable for the weights' address.
    variable = variable_of(whole, name)
    for addend in (0, 8, variable["descriptor"], 1 << 40):
        damaged = bytearray(whole)
        damaged[variable["addend_at"] : variable["addend_at"] + 8] = addend.to_bytes(8, "little")
        artefact.write_bytes(damaged)
        with pytest.raises(tc.ModelError, match="damaged|not what has to be there|where none may"):
            tc.load(artefact, check=False, trusted=False)


def variable_of(library, name):
    """The address of the descriptor in a library, and where in the file the relocation is that
    gives the address of the variable for the weights."""
    words = np.frombuffer(library[: len(library) // 8 * 8], np.uint64)
    text_at = library.index(name)
    segments = segments_of(library)
    address = next(
        text_at - offset + virtual
        for offset, virtual, size in segments
        if 0 <= text_at - offset < size
    )
    # A relocation is place, type and addend; the name's is 16 bytes before the variable's.
    rows = [at for at in range(2, len(words)) if words[at] == address and words[at - 1] == 8]
    place = int(words[rows[0] - 2]) + 16
    (row,) = [at for at in range(2, len(words)) if words[at - 2] == place and words[at - 1] == 8]
    return {"addend_at": row * 8, "descriptor": place - 192}


def segments_of(library):
    """[(offset, address, bytes)] of what is loaded."""

    def number(at, size):
        return int.from_bytes(library[at : at + size], "little")

    headers = [number(32, 8) + 56 * i for i in range(number(56, 2))]
    return [
        (number(at + 8, 8), number(at + 16, 8), number(at + 32, 8))
        for at in headers
        if number(at, 4) == 1
    ]


def test_links_and_copies(saved, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "link.so").symlink_to(saved / "dense.so")
    loaded = tc.load(elsewhere / "link.so")
    expected = loaded(some_input())
    # Both files as links, as caches of downloads have them.
    store = tmp_path_factory.mktemp("store")
    for name in os.listdir(saved):
        os.rename(saved / name, store / f"blob-{name}")
        (saved / name).symlink_to(store / f"blob-{name}")
    np.testing.assert_array_equal(tc.load(saved / "dense.so")(some_input()), expected)
    # What was loaded is saved with its weights.
    copy = tmp_path_factory.mktemp("copy")
    loaded = tc.load(saved / "dense.so")
    loaded.save(copy / "copy.so")
    assert len(os.listdir(copy)) == 2
    loaded.save(copy / "more.so")
    assert len(os.listdir(copy)) == 3
    np.testing.assert_array_equal(tc.load(copy / "copy.so")(some_input()), expected)
    # Where the artefact is written through a link, its weights are beside what the link leads to.
    target = tmp_path_factory.mktemp("target")
    (elsewhere / "to.so").symlink_to(target / "to.so")
    compiled().save(elsewhere / "to.so")
    assert len(os.listdir(target)) == 2
    np.testing.assert_array_equal(tc.load(elsewhere / "to.so")(some_input()), expected)


@pytest.mark.parametrize("kind", ["static", "object", "bare", "c"])
def test_kinds_that_have_them_inside(module, tmp_path, kind):
    with pytest.raises(tc.UnsupportedError) as refused:
        module.export(tmp_path / "dense", kind=kind)
    assert (
        f"an artefact of kind '{kind}' has its weights inside, for no runtime of tc opens a file of "
        "them beside it; compile the model without weights=\"separate\", or export kind 'shared' or "
        "'executable'"
    ) in str(refused.value)
    assert os.listdir(tmp_path) == []


def test_options(tmp_path):
    with pytest.raises(tc.Error, match="weights is 'outside'; give 'inside' or 'separate'"):
        compiled(weights="outside")
    with pytest.raises(tc.DeviceError) as refused:
        os.mkfifo(tmp_path / "pipe")
        compiled().save(tmp_path / "pipe")
    assert (
        "cannot be written: the file of its weights belongs beside it, where no file can be; give "
        "the name of a file"
    ) in str(refused.value)


def test_the_command(tmp_path):
    (tmp_path / "dense.onnx").write_bytes(network()[0])
    done = subprocess.run(
        [sys.executable, "-m", "tc", "compile", "dense.onnx", "--weights", "separate"]
        + ["--kind", "executable", "--threads", "1", "-o", "dense"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "weights in a file beside it" in done.stdout
    done, y = run_program(tmp_path / "dense", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(y, network()[1](some_input()), rtol=1e-3, atol=1e-4)


def large_table(folder, rows, columns):
    """Writes table.onnx: rows of a matrix, in a sparse file of external data; row r of three rows
    is r + 1 everywhere."""
    chosen = np.array([0, rows - 1, 7])
    with open(folder / "table.bin", "wb") as file:
        file.truncate(rows * columns * 4)
        for row in chosen:
            file.seek(int(row) * columns * 4)
            file.write(np.full(columns, row + 1, np.float32).tobytes())
    table = TensorProto(name="W", data_type=TensorProto.FLOAT, dims=[rows, columns])
    table.data_location = TensorProto.EXTERNAL
    table.external_data.add(key="location", value="table.bin")
    ports = [helper.make_tensor_value_info("i", TensorProto.INT64, [3])]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, columns])]
    node = helper.make_node("Gather", ["W", "i"], ["y"])
    graph = helper.make_graph([node], "table", ports, results, [table])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (folder / "table.onnx").write_bytes(made.SerializeToString())
    return chosen


@pytest.mark.full
def test_more_weights_than_code_reaches(tmp_path):
    """2.25 GB for RISC-V, whose code reaches 1.75 GB inside an artefact."""
    if qemu_path() is None:
        pytest.skip("qemu-riscv64 is not installed")
    chosen = large_table(tmp_path, 550_000, 1024)
    options = {"target": "rv64gcv", "threads": 1, "log": False, "max_ram": "16GB"}
    inside = tc.compile(tmp_path / "table.onnx", **options)
    with pytest.raises(tc.UnsupportedError) as refused:
        inside.export(tmp_path / "inside", kind="executable")
    assert (
        'but code for rv64gcv reaches 1879048192: keep them in a file beside the artefact (weights="separate"), '
        "compile for x86-64, or store the weights in fewer bits"
    ) in str(refused.value)
    del inside
    module = tc.compile(tmp_path / "table.onnx", weights="separate", **options)
    module.export(tmp_path / "program", kind="executable")
    np.save(tmp_path / "i.npy", chosen)
    emulator = [qemu_path(), "-cpu", qemu_cpu(cores()["generic"], 256)]
    arguments = ["--input", f"i={tmp_path / 'i.npy'}", "--output-dir", str(tmp_path)]
    done = subprocess.run([*emulator, tmp_path / "program", *arguments], check=False)
    assert done.returncode == 0
    y = np.load(tmp_path / "y.npy")
    np.testing.assert_array_equal(y, np.repeat(chosen[:, None] + 1, 1024, 1).astype(np.float32))
