"""Starts the sandboxed program ("behind walls") that reads an archive. Of this machine it sees only
Python's and PyTorch's own files."""

import contextlib
import errno
import fcntl
import importlib.util
import mmap
import os
import select
import signal
import subprocess
import sys
import sysconfig
import time

from ..errors import Error, ModelError, UnsupportedError, printable
from .reader import READY

# The time until PyTorch has been imported.
_SECONDS_TO_START = 300
# Seconds between two checks of the program, and the bytes per second at which its file is read at
# least: slower files get no more time.
_SECONDS_BETWEEN_LOOKS = 0.25
_SLOWEST_FILE = 20e6
# The time that the system has to end a program that was killed.
_SECONDS_TO_END = 30
_MAX_ERRORS = 4096
# Exit codes of tc-walls.
_NO_START, _NO_WALLS = 124, 125
# PyTorch, and packages that it imports where they are installed.
_PACKAGES = (
    "tc",
    "torch",
    "torchgen",
    "functorch",
    "numpy",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "markupsafe",
    "filelock",
    "fsspec",
    "typing_extensions",
    "setuptools",
    "packaging",
    "triton",
    "nvidia",
    "nvidia_cutlass_dsl",
    "optree",
    "intel_openmp",
    "mkl",
)
_TRUST = "pass trust_archive=True (--trust-archive) if you wrote the file, or trust who did: its code then runs as yours"


