"""State in artefacts. An artefact keeps nothing between calls, so its state is among its inputs and
outputs, and has to have the same shapes in both."""

import copy
import re
import warnings

import torch
from torch.utils import _pytree as pytree

from ..errors import UnsupportedError
from .scripted import ScriptedModule

_REMEDY = (
    "an artefact takes its state as inputs and returns it in the same shapes: keep what grows in a tensor of the largest size, with the number of what is in "
    "it, or call the compiled module, which follows its state"
)


def program_of_artefact(model):
    """The Program of a TorchScript module (a models.ScriptModel) for an artefact, whose calls pass
    state on. This is the program of the first call; or, where the first call finds its state empty
    or unset, that of later calls, provided that it gives the same results from a state of zeros."""
    if not model.first_state:
        return model.program
    found, after = _step(model, model.first_state)
    if _key(model, after) == _key(model, model.first_state):
        return model.program
    _, later = _step(model, after)
    _refuse_growth(model, after, later)
    begin = {
        path: _begin(model.first_state[path], value) if isinstance(value, torch.Tensor) else value
        for path, value in after.items()
    }
    if not _same((found, _tensors(after)), _same_of(_step(model, begin))):
        raise UnsupportedError(
            f"{model.name} makes its state {_names(model, after)} in the first call of what no call behind it makes it, so that calls of an artefact "
            "could not begin: make the state in __init__, in the shape that calls leave it in"
        )
    before = model.state
    try:
        model.state = begin
        return model.again((_tensors(begin), model.examples[0][1]), {})
    finally:
        model.state = before


def _step(model, state):
    """(results in PyTorch of a call with the example inputs, the state after it)."""
    module = ScriptedModule(
        model.script,
        {path: value for path, value in state.items() if not isinstance(value, torch.Tensor)},
    )
    arguments = pytree.tree_map(
        lambda value: value.clone() if isinstance(value, torch.Tensor) else value,
        model.examples[0][1],
    )
    with torch.no_grad():
        found, tensors = module(
            {path: value.clone() for path, value in _tensors(state).items()}, arguments
        )
    return found, {**state, **module.after.values, **tensors}


def _same_of(step):
    found, after = step
    return found, _tensors(after)


def _tensors(state):
    return {path: value for path, value in state.items() if isinstance(value, torch.Tensor)}


def _key(model, state):
    """The part of the state that a program depends on; sizes that the user leaves open are not part
    of it."""

    def shape(path, value):
        sizes = (model.given or {}).get(f"state.{path}", ())
        return tuple(
            None if axis < len(sizes) and isinstance(sizes[axis], str) else size
            for axis, size in enumerate(value.shape)
        )

    return {
        path: (value.dtype, shape(path, value)) if isinstance(value, torch.Tensor) else value
        for path, value in state.items()
    }


def _names(model, after):
    first, then = _key(model, model.first_state), _key(model, after)
    return ", ".join(
        f"'{path}'"
        for path in after
        if first.get(path) != then[path] and isinstance(after[path], torch.Tensor)
    )


def _begin(first, after):
    same = isinstance(first, torch.Tensor) and (first.dtype, first.shape) == (
        after.dtype,
        after.shape,
    )
    return first.clone() if same else torch.zeros_like(after)


def _text(value):
    return f"of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


def _refuse_growth(model, after, later):
    one, other = _key(model, after), _key(model, later)
    for path in other:
        if one.get(path) != other[path]:
            raise UnsupportedError(
                f"{model.name} keeps '{path}', which is {_text(after.get(path))} after one call and {_text(later[path])} after two; {_REMEDY}"
            )


def refuse_changed_sizes(name, inputs, outputs, pairs):
    """Refuses state that a call returns with another size. `pairs` are (name of the state, number
    of the input, number of the output)."""
    for state, taken, given in pairs:
        sizes = inputs[taken].shape, outputs[given].shape
        if (
            None in sizes
            or all(one == other or not isinstance(one, int) for one, other in zip(*sizes))
            and len(sizes[0]) == len(sizes[1])
        ):
            continue
        raise UnsupportedError(
            f"{name} keeps '{state}', which a call takes in the shape {_sizes(sizes[0])} and leaves in the shape {_sizes(sizes[1])}; {_REMEDY}"
        )


def _sizes(shape):
    return (
        "("
        + ", ".join("?" if size is None else str(size) for size in shape)
        + ("," if len(shape) == 1 else "")
        + ")"
    )


def _same(one, other):
    """Whether two structures have equal leaves, up to the rounding of sums."""
    (first, spec), (second, other_spec) = pytree.tree_flatten(one), pytree.tree_flatten(other)
    if spec != other_spec:
        return False

    def equal(a, b):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            return (
                a.dtype == b.dtype
                and a.shape == b.shape
                and torch.allclose(a, b, rtol=1e-5, atol=1e-7, equal_nan=True)
            )
        return type(a) is type(b) and a == b

    return all(map(equal, first, second))


def refuse_frozen_attributes(module, args, kwargs, name, told):
    """Refuses a module whose calls depend on an attribute that they set and that is no buffer:
    torch.export fixes its value to that of the first call, and says so in a warning (`told` are the
    texts of all warnings). Attributes that calls set but never read do not matter."""
    found = [
        re.match(r"The tensor attributes? (.*) (?:was|were) assigned during export", text)
        for text in told
    ]
    attributes = [each[1] for each in found if each]
    if attributes and _depends_on_attributes(module, args, kwargs):
        raise UnsupportedError(
            f"{name} sets {', '.join(attributes)} in a call and reads it in the next one, and it is no buffer, so that torch.export does not "
            "follow it: register it with self.register_buffer(name, tensor) in __init__, or compile torch.jit.script(module)"
        )


def _depends_on_attributes(module, args, kwargs):
    """Whether a second call of the module, with the same buffers as the first, gives another
    result. Restores the module."""
    attributes = [(each, dict(each.__dict__)) for each in module.modules()]
    buffers = [
        (
            each._buffers,
            dict(each._buffers),
            {name: buffer.clone() for name, buffer in each._buffers.items() if buffer is not None},
        )
        for each in module.modules()
    ]

    def restore_buffers():
        with torch.no_grad():
            for place, known, values in buffers:
                place.update(known)
                for name, value in values.items():
                    known[name].copy_(value)

    def call():
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = copy.deepcopy(module(*copy.deepcopy(args), **copy.deepcopy(kwargs)))
        restore_buffers()
        return found

    try:
        return not _same(call(), call())
    except Exception:  # noqa: BLE001 - PyTorch can export some modules that it cannot call
        return False
    finally:
        for each, known in attributes:
            for attribute in set(each.__dict__) - set(known):
                del each.__dict__[attribute]
            each.__dict__.update(known)
        restore_buffers()
