"""The form that every kind of PyTorch model takes before it is described: one functional graph of
ATen operators."""

import copy
import dataclasses
import warnings

import torch
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument
from torch.utils import _pytree as pytree

from ..errors import UnsupportedError
from ..native import compiler
from .aten import TABLE, key_of
from .control import TOKEN
from .describe import (
    Complex,
    Describer,
    Missing,
    Refusal,
    Value,
    dtype_name,
    part_type,
    real_fake,
    refuse_all,
)
from .fast_paths import decompositions
from .recurrence import shapes_alone
from .walk import Walk, source_of_node

_LARGEST_SIZE = 1 << 31


@dataclasses.dataclass
class Program:
    """A model described for the compiler, and how a call of the module maps to a run of it."""

    source: object  # compiler.Source
    inputs: list  # names of the inputs of a run, in order
    # For each input of a run: the number of a leaf of the call's arguments, or a buffer's name.
    leaves: list
    fixed: dict  # {number of a leaf that is no tensor: its value}
    in_spec: object  # pytree of (args, kwargs)
    out_spec: object
    results: list  # for each leaf of the results: ("output", number) or ("value", the value itself)
    writes: list  # (output number, "buffer" or "input", name of the buffer or number of the leaf)
    buffers: dict  # {name: tensor}: initial state
    dtypes: list  # PyTorch's types of the outputs
    # {number of a complex input: its type in PyTorch}; the run's input has the parts along its last
    # axis.
    complex_inputs: dict = dataclasses.field(default_factory=dict)
    # For TorchScript: attributes that calls set, with their values before the call, and those other
    # than tensors with their values after it.
    started: dict = dataclasses.field(default_factory=dict)
    after: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Names:
    """The names of inputs and outputs."""

    # {number of a leaf of the arguments: name}.
    leaves: dict = dataclasses.field(default_factory=dict)
    symbols: dict = dataclasses.field(default_factory=dict)  # {(name of an input, axis): symbol}
    with_state: bool = False  # the results are a pair: the model's results, and {path: state}


def functional(exported, name):
    """The exported program with a functional graph, decomposed into operators that have a row in
    the table."""
    if all(
        _is_final(node)
        for module in exported.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    ):
        return exported
    _refuse_written_windows(exported, name)
    # Decompositions of torch.export, and those that only PyTorch's library has; none for operators
    # with a row.
    table = torch.export.default_decompositions()
    for operator, decompose in torch._decomp.decomposition_table.items():
        if isinstance(operator, torch._ops.OpOverload) and operator not in table:
            table[operator] = decompose
    table.update(decompositions())
    for operator in list(table):
        if key_of(operator) in TABLE:
            del table[operator]
    try:
        with warnings.catch_warnings(), shapes_alone():
            warnings.simplefilter("ignore")
            return _decomposed(exported, table)
    except Exception as error:  # noqa: BLE001 - PyTorch's own passes raise many kinds of exceptions
        refuse_types(exported, name)
        line = " ".join(str(error).split())[:300]
        raise UnsupportedError(
            f"{name} cannot be decomposed by PyTorch: {type(error).__name__}: {line}"
        ) from error


def _decomposed(exported, table):
    """The program decomposed by PyTorch, which runs it again with its structures of arguments and
    results. Some classes compute when they are rebuilt from their tensors (caches append to an
    empty tensor), so the structures are flat during this."""
    first = exported.module_call_graph[0].signature
    names = [
        spec.arg.name
        for spec in exported.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]
    if len(names) != first.in_spec.num_leaves:
        return exported.run_decompositions(table)
    flat = copy.copy(exported)
    flat._module_call_graph = copy.deepcopy(exported.module_call_graph)
    signature = flat._module_call_graph[0].signature
    signature.in_spec = pytree.tree_structure(((), dict.fromkeys(names, 0)))
    signature.out_spec = pytree.tree_structure((0,) * first.out_spec.num_leaves)
    signature.forward_arg_names = names
    flat._example_inputs = None
    done = flat.run_decompositions(table)
    signature = done.module_call_graph[0].signature
    signature.in_spec, signature.out_spec = first.in_spec, first.out_spec
    signature.forward_arg_names = first.forward_arg_names
    return done


def _refuse_written_windows(exported, name):
    """Refuses writing through windows that overlap or leave gaps: PyTorch's functional form of this
    loses elements in no window, and adds up elements in several."""
    problems = []
    for node in exported.graph.nodes:
        if (
            node.op != "call_function"
            or not isinstance(node.target, torch._ops.OpOverload)
            or not node.target._schema.is_mutable
        ):
            continue
        for argument, value in zip(node.target._schema.arguments, node.args):
            if (
                argument.alias_info is not None
                and argument.alias_info.is_write
                and _is_of_windows(value)
            ):
                problems.append(
                    f"node '{node.name}' ({source_of_node(node)}): it writes through unfold, whose windows overlap or leave gaps"
                )
    if problems:
        refuse_all(problems, name)


