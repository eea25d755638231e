"""Models of sizes that are not known: a version for the sizes of the inputs that recur, which is as fast as one that was compiled
for them."""

import collections
import threading

import numpy as np

from .errors import UnsupportedError
from .module import Module

# Sizes of which a module knows that a run had them.
MOST_SEEN = 1024


class RecurringModule(Module):
    """A model of unknown sizes. The second run at a size compiles a version for it, which runs from then on; the ones that were
    used last are kept. Made by tc.compile(specialise=...)."""

    def __init__(self, compiled, threads, compile_for, most):
        """`compile_for` makes the module for shapes of the inputs by name; `most` are kept."""
        super().__init__(compiled=compiled, threads=threads)
        self._compile_for, self._most = compile_for, most
        self._lock = threading.Lock()
        # Shapes of the inputs to: 1, a run had them; a module; None, where there is no version for them.
        self._seen = collections.OrderedDict()

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
            # Only sizes that the model takes.
            self._seen.setdefault(shapes, 1)
            while len(self._seen) > MOST_SEEN:
                self._seen.popitem(last=False)
        return results

    def _version(self, shapes):
        with self._lock:
            found = self._seen.get(shapes)
            if shapes not in self._seen:
                return None
            self._seen.move_to_end(shapes)
            if found != 1:
                return found
            try:
                module = self._compile_for({port.name: shape for port, shape in zip(self.inputs, shapes)})
            except UnsupportedError:
                module = None   # no bound size makes the model wrong, but some take more memory while they are compiled
            self._seen[shapes] = module
            kept = [key for key, each in self._seen.items() if isinstance(each, Module)]
            for key in kept[:max(0, len(kept) - self._most)]:
                del self._seen[key]
            return module

    @property
    def versions(self):
        """The shapes of the inputs for which there are versions, the one used last at the end."""
        with self._lock:
            return [shapes for shapes, module in self._seen.items() if isinstance(module, Module)]

    def explain(self):
        lines = [f"a version is compiled for sizes that a second run has; the last {self._most} are kept"]
        lines += ["  " + ", ".join(f"{port.name}: {shape}" for port, shape in zip(self.inputs, shapes)) for shapes in self.versions]
        return "\n".join([super().explain(), *lines])
