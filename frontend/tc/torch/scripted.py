"""TorchScript modules as modules that torch.export takes."""

import torch

from ..errors import ShapeError
from .script import Interpreter, Owner, copied, plain_modules, written_attributes


class _After:
    """Holds the values that a call leaves in attributes other than tensors. torch.export undoes
    assignments of calls to a module, but does not look into this object."""

    def __init__(self):
        self.values = {}


class ScriptedModule(torch.nn.Module):
    """A ScriptModule whose forward is interpreted. Its first argument is {path: tensor} of
    attributes that calls set and that are tensors at present; it returns the results and this
    dictionary after the call. Attributes other than tensors are in `values`."""

    def __init__(self, script, values):
        super().__init__()
        self.graph = script.inlined_graph
        self.root = plain_modules(script._c)
        self.script = script._c
        self.written = written_attributes(self.graph)
        self.values, self.after = values, _After()

    def forward(self, state, arguments):
        overlay = {**copied(self.values), **state}
        interpreter = Interpreter(overlay, self.written)
        result = interpreter.run(self.graph, Owner("", self.script, self.root), arguments)
        self.after.values = {
            path: value for path, value in overlay.items() if not isinstance(value, torch.Tensor)
        }
        if not overlay:
            return result
        return result, {
            path: value for path, value in overlay.items() if isinstance(value, torch.Tensor)
        }


def initial_state(script):
    """{path: value} of the attributes that calls of forward set: their values in the model."""
    # Sorted: this is the order of an artefact's inputs.
    names = sorted(written_attributes(script.inlined_graph))
    found = {}

    def visit(owner, path):
        for name in names:
            if owner.hasattr(name):
                found[f"{path}.{name}" if path else name] = owner.getattr(name)
        for name, child in torch._C.ModuleDict(owner).items():
            visit(child, f"{path}.{name}" if path else name)

    if names:
        visit(script._c, "")
    return found


def bind(arguments, args, kwargs):
    """The arguments of forward in order, defaults filled in; `arguments` are what it declares."""
    if len(args) > len(arguments):
        raise ShapeError(f"forward takes {len(arguments)} arguments, not {len(args)}")
    named = dict(zip((each.name for each in arguments), args))
    for name, value in kwargs.items():
        if name not in {each.name for each in arguments}:
            raise ShapeError(
                f"forward has no argument '{name}'; it takes {', '.join(each.name for each in arguments)}"
            )
        if name in named:
            raise ShapeError(f"argument '{name}' is given twice")
        named[name] = value
    for each in arguments:
        if each.name not in named:
            if not each.has_default:
                raise ShapeError(f"argument '{each.name}' of forward is missing")
            named[each.name] = each.default
    return {each.name: named[each.name] for each in arguments}
