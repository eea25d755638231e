"""Reads models of PyTorch in every form that users have: each becomes one Program per structure of
its call."""

import contextlib
import copy
import inspect
import io
import logging
import os
import sys
import traceback
import typing
import warnings

import numpy as np
import torch
from torch.utils import _pytree as pytree

from .. import archives
from ..errors import Error, ShapeError, UnsupportedError
from .archive import explained, open_archive
from .describe import Refusal
from .detectors import known_torchvision
from .dynamic import OpenSizes, names_of_leaves
from .kept_state import program_of_artefact, refuse_frozen_attributes
from .masks import known_masks
from .packages import know_caches
from .packed import known_packing
from .program import Names, describe_program, refuse_autocast
from .recurrence import shapes_alone
from .script_values import ScriptError
from .scripted import ScriptedModule, bind, initial_state


def read(model, inputs=None, shapes=None):
    """The model, described once for the example inputs. Archives are read behind walls
    (tc/archives) unless they are trusted."""
    if archives.is_archive(model):
        return archives.read(model, inputs, shapes)
    if isinstance(model, (torch.nn.Module, torch.export.ExportedProgram, torch.jit.ScriptFunction)):
        return _read(model, "the model", inputs, shapes)
    is_path = not isinstance(model, (bytes, bytearray, memoryview))
    name = os.path.basename(os.fsdecode(os.fspath(model))) if is_path else "model.pt"
    with explained(f"'{name}'"):
        return _read(
            open_archive(os.fspath(model) if is_path else bytes(model), name), name, inputs, shapes
        )


def _read(model, name, inputs, shapes):
    if isinstance(model, torch.export.ExportedProgram):
        with explained(name if name == "the model" else f"'{name}'"):
            return ExportedModel(model, name, shapes)
    if isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return ScriptModel(
            model,
            name if name != "the model" else getattr(model, "original_name", "the model"),
            inputs,
            shapes,
        )
    model = getattr(model, "_orig_mod", model)  # the module that torch.compile wrapped
    return LiveModel(model, type(model).__name__, inputs, shapes)


def split_inputs(inputs, name):
    """(args, kwargs) of the example inputs: a tuple, a tensor, or a dictionary of arguments by
    name."""
    if inputs is None:
        raise ShapeError(
            f"{name} needs example inputs: tc.compile(model, inputs=(x,)), a tuple of what the module is called with, or a "
            "dictionary by name"
        )
    if isinstance(inputs, dict):
        args, kwargs = (), dict(inputs)
    elif isinstance(inputs, (tuple, list)):
        args, kwargs = tuple(inputs), {}
        if len(args) == 2 and isinstance(args[0], tuple) and isinstance(args[1], dict):
            args, kwargs = args
    else:
        args, kwargs = (inputs,), {}
    return pytree.tree_map(_as_tensor, (args, kwargs))


def _as_tensor(value):
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value if value.flags.writeable else value.copy())
    if isinstance(value, np.generic):
        return torch.tensor(value)
    return value.detach() if isinstance(value, torch.Tensor) and value.requires_grad else value


