"""PyTorch's own samples of its operators (op_db), each as a module: what tc gives is PyTorch's
result, or it is refused by name.

    python -m tests.torch.operators [--most N] [--part K/N] [--write] [NAME …]

prints a line for each sample that is wrong, for each operator and type of which one is refused, and
counts. --write renews the lines of these operators in tests/golden/torch_operators.txt, which lists
the refused ones exactly. The package expecttest, which PyTorch's samples are written with, is one
of the tests' requirements.
"""

import argparse
import contextlib
import dataclasses
import json
import re
import sys
import warnings

import torch
from torch import nn
from torch.utils import _pytree as pytree

import tc
from tests.support import ROOT

DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
MOST = 2
GOLDEN = ROOT / "tests" / "golden" / "torch_operators.txt"
# What these give beyond shape and type is what the memory held before.
UNDEFINED = (
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
)
# Any of equal numbers may be chosen: the place of the axis among the positional arguments.
CHOOSING = {"sort": 0, "argsort": 0, "topk": 1, "kthvalue": 1, "median": 0, "nanmedian": 0}


@dataclasses.dataclass
class Case:
    name: str
    dtype: torch.dtype
    module: nn.Module
    tensors: list
    expected: object
    axis: int | None = None  # along which one of equal numbers is chosen

    @property
    def key(self):
        return self.name, str(self.dtype)[6:]

    def __str__(self):
        return f"{self.name} {str(self.dtype)[6:]} ({', '.join(str(list(tensor.shape)) for tensor in self.tensors)})"


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


def difference(actual, case):
    """What is wrong with a result, or nothing."""
    one, one_spec = pytree.tree_flatten(actual)
    other, other_spec = pytree.tree_flatten(case.expected)
    if len(one) != len(other):
        return f"{one_spec} for {other_spec}"
    for a, b in zip(one, other):
        if not isinstance(b, torch.Tensor):
            if a != b:
                return f"{a} for {b}"
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{a.dtype} {list(a.shape)} for {b.dtype} {list(b.shape)}"
        if case.name in UNDEFINED or (case.axis is not None and chooses_as_well(case, a, b)):
            continue
        try:
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)
        except AssertionError as error:
            return " ".join(str(error).split())[:200]
    return None


def chooses_as_well(case, places, expected):
    """Whether places are others than PyTorch's, but of equal numbers, and none twice."""
    if places.dtype != torch.int64 or places.dim() == 0:
        return False
    value, axis = case.tensors[0], case.axis
    if places.dim() == value.dim() - 1:  # one place of each row
        places, expected = places.unsqueeze(axis), expected.unsqueeze(axis)
    if places.shape != expected.shape or places.dim() != value.dim():
        return False
    if places.numel() and not (0 <= int(places.min()) and int(places.max()) < value.shape[axis]):
        return False
    once = places.sort(axis).values.diff(dim=axis).ne(0).all()
    return bool(once) and torch.equal(value.gather(axis, places), value.gather(axis, expected))


class Batch(nn.Module):
    """Several calls as one module: one compilation for all."""

    def __init__(self, calls):
        super().__init__()
        self.calls = nn.ModuleList(calls)

    def forward(self, inputs):
        return [call(*tensors) for call, tensors in zip(self.calls, inputs)]


def expected_of(module, tensors):
    """What PyTorch gives, or None where the sample is one of errors or its result is not the same
    twice."""
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return module(*[tensor.clone() for tensor in tensors])
    except Exception:  # noqa: BLE001 - whatever the operator raises
        return None


def verdicts(cases):
    """[("right" | "wrong" | "refused", why)]; a batch that fails is divided."""
    inputs = [[tensor.clone() for tensor in case.tensors] for case in cases]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = tc.compile(
                Batch([case.module for case in cases]), inputs=(inputs,), log=False, threads=1
            )
            results = compiled([[tensor.clone() for tensor in case.tensors] for case in cases])
    except Exception as error:  # noqa: BLE001 - no error of tc: a bug, counted as wrong
        if len(cases) > 1:
            half = len(cases) // 2
            return verdicts(cases[:half]) + verdicts(cases[half:])
        if isinstance(error, tc.Error) and "internal error" not in str(error):
            return [("refused", reason_of(error))]
        return [("wrong", f"{type(error).__name__}: {error}")]
    found = [difference(result, case) for result, case in zip(results, cases)]
    return [("wrong", why) if why else ("right", "") for why in found]