def _is_of_windows(node):
    """Whether a node is a view, or a view of a view, of such windows."""
    while (
        isinstance(node, torch.fx.Node)
        and node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
    ):
        first = node.target._schema.arguments[:1]
        if not first or first[0].alias_info is None:
            return False
        if node.target is torch.ops.aten.unfold.default:
            operand, axis, size, step = node.args
            extent = operand.meta["val"].shape[axis]
            return size != step or extent % step != 0
        node = node.args[0]
    return False


def refuse_types(exported, name):
    """Refuses nodes whose results have types that tc lacks; the error names them."""
    problems = []
    for node in exported.graph.nodes:
        for fake in (
            value
            for value in pytree.tree_leaves(node.meta.get("val"))
            if isinstance(value, torch.Tensor)
        ):
            try:
                dtype_name(part_type(fake.dtype))
            except Refusal as refusal:
                problems.append(f"node '{node.name}' ({source_of_node(node)}): {refusal}")
    if problems:
        refuse_all(list(dict.fromkeys(problems)), name)


def _is_final(node):
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return not isinstance(node.target, torch._ops.HigherOrderOperator)
    name = key_of(node.target)
    if node.target._schema.is_mutable:
        # This operator changes no data, but PyTorch's decomposition would lose constants on which
        # it is called.
        return name == "aten::detach_"
    return (
        name in TABLE or name.startswith("aten::sym_") or "assert" in name or name == "aten::item"
    )


def refuse_autocast(name):
    """Refuses to read models while torch.autocast is on: PyTorch would insert casts that the graph
    does not have."""
    if torch.is_autocast_enabled("cpu"):
        raise UnsupportedError(
            f"{name} is compiled under torch.autocast, which is not supported: compile it outside, or convert it with .to(torch.bfloat16)"
        )


def describe_program(exported, name, names):
    """The Program of an exported program. `name` is the model's name in error texts."""
    refuse_autocast(name)
    return _Description(functional(exported, name), name, names).run()


