"""Calling a compiled model of PyTorch as its module is called: tensors in and out, nested
structures, state."""

import copy
import math
import threading

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ..errors import Error, ShapeError, UnsupportedError
from ..module import Module
from ..versions import MAX_VERSIONS, VersionedModule
from .call_state import TorchState
from .describe import _BITS
from .kept_state import refuse_changed_sizes


def array_of_argument(value):
    """The array that a run gets for an argument; it shares the argument's memory where that is
    dense."""
    if isinstance(value, torch.Tensor):
        tensor = value.detach()
        if tensor.device.type != "cpu":
            tensor = tensor.cpu()
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        if tensor.dtype in _BITS:
            return (
                tensor.view(_BITS[tensor.dtype])
                .numpy()
                .view(np.uint16 if tensor.dtype == torch.bfloat16 else np.uint8)
            )
        return tensor.numpy()
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return value


def parts_of_argument(value, dtype, name):
    """An argument of complex numbers as an array whose last axis has the real and imaginary
    parts."""
    array = array_of_argument(value)
    given = str(getattr(array, "dtype", type(value).__name__))
    if given != str(dtype)[6:]:
        raise ShapeError(
            f"input '{name}' has complex numbers of type {str(dtype)[6:]}; {given} is given: convert it to that type"
        )
    dense = np.ascontiguousarray(array).reshape(array.shape)
    return dense[..., None].view(dense.real.dtype)


def complex_of_result(array):
    """A result, whose last axis has the parts, as complex numbers. NumPy lacks complex numbers of
    half floats, for which the parts are returned."""
    if array.dtype == np.float16:
        return array
    array = np.ascontiguousarray(array)
    return array.view(np.complex64 if array.dtype == np.float32 else np.complex128)[..., 0]


def tensor_of_result(array, dtype):
    """A tensor that shares the memory of a result."""
    if dtype == torch.complex32:
        return torch.view_as_complex(torch.from_numpy(array))
    if dtype.is_complex:
        return torch.from_numpy(complex_of_result(array))
    if dtype in _BITS:
        return torch.from_numpy(
            np.ascontiguousarray(array)
            .reshape(array.shape)
            .view(np.int16 if dtype == torch.bfloat16 else np.uint8)
        ).view(dtype)
    return torch.from_numpy(array)


def is_array(value):
    return isinstance(value, (torch.Tensor, np.ndarray, np.generic))


def share_memory(one, other):
    """Whether two arguments share an element; true where finding out would take long."""
    views = []
    for value in (one, other):
        if isinstance(value, torch.Tensor):
            if value.device.type != "cpu":
                return False
            value = value.detach()
            value = value.conj() if value.is_conj() else value
            value = (value.view(_BITS[value.dtype]) if value.dtype in _BITS else value).numpy()
        if not isinstance(value, np.ndarray):
            return False
        views.append(value)
    try:
        return np.shares_memory(*views, max_work=1000)
    except np.exceptions.TooHardError:
        return True