def reason_of(error):
    """Which operator is refused and why, without names of nodes and places."""
    text = " ".join(str((getattr(error, "problems", None) or [error])[0]).split())
    node = re.search(r"node '[^']*' \(([\w.]+)[^)]*\)(?: of \w+)?: (.*)", text)
    if node:
        return f"{node.group(1)}: {node.group(2)}"
    exported = re.search(r"by (?:torch.export|PyTorch): (\w+)", text)
    if "decides by numbers that only a run knows" in text:
        return "data decides what torch.export would follow"
    return f"torch.export raises {exported.group(1)}" if exported else text


def operators():
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {
        f"{each.name}.{each.variant_test_name}" if each.variant_test_name else each.name: each
        for each in op_db
    }


def cases_of(name, operator, most):
    for dtype in DTYPES:
        for sample in samples(operator, dtype, most) if dtype in operator.dtypes else ():
            module, tensors = module_of(operator, sample)
            expected = expected_of(module, tensors)
            if expected is None:
                continue
            axis = None
            if name in CHOOSING and not sample.kwargs.get("stable"):
                place = CHOOSING[name]
                axis = sample.kwargs.get(
                    "dim", sample.args[place] if len(sample.args) > place else -1
                )
            yield Case(name, dtype, module, tensors, expected, axis)


def examine(chosen, most=MOST, batch=24):
    """(counts, lines of what is wrong, {(operator, reason): types}) of {name: operator}."""
    counts, wrong, refused, cases = {}, [], {}, []

    def flush():
        for case, (verdict, why) in zip(cases, verdicts(cases) if cases else []):
            counts[verdict] = counts.get(verdict, 0) + 1
            if verdict == "wrong":
                wrong.append(f"{case}: {why}"[:420].replace("\n", " "))
                print(f"wrong {wrong[-1]}", flush=True)
            elif verdict == "refused":
                types = refused.setdefault((case.name, why), [])
                if case.key[1] not in types:
                    types.append(case.key[1])
        cases.clear()

    # What is listed as refused comes last and one by one: it would divide the batches of the
    # others.
    listed = golden_lines()
    for name in sorted(chosen, key=lambda name: name in listed):
        for case in cases_of(name, chosen[name], most):
            if len(cases) >= (1 if name in listed else batch):
                flush()
            cases.append(case)
    flush()
    return counts, wrong, refused


def lines_of(refused):
    return sorted(f"{name} ({', '.join(types)}): {why}" for (name, why), types in refused.items())


def golden_lines():
    """{operator: its lines} of the list."""
    found = {}
    for line in GOLDEN.read_text(encoding="utf-8").splitlines() if GOLDEN.exists() else []:
        if not line.startswith("#"):
            found.setdefault(line.split(" (")[0], []).append(line)
    return found


HEAD = """# PyTorch's samples of its operators that are refused (tests/torch/operators.py --write): operator (types): what refuses it.
# Everything else in PyTorch's list, as far as it is float32, int64, bool or complex64, gives PyTorch's results.
"""


def write(names, refused):
    listed = {name: lines for name, lines in golden_lines().items() if name not in names}
    kept = [line for lines in listed.values() for line in lines]
    GOLDEN.write_text(
        HEAD + "".join(line + "\n" for line in sorted(kept + lines_of(refused))), encoding="utf-8"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=int, default=MOST, help="samples of each operator and type")
    parser.add_argument("--batch", type=int, default=24, help="samples that are compiled together")
    parser.add_argument(
        "--part", default="0/1", help="only every so many operators: 0/2 and 1/2 are the halves"
    )
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    part, parts = map(int, arguments.part.split("/"))
    chosen = {
        name: operator
        for number, (name, operator) in enumerate(operators().items())
        if number % parts == part and (not arguments.names or operator.name in arguments.names)
    }
    counts, _, refused = examine(chosen, arguments.most, arguments.batch)
    print("\n".join(f"refused {line}" for line in lines_of(refused)))
    if arguments.write:
        write(chosen, refused)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
