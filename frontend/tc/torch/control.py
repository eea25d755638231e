"""Higher-order operators: branches, loops, and graphs that are called."""

import torch

from .aten import key_of
from .describe import Missing, Refusal, Value, dtype_name

# A trip count that is never reached: the condition ends the loop before.
_MAX_ITERATIONS = 2**63 - 1


def describe(walk, node, args, kwargs):
    name = node.target.name()
    if name == "with_effects":
        return _effect(*args)
    if name == "cond":
        return _branch(walk, node, *args)
    if name == "while_loop":
        return _loop(walk, node, *args)
    if name in (
        "wrap_with_set_grad_enabled",
        "wrap_with_autocast",
        "wrap",
        "invoke_subgraph",
        "hints_wrapper",
    ):
        module = next(each for each in args if isinstance(each, torch.fx.GraphModule))
        if name == "wrap_with_autocast" and args[1] is not None and args[2]:
            raise Refusal("autocast is not supported; export the model without it")
        operands = [each for each in args[args.index(module) + 1 :] if not isinstance(each, str)]
        return inline(walk, walk.g, module, operands)
    raise Refusal("this higher-order operator is not supported")


# Stands for the order of calls with effects.
TOKEN = object()
# Operators whose only effect is to raise an error for some numbers.
_CHECKS = ("aten::_linalg_check_errors", "aten::_assert_async", "aten::_assert_async.msg")


def _effect(token, operator, *_):
    """An operator that is called for its effect."""
    if key_of(operator) not in _CHECKS:
        raise Refusal(f"{operator} is called for its effect, which is not supported")
    return (token,)


def inline(walk, describer, module, operands):
    """Describes a graph's nodes with these operands; returns its results as a tuple."""
    inner = walk.within(describer, module)
    formals = [node for node in module.graph.nodes if node.op == "placeholder"]
    inner.values.update(zip(formals, operands))
    results = inner.run(module.graph)
    results = tuple(results) if isinstance(results, (tuple, list)) else (results,)
    if any(each is Missing for each in results):
        return tuple(Missing for _ in results)
    return results


def _body(walk, module, operands, role):
    """A branch as a subgraph that reads the operands from the outer graph."""
    describer = walk.g.subgraph(role)
    results = inline(walk, describer, module, operands)
    if any(each is Missing for each in results):
        return None
    _add_outputs(describer, results)
    return describer.graph


def _add_outputs(describer, results):
    for result in results:
        if not isinstance(result, Value):
            raise Refusal("a branch or loop gives something that is no tensor")
        # Copied, because a value from outside, or one that is returned twice, cannot be an output
        # of a subgraph.
        name = describer.node("Identity", [result])
        describer.graph.output(name, dtype_name(result.dtype))


def _branch(walk, node, predicate, true_module, false_module, operands=()):
    if isinstance(predicate, bool):
        return inline(walk, walk.g, true_module if predicate else false_module, list(operands))
    if not isinstance(predicate, Value):
        raise Refusal("its condition depends on a size that is not known while compiling")
    bodies = {
        role: _body(walk, module, list(operands), role)
        for role, module in (("then_branch", true_module), ("else_branch", false_module))
    }
    out = node.meta["val"]
    if None in bodies.values():
        return tuple(Missing for _ in out)
    walk.g.begin(node.name, walk.g.node_source, out)
    condition = walk.g.reshape(walk.g.cast(predicate, torch.bool), [])
    names = walk.g.node("If", [condition], outputs=len(out), graphs=bodies)
    names = names if isinstance(names, tuple) else (names,)
    return tuple(Value(name, fake) for name, fake in zip(names, out))


def _loop(walk, node, cond_module, body_module, carried, additional=()):
    carried = [
        each
        if isinstance(each, Value)
        else Value(
            walk.g.scalar(each, torch.int64), torch.empty((), dtype=torch.int64, device="meta")
        )
        for each in carried
    ]
    additional = list(additional)
    (first,) = inline(walk, walk.g, cond_module, [*carried, *additional])
    describer = walk.g.subgraph("body")
    formals = [Value(describer.fresh(f"{node.name}.carried"), each.fake) for each in carried]
    for name in (
        describer.fresh(f"{node.name}.iteration"),
        describer.fresh(f"{node.name}.going"),
        *(each.name for each in formals),
    ):
        describer.graph.formal(name)
    results = inline(walk, describer, body_module, [*formals, *additional])
    if first is Missing or any(each is Missing for each in results):
        return tuple(Missing for _ in carried)
    (going,) = inline(walk, describer, cond_module, [*results, *additional])
    if going is Missing:
        return tuple(Missing for _ in carried)
    describer.begin(node.name, walk.g.node_source, None)
    _add_outputs(describer, [_as_truth(describer, going), *results])
    walk.g.begin(node.name, walk.g.node_source, None)
    start = _as_truth(walk.g, first)
    most = walk.g.constant(_MAX_ITERATIONS, torch.int64)
    names = walk.g.node(
        "Loop", [most, start, *carried], outputs=len(carried), graphs={"body": describer.graph}
    )
    names = names if isinstance(names, tuple) else (names,)
    return tuple(Value(name, fake) for name, fake in zip(names, node.meta["val"]))


def _as_truth(g, value):
    return Value(
        g.reshape(g.cast(value, torch.bool), []), torch.empty((), dtype=torch.bool, device="meta")
    )