class Version:
    """A model compiled for one structure of its arguments."""

    def __init__(self, program, module):
        self.program, self.module = program, module
        # For plain calls, of which every argument is an array: the number of arguments, so that
        # their structure need not be compared.
        count = program.in_spec.num_leaves
        plain = (
            not program.fixed
            and not program.writes
            and all(isinstance(leaf, int) for leaf in program.leaves)
        )
        self.plain_count = (
            count if plain and program.in_spec in _structures_of_plain_calls(count) else None
        )
        self._takes_leaves_in_order = (
            list(program.leaves) == list(range(count))
            and not program.writes
            and not program.complex_inputs
        )
        self._gives_outputs_in_order = (
            program.results == [("output", number) for number in range(len(program.dtypes))]
            and not program.writes
        )
        self._gives_complex = any(dtype.is_complex for dtype in program.dtypes)
        self._structured = _structure_maker(program.out_spec)

    def takes(self, leaves, spec):
        return spec == self.program.in_spec and all(
            _is_same(leaves[number], value) for number, value in self.program.fixed.items()
        )

    def arrays(self, leaves, buffers):
        if self._takes_leaves_in_order:
            return list(map(array_of_argument, leaves))
        self._check_memory(leaves)
        values = [
            buffers[leaf] if isinstance(leaf, str) else leaves[leaf] for leaf in self.program.leaves
        ]
        kinds = self.program.complex_inputs
        return [
            parts_of_argument(value, kinds[number], self.program.inputs[number])
            if number in kinds
            else array_of_argument(value)
            for number, value in enumerate(values)
        ]

    def _check_memory(self, leaves):
        """Refuses an argument that the call changes if it shares memory with another: the run reads
        all arguments before changes are written."""
        for _, kind, written in self.program.writes:
            for name, leaf in (
                zip(self.program.inputs, self.program.leaves) if kind == "input" else ()
            ):
                if (
                    not isinstance(leaf, str)
                    and leaf != written
                    and share_memory(leaves[leaf], leaves[written])
                ):
                    own = self.program.inputs[self.program.leaves.index(written)]
                    raise UnsupportedError(
                        f"the model writes into its input '{own}', and '{name}' is given with the same memory: pass a "
                        "copy of one of them"
                    )

    def results(self, arrays, leaves, buffers, as_tensors):
        """The results in their structure. Also writes buffers and the arguments that the call
        changes."""
        needed = as_tensors or self.program.writes
        tensors = (
            [tensor_of_result(array, dtype) for array, dtype in zip(arrays, self.program.dtypes)]
            if needed
            else []
        )
        if self._gives_complex:
            arrays = [
                complex_of_result(array) if dtype.is_complex else array
                for array, dtype in zip(arrays, self.program.dtypes)
            ]
        if self._gives_outputs_in_order:
            return self._structured(tensors if as_tensors else arrays)
        for output, kind, target in self.program.writes:
            if kind == "buffer":
                buffers[target] = tensors[output]
            elif isinstance(leaves[target], torch.Tensor):
                leaves[target].copy_(tensors[output])
            else:
                np.copyto(leaves[target], arrays[output])
        values = []
        for kind, what in self.program.results:
            if kind == "value":
                values.append(what)
            elif kind == "number":
                values.append(arrays[what].item())
            else:
                values.append(tensors[what] if as_tensors else arrays[what])
        return self._structured(values)


def _structure_maker(spec):
    """A function that puts a list of leaves into a structure. The two commonest structures have a
    fast path."""
    for structure, made in ((0, lambda leaves: leaves[0]), ((0,) * spec.num_leaves, tuple)):
        if spec == pytree.tree_structure(structure):
            return made
    return lambda leaves: pytree.tree_unflatten(leaves, spec)


def _structures_of_plain_calls(count):
    """The structures of a call with so many positional arrays, in the forms of programs and of
    TorchScript."""
    leaves = [0] * count
    return [pytree.tree_structure(call) for call in ((tuple(leaves), {}), (({}, leaves), {}))]


def _is_same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return math.copysign(1, a) == math.copysign(1, b) and (a == b or a != a and b != b)
    return type(a) is type(b) and a == b


