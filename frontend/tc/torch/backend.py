"""torch.compile(model, backend="tc"): graphs that TorchDynamo finds are compiled when they first
run, one version for each shape; PyTorch runs the code between graphs."""

import dataclasses
import difflib
import inspect
import warnings

import torch

from ..arguments import Options, options_of
from ..errors import Error, UnsupportedError
from ..native import compiler

_MAX_VERSIONS = 64


class _Bound(torch.nn.Module):
    """A graph whose parameters and buffers belong to it instead of being inputs."""

    def __init__(self, graph_module, constants, count):
        super().__init__()
        self.graph_module, self.count = graph_module, count
        self.places = sorted(constants)
        for place, tensor in constants.items():
            self.register_buffer(f"constant_{place}", tensor.detach())

    def forward(self, *inputs):
        given = iter(inputs)
        known = set(self.places)
        arguments = [
            getattr(self, f"constant_{place}") if place in known else next(given)
            for place in range(self.count)
        ]
        return self.graph_module(*arguments)


class CompiledGraph:
    """A graph of TorchDynamo as a function of its inputs."""

    def __init__(self, graph_module, options):
        self.graph_module, self.options = graph_module, options
        self.placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
        self.views = views_of_outputs(graph_module.graph)
        self.versions = {}

    def __call__(self, *arguments):
        constants = {
            place: value for place, value in enumerate(arguments) if self._is_constant(place, value)
        }
        key = tuple(_key(value, place in constants) for place, value in enumerate(arguments))
        if key not in self.versions:
            if len(self.versions) >= _MAX_VERSIONS:
                self.versions.pop(next(iter(self.versions)))
            self.versions[key] = self._compiled(arguments)
        run = self.versions[key]
        if run is None:
            return self.graph_module(*arguments)
        try:
            results = run(
                *(value for place, value in enumerate(arguments) if place not in constants)
            )
        except UnsupportedError as error:  # arguments share memory; raised before anything is run
            warnings.warn(
                f'torch.compile(backend="tc"): PyTorch runs a graph: {error}', stacklevel=3
            )
            return self.graph_module(*arguments)
        return self._with_views(results, arguments)

    def _with_views(self, results, arguments):
        """The results; those that are views of an argument or of another result share its
        memory."""
        if not self.views:
            return results
        kept = list(results)
        for place, view in self.views.items():
            base = arguments[view.base] if view.of_argument else kept[view.base]
            kept[place] = base.detach().as_strided(
                kept[place].shape, view.stride, base.storage_offset() + view.offset
            )
        return type(results)(kept)

    def _is_constant(self, place, value):
        if isinstance(value, torch.nn.Parameter):
            return True
        # A parameter or buffer of a module. If the graph writes to it, it stays an input.
        known = (self.placeholders[place].meta.get("tensor_dict") or {}).get(
            "_dynamo_static_input_type"
        )
        return isinstance(value, torch.Tensor) and known is not None and not self._writes

    @property
    def _writes(self):
        return any(
            node.op in ("call_method", "call_function") and _is_in_place(node.target)
            for node in self.graph_module.graph.nodes
        )

    def bound(self, arguments):
        """(the graph as a module that owns its constants, its other inputs)."""
        constants = {
            place: value for place, value in enumerate(arguments) if self._is_constant(place, value)
        }
        inputs = tuple(value for place, value in enumerate(arguments) if place not in constants)
        return _Bound(self.graph_module, constants, len(arguments)), inputs

    def _compiled(self, arguments):
        """The compiled module for arguments like these, or None where PyTorch has to run the
        graph."""
        from ..compiling import compile

        if torch.is_grad_enabled() and any(
            isinstance(value, torch.Tensor) and value.requires_grad for value in arguments
        ):
            warnings.warn(
                'torch.compile(backend="tc"): gradients are asked for, so PyTorch runs the graph; call the model under '
                "torch.no_grad()",
                stacklevel=4,
            )
            return None
        if self.views is None:
            warnings.warn(
                'torch.compile(backend="tc"): PyTorch runs a graph: its results share memory in a way that is not followed',
                stacklevel=4,
            )
            return None
        module, inputs = self.bound(arguments)
        try:
            return compile(module, inputs=inputs, **self.options)
        except Error as error:
            warnings.warn(
                f'torch.compile(backend="tc"): PyTorch runs a graph: {error}', stacklevel=4
            )
            return None


@dataclasses.dataclass(frozen=True)
class View:
    """Where a result of a graph is in the memory of an argument or of another result. This has to
    be kept, since code between graphs may write to either."""

    of_argument: bool
    base: int
    stride: tuple
    offset: int  # in elements, from the first element of the base


