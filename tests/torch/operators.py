"""PyTorch's own samples of its operators (op_db), each as a module: what tc gives is PyTorch's result, or it is refused by name.

    python -m tests.torch.operators [--most N] [NAME …]    a line for each operator that is wrong or refused, and counts
"""

import argparse
import contextlib
import json
import sys
import warnings

import torch
from torch import nn
from torch.utils import _pytree as pytree

import tc

DTYPES = (torch.float32, torch.int64, torch.bool)


class Call(nn.Module):
    """An operator with its arguments that are no tensors."""

    def __init__(self, function, spec, fixed):
        super().__init__()
        self.function, self.spec, self.fixed = function, spec, fixed

    def forward(self, *tensors):
        given = iter(tensors)
        leaves = [next(given) if fixed is None else fixed[0] for fixed in self.fixed]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)


def module_of(operator, sample):
    """(module, tensors) of a sample."""
    leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
    tensors = [leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)]
    fixed = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
    return Call(operator.op, spec, fixed), tensors


def samples(operator, dtype, most):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = []
        for sample in operator.sample_inputs("cpu", dtype, requires_grad=False):
            found.append(sample)
            if len(found) >= most:
                break
        return found


def difference(actual, expected):
    """What is wrong with a result, or nothing."""
    one, one_spec = pytree.tree_flatten(actual)
    other, other_spec = pytree.tree_flatten(expected)
    if len(one) != len(other):
        return f"{one_spec} for {other_spec}"
    for a, b in zip(one, other):
        if not isinstance(b, torch.Tensor):
            if a != b:
                return f"{a} for {b}"
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} {list(a.shape)} for {b.dtype} {list(b.shape)}"
        try:
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)
        except AssertionError as error:
            return " ".join(str(error).split())[:200]
    return None


class Batch(nn.Module):
    """Several calls as one module: one compilation for all."""

    def __init__(self, calls):
        super().__init__()
        self.calls = nn.ModuleList(calls)

    def forward(self, inputs):
        return [call(*tensors) for call, tensors in zip(self.calls, inputs)]


def expected_of(module, tensors):
    """What PyTorch gives, or None where the sample is one of errors or its result is not the same twice."""
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return module(*[tensor.clone() for tensor in tensors])
    except Exception:  # noqa: BLE001 - whatever the operator raises
        return None


def verdicts(cases):
    """[("right" | "wrong" | "refused", why)] of [(module, tensors, expected)]; a batch that fails is divided."""
    inputs = [[tensor.clone() for tensor in tensors] for _, tensors, _ in cases]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = tc.compile(Batch([module for module, _, _ in cases]), inputs=(inputs,), log=False, threads=1)
            results = compiled([[tensor.clone() for tensor in tensors] for _, tensors, _ in cases])
    except Exception as error:  # noqa: BLE001 - what is no error of tc is a bug, and counted as wrong
        if len(cases) > 1:
            half = len(cases) // 2
            return verdicts(cases[:half]) + verdicts(cases[half:])
        text = f"{type(error).__name__}: {error}"
        return [("refused" if isinstance(error, tc.Error) and "internal error" not in text else "wrong", text)]
    found = [difference(result, expected) for result, (_, _, expected) in zip(results, cases)]
    return [("wrong", why) if why else ("right", "") for why in found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=int, default=2, help="samples of each operator and type")
    parser.add_argument("--batch", type=int, default=24, help="samples that are compiled together")
    parser.add_argument("--part", default="0/1", help="only every so many operators: 0/2 and 1/2 are the halves")
    arguments = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    part, parts = map(int, arguments.part.split("/"))
    counts, cases, names = {}, [], []

    def flush():
        for name, (verdict, why) in zip(names, verdicts(cases) if cases else []):
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict != "right":
                print(f"{verdict} {name}: {why}"[:420].replace("\n", " "), flush=True)
        cases.clear()
        names.clear()

    for number, operator in enumerate(op_db):
        if number % parts != part or (arguments.names and operator.name not in arguments.names):
            continue
        for dtype in DTYPES:
            for sample in samples(operator, dtype, arguments.most) if dtype in operator.dtypes else ():
                module, tensors = module_of(operator, sample)
                expected = expected_of(module, tensors)
                if expected is None:
                    continue
                cases.append((module, tensors, expected))
                shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors)
                names.append(f"{operator.name}{'.' * bool(operator.variant_test_name)}{operator.variant_test_name} {str(dtype)[6:]} ({shapes})")
                if len(cases) >= arguments.batch:
                    flush()
    flush()
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