class _CalledAsModule:
    """What modules of PyTorch's models have in addition to other modules: being called like the
    PyTorch module, and state."""

    def _begin(self, model, compile_source):
        self._model_of_torch, self._compile_source = model, compile_source
        self._state = TorchState(
            model.name, {**model.program.buffers, **copy.deepcopy(model.state or {})}
        )
        self._versions_of_calls = [Version(model.program, self)]
        self._call_lock = threading.Lock()
        self._artefact = None  # the module of artefacts, once one is asked for
        self._plain_count = None if self.state else self._versions_of_calls[0].plain_count

    def __call__(self, *args, **kwargs):
        """Runs the model as its module is called. For tensors it returns tensors, for NumPy arrays
        it returns arrays; both share memory with the run where they are dense."""
        model = self._model_of_torch
        if len(args) == self._plain_count and not kwargs:
            kinds = set(map(type, args))
            if len(kinds) == 1 and (torch.Tensor in kinds or np.ndarray in kinds):
                # A fast path, in which the arguments are the leaves: for a model of a few layers,
                # flattening them would take as long as the run.
                return self._run_version(
                    model, self._versions_of_calls[0], args, torch.Tensor in kinds
                )
        as_tensors = not any(
            isinstance(leaf, np.ndarray) for leaf in pytree.tree_leaves((args, kwargs))
        )
        if not self.state:
            return self._call(model, args, kwargs, as_tensors)
        # One call at a time: each starts from the state that the one before left.
        with self._call_lock:
            if model.state:
                model.state = {name: self._state[name] for name in model.state}
            try:
                return self._call(model, args, kwargs, as_tensors)
            finally:
                self._state.update(model.state or {})

    def _call(self, model, args, kwargs, as_tensors):
        args, kwargs = model.call_of(args, kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        version = next(
            (
                each
                for each in self._versions_of_calls
                if each.takes(leaves, spec) and model.matches_state(each.program)
            ),
            None,
        )
        if version is None:
            version, leaves = self._new_version(model, args, kwargs, leaves)
        return self._run_version(model, version, leaves, as_tensors)

    def _run_version(self, model, version, leaves, as_tensors):
        arrays = version.module._run(version.arrays(leaves, self._state))
        return model.finish(
            version.program, version.results(arrays, leaves, self._state, as_tensors)
        )

    def _new_version(self, model, args, kwargs, leaves):
        """The version for a call with another structure: an existing one if only the form of the
        call differs, else one that is compiled now."""
        reordered = self._reordered(model.program, args, kwargs)
        if reordered is not None:
            return self._versions_of_calls[0], reordered
        tensors = pytree.tree_map(
            lambda value: torch.from_numpy(value) if isinstance(value, np.ndarray) else value,
            (args, kwargs),
        )
        program = model.again(*tensors)
        version = Version(program, self._compile_source(program.source))
        self._versions_of_calls.append(version)
        if len(self._versions_of_calls) > MAX_VERSIONS:
            del self._versions_of_calls[1]
        return version, leaves

    def _reordered(self, program, args, kwargs):
        """The leaves in the program's order where inputs are given by name instead of by position,
        or the other way round; else None."""
        if program.fixed or program.buffers or len(program.inputs) != program.in_spec.num_leaves:
            return None
        free = [name for name in program.inputs if name not in kwargs]
        given = dict(zip(free, args)) | kwargs
        if (
            len(args) > len(free)
            or set(given) != set(program.inputs)
            or not all(is_array(value) for value in given.values())
        ):
            return None
        leaves = [None] * len(program.inputs)
        for name, leaf in zip(program.inputs, program.leaves):
            leaves[leaf] = given[name]
        return leaves

    def as_artefact(self):
        """The module with the inputs and outputs of an artefact. Where the first call creates the
        state, this is the module of later calls."""
        with self._call_lock:
            if self._artefact is None:
                program = self._model_of_torch.program_of_artefact()
                module = (
                    self
                    if program is self._model_of_torch.program
                    else self._compile_source(program.source)
                )
                refuse_changed_sizes(
                    self.name, module.inputs, module.outputs, _state_ports(program, module)
                )
                self._artefact = module
        return self._artefact

    def export(self, path, kind="shared"):
        module = self.as_artefact()
        return super().export(path, kind) if module is self else module.export(path, kind)

    @property
    def state(self):
        """The state in use, {name: value} of buffers and attributes that calls change: it can be
        copied, saved and reset. A copy of it, or of an earlier one, may be assigned to it; so two
        sequences can take turns."""
        return self._state

    @state.setter
    def state(self, state):
        if not self._state.fits(state):
            raise Error(f"state is {state!r}; give a copy of the state of this module, {self.name}")
        with self._call_lock:
            self._state = state

    def reset_state(self):
        """Gives the state the values that it has in the model."""
        self._state.reset()


def _state_ports(program, module):
    """(name, number of the input, number of the output) of each part of the state of a program."""
    ports = [
        (target, program.leaves.index(target), output)
        for output, kind, target in program.writes
        if kind == "buffer" and target in program.leaves
    ]
    outputs = [port.name for port in module.outputs]
    for number, port in enumerate(module.inputs):
        path = port.name.removeprefix("state.")
        if path != port.name and f"next.{path}" in outputs:
            ports.append((path, number, outputs.index(f"next.{path}")))
    return ports


class TorchModule(_CalledAsModule, Module):
    """A compiled model of PyTorch; made by tc.compile."""

    _cast = "x.to(torch.{})"


class VersionedTorchModule(_CalledAsModule, VersionedModule):
    """A compiled model of PyTorch with a version for each combination of values that decide its
    structure."""

    _cast = "x.to(torch.{})"


def module_of(model, compile_source):
    """Compiles the model; `compile_source` compiles a source with the user's options."""
    module = compile_source(model.source)
    module.__class__ = VersionedTorchModule if isinstance(module, VersionedModule) else TorchModule
    module._begin(model, compile_source)
    return module