def views_of_outputs(graph):
    """{position of a result: View}, from what TorchDynamo knows of the graph's values; None where
    that does not suffice."""
    arguments = [node.meta.get("example_value") for node in graph.nodes if node.op == "placeholder"]
    outputs = next(node for node in graph.nodes if node.op == "output").args[0]
    outputs = [
        getattr(each, "meta", {}).get("example_value")
        for each in (outputs if isinstance(outputs, (tuple, list)) else ())
    ]
    bases = {}
    for place, value in enumerate(arguments):
        if _has_memory(value):
            bases.setdefault(_storage(value), (True, place, value))
    # A result that fills its whole memory is the base of other results that are views of it.
    for place, value in enumerate(outputs):
        if (
            _has_memory(value)
            and value.is_contiguous()
            and value.numel() * value.itemsize == value.untyped_storage().nbytes()
        ):
            bases.setdefault(_storage(value), (False, place, value))
    found, storages = {}, [_storage(value) for value in outputs if _has_memory(value)]
    for place, value in enumerate(outputs):
        if not _has_memory(value):
            continue
        of_argument, base, whole = bases.get(_storage(value), (False, None, None))
        if (
            base is None
            and storages.count(_storage(value)) == 1
            or not of_argument
            and base == place
        ):
            continue
        numbers = (
            *value.stride(),
            value.storage_offset(),
            0 if whole is None else whole.storage_offset(),
        )
        if (
            base is None
            or value.dtype != whole.dtype
            or not all(isinstance(number, int) for number in numbers)
        ):
            return None
        found[place] = View(
            of_argument,
            base,
            tuple(value.stride()),
            value.storage_offset() - whole.storage_offset(),
        )
    return found


def _has_memory(value):
    return isinstance(value, torch.Tensor) and value.layout is torch.strided


def _storage(value):
    return value.untyped_storage()._cdata


# Functions of Python's module operator that write into their first operand.
_WRITING = (
    "setitem",
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "ifloordiv",
    "imod",
    "ipow",
    "imatmul",
    "iand",
    "ior",
    "ixor",
    "ilshift",
    "irshift",
)


def _is_in_place(target):
    name = str(getattr(target, "__name__", target))
    if getattr(target, "__module__", None) == "_operator":
        # and_, or_ and not_ do not write: their names only avoid Python's keywords.
        return name in _WRITING
    return name.endswith("_") and not name.endswith("__")


def _key(value, constant):
    if constant:
        return id(value), value._version, value.data_ptr()
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype, value.requires_grad and torch.is_grad_enabled()
    return value


def backend(graph_module, example_inputs, *, mode=None, options=None):
    """The back end of torch.compile; `options` are those of tc.compile (target, threads, tolerance,
    log …). Others raise."""
    if mode is not None:
        raise Error(
            f'torch.compile(mode={mode!r}) is of PyTorch\'s own back end; backend="tc" takes options={{…}}: {", ".join(_known_options())}'
        )
    options = dict(options or {})
    _check_options(options)
    return CompiledGraph(graph_module, options)


# Options of tc.compile that only concern files and artefacts, or that follow from the graph.
_OF_FILES = (
    "model",
    "inputs",
    "shapes",
    "size_versions",
    "values",
    "max_flash",
    "weights",
    "open_initializers",
    "data_folders",
    "states",
    "trust_archive",
)


def _known_options():
    """The options of tc.compile without these."""
    from ..compiling import compile

    return [name for name in inspect.signature(compile).parameters if name not in _OF_FILES]


def _check_options(options):
    """Raises errors in the options that do not depend on the graph, so that PyTorch does not run
    the graph instead."""
    known = _known_options()
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, 1)
            hint = f"; {close[0]} is one" if close else ""
            raise Error(
                f"torch.compile(options={{'{name}': …}}): backend=\"tc\" has no such option{hint}; it takes {', '.join(known)}"
            )
    given = {
        name: value
        for name, value in options.items()
        if name in {field.name for field in dataclasses.fields(Options)}
    }
    options_of(Options(**given))
    name, runs_here, *_ = compiler.resolve_target(given.get("target", "native"))
    if not runs_here:
        raise Error(
            f"torch.compile(options={{'target': {given['target']!r}}}): code for {name} does not run on this machine, and graphs of "
            "torch.compile are run where they are compiled; leave the target out"
        )


def register():
    """Registers the back end "tc" by name; for an installed package the entry point does that."""
    if "tc" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(backend, name="tc")
