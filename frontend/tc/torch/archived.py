"""Models of archives that the sandboxed program ("behind walls") has read: the counterparts of the
classes in models.py, made from a description."""

import copy

import torch
from torch.utils import _pytree as pytree

from ..archives import replay, values
from .describe import DTYPES
from .models import ScriptArgument, ScriptModel, _Model
from .program import Program, refuse_autocast


def model_of(archive, answer, inputs, shapes):
    """The model that the sandboxed program describes; `answer` is its answer and its memory with
    tensors."""
    refuse_autocast(archive.name)
    kind = ArchivedScript if archive.kind == "TorchScript" else ArchivedProgram
    return replay.believed(lambda: kind(archive, answer, inputs, shapes), archive.name)


class _Described:
    """One description that has been read."""

    def __init__(self, said, store, name):
        self.said, self.store = said, store
        self.source = replay.source_of(said["model"], store, name)

    def value(self, key, kind=object):
        value = values.read(self.said[key], self._tensor)
        if not isinstance(value, kind):
            raise TypeError(f"a {type(value).__name__} in the place of a {kind.__name__}")
        return value

    def structure(self, key):
        return pytree.tree_structure(self.value(key))

    def _tensor(self, row):
        text, shape, place = row
        dtype = getattr(torch, text) if type(text) is str else None
        if dtype not in DTYPES and dtype not in (
            torch.complex32,
            torch.complex64,
            torch.complex128,
        ):
            raise ValueError("a type of tensors that is none")
        parts = dtype.to_real() if dtype.is_complex else dtype
        full = [*shape, 2] if dtype.is_complex else shape
        array = replay.tensor_place(full, DTYPES[parts], place, self.store)
        tensor = (
            torch.from_numpy(array.copy()).view(parts)
            if array.nbytes
            else torch.empty(0, dtype=parts)
        )
        tensor = tensor.reshape(full)
        return torch.view_as_complex(tensor) if dtype.is_complex else tensor

    def program(self, takes=None):
        """The Program; `takes` is the structure of its arguments where that is known here."""
        said = self.said
        program = Program(
            self.source,
            _names(said["inputs"]),
            list(said["leaves"]),
            self.value("fixed", dict),
            takes or self.structure("takes"),
            self.structure("gives"),
            [(kind, values.read(what, self._tensor)) for kind, what in said["results"]],
            [tuple(each) for each in said["writes"]],
            self.value("buffers", dict),
            self.value("dtypes", list),
            self.value("complex", dict),
            self.value("started", dict),
            self.value("after", dict),
        )
        _check(program)
        return program


def _names(given):
    if not all(type(each) is str for each in given):
        raise TypeError("a name that is no text")
    return list(given)


def _check(program):
    """Checks that every index in the program is in range."""
    leaves, outputs = program.in_spec.num_leaves, len(program.dtypes)

    def is_in(number, count):
        return type(number) is int and 0 <= number < count

    good = (
        len(program.leaves) == len(program.inputs)
        and len(program.results) == program.out_spec.num_leaves
    )
    good &= all(
        leaf in program.buffers if type(leaf) is str else is_in(leaf, leaves)
        for leaf in program.leaves
    )
    good &= all(is_in(leaf, leaves) for leaf in program.fixed)
    good &= all(
        kind == "value" or kind in ("output", "number") and is_in(what, outputs)
        for kind, what in program.results
    )
    good &= all(
        is_in(output, outputs)
        and (
            target in program.buffers
            if kind == "buffer"
            else kind == "input" and is_in(target, leaves) and target in program.leaves
        )
        for output, kind, target in program.writes
    )
    good &= all(
        isinstance(each, torch.dtype)
        for each in (*program.dtypes, *program.complex_inputs.values())
    )
    good &= all(isinstance(each, torch.Tensor) for each in program.buffers.values())
    good &= all(is_in(each, len(program.inputs)) for each in program.complex_inputs)
    good &= all(type(key) is str for key in (*program.started, *program.after, *program.buffers))
    if not good:
        raise ValueError("a program that does not fit together")


class ArchivedProgram(_Model):
    """A program of torch.export from an archive."""

    def __init__(self, archive, answer, inputs, shapes):
        self.name, self.shapes = archive.name, shapes
        self.program = _Described(*answer, self.name).program()


class ArchivedScript(ScriptModel):
    """TorchScript from an archive, which is read again for each structure of a call."""

    def __init__(self, archive, answer, inputs, shapes):
        self._archive, self.name, self.given, self._inputs = archive, archive.name, shapes, inputs
        described = _Described(*answer, self.name)
        self.arguments = [
            ScriptArgument(str(name), str(kind), bool(has), values.read(default, described._tensor))
            for name, kind, has, default in described.said["arguments"]
        ]
        self.first_state = described.value("state", dict)
        _names(self.first_state)
        self.state = copy.deepcopy(self.first_state)
        self.program = self._taken(described, self.call_of(*self._examples(inputs)))

    def _taken(self, described, call):
        """The program for a call, whose structure is known here."""
        self._open_sizes(call[0])
        return described.program(pytree.tree_structure(call))

    def again(self, args, kwargs):
        answer = self._asked(call=(args, kwargs), state=self.state)
        return replay.believed(
            lambda: self._taken(_Described(*answer, self.name), (args, kwargs)), self.name
        )

    def program_of_artefact(self):
        """Finding it may need a run of the model, which the sandboxed program does."""
        if not self.first_state:
            return self.program
        answer = self._asked(inputs=self._inputs, artefact=True)
        return replay.believed(lambda: _Described(*answer, self.name).program(), self.name)

    def _asked(self, **question):
        refuse_autocast(self.name)
        reading = self._archive.start(shapes=self.given, **question)
        try:
            return self._archive.answer(reading)
        finally:
            reading.end()
