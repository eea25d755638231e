"""Runs TorchScript node by node in Python, so that torch.export can trace it: attributes are state,
sizes stay symbolic, and control flow that depends on data becomes torch.cond or while_loop, never a
constant."""

import collections
import contextlib

import torch
from torch.fx import traceback
from torch.utils import _pytree as pytree

from . import packed, script_control
from .fast_paths import COMPOSED, NestedTensor
from .script_control import nodes_of
from .script_limits import Limits, as_int64
from .script_numbers import DataNumber, NumberTensor, applied, as_operands, computed
from .script_values import (
    OPERATORS,
    PRIM_OPERATORS,
    ScriptError,
    compute_of_data,
    is_of_data,
    is_tensor,
)


_CLASSES = "objects of classes of TorchScript are not supported"


class Owner:
    """A module or object of the model: its path, its TorchScript object, and the plain module that
    has its tensors."""

    def __init__(self, path, script, plain):
        self.path, self.script, self.plain = path, script, plain

    def path_of(self, name):
        return f"{self.path}.{name}" if self.path else name


def plain_modules(script):
    """Plain modules with the parameters and buffers of a ScriptModule under the same names.
    Attributes that are tensors become buffers too."""
    plain = torch.nn.Module()
    own = {name for name, _ in torch._C.ParameterDict(script).items()}
    for name, tensor in torch._C.ParameterDict(script).items():
        plain.register_parameter(
            name,
            torch.nn.Parameter(tensor.detach(), requires_grad=False)
            if tensor.is_floating_point()
            else None,
        )
        if not tensor.is_floating_point():
            del plain._parameters[name]
            plain.register_buffer(name, tensor)
    for name, tensor in torch._C.BufferDict(script).items():
        if name not in own:
            plain.register_buffer(name, tensor, persistent=True)
    for name, child in torch._C.ModuleDict(script).items():
        plain.add_module(name, plain_modules(child))
    return plain


def written_attributes(graph):
    """Names of attributes that the graph sets."""
    return {node.s("name") for node in nodes_of(graph) if node.kind() == "prim::SetAttr"}


class Interpreter:
    """One run of a method. `state` holds the values, by path, of attributes that runs set; the run
    changes it."""

    def __init__(self, state, written):
        self.state, self.written = state, written
        self.limits = Limits()
        # {path: (value, copy of it before the run)} of the model's lists and dictionaries that the
        # run read.
        self.read = {}

    def run(self, graph, root, arguments):
        values = dict(zip((each.debugName() for each in graph.inputs()), [root, *arguments]))
        (result,) = self.block(graph, values)
        for path, (value, before) in self.read.items():
            if not _is_unchanged(value, before):
                raise ScriptError(
                    f"the model changes its attribute '{path}' in place, which the next call would not see: assign a new "
                    f"{type(value).__name__} to it"
                )
        return _as_result(result)

    def container(self, path, value):
        """A list or dictionary of the model, which has to be the same object whenever the run reads
        it."""
        if path not in self.read:
            self.read[path] = value, copied(value)
        return self.read[path][0]

    def block(self, block, values):
        """Runs the nodes of a block and returns the block's results."""
        for node in block.nodes():
            self.node(node, values)
        return [values[each.debugName()] for each in block.outputs()]

    def node(self, node, values):
        kind = node.kind()
        inputs = [values[each.debugName()] for each in node.inputs()]
        namespace, _, name = kind.partition("::")
        special = _SPECIAL.get(kind)
        with _located(node):
            self.limits.note_node()
            of_packed = (
                packed.of_script(name, inputs)
                if namespace == "aten" or name == "NumToTensor"
                else NotImplemented
            )
            if of_packed is not NotImplemented:
                results = (of_packed,)
            elif special is not None:
                results = special(self, node, inputs, values)
            elif (
                namespace == "prim"
                and name in PRIM_OPERATORS
                and not (name in ("min", "max", "abs") and any(map(is_tensor, inputs)))
            ):
                results = (_of_type(node, PRIM_OPERATORS[name](*inputs)),)
            else:
                results = (_of_type(node, self.operator(node, namespace, name, inputs)),)
        outputs = [each.debugName() for each in node.outputs()]
        if len(outputs) != 1 and len(results) == 1:
            results = results[0] or ()
        values.update(zip(outputs, results))

    def operator(self, node, namespace, name, inputs):
        if namespace == "aten" and name in OPERATORS and not _of_tensors(inputs, name):
            self.limits.before(name, inputs)
            return as_int64(OPERATORS[name](*inputs))
        if namespace == "aten" and is_of_data(name, inputs):
            return compute_of_data(name, inputs)
        if namespace == "aten" and name == "len" and isinstance(inputs[0], torch.Tensor):
            return inputs[0].shape[0]
        kind = node.kind()
        if kind in COMPOSED and not any(
            isinstance(each, (NumberTensor, DataNumber)) for each in inputs
        ):
            return COMPOSED[kind](*inputs)
        if any(isinstance(each, NestedTensor) for each in inputs):
            raise ScriptError(f"{kind} of nested tensors is not supported")
        overload = _overload(
            node, namespace, name, any(isinstance(each, DataNumber) for each in inputs)
        )
        if any(isinstance(each, NumberTensor) for each in inputs) and not _have_tensors(inputs):
            result = computed(overload, inputs)
            if result is not None:
                return result
        given = [
            [_as_argument(part) for part in each] if isinstance(each, (list, tuple)) else each
            for each in inputs
        ]
        return applied(overload, as_operands(overload, given))