class Reading:
    """An archive that is being read. `request` is sent to the program, which gets `archive` as its
    file and shared memory of a given size for tensors."""

    def __init__(self, archive, store_bytes, request, packages=()):
        self._answer, writing = os.pipe()
        self._store, self._errors = _shared(store_bytes), b""
        self._file_bytes = os.fstat(archive).st_size
        try:
            self._process = subprocess.Popen(
                _command(archive, self._store, writing, packages),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(archive, self._store, writing),
                env={},
            )
        except OSError as error:
            self._close()
            raise UnsupportedError(
                f"the program that reads archives cannot be started ({error}); {_TRUST}"
            ) from None
        finally:
            os.close(writing)
        with contextlib.suppress(BrokenPipeError), self._process.stdin as file:
            file.write(request)

    def end(self):
        """Ends the program and all processes that it started."""
        self._process.kill()
        self._process.wait()
        self._process.stderr.close()
        self._close()

    def _close(self):
        for descriptor in {self._answer, self._store} - {-1}:
            os.close(descriptor)
        self._answer = self._store = -1

    def answer(self, name, seconds, most_bytes):
        """(the program's answer, of at most `most_bytes` bytes; the memory with tensors, sealed
        against changes). The program may take `seconds` of processor time."""
        try:
            said = self._listened(name, seconds, most_bytes)
            self._process.kill()
            return said[len(READY) :], _sealed(self._store, name)
        finally:
            self.end()

    def _listened(self, name, seconds, most_bytes):
        end, waiting, said = time.monotonic() + _SECONDS_TO_START, None, bytearray()
        open_ends = [self._answer, self._process.stderr.fileno()]
        while self._answer in open_ends:
            found = _readable(open_ends, _SECONDS_BETWEEN_LOOKS)
            if (
                time.monotonic() > end
                or waiting
                and waiting.seconds() > seconds + self._file_bytes / _SLOWEST_FILE
            ):
                raise _too_long(name, seconds)
            for descriptor in found:
                data = os.read(descriptor, 1 << 16)
                if not data:
                    open_ends.remove(descriptor)
                elif descriptor != self._answer:
                    self._errors = (self._errors + data)[-_MAX_ERRORS:]
                else:
                    said += data
            if not waiting and said.startswith(READY):
                waiting, end = _Waiting(self._process.pid), float("inf")
            if len(said) > most_bytes:
                raise UnsupportedError(
                    f"'{name}' is described in more than {most_bytes} bytes, which is far more than the file has"
                )
        if not waiting or len(said) == len(READY):
            raise self._failure(name, waiting is not None, seconds)
        return bytes(said)

    def _failure(self, name, ready, seconds):
        """The error that says why there is no answer."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        code = self._process.returncode
        why = printable(self._errors.decode(errors="replace").strip().rpartition("\n")[2])
        if code == _NO_WALLS:
            return UnsupportedError(
                f"'{name}' is an archive of PyTorch, which can run code where it is read, and this system has not what would hold it: "
                f"{why}. {_TRUST[0].upper()}{_TRUST[1:]}"
            )
        if not ready:
            return Error(
                f"the program that reads archives did not start: {why or f'exit code {code}'}"
            )
        if code == 128 + signal.SIGXCPU or code == 128 + signal.SIGKILL and not why:
            return _too_long(name, seconds)
        ended = f"signal {code - 128}" if code and code > 128 else f"exit code {code}"
        return UnsupportedError(
            f"'{name}' ended the program that reads it ({ended}{': ' + why if why else ''}): it is damaged, or needs more memory than "
            "a file of its size may"
        )


class _Waiting:
    """Measures how long a program and those that it started have waited for something other than a
    processor. Their processor time is bounded by a limit that the reader sets itself. Bounding both
    makes sure that the program ends, yet does not end it early on a busy machine."""

    def __init__(self, pid):
        self._pid, self._waited, self._looked = pid, 0.0, (time.monotonic(), _scheduled(pid))

    def seconds(self):
        # Clamped at each check, so that the processor time of many threads does not offset waiting
        # later.
        before, self._looked = self._looked, (time.monotonic(), _scheduled(self._pid))
        self._waited += max(self._looked[0] - before[0] - max(self._looked[1] - before[1], 0), 0)
        return self._waited


def _scheduled(pid):
    """Seconds in which the program and those that it started ran or waited for a processor; 0 where
    the system does not tell."""
    total, pids = 0.0, [str(pid)]
    while pids:
        for task in _listed(f"/proc/{pids.pop()}/task"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"{task}/schedstat", encoding="ascii") as file:
                    total += sum(map(int, file.read().split()[:2])) / 1e9
                with open(f"{task}/children", encoding="ascii") as file:
                    pids += file.read().split()
    return total


def _listed(folder):
    with contextlib.suppress(OSError):
        return [os.path.join(folder, each) for each in os.listdir(folder)]
    return []


def _readable(descriptors, seconds):
    """Those descriptors that can be read, or have ended, within so many seconds."""
    look = select.poll()
    for each in descriptors:
        look.register(each, select.POLLIN)
    return [each for each, _ in look.poll(max(seconds, 0) * 1000)]


def _too_long(name, seconds):
    return UnsupportedError(
        f"'{name}' was not read in {seconds:.0f} s of the processor, which is more than a file of its size takes; {_TRUST}"
    )


def _shared(size):
    """Memory that two processes share and whose size nobody can change."""
    descriptor = os.memfd_create("tc-tensors", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return descriptor


def _sealed(descriptor, name):
    """The content of that memory, once it is sealed so that nobody can change it."""
    end = time.monotonic() + _SECONDS_TO_END
    while True:
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
            return mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=mmap.PROT_READ)
        except OSError as error:  # the program is ending
            if error.errno != errno.EBUSY or time.monotonic() > end:
                raise ModelError(f"the program that read '{name}' does not end") from None
            time.sleep(0.002)


def _command(archive, store, answer, packages):
    program = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    folders, shown = _files(packages)
    command = [
        os.path.join(
            os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin", "tc-walls"
        ),
        "--file",
        str(archive),
        "--descriptor",
        str(store),
        "--descriptor",
        str(answer),
    ]
    for path in [program, *shown]:
        command += ["--show", path]
    start = f"import sys; sys.path += {folders!r}; from tc.archives import reader; reader.main()"
    return [*command, "--", program, "-I", "-S", "-B", "-X", "utf8", "-c", start]


def _files(packages):
    """(folders in which Python looks for packages, files and folders that the program may see:
    Python's own and those of the packages)."""
    shown = [
        "/etc/ld.so.cache",
        "/dev/urandom",
        sysconfig.get_path(
            "stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix}
        ),
        sysconfig.get_path(
            "platstdlib", vars={"platbase": sys.base_prefix, "base": sys.base_prefix}
        ),
    ]
    library = os.path.join(sys.base_prefix, "lib")
    with contextlib.suppress(OSError):
        shown += [os.path.join(library, each) for each in os.listdir(library) if ".so" in each]
    folders = []
    for name in (*_PACKAGES, *packages):
        for path in _of_package(name):
            shown.append(path)
            if os.path.dirname(path) not in folders:
                folders.append(os.path.dirname(path))
    return folders, list(dict.fromkeys(path for path in shown if path and os.path.exists(path)))


def _of_package(name):
    """The folder or file of a package, and the libraries that came with its wheel."""
    if name == "tc":
        return [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    places = list(spec.submodule_search_locations or ()) if spec else []
    if spec and not places and spec.origin:
        places = [spec.origin]
    return [path for place in places for path in (place, f"{place}.libs") if os.path.exists(path)]
