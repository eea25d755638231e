"""What a module keeps from one call to the next: it can be copied, saved, restored and reset."""

import json
import os
import threading
from collections.abc import Mapping

import numpy as np

from .errors import Error, printable
from .files import cannot_be_written, replaced

_ABOUT = "tc_state"  # the array of a saved state that says what it is of
_MAX_ABOUT = 1 << 16  # bytes of it
_MAX_ARRAYS = 1 << 14
_HEADER = 1 << 12  # bytes that an array's header may take
PLAIN = (type(None), bool, int, float, str)  # values that are no arrays


class ModelState(Mapping):
    """{name: value} of what a model's calls change. `module.state` is the one in use; a copy that
    is assigned to it goes on from where it was made."""

    def __init__(self, name, initial):
        """`initial` are the values before the first call."""
        self._name, self._initial = name, initial
        self._lock = threading.RLock()
        self.reset()

    # How a kind of values is copied, and how it becomes arrays and comes back. Values that are no
    # arrays are those of JSON.

    def _copied(self, value):
        return np.array(value)

    def _array_of(self, value):
        return value

    def _value_of(self, array):
        return array

    def _is_like(self, first, found):
        return (found.dtype, found.shape) == (first.dtype, first.shape)

    def __getitem__(self, key):
        with self._lock:
            return self._values[key]

    def __setitem__(self, key, value):
        self.update({key: value})

    def __iter__(self):
        return iter(self._initial)

    def __len__(self):
        return len(self._initial)

    def __repr__(self):
        with self._lock:
            arrays = {name: self._array_of(value) for name, value in self._values.items()}
        shown = [
            name if array is None else f"{name} {array.dtype}{list(array.shape)}"
            for name, array in arrays.items()
        ]
        return printable(f"<tc.ModelState of {self._name}: {', '.join(shown)}>")

    def update(self, values):
        """Takes new values of some of the names."""
        with self._lock:
            self._values.update(values)

    def reset(self):
        """Gives all the values that they have before the first call."""
        with self._lock:
            self._values = {name: self._copied(value) for name, value in self._initial.items()}

    def copy(self):
        """An independent copy of the present values."""
        with self._lock:
            other = type(self)(self._name, self._initial)
            other.update({name: self._copied(value) for name, value in self._values.items()})
            return other

    def truncate(self, count):
        """Refused: only a language model's state is a sequence whose end can be forgotten."""
        raise Error(
            f"the state of {self._name} is no sequence, so that it cannot go back to {count} steps; "
            "copy or save it before the step to which it is to go back"
        )

    def save(self, path):
        """Writes the present values to a file."""
        with self._lock:
            arrays = {name: self._array_of(value) for name, value in self._values.items()}
            plain = {name: self._values[name] for name, array in arrays.items() if array is None}
        arrays = {name: array for name, array in arrays.items() if array is not None}
        write_state(path, {"variables": sorted(arrays), "plain": plain}, arrays)

    def load(self, path):
        """Takes the values of a file that `save` wrote for the same model."""
        about, arrays = read_state(path)
        plain = about.get("plain")
        if not isinstance(plain, dict) or {*plain, *arrays} != set(self._initial):
            raise Error(f"'{os.fsdecode(path)}' holds the state of another model than {self._name}")
        for name, value in self._initial.items():
            first, found = self._array_of(value), arrays.get(name)
            if first is None:
                same = found is None and isinstance(plain[name], PLAIN)
            else:
                same = found is not None and self._is_like(first, found)
            if not same:
                raise Error(
                    f"'{os.fsdecode(path)}': '{name}' has another type or shape than in {self._name}: "
                    "it was saved from another version of the model"
                )
        self.update({**plain, **{name: self._value_of(array) for name, array in arrays.items()}})

    def fits(self, other):
        """Whether the other is a state of the same model."""
        return type(other) is type(self) and set(other) == set(self)


def write_state(path, about, arrays):
    """Writes arrays by name, and what they are, as an uncompressed .npz file."""
    import zipfile  # takes 1.5 MB, and most processes save no state

    head = np.frombuffer(json.dumps(about, sort_keys=True).encode(), np.uint8)
    with replaced(path) as place:
        try:
            with zipfile.ZipFile(place, "w", zipfile.ZIP_STORED) as archive:
                for number, (name, array) in enumerate([(_ABOUT, head), *sorted(arrays.items())]):
                    # Names of variables may be anything, so the files have numbers.
                    file_name = _ABOUT if number == 0 else str(number)
                    with archive.open(f"{file_name}.npy", "w", force_zip64=True) as file:
                        np.lib.format.write_array(file, np.ascontiguousarray(array))
        except OSError as error:
            raise cannot_be_written(path, error) from None


def read_state(path):
    """(what is saved, {name: array}) of a file that write_state wrote; anything else is an Error.
    What is read takes no more memory than the file's size."""
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > _MAX_ARRAYS or any(
                each.compress_type != zipfile.ZIP_STORED or each.compress_size != each.file_size
                for each in entries
            ):
                raise ValueError("it has compressed or too many parts")
            if not entries or entries[0].filename != f"{_ABOUT}.npy":
                raise ValueError("it does not say what it is of")
            if entries[0].file_size > _MAX_ABOUT:
                raise ValueError("its description is too long")
            about = json.loads(_array(archive, entries[0]).astype(np.uint8).tobytes())
            arrays = [_array(archive, each) for each in entries[1:]]
    except OSError as error:
        raise Error(f"'{os.fsdecode(path)}' cannot be read: {error.strerror}") from None
    except (ValueError, EOFError, RecursionError, zipfile.BadZipFile, NotImplementedError) as error:
        raise Error(
            f"'{os.fsdecode(path)}' is no saved state of a model: {printable(str(error))}"
        ) from None
    names = about.get("variables") if isinstance(about, dict) else None
    if not isinstance(names, list) or len(names) != len(arrays):
        raise Error(
            f"'{os.fsdecode(path)}' is no saved state of a model: its names and arrays differ"
        )
    if not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise Error(f"'{os.fsdecode(path)}' is no saved state of a model: its names are no names")
    return about, dict(zip(names, arrays))


def _array(archive, entry):
    """An array of plain numbers, whose header says as many bytes as there are."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }.get(version)
        if read is None:
            raise ValueError(f"an array has the unknown version {version}")
        shape, is_fortran, dtype = read(file, max_header_size=_HEADER)
        if is_fortran or dtype.hasobject or dtype.fields is not None or dtype.itemsize == 0:
            raise ValueError("an array is not of plain numbers in rows")
        count = 1
        for size in shape:
            count *= size
        data = file.read()
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(data):
        raise ValueError("an array has another size than its shape says")
    return np.frombuffer(data, dtype).reshape(shape).copy()
