"""Numbers of Python beside tensors have PyTorch's types and values by every road
(tests/torch/numbers_beside_tensors.py)."""

import io
import random
import warnings

import pytest
import torch
from torch import nn

import tc
from tc.torch import read
from tests.torch import numbers_beside_tensors as numbers

CHOSEN = 45


def cases(road):
    """Those that PyTorch computes: a trace of a truth value and a tensor it cannot run, and a truth
    value becomes a 1 in a script."""
    return [
        case
        for case in numbers.CASES
        if (road == "export" or case.number != "True") and numbers.evaluated(case) is not None
    ]


def loaded(script):
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file)


def model_by(road, module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if road == "script":
            return loaded(torch.jit.script(module))
        if road == "trace":
            return loaded(
                torch.jit.trace(module, tuple(numbers.inputs().values()), check_trace=False)
            )
        return torch.export.export(module, tuple(numbers.inputs().values()), strict=False)


def models(road, chosen, folder):
    """[(model, its cases, what PyTorch gives)], a hundred cases each; what PyTorch itself refuses
    by that road is left out."""
    found, pending = [], [chosen[at : at + 100] for at in range(0, len(chosen), 100)]
    while pending:
        part = pending.pop(0)
        module = numbers.module_of(
            part, folder, f"numbers_{len(found)}_{len(pending)}_{part[0].number}"
        )
        try:
            model = model_by(road, module)
            expected = numbers.expected(model.module() if road == "export" else model)
        except Exception:  # noqa: BLE001 - whatever PyTorch raises
            if len(part) > 1:
                pending += [part[: len(part) // 2], part[len(part) // 2 :]]
            continue
        found.append((model, part, expected))
    return found


@pytest.mark.parametrize("road", ("trace", "script", "export"))
def test_values(road, tmp_path):
    chosen = random.Random(7).sample(cases(road), CHOSEN)
    checked, wrong = 0, []
    for model, part, expected in models(road, chosen, tmp_path):
        given = tuple(numbers.inputs().values())
        results = tc.compile(
            model, inputs=None if road == "export" else given, log=False, threads=1
        )(*given)
        for case, one, other in zip(part, results, expected, strict=True):
            checked += 1
            rounding = 1e-3 if other.dtype == torch.float16 else 1e-6
            if one.dtype != other.dtype or not torch.allclose(
                one.double(), other.double(), rounding, 0, equal_nan=True
            ):
                wrong.append(f"{case.text}: {one} for {other}")
    assert not wrong, "\n".join(wrong)
    assert checked >= 0.8 * len(chosen)


@pytest.mark.full
@pytest.mark.parametrize("road", ("trace", "script", "export"))
def test_types_of_all(road, tmp_path):
    chosen = cases(road)
    checked, wrong = 0, []
    for model, part, expected in models(road, chosen, tmp_path):
        types = read(
            model, None if road == "export" else tuple(numbers.inputs().values())
        ).program.dtypes
        checked += len(part)
        wrong += [
            f"{case.text}: {one} for {other.dtype}"
            for case, one, other in zip(part, types, expected, strict=True)
            if one != other.dtype
        ]
    assert not wrong, "\n".join(wrong)
    assert checked >= 0.8 * len(chosen)


class Numbers(nn.Module):
    """Sizes and numbers of the source among whole tensors, as a trace keeps them."""

    def forward(self, whole, small, x):
        half = whole.shape[0] / 2
        return (
            whole * 0.5,
            1.5 - whole,
            whole / 3,
            whole * whole.shape[0],
            small.sum(dtype=torch.int8) * small.shape[0],
            x.double() * 0.1,
            x.half() * 0.1,
            x.half().sum() + 2.5,
            whole + half,
            torch.where(whole > 0, 0.1, whole),
            (small * 3).masked_fill(small > 1, 7),
            whole.float() * torch.tensor(0.1),
            x * (torch.tensor(whole.shape[0]) * 1.5),
            whole // 2 * 2.5,
            whole % 2 + 0.5,
        )


def test_numbers_and_sizes_of_a_trace():
    inputs = (
        torch.tensor([3, -4, 5]),
        torch.tensor([1, 2, 3], dtype=torch.int8),
        torch.tensor([0.3, -1.7, 2.5]),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = loaded(torch.jit.trace(Numbers(), inputs, check_trace=False))
    results = tc.compile(traced, inputs=inputs, log=False, threads=1)(*inputs)
    for number, (one, other) in enumerate(zip(results, traced(*inputs), strict=True)):
        assert one.dtype == other.dtype, number
        torch.testing.assert_close(
            one, other, rtol=1e-6 if other.dtype != torch.float16 else 1e-3, atol=0
        )


class Resized(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return nn.functional.interpolate(
            x, scale_factor=self.factor, mode="bilinear", recompute_scale_factor=True
        )


@pytest.mark.parametrize("factor", (0.7, 1.1, 1.7, 2.3))
def test_sizes_that_a_trace_recomputes(factor):
    """Products of sizes and numbers are rounded to float32 before they are rounded down."""
    x = torch.randn(1, 1, 10, 20, generator=torch.Generator().manual_seed(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = loaded(torch.jit.trace(Resized(factor), (x,), check_trace=False))
    torch.testing.assert_close(
        tc.compile(traced, inputs=(x,), log=False, threads=1)(x), traced(x), rtol=1e-5, atol=1e-5
    )