def export(module, args, kwargs, name, dynamic=None, told=None):
    """Runs torch.export and turns its exceptions into errors of tc. Its warnings are added to the
    list `told`."""
    know_caches()
    args, kwargs = _apart(module, args, kwargs)
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            _without_log(),
            torch.no_grad(),
            known_torchvision(),
            known_packing(),
            known_masks(),
            shapes_alone(),
        ):
            warnings.simplefilter("always")
            exported = torch.export.export(
                module,
                args,
                kwargs,
                dynamic_shapes=_by_parameter(module, args, kwargs, dynamic),
                strict=False,
            )
            _detach_out_of_place(exported.graph)
        if told is not None:
            told += [str(each.message) for each in warned]
        return exported
    except (Error, ScriptError, Refusal, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - the model's own code may raise anything
        if type(error).__name__ in _DATA_DECIDES:
            raise UnsupportedError(
                f"{name} cannot be exported by torch.export: {_where(error)} decides by numbers that only a run knows (a branch, a "
                "loop, or a size), and torch.export follows one path. Choose by torch.where or torch.cond, or give "
                "torch.jit.script(module), whose branches stay branches"
            ) from None
        raise UnsupportedError(
            f"{name} cannot be exported by torch.export: {_reason(error)}"
        ) from error


# Exceptions of PyTorch where Python code asks for the value of a tensor.
_DATA_DECIDES = (
    "GuardOnDataDependentSymNode",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
)


@contextlib.contextmanager
def _without_log():
    """Suppresses the graphs that PyTorch logs and writes to stderr where a value is asked for: the
    error has what matters. Output of the model's own code is printed afterwards."""
    before, written = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stderr(written):
            yield
    except BaseException as error:
        if type(error).__name__ in _DATA_DECIDES:
            written = io.StringIO()
        raise
    finally:
        logging.disable(before)
        if written.getvalue():
            sys.stderr.write(written.getvalue())


def _where(error):
    """The line of the model's own code in which an error was raised."""
    inside = os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(__file__))
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(inside) and frame.filename[:1] != "<"
    ]
    if not frames:
        return "its code"
    code = f" `{frames[-1].line}`" if frames[-1].line else ""
    return f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}{code}"


def _apart(module, args, kwargs):
    """The arguments with separate memory for each tensor. If one tensor were given for two
    arguments, or were also a parameter of the module, torch.export would assume that this holds in
    every call."""
    seen = {_memory(tensor) for tensor in (*module.parameters(), *module.buffers())}

    def apart(value):
        if not isinstance(value, torch.Tensor) or not value.numel():
            return value
        memory = _memory(value)
        if memory in seen:
            return value.clone()
        seen.add(memory)
        return value

    return pytree.tree_map(apart, (args, kwargs))


def _memory(tensor):
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError, ValueError):  # layouts without such memory
        return id(tensor)


def _detach_out_of_place(graph):
    """Replaces detach in place: PyTorch's decomposition loses constants on which it is called."""
    for node in graph.nodes:
        if node.target is torch.ops.aten.detach_.default:
            node.target = torch.ops.aten.detach.default


def spec_text(program):
    """The structure of a program's call, with * for tensors."""
    leaves = [program.fixed.get(number, "*") for number in range(program.in_spec.num_leaves)]
    return call_text(*pytree.tree_unflatten(leaves, program.in_spec))


def call_text(args, kwargs):
    args, kwargs = pytree.tree_map(
        lambda value: "*" if isinstance(value, (torch.Tensor, np.ndarray)) else value,
        (args, kwargs),
    )
    parts = [*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())]
    return f"({', '.join(parts)})".replace("'*'", "*")


def _by_parameter(module, args, kwargs, dynamic):
    """Converts dynamic_shapes of (args, kwargs) to the form that torch.export takes, by names of
    forward's parameters."""
    if dynamic is None:
        return None
    given = inspect.signature(module.forward).bind(*args, **kwargs)
    shapes = inspect.signature(module.forward).bind(*dynamic[0], **dynamic[1])
    return {name: shapes.arguments[name] for name in given.arguments}


def _reason(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])[:500]}" if lines else type(error).__name__


class _Model:
    """The base of all kinds of models. `program` is the one for the example inputs."""

    state = None

    @property
    def source(self):
        return self.program.source

    def call_of(self, args, kwargs):
        """Converts a call's arguments to those of the exported program."""
        return args, kwargs

    def finish(self, program, result):
        """Converts a program's result to what the caller gets."""
        return result

    def program_of_artefact(self):
        """The program from which an artefact is made."""
        return self.program

    def matches_state(self, program):
        return True

    def again(self, args, kwargs):
        """A Program for arguments of another structure."""
        raise ShapeError(
            f"{self.name} takes arguments of the structure {spec_text(self.program)}, not {call_text(args, kwargs)}: an exported "
            "program has one structure"
        )