def _have_tensors(values):
    return any(
        isinstance(each, (torch.Tensor, DataNumber))
        or isinstance(each, (list, tuple))
        and _have_tensors(each)
        for each in values
    )


def _of_type(node, value):
    """A number converted to the type that TorchScript gives the result: 2 ** 3 and round(2.5) are
    floats."""
    if (
        isinstance(value, (int, torch.SymInt))
        and not isinstance(value, bool)
        and node.outputsSize() == 1
        and node.output().type().kind() == "FloatType"
    ):
        return torch.sym_float(value)
    return value


def copied(value):
    """A deep copy of lists and dictionaries; other values are not copied."""
    if isinstance(value, list):
        return [copied(each) for each in value]
    return {key: copied(each) for key, each in value.items()} if isinstance(value, dict) else value


def _is_unchanged(value, before):
    if isinstance(value, list):
        return len(value) == len(before) and all(map(_is_unchanged, value, before))
    if isinstance(value, dict):
        return list(value) == list(before) and all(
            map(_is_unchanged, value.values(), before.values())
        )
    return value is before or not isinstance(value, torch.Tensor) and value == before


def _of_tensors(inputs, name):
    """Whether the operator works on tensors. Operators on lists do not, even if the lists contain
    tensors."""
    if name in (
        "append",
        "extend",
        "insert",
        "__getitem__",
        "_set_item",
        "len",
        "slice",
        "add",
        "copy",
        "pop",
        "reverse",
        "list",
        "clear",
        "keys",
        "values",
        "items",
        "get",
        "__contains__",
        "__is__",
        "__isnot__",
        "dict",
        "Delete",
        "update",
        "setdefault",
        "format",
        "str",
        "__not__",
        "add_",
        "mul_",
    ):
        return (
            bool(inputs)
            and is_tensor(inputs[0])
            and name not in ("__is__", "__isnot__", "format", "str")
        )
    return any(
        is_tensor(each) or (isinstance(each, (list, tuple)) and any(map(is_tensor, each)))
        for each in inputs
    )


def _as_result(value):
    """The model's result: tensors and numbers, as in TorchScript."""

    def result(each):
        return (
            each.tensor()
            if isinstance(each, NumberTensor)
            else each.tensor.item()
            if isinstance(each, DataNumber)
            else each
        )

    return pytree.tree_map(result, value)


def _as_argument(value):
    if isinstance(value, NumberTensor):
        return value.tensor()
    if isinstance(value, DataNumber):
        return value.tensor
    if isinstance(value, (list, tuple)):
        return [_as_argument(each) for each in value]
    return value


def _overload(node, namespace, name, takes_data):
    """PyTorch's operator for the schema of the node; for numbers that are read from data, its
    overload for tensors."""
    try:
        signature = node.schema().split("(")[0].split("::")[-1]
    except RuntimeError:
        raise ScriptError(f"{node.kind()} is not supported") from None
    overload = signature.partition(".")[2]
    packet = getattr(getattr(torch.ops, namespace), name, None) if namespace != "prim" else None
    operator = getattr(
        packet,
        (overload.replace("Scalar", "Tensor") if takes_data else overload) or "default",
        None,
    )
    if operator is None:
        what = node.kind() if takes_data else f"{namespace}::{signature}"
        raise ScriptError(f"{what} is not supported")
    return operator


