"""Writing files: whole under their names, or not at all."""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import sys
import tempfile

from .errors import DeviceError, Error
from .interrupts import temporary

_MOST_LINKS = 40     # as in the kernel
_MOST_FOLDERS = 100
_FOLDER_PART = re.compile(r"\.tc-[0-9a-f]{32}\.part")                      # of _work_folder
_FILE_PART = re.compile(r"\.tc-([0-9a-f]+)-[0-9a-f]+-[0-9a-f]+\.part")      # of runtime/new_file.cc: the process and a number
_DESCRIPTORS = re.compile(r"/proc/\d+(/task/\d+)?/fd")
_REFUSED = {stat.S_ISDIR: "a folder", stat.S_ISSOCK: "a socket", stat.S_ISBLK: "a device with blocks, whose contents would be lost"}


def system_reason(error):
    """What the system refused, and what helps, of an OSError."""
    remedy = {errno.ENOSPC: "free some disk space", errno.EDQUOT: "free some disk space: the quota is used up",
              errno.EACCES: "choose a folder that can be written", errno.EPERM: "choose a folder that can be written",
              errno.EROFS: "choose a folder of a file system that can be written", errno.EFBIG: "the file system takes no file that large"}
    reason = error.strerror or str(error)
    return f"{reason}; {remedy[error.errno]}" if error.errno in remedy else reason


def cannot_be_written(path, error):
    return DeviceError(f"'{os.fsdecode(path)}' cannot be written: {system_reason(error)}")


def place_of(path):
    """Where a file of that absolute path lies, over links, the last of which may lead to nothing; and whether it is written in place: a
    device, a pipe, or what an open descriptor leads to."""
    place = path
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(place)
        folder = os.path.realpath(folder)
        place = os.path.join(folder, name)
        if _DESCRIPTORS.fullmatch(folder):
            return place, True
        try:
            place = os.path.join(folder, os.readlink(place))
        except OSError:
            break
    else:
        raise cannot_be_written(path, OSError(errno.ELOOP, os.strerror(errno.ELOOP)))
    try:
        mode = os.stat(place).st_mode
    except FileNotFoundError:
        return place, False
    except OSError as error:
        raise cannot_be_written(path, error) from None
    for holds, what in _REFUSED.items():
        if holds(mode):
            raise DeviceError(f"'{path}' cannot be written: it is {what}; give the name of a file")
    return place, not stat.S_ISREG(mode)