class ExportedModel(_Model):
    """A program that torch.export made."""

    def __init__(self, exported, name, shapes):
        self.name = name
        self.shapes = shapes
        _check_open(exported, name, shapes or {})
        self.program = describe_program(exported, name, Names())


def _check_open(exported, name, shapes):
    """Refuses open sizes that are fixed numbers in the exported program."""
    for node in exported.graph.nodes:
        given = shapes.get(node.name) if node.op == "placeholder" else None
        fake = node.meta.get("val")
        if not isinstance(given, (tuple, list)) or not isinstance(fake, torch.Tensor):
            continue
        for axis, (size, own) in enumerate(zip(given, fake.shape)):
            if size in (None, -1) and isinstance(own, int):
                raise ShapeError(
                    f"shapes: axis {axis} of '{node.name}' is {own} in {name}, whatever it is given: export it with "
                    f"dynamic_shapes={{'{node.name}': {{{axis}: torch.export.Dim.DYNAMIC}}}}"
                )


class LiveModel(_Model):
    """A module in this process: exported by torch.export, or traced where that fails."""

    def __init__(self, module, name, inputs, shapes):
        self.module, self.name, self.given = module, name, shapes
        args, kwargs = split_inputs(inputs, name)
        self.program = self.again(args, kwargs)

    def again(self, args, kwargs):
        refuse_autocast(self.name)
        names = names_of_leaves(self.module.forward, args, kwargs)
        sizes = OpenSizes(self.given, names)
        self.shapes = sizes.rest
        args, kwargs, dynamic, symbols = open_arguments(args, kwargs, names, sizes)
        told = []
        try:
            exported = export(self.module, args, kwargs, self.name, dynamic, told)
        except UnsupportedError as error:
            return self._traced(args, kwargs, error, symbols)
        refuse_frozen_attributes(self.module, args, kwargs, self.name, told)
        return describe_program(exported, self.name, Names(dict(enumerate(names)), symbols))

    def _traced(self, args, kwargs, error, symbols):
        """The model traced by torch.jit.trace. A trace only follows the example, so no size may be
        open."""
        leaves = pytree.tree_leaves((args, kwargs))
        if symbols or kwargs or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            raise error
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("error", torch.jit.TracerWarning)
                traced = torch.jit.trace(self.module, args)
        except Exception:  # noqa: BLE001 - the error of torch.export is the better one
            raise error from None
        warnings.warn(f"{self.name} is traced with the example inputs: {error}", stacklevel=6)
        return ScriptModel(traced, self.name, (args, kwargs), None).program


