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


def run(operator, dtype, sample):
    """("right" | "wrong" | "refused" | "skipped", why)."""
    module, tensors = module_of(operator, sample)
    try:
        with torch.no_grad():
            expected = module(*[tensor.clone() for tensor in tensors])
    except Exception as error:  # noqa: BLE001 - the sample is one of errors
        return "skipped", type(error).__name__
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = tc.compile(module, inputs=tuple(tensor.clone() for tensor in tensors), log=False, threads=1)
            actual = compiled(*[tensor.clone() for tensor in tensors])
    except tc.Error as error:
        text = str(error)
        return ("wrong" if "internal error" in text else "refused"), text
    except Exception as error:  # noqa: BLE001 - what is no error of tc is a bug
        return "wrong", f"{type(error).__name__}: {error}"
    why = difference(actual, expected)
    return ("wrong", why) if why else ("right", "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=int, default=2, help="samples of each operator and type")
    parser.add_argument("--part", default="0/1", help="only every so many operators: 0/2 and 1/2 are the halves")
    arguments = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    part, parts = map(int, arguments.part.split("/"))
    counts = {}
    for number, operator in enumerate(op_db):
        if number % parts != part or (arguments.names and operator.name not in arguments.names):
            continue
        for dtype in DTYPES:
            if dtype not in operator.dtypes:
                continue
            seen = set()
            for sample in samples(operator, dtype, arguments.most):
                verdict, why = run(operator, dtype, sample)
                counts[verdict] = counts.get(verdict, 0) + 1
                if verdict in ("wrong", "refused") and (verdict, why[:60]) not in seen:
                    seen.add((verdict, why[:60]))
                    shapes = [list(each.shape) for each in module_of(operator, sample)[1]]
                    print(f"{verdict} {operator.name}{'.' + operator.variant_test_name if operator.variant_test_name else ''} "
                          f"{str(dtype)[6:]} {shapes} {sample.args if not shapes[1:] else ''}{sample.kwargs}: {why}"[:500].replace("\n", " "), flush=True)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