def _copy_in_place(file, place, path):
    """Writes what the file has to a device, a pipe or an open descriptor."""
    folder, name = os.path.split(place)
    try:
        if folder == f"/proc/{os.getpid()}/fd":
            with contextlib.suppress(AttributeError, ValueError):     # there is none, or it is closed
                sys.stdout.flush()     # it may be the descriptor's
            descriptor = os.dup(int(name))
        else:
            # Without waiting for a program that reads the pipe: there may never be one.
            descriptor = os.open(place, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
            os.set_blocking(descriptor, True)
        with open(file, "rb") as source, open(descriptor, "wb") as target:
            shutil.copyfileobj(source, target)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise DeviceError(f"'{path}' cannot be written: no program reads from the pipe") from None
        raise cannot_be_written(path, error) from None


def _synced(path):
    """Returns when the file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move(file, place, path, durable):
    """Puts a finished file in its place, which is another file system's where a link leads there."""
    try:
        if durable:
            _synced(file)
        os.replace(file, place)
        if durable:
            _synced(os.path.dirname(place))
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise cannot_be_written(path, error) from None
        with open(file, "rb") as source:
            write(place, source.read())


def _lock(path):
    """An open descriptor of the file or folder, which nobody else locks until it is closed. BlockingIOError where somebody does. The system
    unlocks what a process had when that ends, however it does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):     # it was removed before it was locked
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _is_running(process):
    try:
        os.kill(process, 0)
    except OverflowError:
        return False
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def _remove_abandoned(folder):
    """Removes what writers left there whose processes were killed: their locks are gone with them."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(".tc-")]
    except OSError:
        return
    for name in names:
        path, is_folder, of_file = os.path.join(folder, name), _FOLDER_PART.fullmatch(name), _FILE_PART.fullmatch(name)
        # A linker may have replaced a file, and its lock with it.
        if not is_folder and (not of_file or _is_running(int(of_file.group(1), 16))):
            continue
        with contextlib.suppress(OSError):
            state = os.lstat(path)
            if state.st_uid != os.geteuid() or not (stat.S_ISDIR if is_folder else stat.S_ISREG)(state.st_mode):
                continue
            lock = _lock(path)
            try:
                shutil.rmtree(path, ignore_errors=True) if is_folder else os.remove(path)
            finally:
                os.close(lock)


def _make_locked(work):
    """Makes the folder; what closes its lock, or None where another writer took the folder for an abandoned one before it was locked."""
    os.mkdir(work, 0o700)
    lock = contextlib.ExitStack()
    try:
        lock.callback(os.close, _lock(work))
    except (BlockingIOError, FileNotFoundError):
        return None
    except OSError:
        pass     # on a file system without locks nobody removes it
    return lock


@contextlib.contextmanager
def _work_folder(parent, path):
    """A new folder for what is to become `path`, gone when the block ends, however it does. Where the process is killed before, the next
    one that writes into `parent` removes it."""
    _remove_abandoned(parent)
    for _ in range(_MOST_FOLDERS):
        work = os.path.join(parent, f".tc-{os.urandom(16).hex()}.part")
        with temporary(work):
            try:
                try:
                    lock = _make_locked(work)
                except OSError as error:
                    raise cannot_be_written(path, error) from None
                if lock is not None:
                    with lock:
                        yield work
                    return
            finally:
                shutil.rmtree(work, ignore_errors=True)
    raise cannot_be_written(path, OSError(errno.EBUSY, os.strerror(errno.EBUSY)))


def _copies_of_neighbours(path, suffixes, work):
    """Copies the files that are called as `path` but for the suffix; returns what tells whether a copy was changed."""
    copies = {}
    for suffix in suffixes:
        source = os.path.splitext(path)[0] + suffix
        with contextlib.suppress(OSError):     # there is none, or it is just being replaced
            if stat.S_ISREG(os.stat(source).st_mode):
                copy = shutil.copy(source, work)
                copies[os.path.basename(copy)] = _state_of(copy)
    return copies


def _state_of(path):
    state = os.stat(path)
    return state.st_ino, state.st_size, state.st_mtime_ns


@contextlib.contextmanager
def replaced(path, beside=(), durable=False):
    """A path to write the file to, in a new folder beside `path`, and others there that are named after it; all of them come to their
    places when the block ends, and none where it does not end by itself. A regular file that is in use is replaced, never overwritten;
    links are followed, and stay. Devices and pipes are given the bytes in place, of the file alone. Of the suffixes in `beside` the
    writer finds the files that are there. What is `durable` is on the disk when the block has ended."""
    path = os.path.abspath(os.fsdecode(path))
    if "\0" in path:
        raise DeviceError(f"{path!r} cannot be written: no file's name has a zero in it")
    place, in_place = place_of(path)
    folder, name = os.path.split(path)
    with _work_folder(tempfile.gettempdir() if in_place else os.path.dirname(place), path) as work:
        try:
            copies = _copies_of_neighbours(path, () if in_place else beside, work)
            yield os.path.join(work, name)
            made = [each for each in os.listdir(work) if each not in copies or copies[each] != _state_of(os.path.join(work, each))]
            others = {each: place_of(os.path.join(folder, each)) for each in made if each != name}
            for each, (_, special) in others.items():
                if special or in_place:
                    raise DeviceError(f"'{path}' cannot be written: '{each}' belongs beside it, where no file can be; give the name of a file")
            # The file itself last: what is named after it is there when it is.
            for each, (other, _) in others.items():
                _move(os.path.join(work, each), other, os.path.join(folder, each), durable)
            if in_place:
                _copy_in_place(os.path.join(work, name), place, path)
            elif name in made:
                _move(os.path.join(work, name), place, path, durable)
        except Error as error:
            if work not in str(error):
                raise
            raise type(error)(str(error).replace(work, folder)) from None     # as the user knows the file


def write(path, data):
    """Writes bytes, or text as UTF-8."""
    with replaced(path) as place:
        try:
            with open(place, "wb") as file:
                file.write(data.encode() if isinstance(data, str) else data)
        except OSError as error:
            raise cannot_be_written(path, error) from None


def write_array(path, array):
    """Writes a .npy file."""
    import numpy as np

    with replaced(path) as place:
        try:
            with open(place, "wb") as file:
                np.save(_Plain(file), array, allow_pickle=False)
        except OSError as error:
            raise cannot_be_written(path, error) from None


class _Plain:
    """What NumPy writes through Python: of files of its own writing it does not tell why they cannot be written."""

    def __init__(self, file):
        self.write = file.write


def make_folder(path):
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise DeviceError(f"folder '{os.fsdecode(path)}' cannot be made: {system_reason(error)}") from None
