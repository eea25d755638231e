"""Files under the names that users give: whole or not at all, whatever is there already, whoever
else writes there, however it ends."""

import contextlib
import errno
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tc
from tc import files
from tc.native import LIBRARY_FOLDER

SIZE = 8
NOBODY = 65534


def model(path, scale=1.0, nodes=1):
    weights = [
        numpy_helper.from_array(np.full((SIZE, SIZE), scale, np.float32), f"w{i}")
        for i in range(nodes)
    ]
    names = ["x", *(f"a{i}" for i in range(1, nodes)), "y"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(nodes)],
        "g",
        [helper.make_tensor_value_info("x", 1, [1, SIZE])],
        [helper.make_tensor_value_info("y", 1, [1, SIZE])],
        weights,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path
    )
    return path


@pytest.fixture(name="module", scope="module")
def compiled_module(tmp_path_factory):
    return tc.compile(model(tmp_path_factory.mktemp("model") / "model.onnx"))


@pytest.fixture(autouse=True)
def no_temporaries(tmp_path):
    yield
    assert not [
        path
        for path in tmp_path.rglob("*")
        if path.name.startswith(".tc-") or path.name.endswith(".part")
    ]


def refusal(path, write=files.write):
    with pytest.raises(tc.DeviceError) as raised:
        write(path, b"content")
    assert str(raised.value).startswith(f"'{path}' cannot be written: ")
    return str(raised.value).partition(" cannot be written: ")[2]


@pytest.fixture(name="device")
def device_like_null(tmp_path):
    """A device of the test's own, so that a fault costs nothing; a link to the machine's where only
    root may make one."""
    path = tmp_path / "device"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        with open(path, "wb"):
            pass
    except OSError:
        path.unlink(missing_ok=True)
        path.symlink_to("/dev/null")
    return path


def same_kind(path):
    return stat.S_ISCHR(os.stat(path).st_mode)


def test_modules_to_devices(module, device):
    """As root a file in the place of /dev/null would be the machine's."""
    before = os.lstat(device)
    module.save(device)
    module.export(device, kind="executable")
    assert same_kind(device) and os.lstat(device).st_ino == before.st_ino
    # The compiler by itself.
    with pytest.raises(
        tc.DeviceError, match=f"cannot write '{device}': linkers write regular files alone"
    ):
        module._compiled.export("shared", os.fsencode(device), os.fsencode(LIBRARY_FOLDER), b"")
    for kind in ("static", "object"):
        with pytest.raises(
            tc.DeviceError,
            match="'device.h' belongs beside it, where no file can be; give the name of a file",
        ):
            module.export(device, kind=kind)
    assert same_kind(device) and sorted(os.listdir(device.parent)) == ["device"]


def test_other_writers_to_devices(device, tmp_path):
    files.write_array(device, np.ones(5))
    log = tmp_path / "log.db"
    (tmp_path / "empty").write_text("")
    tc.Log.import_into(log, tmp_path / "empty")
    assert tc.Log(log).export(device) == 0
    assert same_kind(device)


def test_commands_to_devices(device, tmp_path):
    source = model(tmp_path / "model.onnx")
    done = subprocess.run(
        [sys.executable, "-m", "tc", "compile", source, "-o", device],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "") and same_kind(device)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
def test_devices_without_room(module):
    with pytest.raises(
        tc.DeviceError,
        match="'/dev/full' cannot be written: No space left on device; free some disk space",
    ):
        module.save("/dev/full")
    assert same_kind("/dev/full")


def test_headers_that_are_devices(module, device, tmp_path):
    os.rename(device, tmp_path / "model.h")
    with pytest.raises(tc.DeviceError, match="'model.h' belongs beside it"):
        module.export(tmp_path / "model.a", kind="static")
    assert same_kind(tmp_path / "model.h") and not (tmp_path / "model.a").exists()


