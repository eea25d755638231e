"""Modules of models that keep something from one run to the next."""

import threading

import numpy as np

from .module import Module


class StatefulModule(Module):
    """A module whose artefact takes the value of each state before a run as an input and gives the
    value after it as an output; the module keeps these values from call to call. Calls run one
    after the other."""

    def __init__(self, states, **arguments):
        """`states` are (name, input, output, initial value)."""
        super().__init__(**arguments)
        self._lock = threading.Lock()
        self._states, self._held = states, {}
        taken, given = (
            {before for _, before, _, _ in states},
            {behind for _, _, behind, _ in states},
        )
        self.inputs = tuple(port for port in self.inputs if port.name not in taken)
        self.outputs = tuple(port for port in self.outputs if port.name not in given)
        self.reset_state()

    @property
    def state(self):
        """{name: array}: the present value of each state."""
        with self._lock:
            return dict(self._held)

    def reset_state(self):
        """Gives the states the values that they have before the first call."""
        with self._lock:
            self._held = {name: np.array(initial) for name, _, _, initial in self._states}

    def of_tensors(self):
        self._states = []
        return super().of_tensors()

    def _with_states(self, arrays):
        """The artefact's inputs in order, the states included."""
        names = {before: name for name, before, _, _ in self._states}
        given = iter(arrays)
        return tuple(
            self._held[names[port.name]] if port.name in names else next(given)
            for port in self._tensor_inputs
        )

    def _run(self, arrays):
        self._check_count(arrays)
        self._need_runnable()
        names = {behind: name for name, _, behind, _ in self._states}
        with self._lock:
            results = dict(
                zip(
                    (port.name for port in self._tensor_outputs),
                    self._runner.run(self._with_states(arrays)),
                )
            )
            self._held.update({name: results.pop(behind) for behind, name in names.items()})
        return tuple(results.values())

    def profile(self, *arrays, seconds=1.0, **named):
        from .profile import profile

        given = self._in_order(arrays, named) if named else arrays
        self._check_count(given)
        self._last_profile = profile(self, self._with_states(given), seconds)
        return self._last_profile
