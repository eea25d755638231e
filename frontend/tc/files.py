"""Writing files: whole under their names, or not at all."""

import contextlib
import errno
import os
import shutil
import tempfile

from .errors import DeviceError, Error
from .interrupts import temporary


def system_reason(error):
    """What the system refused, and what helps, of an OSError."""
    remedy = {errno.ENOSPC: "free some disk space", errno.EDQUOT: "free some disk space: the quota is used up",
              errno.EACCES: "choose a folder that can be written", errno.EPERM: "choose a folder that can be written",
              errno.EROFS: "choose a folder of a file system that can be written", errno.EFBIG: "the file system takes no file that large"}
    reason = error.strerror or str(error)
    return f"{reason}; {remedy[error.errno]}" if error.errno in remedy else reason


def cannot_be_written(path, error):
    return DeviceError(f"'{os.fsdecode(path)}' cannot be written: {system_reason(error)}")


@contextlib.contextmanager
def replaced(path, beside=()):
    """A path beside `path` to write the file to, and others that are named after it; all of them come to their places when the
    block ends, and none where it does not end by itself. A file that is in use is replaced, never overwritten. Of the suffixes in
    `beside` the writer finds the files that are there."""
    path = os.path.abspath(os.fsdecode(path))
    folder, name = os.path.split(path)
    if os.path.exists(path) and not os.path.isfile(path):
        yield path     # a device, or a pipe
        return
    try:
        work = tempfile.mkdtemp(prefix=".tc-", suffix=".part", dir=folder)
    except OSError as error:
        raise cannot_be_written(path, error) from None
    try:
        with temporary(work):
            for suffix in beside:
                other = os.path.splitext(name)[0] + suffix
                if os.path.isfile(os.path.join(folder, other)):
                    shutil.copy(os.path.join(folder, other), work)
            yield os.path.join(work, name)
            # The file itself last: what is named after it is there when it is.
            for made in sorted(os.listdir(work), key=lambda each: each == name):
                place = os.path.join(folder, made)
                try:
                    os.replace(os.path.join(work, made), place)
                except OSError as error:
                    raise cannot_be_written(place, error) from None
    except Error as error:
        if work not in str(error):
            raise
        raise type(error)(str(error).replace(work, folder)) from None     # as the user knows the file
    finally:
        shutil.rmtree(work, ignore_errors=True)


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