@contextlib.contextmanager
def _located(node):
    """In this context new FX nodes get the source position of this TorchScript node."""
    try:
        text = node.sourceRange().partition("Serialized ")[0]
    except RuntimeError:
        text = ""
    if not text:
        yield
        return
    with traceback.preserve_node_meta():
        before = traceback.current_meta.get("stack_trace")
        traceback.current_meta["stack_trace"] = text
        try:
            yield
        except ScriptError as error:
            if not getattr(error, "located", False):
                place = " ".join(text.split("\n")[0].split())
                error.args, error.located = (f"{error} ({node.kind()} at {place})",), True
            raise
        finally:
            if before is None:
                traceback.current_meta.pop("stack_trace", None)
            else:
                traceback.current_meta["stack_trace"] = before


# --- nodes that are no functions of their inputs --------------------------------------------------


def _constant(interpreter, node, inputs, values):
    value = node.output().toIValue()
    if (
        isinstance(value, torch.Tensor)
        and not value.dim()
        and value.layout is torch.strided
        and not value.is_quantized
    ):
        return (NumberTensor(value.item(), value.dtype, constant=True),)
    return (value,)


def _get_attribute(interpreter, node, inputs, values):
    owner, name = inputs[0], node.s("name")
    if not isinstance(owner, Owner):
        raise ScriptError(_CLASSES)
    path = owner.path_of(name)
    if path in interpreter.state:
        return (interpreter.state[path],)
    if path in interpreter.read:
        return (interpreter.read[path][0],)
    for folder in (owner.plain._parameters, owner.plain._buffers):
        if name in folder:
            return (getattr(owner.plain, name),)
    if name in owner.plain._modules:
        return (Owner(path, owner.script.getattr(name), owner.plain._modules[name]),)
    value = owner.script.getattr(name)
    return (interpreter.container(path, value) if isinstance(value, (list, dict)) else value,)


def _set_attribute(interpreter, node, inputs, values):
    owner, value = inputs
    if not isinstance(owner, Owner):
        raise ScriptError(_CLASSES)
    interpreter.state[owner.path_of(node.s("name"))] = _as_result(value)
    return ()


def _raise(interpreter, node, inputs, values):
    kind = (inputs[1] if len(inputs) > 1 and inputs[1] else "Exception").rpartition(".")[2]
    raise ScriptError(f"the model raises {kind}: {inputs[0]}")


def _unpack(interpreter, node, inputs, values):
    return tuple(inputs[0])


def _number_to_tensor(interpreter, node, inputs, values):
    return (inputs[0] if isinstance(inputs[0], DataNumber) else NumberTensor(inputs[0]),)


def _number_of_tensor(interpreter, node, inputs, values):
    value, kind = inputs[0], node.kind().partition("::")[2]
    convert = {
        "Bool": bool,
        "Int": int,
        "IntImplicit": int,
        "Float": float,
        "FloatImplicit": float,
    }.get(kind, lambda each: each)
    if isinstance(value, NumberTensor):
        value = value.value
    if not isinstance(value, (torch.Tensor, DataNumber)):
        return (
            value
            if isinstance(value, torch.SymInt) and convert is int
            else OPERATORS[kind](value)
            if kind in OPERATORS
            else convert(value),
        )
    if isinstance(value, DataNumber):
        return (value.as_kind(kind),)
    known = script_control.known_number(value)
    if known is not None:
        return (convert(known),)
    return (DataNumber(value, kind),)


def _sizes(interpreter, node, inputs, values):
    value = inputs[0]
    if isinstance(value, NumberTensor):
        return ([],)
    sizes = list(_told(value).shape)
    return (sizes[inputs[1]] if len(inputs) > 1 else sizes,)


def _told(value):
    """The tensor from which type, rank, device and sizes of a value are read."""
    return value.padded if isinstance(value, NestedTensor) else _as_argument(value)


# TorchScript compares types as numbers.
_TYPE_NUMBERS = {
    dtype: number
    for number, dtype in enumerate(
        (
            torch.uint8,
            torch.int8,
            torch.int16,
            torch.int32,
            torch.int64,
            torch.float16,
            torch.float32,
            torch.float64,
            torch.complex32,
            torch.complex64,
            torch.complex128,
            torch.bool,
        )
    )
} | {torch.bfloat16: 15}


def _property(name):
    def get(interpreter, node, inputs, values):
        value = _told(inputs[0])
        if name == "dtype":
            return (_TYPE_NUMBERS.get(value.dtype, value.dtype),)
        result = getattr(value, name)
        return (result() if callable(result) else result,)

    return get


def _device_type(interpreter, node, inputs, values):
    return (inputs[0].type if isinstance(inputs[0], torch.device) else "torch.FloatTensor",)


def _is_instance(interpreter, node, inputs, values):
    return (any(_has_type(inputs[0], kind) for kind in node.tys("types")),)


