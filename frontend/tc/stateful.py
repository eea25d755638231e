"""Modules of models that keep something from one run to the next."""

import threading

import numpy as np

from .errors import Error
from .module import Module
from .state import ModelState


class StatefulModule(Module):
    """A module whose artefact takes the value of each state before a run as an input and gives the
    value after it as an output; the module keeps these values from call to call. Calls run one
    after the other."""

    def __init__(self, states, **arguments):
        """`states` are (name, input, output, initial value; None: zeros)."""
        super().__init__(**arguments)
        self._lock = threading.Lock()
        self._states = states
        ports = {port.name: port for port in self.inputs}
        zeros = lambda before: np.zeros(ports[before].shape, ports[before].dtype)
        self._state = ModelState(
            self.name,
            {
                name: zeros(before) if initial is None else np.array(initial)
                for name, before, _, initial in states
            },
        )
        taken, given = (
            {before for _, before, _, _ in states},
            {behind for _, _, behind, _ in states},
        )
        self.inputs = tuple(port for port in self.inputs if port.name not in taken)
        self.outputs = tuple(port for port in self.outputs if port.name not in given)

    @property
    def state(self):
        """The state in use, {name: array}: it can be copied, saved and reset. A copy of it, or of
        an earlier one, may be assigned to it; so two sequences can take turns."""
        return self._state

    @state.setter
    def state(self, state):
        if not self._state.fits(state):
            raise Error(f"state is {state!r}; give a copy of the state of this module, {self.name}")
        with self._lock:
            self._state = state

    def reset_state(self):
        """Gives the states the values that they have before the first call."""
        self._state.reset()

    def of_tensors(self):
        self._states = []
        return super().of_tensors()

    def _with_states(self, arrays):
        """The artefact's inputs in order, the states included."""
        names = {before: name for name, before, _, _ in self._states}
        given = iter(arrays)
        return tuple(
            self._state[names[port.name]] if port.name in names else next(given)
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
            self._state.update({name: results.pop(behind) for behind, name in names.items()})
        return tuple(results.values())

    def profile(self, *arrays, seconds=1.0, **named):
        from .profile import profile

        given = self._in_order(arrays, named) if named else arrays
        self._check_count(given)
        self._last_profile = profile(self, self._with_states(given), seconds)
        return self._last_profile
