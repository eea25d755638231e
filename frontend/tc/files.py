"""Writing files so that a file either appears complete under its name, or not at all."""

import contextlib
import errno
import fcntl
import filecmp
import os
import re
import shutil
import stat
import sys
import tempfile

from .errors import DeviceError, Error
from .interrupts import temporary

_MAX_LINKS = 40  # symbolic links that are followed, as many as Linux follows
_MAX_FOLDERS = 100
_FOLDER_PART = re.compile(r"\.tc-[0-9a-f]{32}\.part")  # names that _work_folder makes
# The names that runtime/new_file.cc gives: process and number.
_FILE_PART = re.compile(r"\.tc-([0-9a-f]+)-[0-9a-f]+-[0-9a-f]+\.part")
_DESCRIPTORS = re.compile(r"/proc/\d+(/task/\d+)?/fd")
_REFUSED = {
    stat.S_ISDIR: "a folder",
    stat.S_ISSOCK: "a socket",
    stat.S_ISBLK: "a device with blocks, whose contents would be lost",
}


def system_reason(error):
    """What the system refused, according to an OSError, and what helps."""
    remedy = {
        errno.ENOSPC: "free some disk space",
        errno.EDQUOT: "free some disk space: the quota is used up",
        errno.EACCES: "choose a folder that can be written",
        errno.EPERM: "choose a folder that can be written",
        errno.EROFS: "choose a folder of a file system that can be written",
        errno.EFBIG: "the file system takes no file that large",
    }
    reason = error.strerror or str(error)
    return f"{reason}; {remedy[error.errno]}" if error.errno in remedy else reason


def cannot_be_written(path, error):
    return DeviceError(f"'{os.fsdecode(path)}' cannot be written: {system_reason(error)}")