def open_arguments(args, kwargs, names, sizes):
    """(arguments with examples of open sizes, torch.export's dynamic_shapes, {(input, axis):
    symbol})."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    dimensions, symbols, dynamic = {}, {}, []
    for number, (name, leaf) in enumerate(zip(names, leaves)):
        if not isinstance(leaf, torch.Tensor):
            dynamic.append(None)
            continue
        leaves[number], axes = sizes.of_tensor(name, leaf)
        symbols.update(((name, axis), symbol) for axis, symbol in axes.items())
        for symbol in axes.values():
            dimensions.setdefault(symbol, sizes.dimension(symbol))
        dynamic.append({axis: dimensions[symbol] for axis, symbol in axes.items()} or None)
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    if not symbols:
        return args, kwargs, None, {}
    return args, kwargs, pytree.tree_unflatten(dynamic, spec), symbols


class ScriptArgument(typing.NamedTuple):
    """An argument of forward, as TorchScript declares it."""

    name: str
    type: str
    has_default: bool
    default: object

    @classmethod
    def of(cls, declared):
        return cls(
            declared.name, str(declared.type), declared.has_default_value(), declared.default_value
        )


class ScriptModel(_Model):
    """A ScriptModule or a file of one."""

    def __init__(self, script, name, inputs, shapes, again=None):
        """`again` is (call, state) for a structure other than the example's: the arguments, and the
        attributes that calls set."""
        if isinstance(script, torch.jit.ScriptFunction):
            raise UnsupportedError(
                f"{name} is a function of TorchScript; put it into a module's forward"
            )
        if not script._c._has_method("forward"):
            raise UnsupportedError(
                f"{name} has no method forward; its methods are {', '.join(script._c._method_names())}"
            )
        self.script, self.name, self.given = script, name, shapes
        self.arguments = [ScriptArgument.of(each) for each in script.forward.schema.arguments[1:]]
        self.first_state = initial_state(script)
        self.state = copy.deepcopy(self.first_state)
        call, state = again or (None, None)
        if call is None:
            call = self.examples = self.call_of(*self._examples(inputs))
        else:
            self.state = state
        self.program = self.again(*call)

    def _examples(self, inputs):
        """The example inputs; made from shapes alone where every input is a tensor."""
        if inputs is not None:
            return split_inputs(inputs, self.name)
        given = self.given or {}
        wanted = [each for each in self.arguments if not each.has_default]
        if not all(each.name in given and each.type == "Tensor" for each in wanted):
            shapes = ", ".join(f"'{each.name}': …" for each in wanted)
            raise ShapeError(
                f"{self.name} does not say the shapes of its inputs: give example inputs (inputs=…), or shapes={{{shapes}}} "
                "where all of them are float32 tensors"
            )
        return (), {
            each.name: torch.zeros(
                [
                    2 if isinstance(size, str) or size in (None, -1) else int(size)
                    for size in given[each.name]
                ]
            )
            for each in wanted
        }

    def call_of(self, args, kwargs):
        bound = bind(self.arguments, args, kwargs)
        return (self._tensors(), list(bound.values())), {}

    def finish(self, program, result):
        if not self.state:
            return result
        value, tensors = result
        self.state = {
            **self.state,
            **program.after,
            **{path: torch.as_tensor(tensor) for path, tensor in tensors.items()},
        }
        return value

    def _tensors(self):
        return {
            path: value for path, value in self.state.items() if isinstance(value, torch.Tensor)
        }

    def _others(self):
        return {
            path: value for path, value in self.state.items() if not isinstance(value, torch.Tensor)
        }

    def program_of_artefact(self):
        return program_of_artefact(self)

    def matches_state(self, program):
        return not self.state or program.started == self._state_key()

    def _state_key(self):
        return {
            path: (value.dtype, tuple(value.shape)) if isinstance(value, torch.Tensor) else value
            for path, value in self.state.items()
        }

    def _open_sizes(self, args):
        """(names of the leaves of a call, what `shapes` says about them). Stores what it says about
        other names."""
        names = [each.name for each in self.arguments]
        leaves = [f"state.{path}" for path in args[0]] + names_of_leaves(
            lambda *_: None, (), dict(zip(names, args[1]))
        )
        sizes = OpenSizes(self.given, leaves)
        self.shapes = sizes.rest
        return leaves, sizes

    def again(self, args, kwargs):
        refuse_autocast(self.name)
        leaves, sizes = self._open_sizes(args)
        args, kwargs, dynamic, symbols = open_arguments(args, kwargs, leaves, sizes)
        module = ScriptedModule(self.script, self._others())
        try:
            exported = export(module, args, kwargs, self.name, dynamic)
        except ScriptError as error:
            raise UnsupportedError(f"{self.name}: {error}") from None
        program = describe_program(
            exported, self.name, Names(dict(enumerate(leaves)), symbols, bool(self.state))
        )
        program.started, program.after = self._state_key(), module.after.values
        self._check_after(program.after)
        return program

    def _check_after(self, after):
        for path, value in after.items():
            if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                raise UnsupportedError(
                    f"{self.name} keeps a size in the attribute '{path}'; bind the sizes with shapes="
                )
