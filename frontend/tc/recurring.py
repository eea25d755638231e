"""Models with open sizes: a version is compiled for sizes of the inputs that recur, which is as
fast as a model with these sizes."""

import collections
import glob
import os
import threading
from pathlib import Path

import numpy as np

from .errors import Error, ModelError, lines_text
from .module import Memory, Module
from .sources import source_of

# Versions that tc.compile keeps by default.
MAX_VERSIONS = 4
# The most sizes for which a module counts how many runs had them.
MAX_SEEN = 1024
# A version that is dropped before so many runs took it was not worth its compilation.
WORTH_RUNS = 8
# Versions take at most this share of the machine's memory.
SHARE_OF_MEMORY = 1 / 4


class RecurringModule(Module):
    """A model with open sizes. The second run with the same sizes compiles a version for them,
    which is used from then on; the versions used most recently are kept. Where there are more sizes
    than versions, some are dropped before they were worth their compilation. Each of these doubles
    the number of runs that a size must have had before the next version is compiled. Made by
    tc.compile(specialise=...)."""

    def __init__(self, compiled, threads, compile_for, most):
        """`compile_for` makes the module for shapes of the inputs by name; at most `most` versions
        are kept."""
        super().__init__(compiled=compiled, threads=threads)
        self._compile_for, self._most = compile_for, most
        self._most_bytes = int(
            SHARE_OF_MEMORY * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        )
        self._lock = threading.Lock()
        self._runs_before = 1  # runs that a size must have had before its version is compiled
        # {shapes of the inputs: runs that had them}, for those without a version.
        self._seen = collections.OrderedDict()
        self._versions = collections.OrderedDict()  # {shapes: [module, its bytes, its runs]}
        self._without = set()  # shapes for which a version cannot be made, or is being made

    def _run(self, arrays):
        if self._division:
            return super()._run(arrays)
        self._check_count(arrays)
        shapes = tuple(np.shape(array) for array in arrays)
        module = self._version(shapes)
        if module is not None:
            return module._run(arrays)
        results = super()._run(arrays)
        with self._lock:
            # Counted after the run, so that only sizes are counted that the model accepts.
            if shapes not in self._without:
                self._seen[shapes] = self._seen.pop(shapes, 0) + 1
                while len(self._seen) > MAX_SEEN:
                    self._seen.popitem(last=False)
        return results

    def _version(self, shapes):
        """The version for these shapes, or None where there is none. While one is being compiled,
        other threads go on with the model of open sizes."""
        with self._lock:
            if shapes in self._versions:
                self._versions.move_to_end(shapes)
                self._versions[shapes][2] += 1
                return self._versions[shapes][0]
            if shapes in self._without or self._seen.get(shapes, 0) < self._runs_before:
                return None
            if len(self._without) == MAX_SEEN:
                self._without.clear()
            self._without.add(shapes)
            del self._seen[shapes]
        try:
            module = self._compile_for(
                {port.name: shape for port, shape in zip(self.inputs, shapes)}
            )
            size = module.memory.constants + (module.memory.arena or 0)
        except Error:
            # The file has gone, or the version would need too much memory. The model with open
            # sizes is still right for these.
            return None
        with self._lock:
            if size > self._most_bytes:
                return None
            self._without.discard(shapes)
            self._versions[shapes] = [module, size, 1]
            self._forget_old()
        return module

    def _forget_old(self):
        while (
            len(self._versions) > self._most
            or sum(size for _, size, _ in self._versions.values()) > self._most_bytes
        ):
            _, (_, _, runs) = self._versions.popitem(last=False)
            if runs < WORTH_RUNS:
                self._runs_before *= 2

    @property
    def versions(self):
        """The shapes of the inputs for which there are versions; the one used most recently is
        last."""
        with self._lock:
            return list(self._versions)

    @property
    def memory(self):
        """Bytes that the model and its versions need together."""
        with self._lock:
            modules = [module for module, _, _ in self._versions.values()]
        every = [super().memory, *(module.memory for module in modules)]
        return Memory(*(None if None in column else sum(column) for column in zip(*every)))

    def explain(self):
        lines = [
            f"a version is compiled for sizes that {self._runs_before + 1} runs have; the last {self._most} are kept"
        ]
        lines += [
            "  " + ", ".join(f"{port.name}: {shape}" for port, shape in zip(self.inputs, shapes))
            for shapes in self.versions
        ]
        return lines_text([*super().explain().splitlines(), *lines])


def reader_of(model):
    """A function that makes the model's source whenever a version is compiled. A file is not kept
    in memory but read again, provided that it and the files next to it whose names begin with its
    own have not changed."""
    if not isinstance(model, (str, os.PathLike)):
        source = source_of(model)
        return source.copy
    path = Path(os.path.abspath(model))
    known = _state_of(path)

    def read():
        if _state_of(path) != known:
            raise ModelError(
                f"{path} is not the file any more from which the model was compiled; compile it again"
            )
        return source_of(path)

    return read


def _state_of(path):
    """A value that changes when the model's file or its external data change."""
    try:
        found = [
            (each.name, each.stat())
            for each in sorted(path.parent.glob(f"{glob.escape(path.stem)}*"))
        ]
    except OSError:
        return None
    return [(name, status.st_ino, status.st_size, status.st_mtime_ns) for name, status in found]