def _has_type(value, kind):
    name = kind.kind()
    if name == "TensorType":
        return is_tensor(value) or isinstance(value, NestedTensor)
    if name == "ListType":
        return isinstance(value, list) and all(
            _has_type(each, kind.getElementType()) for each in value
        )
    if name == "TupleType":
        return isinstance(value, tuple)
    if name == "DictType":
        return isinstance(value, dict)
    if name == "OptionalType":
        return value is None or _has_type(value, kind.getElementType())
    kinds = {
        "IntType": (int, torch.SymInt),
        "FloatType": (float, torch.SymFloat),
        "BoolType": bool,
        "StringType": str,
        "NoneType": type(None),
        "NumberType": (int, float, torch.SymInt, torch.SymFloat),
    }
    if name not in kinds:
        raise ScriptError(_CLASSES)
    return isinstance(value, kinds[name]) and not (name == "IntType" and isinstance(value, bool))


def _unwrap(interpreter, node, inputs, values):
    if inputs[0] is None:
        raise ScriptError("the model raises AssertionError: unwrapping an optional that is None")
    return (inputs[0],)


def _tuple(interpreter, node, inputs, values):
    annotation = node.output().type()
    fields = None
    with contextlib.suppress(AttributeError, RuntimeError):
        fields = annotation.names() if hasattr(annotation, "names") else None
    if fields:
        return (collections.namedtuple("Result", fields)(*inputs),)
    return (tuple(inputs),)


def _list(interpreter, node, inputs, values):
    # Traced models build shapes as lists of tensors made from numbers: these become numbers again
    # where the list's type is int.
    return (
        [
            each.value
            if isinstance(each, NumberTensor)
            and node.output().type().getElementType().kind() == "IntType"
            else each
            for each in inputs
        ],
    )


def _refused(reason):
    def refuse(interpreter, node, inputs, values):
        raise ScriptError(reason)

    return refuse


_SPECIAL = {
    "prim::Constant": _constant,
    "prim::GetAttr": _get_attribute,
    "prim::SetAttr": _set_attribute,
    "prim::If": script_control.branch,
    "prim::Loop": script_control.loop,
    "prim::RaiseException": _raise,
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack,
    "prim::NumToTensor": _number_to_tensor,
    "aten::Bool": _number_of_tensor,
    "aten::Int": _number_of_tensor,
    "aten::Float": _number_of_tensor,
    "aten::IntImplicit": _number_of_tensor,
    "aten::FloatImplicit": _number_of_tensor,
    "aten::ScalarImplicit": _number_of_tensor,
    "aten::item": _number_of_tensor,
    "aten::size": _sizes,
    "aten::dim": _property("dim"),
    "prim::dtype": _property("dtype"),
    "prim::device": _property("device"),
    "prim::layout": _property("layout"),
    "prim::shape": _sizes,
    "prim::is_nested": lambda _, node, inputs, values: (isinstance(inputs[0], NestedTensor),),
    "prim::type": _device_type,
    # Always true, since nested() treats a mask with holes as PyTorch's encoder would without this
    # check.
    "aten::_nested_tensor_from_mask_left_aligned": lambda *_: (True,),
    "prim::requires_grad": lambda *_: (False,),
    "prim::is_cuda": lambda *_: (False,),
    "prim::data": lambda _, node, inputs, values: (inputs[0],),
    "aten::numel": lambda _, node, inputs, values: (_told(inputs[0]).numel(),),
    "aten::is_floating_point": lambda _, node, inputs, values: (
        _told(inputs[0]).is_floating_point(),
    ),
    "aten::is_complex": lambda _, node, inputs, values: (_told(inputs[0]).is_complex(),),
    "prim::isinstance": _is_instance,
    "aten::_unwrap_optional": _unwrap,
    "prim::TupleConstruct": _tuple,
    "prim::ListConstruct": _list,
    "aten::is_grad_enabled": lambda *_: (False,),
    "aten::is_scripting": lambda *_: (True,),
    "aten::device": lambda *_: (torch.device("cpu"),),
    "aten::is_autocast_enabled": lambda *_: (False,),
    "aten::is_autocast_cpu_enabled": lambda *_: (False,),
    "aten::warn": lambda *_: (),
    "aten::manual_seed": _refused("random numbers of PyTorch's generator are not imitated"),
    "prim::CreateObject": _refused(_CLASSES),
    "prim::CallMethod": _refused("methods of interfaces of TorchScript are not supported"),
    "prim::fork": _refused("tasks of TorchScript are not supported"),
    "prim::rpc_async": _refused("calls of other machines are not supported"),
}
