"""Branches and loops of TorchScript: followed where the condition is known while importing, else
turned into torch.cond and while_loop."""

import torch
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.while_loop import while_loop_op

from .script_numbers import DataNumber, NumberTensor
from .script_values import ScriptError

_MAX_ITERATIONS = 1 << 16


def known_number(tensor):
    """The number in a tensor whose data the importer knows (a constant of the model), or None."""
    from torch._subclasses.fake_tensor import FakeTensor

    inner = tensor
    if torch._is_functional_tensor(inner):
        inner = torch._from_functional_tensor(inner)
    elem = getattr(inner, "elem", None)
    if isinstance(elem, torch.Tensor):
        inner = torch._from_functional_tensor(elem) if torch._is_functional_tensor(elem) else elem
    if isinstance(inner, FakeTensor):
        inner = inner.constant
    if (
        inner is None
        or type(inner) not in (torch.Tensor, torch.nn.Parameter)
        or inner.numel() != 1
        or inner.device.type == "meta"
    ):
        return None
    with torch.utils._python_dispatch._disable_current_modes():
        return inner.item()


def truth(value):
    """A condition: True or False, or the tensor that decides it."""
    if isinstance(value, NumberTensor):
        value = value.value
    if isinstance(value, DataNumber):
        value = value.tensor
    if isinstance(value, torch.Tensor):
        known = known_number(value)
        return value if known is None else bool(known)
    return bool(value)


def branch(interpreter, node, inputs, values):
    condition = truth(inputs[0])
    blocks = list(node.blocks())
    if not isinstance(condition, torch.Tensor):
        return tuple(interpreter.block(blocks[0 if condition else 1], values))
    raises = [_raises(block) for block in blocks]
    if any(raises) and not all(raises):
        raise ScriptError(
            "whether the model raises an exception depends on data: no check of data is kept, and none is left out"
        )
    if not list(node.outputs()):
        raise ScriptError(
            "what a branch that depends on data does to values around it is not supported"
        )
    return _data_branch(interpreter, node, condition, values)


def _raises(block):
    return any(node.kind() == "prim::RaiseException" for node in block.nodes())


def free_values(blocks, values):
    """(names of the outer values that the blocks read, the tensors among these values)."""
    names = []
    for block in blocks:
        for node in nodes_of(block):
            names += [each.debugName() for each in node.inputs() if each.debugName() in values]
        names += [each.debugName() for each in block.outputs() if each.debugName() in values]
    return list(dict.fromkeys(names))


def nodes_of(block):
    """All nodes of a block and of the blocks nested in it."""
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes_of(inner)


def _tensor_operands(names, values):
    return [name for name in names if isinstance(values[name], (torch.Tensor, DataNumber))]


def _data_branch(interpreter, node, condition, values):
    blocks = list(node.blocks())
    if any(node.kind() == "prim::SetAttr" for block in blocks for node in nodes_of(block)):
        raise ScriptError(
            "an attribute that is set in a branch that depends on data is not supported"
        )
    names = _tensor_operands(free_values(blocks, values), values)
    operands = [_tensor(values[name]) for name in names]

    def taken(block):
        def run(*tensors):
            inner = dict(values)
            inner.update(
                (name, _again(values[name], tensor)) for name, tensor in zip(names, tensors)
            )
            return tuple(map(_result, node.outputs(), interpreter.block(block, inner)))

        return run

    if condition.dtype != torch.bool:
        condition = condition != 0
    results = cond_op(condition.reshape(()), taken(blocks[0]), taken(blocks[1]), tuple(operands))
    return tuple(_of_type(output, each) for output, each in zip(node.outputs(), results))


# By TorchScript's type of a number: the name in nodes that make it from a tensor, and the element
# type of a tensor that holds it.
_KINDS = {
    "IntType": ("Int", torch.int64),
    "FloatType": ("Float", torch.float64),
    "BoolType": ("Bool", torch.bool),
}


def _of_type(output, tensor):
    """A result of a branch or loop: a number where TorchScript's type is one."""
    kind = _KINDS.get(output.type().kind())
    return tensor if kind is None else DataNumber(tensor, kind[0])


def _tensor(value):
    return value.tensor if isinstance(value, DataNumber) else value


def _again(value, tensor):
    return DataNumber(tensor, value.kind) if isinstance(value, DataNumber) else tensor


def _result(output, value):
    """A result of a branch or loop as a tensor; numbers have Python's width."""
    kind = _KINDS.get(output.type().kind())
    if isinstance(value, NumberTensor):
        value = value.tensor()
    if isinstance(value, DataNumber):
        value = value.tensor
    if isinstance(value, (bool, int, float)):
        value = torch.full((), value, dtype=kind and kind[1])
    if not isinstance(value, torch.Tensor):
        raise ScriptError(
            f"a branch or loop that depends on data gives a {type(value).__name__}; only tensors and numbers may be"
        )
    # Copied, since an output must not be an operand.
    return value.clone() if kind is None else value.to(kind[1], copy=True)


def loop(interpreter, node, inputs, values):
    block = next(iter(node.blocks()))
    most, going, *carried = inputs
    formals = [each.debugName() for each in block.inputs()]
    if isinstance(most, DataNumber):
        raise ScriptError("the number of iterations of a loop depends on data")
    limit = int(most)
    iteration = 0
    while iteration < limit:
        condition = truth(going)
        if isinstance(condition, torch.Tensor):
            return _data_loop(interpreter, node, (iteration, limit, condition, carried), values)
        if not condition:
            break
        if iteration >= _MAX_ITERATIONS:
            raise ScriptError(f"a loop of more than {_MAX_ITERATIONS} iterations is not unrolled")
        inner = dict(values)
        inner.update(zip(formals, [iteration, *carried]))
        going, *carried = interpreter.block(block, inner)
        iteration += 1
    return tuple(carried)


def _data_loop(interpreter, node, start, values):
    """The rest of a loop whose end depends on data."""
    iteration, limit, condition, carried = start
    block = next(iter(node.blocks()))
    formals = [each.debugName() for each in block.inputs()]
    names = [name for name in _tensor_operands(free_values([block], values), values)]
    state = [
        torch.full((), iteration, dtype=torch.int64),
        condition.reshape(()).to(torch.bool).clone(),
        *map(_result, node.outputs(), carried),
    ]

    def goes_on(count, going, *rest):
        return going & (count < limit)

    def body(count, going, *rest):
        tensors, outer = rest[: len(carried)], rest[len(carried) :]
        inner = dict(values)
        inner.update((name, _again(values[name], tensor)) for name, tensor in zip(names, outer))
        given = [_of_type(output, each) for output, each in zip(node.outputs(), tensors)]
        inner.update(zip(formals, [DataNumber(count, "Int"), *given]))
        going, *results = interpreter.block(block, inner)
        going = truth(going)
        going = (
            going.reshape(()).to(torch.bool).clone()
            if isinstance(going, torch.Tensor)
            else torch.full((), going)
        )
        return count + 1, going, *map(_result, node.outputs(), results)

    results = while_loop_op(
        goes_on, body, tuple(state), tuple(_tensor(values[name]) for name in names)
    )[2:]
    return tuple(_of_type(output, each) for output, each in zip(node.outputs(), results))