class _Description:
    def __init__(self, exported, name, names):
        self.exported, self.name, self.names = exported, name, names
        self.model = compiler.ModelDescription("model")
        self.g = Describer(self.model, self.model.graph)
        self.problems, self.symbol_names = [], {}
        # {name of a placeholder: number of the leaf of the arguments, or name of the buffer}
        self.leaf_of = {}
        self.walk = Walk(self.g, exported.graph_module, self.problems)

    def run(self):
        signature = self.exported.graph_signature
        mutated = {
            spec.target
            for spec in signature.output_specs
            if spec.kind is OutputKind.BUFFER_MUTATION
        }
        self.program = Program(
            None,
            [],
            [],
            {},
            self.exported.call_spec.in_spec,
            self.exported.call_spec.out_spec,
            [],
            [],
            {},
            [],
        )
        placeholders = [node for node in self.exported.graph.nodes if node.op == "placeholder"]
        self._reserve_outputs(signature)
        leaf = 0
        for node, spec in zip(placeholders, signature.input_specs):
            try:
                leaf += self._input(node, spec, mutated, leaf)
            except Refusal as refusal:
                self.problems.append(f"input '{node.name}': {refusal}")
                self.walk.values[node] = Missing
        outputs = self.walk.run(self.exported.graph)
        if self.problems:
            refuse_all(list(dict.fromkeys(self.problems)), self.name)
        self._outputs(signature, outputs)
        self.program.source = self.model.source(self.name)
        return self.program

    # --- inputs -----------------------------------------------------------------------------------

    def _input(self, node, spec, mutated, leaf):
        """Binds a placeholder. Returns 1 where it is a leaf of the call's arguments, else 0."""
        fake = node.meta.get("val")
        if spec.kind is InputKind.TOKEN:
            self.walk.values[node] = TOKEN
            return 0
        if spec.kind is InputKind.USER_INPUT:
            if not isinstance(spec.arg, TensorArgument):
                self.program.fixed[leaf] = getattr(spec.arg, "value", None)
                self.walk.values[node] = self.program.fixed[leaf]
                return 1
            self._tensor_input(self.names.leaves.get(leaf, node.name), node, fake, leaf)
            return 1
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            tensor = self._stored(spec)
            if spec.target in mutated:
                self.program.buffers[spec.target] = tensor.detach().clone()
                self._tensor_input(node.name, node, fake, spec.target)
            else:
                self.walk.values[node] = self.g.stored(tensor, spec.target, fake)
            return 0
        raise Refusal(f"an input of the kind {spec.kind.name.lower()} is not supported")

    def _stored(self, spec):
        for folder in (self.exported.state_dict, self.exported.constants):
            if spec.target in folder:
                return folder[spec.target]
        raise Refusal(f"the tensor '{spec.target}' is not in the file")

    def _tensor_input(self, name, node, fake, leaf):
        kind = dtype_name(part_type(fake.dtype))
        name = self.g.fresh(name)
        sizes = [self._size(name, axis, size) for axis, size in enumerate(fake.shape)]
        if fake.dtype.is_complex:
            self.program.complex_inputs[len(self.program.inputs)] = fake.dtype
            sizes.append(2)
        self.model.graph.input(name, kind, sizes)
        self.program.inputs.append(name)
        self.program.leaves.append(leaf)
        self.leaf_of[node.name] = leaf
        if fake.dtype.is_complex:
            parts = self.g.split_parts(name, fake.dim())
            self.walk.values[node] = Complex(
                *(Value(part, real_fake(fake)) for part in parts), fake
            )
        else:
            self.walk.values[node] = Value(name, fake)

    def _size(self, name, axis, size):
        if isinstance(size, int):
            return size
        expression = size.node.expr
        if expression.is_Integer:
            return int(expression)
        symbol = self.names.symbols.get((name, axis), f"{name}_{axis}")
        if not expression.is_Symbol:
            return symbol  # how it relates to other sizes is for the caller to guarantee
        known = self.g.symbols.get(expression)
        if known:
            return self.symbol_names[expression]
        self.g.symbols[expression] = (name, axis)
        self.symbol_names[expression] = symbol
        ranges = self.exported.range_constraints.get(expression)
        if ranges is not None:
            upper = int(ranges.upper) if ranges.upper.is_Integer else _LARGEST_SIZE
            self.model.range(symbol, max(int(ranges.lower), 0), max(min(upper, _LARGEST_SIZE), 1))
        return symbol

    # --- outputs ----------------------------------------------------------------------------------

    def _reserve_outputs(self, signature):
        """Reserves the names of the outputs, so that no input or node gets them."""
        count = sum(spec.kind is OutputKind.USER_OUTPUT for spec in signature.output_specs)
        paths = _output_names(self.exported.call_spec.out_spec, count, self.names.with_state)
        self.output_names = [self.g.fresh(path) for path in paths]

    def _outputs(self, signature, values):
        names = iter(self.output_names)
        self.g.begin("output", "output", None)
        for spec, value in zip(signature.output_specs, values):
            if spec.kind is OutputKind.USER_OUTPUT:
                self._user_output(next(names), value)
            elif spec.kind is OutputKind.BUFFER_MUTATION:
                self.program.writes.append(
                    (self._add(self.g.fresh(spec.target), value), "buffer", spec.target)
                )
            elif spec.kind is OutputKind.USER_INPUT_MUTATION:
                self.program.writes.append(
                    (
                        self._add(self.g.fresh(f"{spec.target}_after"), value),
                        "input",
                        self.leaf_of[spec.target],
                    )
                )
            elif spec.kind is not OutputKind.TOKEN:
                raise UnsupportedError(
                    f"{self.name}: an output of the kind {spec.kind.name.lower()} is not supported"
                )

    def _user_output(self, name, value):
        if isinstance(value, (Value, Complex)):
            self.program.results.append(("output", self._add(name, value)))
        elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            kind = torch.float64 if isinstance(value, torch.SymFloat) else torch.int64
            number = Value(self.g.scalar(value, kind), torch.empty((), dtype=kind, device="meta"))
            self.program.results.append(("number", self._add(name, number)))
        else:
            self.program.results.append(("value", value))

    def _add(self, name, value):
        # Gives the output the model's own name; the importer removes this copy.
        source = (
            self.g.interleaved((value.re, value.im), value.rank)
            if isinstance(value, Complex)
            else value.name
        )
        described = compiler.DescribedNode("Identity", [source], [name])
        described.name, described.source = name, "output"
        self.model.graph.node(described)
        self.model.graph.output(name, dtype_name(part_type(value.dtype)))
        self.program.dtypes.append(value.dtype)
        return len(self.program.dtypes) - 1


def _output_names(spec, count, with_state):
    """A name for each leaf of the results: "output", "output_1", or the path to it."""
    try:
        results = pytree.tree_unflatten([0] * spec.num_leaves, spec)
        state = results[1] if with_state else {}
        leaves = pytree.tree_flatten_with_path(results[0] if with_state else results)[0]
        names = ["_".join(_key_text(key) for key in path) for path, _ in leaves]
    except Exception:  # noqa: BLE001 - foreign classes that cannot be built from numbers
        names, state = [], {}
    if len(names) + len(state) != count or len(set(names)) != len(names):
        names, state = [str(number) for number in range(count)], {}
    names = ["output"] if len(names) == 1 and not names[0][:1].isalpha() else names
    return [name if name[:1].isalpha() else f"output_{name}" for name in names] + [
        f"next.{path}" for path in state
    ]


def _key_text(key):
    for name in ("key", "idx", "name"):
        if hasattr(key, name):
            return "".join(c if c.isalnum() else "_" for c in str(getattr(key, name)))
    return "item"
