"""Inputs and outputs that are sequences (lists of arrays) or optionals (None, or the value). A
compiled model has only tensors. The form of such an input says how many there are and of which
shapes."""

import typing

import numpy as np

from .errors import ShapeError
from .ports import ports_of


class Form(typing.NamedTuple):
    """The tensors of an input in one compiled model."""

    present: bool
    shapes: tuple

    def __str__(self):
        if not self.present:
            return "None"
        return (
            f"{len(self.shapes)} tensors{': ' if self.shapes else ''}{', '.join(map(str, self.shapes[:8]))}"
            + (", ..." if len(self.shapes) > 8 else "")
        )


def arrays_of(module, port, value):
    """Whether an input has a value, and the arrays of which that consists."""
    who = f"input '{port.name}' of model '{module.name}'"
    if value is None and port.kind != "sequence":
        return False, []
    if port.kind == "optional":
        return True, [module._as_array(port, value)]
    if not isinstance(value, (list, tuple)):
        raise ShapeError(
            f"{who} is a{'n' if port.kind != 'sequence' else ''} {port.kind}: pass a list of arrays of {port.dtype}"
            f"{' or None' if port.kind != 'sequence' else ''}, not a {type(value).__name__}"
        )
    return True, [
        module._as_array(port._replace(name=f"{port.name}[{number}]", kind="tensor"), each)
        for number, each in enumerate(value)
    ]


def form_of(arrays):
    """The form of a value, from the result of arrays_of."""
    present, parts = arrays
    return Form(present, tuple(part.shape for part in parts))


class Division:
    """Divides inputs and outputs of a module into the tensors of its compiled model, and joins them
    again."""

    def __init__(self, module, declared, options):
        _, given, results = declared
        tensors = iter(module.inputs)
        self._module, self._inputs, self._outputs = module, [], module.compiled_output_forms
        for port in ports_of(given):
            if port.kind == "tensor":
                self._inputs.append((next(tensors), None))
                continue
            form = options.forms.get(port.name)
            if form is None:
                form = (True, [options.input_shapes[port.name]] if port.kind == "optional" else [])
            for _ in form[1]:
                next(tensors)
            self._inputs.append((port, form))
        module.inputs = tuple(port for port, _ in self._inputs)
        if self._outputs:
            tensors, ports = iter(module.outputs), []
            for port, (name, kind, _, count) in zip(ports_of(results), self._outputs):
                parts = [next(tensors) for _ in range(count)]
                ports.append(
                    parts[0]
                    if kind == "tensor"
                    else port._replace(name=name, shape=None, kind=kind)
                )
            module.outputs = tuple(ports)

    def tensors(self, values):
        """The arrays that the compiled model takes for the values of inputs."""
        result = []
        for (port, form), value in zip(self._inputs, values):
            if form is None:
                result.append(value)
                continue
            present, parts = arrays_of(self._module, port, value)
            if present != form[0] or len(parts) != len(form[1]):
                raise ShapeError(
                    f"input '{port.name}' of model '{self._module.name}' has "
                    f"{len(parts) if present else 'no value, not so many'} tensors, but it was compiled for "
                    f"{len(form[1]) if form[0] else 'none'}; compile it without shapes={{'{port.name}': ...}}"
                )
            result += parts
        return result

    def values(self, results):
        """The values of outputs, joined from the arrays that the compiled model gives."""
        if not self._outputs:
            return results
        arrays, values = iter(results), []
        for _, kind, present, count in self._outputs:
            parts = [next(arrays) for _ in range(count)]
            if kind in ("tensor", "optional"):
                values.append(parts[0] if present else None)
            else:
                values.append(parts if present else None)
        return tuple(values)


def forms_in(shapes):
    """Divides tc.compile's `shapes` into (forms, the rest): entries {input: None or a list of
    shapes} are forms."""
    forms, rest = {}, {}
    for name, value in shapes.items():
        if value is None:
            forms[name] = Form(False, ())
        elif (
            isinstance(value, (list, tuple))
            and value
            and all(isinstance(shape, (list, tuple)) for shape in value)
        ):
            forms[name] = Form(True, tuple(_sizes(name, shape) for shape in value))
        else:
            rest[name] = value
    return forms, rest


def _sizes(name, shape):
    try:
        sizes = tuple(-1 if size is None else int(size) for size in shape)
    except (TypeError, ValueError):
        sizes = (-2,)
    if any(size < -1 or size >= 1 << 31 for size in sizes):
        raise ShapeError(
            f"shapes: '{name}' has the tensor shape {shape!r}; give numbers, None leaves a size open"
        )
    return sizes


def set_forms(options, forms):
    for name, form in forms.items():
        options.set_form(name, form.present, [list(map(int, shape)) for shape in form.shapes])