def place_of(path):
    """The path to which an absolute path leads through links, of which the last may lead to
    nothing; and whether the file there is written in place: a device, a pipe, or what an open
    descriptor refers to."""
    place = path
    for _ in range(_MAX_LINKS):
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
    """Writes the content of the file to a device, a pipe or an open descriptor."""
    folder, name = os.path.split(place)
    try:
        if folder == f"/proc/{os.getpid()}/fd":
            # Where there is no stdout, or it is closed.
            with contextlib.suppress(AttributeError, ValueError):
                sys.stdout.flush()  # the descriptor may be that of stdout
            descriptor = os.dup(int(name))
        else:
            # Does not wait for a program to open the pipe for reading: there may never be one.
            descriptor = os.open(place, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
            os.set_blocking(descriptor, True)
        with open(file, "rb") as source, open(descriptor, "wb") as target:
            shutil.copyfileobj(source, target)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise DeviceError(
                f"'{path}' cannot be written: no program reads from the pipe"
            ) from None
        raise cannot_be_written(path, error) from None


def _synced(path):
    """Returns when the file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move(file, place, path, durable):
    """Moves a finished file to its place. Where a link leads to another file system, the file is
    written there instead."""
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
    """An open descriptor that locks the file or folder until it is closed; BlockingIOError where
    another process holds the lock. The system releases a process's locks when the process ends,
    however it ends."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whether it was removed before it was locked.
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
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
    """Removes files and folders of writers whose processes were killed, which ended their locks as
    well."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(".tc-")]
    except OSError:
        return
    for name in names:
        path, is_folder, of_file = (
            os.path.join(folder, name),
            _FOLDER_PART.fullmatch(name),
            _FILE_PART.fullmatch(name),
        )
        # For files the process is checked too: a linker may have replaced the file, and with it the
        # lock.
        if not is_folder and (not of_file or _is_running(int(of_file.group(1), 16))):
            continue
        _remove_unlocked(path, is_folder)


def _remove_unlocked(path, is_folder):
    """Removes a file or folder of this user whose lock has ended. A removal that is killed leaves
    the rest to the next one."""
    with contextlib.suppress(OSError):
        state = os.lstat(path)
        is_right = (stat.S_ISDIR if is_folder else stat.S_ISREG)(state.st_mode)
        if state.st_uid != os.geteuid() or not is_right:
            return
        lock = _lock(path)
        try:
            shutil.rmtree(path, ignore_errors=True) if is_folder else os.remove(path)
        finally:
            os.close(lock)


def _make_locked(work):
    """Makes the folder and locks it. Returns what releases the lock, or None where another writer
    took the folder for an abandoned one before it was locked."""
    os.mkdir(work, 0o700)
    lock = contextlib.ExitStack()
    try:
        lock.callback(os.close, _lock(work))
    except (BlockingIOError, FileNotFoundError):
        return None
    except OSError:
        pass  # on a file system without locks no writer removes it
    return lock


@contextlib.contextmanager
def _locked_folder(make_path, told=lambda error: error):
    """A new folder, which is locked until the block ends and is removed then, however it ends;
    `told` makes the error where it cannot be made."""
    for _ in range(_MAX_FOLDERS):
        work = make_path()
        with temporary(work):
            try:
                try:
                    lock = _make_locked(work)
                except OSError as error:
                    raise told(error) from None
                if lock is not None:
                    with lock:
                        yield work
                    return
            finally:
                shutil.rmtree(work, ignore_errors=True)
    raise told(OSError(errno.EBUSY, os.strerror(errno.EBUSY)))


def _work_folder(parent, path):
    """A new folder for the file that is to become `path`, until the block ends; if the process is
    killed, the next one that writes into `parent` removes it."""
    _remove_abandoned(parent)
    return _locked_folder(
        lambda: os.path.join(parent, f".tc-{os.urandom(16).hex()}.part"),
        lambda error: cannot_be_written(path, error),
    )


def work_folder(prefix, parent=None):
    """A new folder in `parent` (default: $TMPDIR) until the block ends. Those of processes that
    were killed are removed first."""
    parent = parent or tempfile.gettempdir()
    for name in os.listdir(parent):
        if name.startswith(prefix):
            _remove_unlocked(os.path.join(parent, name), True)
    return _locked_folder(lambda: os.path.join(parent, prefix + os.urandom(4).hex()))


def _copies_of_neighbours(path, suffixes, work):
    """Copies files that differ from `path` only by one of the suffixes; returns the state of each
    copy, which tells later whether it was changed."""
    copies = {}
    for suffix in suffixes:
        source = os.path.splitext(path)[0] + suffix
        # Where there is no such file, or it is being replaced right now.
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.stat(source).st_mode):
                copy = shutil.copy(source, work)
                copies[os.path.basename(copy)] = state_of(copy)
    return copies


@contextlib.contextmanager
def replaced(path, beside=(), durable=False):
    """A path in a new folder next to `path`, to which the block writes the file, and others named
    after it. All are moved to their places when the block ends normally, and none if it raises. A
    regular file that is in use is replaced, never overwritten; links are followed, and stay. For
    devices and pipes the bytes of the one file are written in place. The new folder has copies of
    the existing files that are called like `path` with the suffixes in `beside`. If `durable`, the
    files are on the disk when the block has ended."""
    path = os.path.abspath(os.fsdecode(path))
    if "\0" in path:
        raise DeviceError(f"{path!r} cannot be written: no file's name has a zero in it")
    place, in_place = place_of(path)
    folder, name = os.path.split(path)
    with _work_folder(tempfile.gettempdir() if in_place else os.path.dirname(place), path) as work:
        try:
            copies = _copies_of_neighbours(path, () if in_place else beside, work)
            yield os.path.join(work, name)
            made = [
                each
                for each in os.listdir(work)
                if each not in copies or copies[each] != state_of(os.path.join(work, each))
            ]
            others = {each: place_of(os.path.join(folder, each)) for each in made if each != name}
            for each, (_, special) in others.items():
                if special or in_place:
                    raise DeviceError(
                        f"'{path}' cannot be written: '{each}' belongs beside it, where no file can be; give the name of a file"
                    )
            # The file itself is moved last, so that the files named after it exist when it does.
            for each, (other, _) in others.items():
                _move(os.path.join(work, each), other, os.path.join(folder, each), durable)
            if in_place:
                _copy_in_place(os.path.join(work, name), place, path)
            elif name in made:
                _move(os.path.join(work, name), place, path, durable)
        except Error as error:
            if work not in str(error):
                raise
            raise type(error)(
                str(error).replace(work, folder)
            ) from None  # the path that the user gave


def origin_of(model):
    """(path, state) of the file that a model is, to tell later whether it still is the same; None
    of a model that is no file."""
    if not isinstance(model, (str, os.PathLike)):
        return None
    path = os.path.abspath(os.fspath(model))
    return path, state_of(path)


def state_of(path):
    """What changes when a file does; None where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def cache_folder():
    """Where this user's files lie that can be made anew: $XDG_CACHE_HOME/tc, else ~/.cache/tc."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "tc")


def default_log():
    """Where the log of tuning is when none is named: $TC_LOG, else the user's cache folder; None
    where $TC_LOG is empty."""
    if "TC_LOG" in os.environ:
        return os.environ["TC_LOG"] or None
    return os.path.join(cache_folder(), "log.db")


def state_of_all(path):
    """state_of a file; of a folder, those of the files in it."""
    if not os.path.isdir(path):
        return state_of(path)
    return tuple((name, state_of(os.path.join(path, name))) for name in sorted(os.listdir(path)))


def copy_once(file, folder):
    """Copies a file that is named after its content into a folder, unless it is there already."""
    target = os.path.join(folder, os.path.basename(file))
    try:
        same = os.path.samefile(file, target) or filecmp.cmp(file, target, shallow=False)
    except OSError:
        same = False
    if not same:
        with replaced(target) as place:
            shutil.copy(file, place)


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
    """A file that NumPy writes through Python. When NumPy writes a file directly, it does not tell
    why that fails."""

    def __init__(self, file):
        self.write = file.write


def make_folder(path):
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise DeviceError(
            f"folder '{os.fsdecode(path)}' cannot be made: {system_reason(error)}"
        ) from None