def test_pipes(module, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert refusal(pipe) == "no program reads from the pipe"
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    while True:  # until the reader has opened it
        try:
            module.save(pipe)
            break
        except tc.DeviceError:
            time.sleep(0.01)
    reader.join(timeout=20)
    module.save(tmp_path / "file.so")
    # Symbols are called after the file.
    assert (
        len(got) == 1
        and got[0][:4] == b"\x7fELF"
        and abs(len(got[0]) - os.path.getsize(tmp_path / "file.so")) < 100
    )
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


def test_what_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    assert refusal(tmp_path / "folder") == "it is a folder; give the name of a file"
    listener = socket.socket(socket.AF_UNIX)
    folder = os.getcwd()
    os.chdir(tmp_path)
    listener.bind("socket")  # paths of sockets are short
    os.chdir(folder)
    assert refusal(tmp_path / "socket") == "it is a socket; give the name of a file"
    listener.close()
    if os.getuid() == 0:
        try:
            os.mknod(tmp_path / "disk", stat.S_IFBLK | 0o600, os.makedev(7, 250))
        except OSError:
            pass
        else:
            assert (
                refusal(tmp_path / "disk")
                == "it is a device with blocks, whose contents would be lost; give the name of a file"
            )
    assert refusal(tmp_path / "nowhere" / "file") == os.strerror(errno.ENOENT)
    with pytest.raises(tc.DeviceError, match="cannot be written: no file's name has a zero in it"):
        files.write(f"{tmp_path}/a\0b", b"content")
    assert os.strerror(errno.ENAMETOOLONG) in refusal(tmp_path / ("a" * 300))


def test_links(module, tmp_path):
    """What a link leads to is replaced; the link stays, and the artefact's symbols are called after
    the name that was given."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "v1.so").write_bytes(b"old")
    (tmp_path / "model.so").symlink_to("below/link.so")
    (tmp_path / "below" / "link.so").symlink_to("v1.so")
    module.save(tmp_path / "model.so")
    assert (tmp_path / "model.so").is_symlink() and (tmp_path / "below" / "link.so").is_symlink()
    assert b"\0model_descriptor\0" in (tmp_path / "below" / "v1.so").read_bytes()
    assert tc.load(tmp_path / "model.so").inputs == module.inputs
    (tmp_path / "dangling").symlink_to("below/made")
    files.write(tmp_path / "dangling", "text")
    assert (tmp_path / "dangling").is_symlink() and (
        tmp_path / "below" / "made"
    ).read_text() == "text"
    (tmp_path / "round").symlink_to("turn")
    (tmp_path / "turn").symlink_to("round")
    assert refusal(tmp_path / "round") == os.strerror(errno.ELOOP)


def test_links_to_other_file_systems(module, tmp_path):
    """The header stays beside the name that was given, where the artefact itself lies elsewhere."""
    shared = pathlib.Path("/dev/shm")
    if not os.access(shared, os.W_OK) or os.stat(shared).st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("there is no other file system that can be written")
    target = shared / f"tc-test-{os.getpid()}.a"
    try:
        (tmp_path / "model.a").symlink_to(target)
        module.export(tmp_path / "model.a", kind="static")
        assert target.read_bytes()[:7] == b"!<arch>" and (tmp_path / "model.a").is_symlink()
        assert "model_descriptor" in (tmp_path / "model.h").read_text()
    finally:
        target.unlink(missing_ok=True)


def test_standard_output(module, tmp_path):
    """In its turn among what else goes there, be it a pipe or a file."""
    source = model(tmp_path / "model.onnx")
    script = (
        "import sys, tc\n"
        "module = tc.compile(sys.argv[1])\n"
        "print('before')\n"
        "tc.files.write('/dev/stdout', b'content\\n')\n"
        "print('after')"
    )
    done = subprocess.run([sys.executable, "-c", script, source], capture_output=True, check=True)
    assert done.stdout == b"before\ncontent\nafter\n"
    with open(tmp_path / "out", "wb") as file:
        subprocess.run([sys.executable, "-c", script, source], stdout=file, check=True)
    assert (tmp_path / "out").read_bytes() == b"before\ncontent\nafter\n"


def test_permissions_of_new_files(module, tmp_path):
    before = os.umask(0o027)
    try:
        files.write(tmp_path / "text", "text")
        module.save(tmp_path / "model.so")
        module.export(tmp_path / "model.a", kind="static")
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"text": 0o640, "model.so": 0o750, "model.a": 0o640, "model.h": 0o640}


def test_headers_of_others_are_left(module, tmp_path):
    """A header that this artefact did not change is not put back over a newer one."""
    module.export(tmp_path / "model.a", kind="static")
    with files.replaced(tmp_path / "model.so", beside=(".h",)) as place:
        (tmp_path / "model.h").write_text("newer")
        pathlib.Path(place).write_bytes(b"artefact")
    assert (tmp_path / "model.h").read_text() == "newer"


def test_long_names(module, tmp_path):
    path = tmp_path / ("m" * 252 + ".so")
    module.save(path)
    assert tc.load(path).inputs == module.inputs


@pytest.fixture(name="open_folder")
def folder_that_all_users_see():
    with tempfile.TemporaryDirectory(prefix="tc-test-") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="who is not root is a user already")
def test_as_a_user_that_may_not_write(module, open_folder):
    """In a process of that user: folders of others, files of others, and devices, which a user may
    write but not replace."""
    (open_folder / "mine").mkdir()
    os.chmod(open_folder / "mine", 0o777)
    (open_folder / "theirs").mkdir()
    (open_folder / "theirs" / "file").write_text("old")

    def attempt(pipe):
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        said = []
        for path in ("mine/a.so", "theirs/b.so", "theirs/file", "/dev/null"):
            try:
                module.save(open_folder / path)
                said.append("written")
            except tc.DeviceError as error:
                said.append(str(error))
        pipe.send(said)

    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=attempt, args=(there,))
    process.start()
    said = here.recv() if here.poll(60) else None
    process.join()
    denied = "cannot be written: Permission denied; choose a folder that can be written"
    assert said == [
        "written",
        f"'{open_folder}/theirs/b.so' {denied}",
        f"'{open_folder}/theirs/file' {denied}",
        "written",
    ]
    assert (open_folder / "theirs" / "file").read_text() == "old" and same_kind("/dev/null")
    assert sorted(os.listdir(open_folder / "mine")) == ["a.so"]


def saved_by(module, path, times, failures):
    for _ in range(times):
        try:
            module.save(path)
        except BaseException as error:  # of any kind: each is a fault
            failures.append(repr(error))


def test_threads_and_processes_at_one_path(tmp_path):
    """32 threads and two processes save different models; whoever opens the file meanwhile has one
    of them, whole."""
    made = [
        tc.compile(model(tmp_path / "model.onnx", scale=float(scale))) for scale in (1, 2, 3, 4)
    ]
    path, failures = tmp_path / "shared.so", []
    made[0].save(path)
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(
            target=lambda module: os._exit(bool(saved_by(module, path, 5, failures) or failures)),
            args=(module,),
        )
        for module in made[:2]
    ]
    for process in processes:
        process.start()
    threads = [
        threading.Thread(target=saved_by, args=(made[i % 4], path, 2, failures)) for i in range(32)
    ]
    for thread in threads:
        thread.start()
    x = np.ones((1, SIZE), np.float32)
    seen = set()
    while any(thread.is_alive() for thread in threads):
        seen.add(float(tc.load(path)(x)[0, 0]))
    for joined in (*threads, *processes):
        joined.join()
    seen.add(float(tc.load(path)(x)[0, 0]))
    assert not failures and seen <= {SIZE * scale for scale in (1.0, 2.0, 3.0, 4.0)}
    assert [process.exitcode for process in processes] == [0, 0]
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "shared.so"]


def test_nothing_is_left_of_what_fails(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    for error in (KeyboardInterrupt, ValueError, MemoryError):
        with pytest.raises(error), files.replaced(path) as place:
            pathlib.Path(place).write_text("half")
            raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]


def test_nothing_is_left_of_a_command_that_is_interrupted(tmp_path):
    """While the artefact is being linked, or wherever else Ctrl-C comes."""
    source = model(tmp_path / "model.onnx", nodes=30)
    for delay in (0.3, 0.6, 0.9):
        process = subprocess.Popen(
            [sys.executable, "-m", "tc", "compile", source, "-o", tmp_path / "model.so"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) in (0, 130)
        assert set(os.listdir(tmp_path)) <= {"model.onnx", "model.so"}


WRITER = """
import sys, time
from tc import files
with files.replaced(sys.argv[1]) as place:
    open(place, "w").write("whole")
    print(place, flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def writer(path):
    """A process that has begun to write the file, and goes on when its input ends; and the folder
    that it writes to."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process, pathlib.Path(process.stdout.readline().strip()).parent
        finally:
            process.kill()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_writer_left_is_removed_by_the_next(how, tmp_path):
    with (
        writer(tmp_path / "killed") as (killed, left),
        writer(tmp_path / "living") as (living, kept),
    ):
        killed.send_signal(how)
        killed.wait(60)
        # What only looks like it is nobody's business: other names, files and links.
        others = [
            tmp_path / ".tc-notes.part",
            tmp_path / f".tc-{'0' * 32}.part",
            tmp_path / f".tc-{'1' * 32}.part",
        ]
        others[0].mkdir()
        others[1].write_text("a file")
        others[2].symlink_to(others[0])
        assert left.is_dir() and kept.is_dir()
        files.write(tmp_path / "another", b"content")
        assert not left.exists() and kept.is_dir() and all(os.path.lexists(each) for each in others)
        for each in (others[1], others[2]):
            each.unlink()
        others[0].rmdir()
        living.communicate("")
        assert living.returncode == 0
    assert (tmp_path / "living").read_text() == "whole" and sorted(os.listdir(tmp_path)) == [
        "another",
        "living",
    ]


def test_what_a_killed_executable_left_is_removed(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait(60)
    left, own = (tmp_path / f".tc-{process:x}-0-1f.part" for process in (ended.pid, os.getpid()))
    for path in (left, own):
        path.write_text("half")
    files.write(tmp_path / "file", b"content")
    assert not left.exists() and own.exists()
    own.unlink()


def test_a_folder_that_another_took_for_abandoned_is_made_anew(tmp_path, monkeypatch):
    """It has the lock before the writer does."""
    made = []

    def taken(path):
        made.append(path)
        if len(made) == 1:
            shutil.rmtree(path)
        elif len(made) == 2:
            raise BlockingIOError
        elif len(made) == 3:
            raise OSError(errno.ENOLCK, "no locks here")
        return lock(path)

    lock = files._lock  # pylint: disable=protected-access
    monkeypatch.setattr(files, "_lock", taken)
    files.write(tmp_path / "file", b"content")
    assert len(set(made)) == 3 and os.listdir(tmp_path) == ["file"]


def test_executables(module, tmp_path):
    """Their outputs are files of users, too."""
    program = tmp_path / "program"
    module.export(program, kind="executable")
    np.save(tmp_path / "x.npy", np.ones((1, SIZE), np.float32))
    command = [program, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "y.npy").symlink_to("../elsewhere.npy")
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "out" / "y.npy").is_symlink() and np.array_equal(
        np.load(tmp_path / "elsewhere.npy"), np.full((1, SIZE), SIZE, np.float32)
    )
    (tmp_path / "out" / "y.npy").unlink()
    (tmp_path / "out" / "y.npy").symlink_to("/dev/null")
    subprocess.run(command, check=True, capture_output=True)
    assert same_kind("/dev/null") and (tmp_path / "out" / "y.npy").is_symlink()
    (tmp_path / "out" / "y.npy").unlink()
    os.mkfifo(tmp_path / "out" / "y.npy")
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.endswith(
        "y.npy: it cannot be written: no program reads from the pipe\n"
    )
    shutil.rmtree(tmp_path / "out")
    outputs = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(16)]
    assert [each.wait() for each in outputs] == [0] * 16 and os.listdir(tmp_path / "out") == [
        "y.npy"
    ]
    assert json.dumps(np.load(tmp_path / "out" / "y.npy").tolist()) == json.dumps(
        [[float(SIZE)] * SIZE]
    )
