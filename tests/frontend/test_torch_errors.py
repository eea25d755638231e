"""What is said of models of PyTorch that are not supported, and of arguments that do not fit: one
sentence."""

import itertools
from typing import Dict, List

import pytest
import torch
from torch import nn

import tc

from .torch_refusals import refusal


class Own(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.unlike = (0,) * number  # modules of equal attributes would share their methods


def script_of(source, numbers=itertools.count(1)):  # noqa: B008
    """A ScriptModule with this method."""
    module = torch.jit.script(Own(next(numbers)))
    module.define(source + "\n")
    return module


def compiled(model, *inputs, **options):
    return tc.compile(model, inputs=inputs or None, log=False, **options)


# --- unsupported operators ------------------------------------------------------------------------


class Unsupported(nn.Module):
    def forward(self, x):
        spectrum = torch.fft.fft(x)
        y = torch.rand_like(x)
        return spectrum.prod(0).real + y + torch.linalg.eigvalsh(x)


def test_all_that_is_unsupported_is_told_at_once_with_the_line():
    text = refusal(lambda: compiled(Unsupported(), torch.randn(3, 3)))
    assert (
        "aten.prod.dim_int at test_torch_errors.py:" in text
        and "it is not supported for complex numbers" in text
    )
    assert (
        "aten.rand_like.default at test_torch_errors.py:" in text
        and "its numbers are random" in text
    )
    assert "aten._linalg_eigh.default at test_torch_errors.py:" in text
    problems = tc.check(Unsupported(), inputs=(torch.randn(3, 3),))
    assert len(problems) >= 3 and all(problem.startswith("node '") for problem in problems)
    assert tc.check(nn.ReLU(), inputs=(torch.randn(3),)) == []


class Training(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, True)


def test_training_mode_is_refused_by_name():
    assert "call .eval() on the module first" in refusal(
        lambda: compiled(Training(), torch.randn(3))
    )


class Raising(nn.Module):
    def forward(self, x):
        raise ValueError("no such thing")


def test_what_the_module_raises_is_told():
    text = refusal(lambda: compiled(Raising(), torch.randn(3)))
    assert text == "Raising cannot be exported by torch.export: ValueError: no such thing"


# --- TorchScript ----------------------------------------------------------------------------------


SCRIPTS = [
    (
        "def forward(self, x: Tensor) -> Tensor:\n  if bool(x.sum() > 0):\n    raise Exception('negative')\n  return x",
        "whether the model raises an exception depends on data: no check of data is kept, and none is left out (prim::If at ",
    ),
    (
        "def forward(self, x: Tensor) -> Tensor:\n  raise Exception('never')\n  return x",
        "the model raises Exception: never",
    ),
    (
        "def forward(self, x: Tensor) -> Tensor:\n  a = [x]\n  if bool(x.sum() > 0):\n    a.append(x)\n  return a[0]",
        "what a branch that depends on data does to values around it is not supported",
    ),
    (
        "def forward(self, x: Tensor) -> Tensor:\n  y = x\n  for i in range(int(x.sum())):\n    y = y + 1\n  return y",
        "the number of iterations of a loop depends on data",
    ),
    (
        "def forward(self, x: Tensor) -> Tensor:\n  y = 0\n  for i in range(100000):\n    y = y + 1\n  return x + y",
        "a loop of more than 65536 iterations is not unrolled",
    ),
    (
        "def forward(self, x: Optional[Tensor]) -> Tensor:\n  return torch.relu(torch.jit._unwrap_optional(x))",
        "the model raises AssertionError: unwrapping an optional that is None",
    ),
    (
        "def forward(self, x: Tensor) -> Tensor:\n  return torch.pow(float(x[0]), x)",
        "aten::pow is not supported (aten::pow at ",
    ),
]


@pytest.mark.parametrize("source,expected", SCRIPTS)
def test_refusals_of_torchscript(source, expected):
    module = script_of(source)
    given = None if "Optional" in source else torch.ones(3)
    assert expected in refusal(lambda: tc.compile(module, inputs=(given,), log=False))


class SetsInBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = 0

    def forward(self, x):
        y = x
        if bool(x.sum() > 0):
            self.kept = 1
            y = x + 1
        return y


class KeepsSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = 0

    def forward(self, x):
        self.kept = x.size(0)
        return x


class GrowsList(nn.Module):
    items: List[int]

    def __init__(self):
        super().__init__()
        self.items = [1]

    def forward(self, x):
        self.items.append(1)
        return x + len(self.items)


class CountsInDictionary(nn.Module):
    counts: Dict[str, int]

    def __init__(self):
        super().__init__()
        self.counts = {"calls": 0}

    def forward(self, x):
        self.counts["calls"] += 1
        return x * self.counts["calls"]


class PutsBack(GrowsList):
    def forward(self, x):
        self.items.append(1)
        count = len(self.items)
        self.items.pop()
        return x + count


@torch.jit.script
class Pair:
    def __init__(self, a: torch.Tensor):
        self.a = a


class UsesClass(nn.Module):
    def forward(self, x):
        return Pair(x).a


def test_refusals_of_state_and_classes():
    assert "an attribute that is set in a branch that depends on data is not supported" in refusal(
        lambda: compiled(torch.jit.script(SetsInBranch()), torch.ones(3))
    )
    for module, change in (
        (
            GrowsList(),
            "'items' in place, which the next call would not see: assign a new list to it",
        ),
        (
            CountsInDictionary(),
            "'counts' in place, which the next call would not see: assign a new dict to it",
        ),
    ):
        assert "the model changes its attribute " + change in refusal(
            lambda: compiled(torch.jit.script(module), torch.ones(3))
        )
    assert compiled(torch.jit.script(PutsBack()), torch.ones(3))(torch.ones(3)).tolist() == [
        3,
        3,
        3,
    ]
    assert "keeps a size in the attribute 'kept'; bind the sizes with shapes=" in refusal(
        lambda: compiled(torch.jit.script(KeepsSize()), torch.ones(3), shapes={"x": ("n",)})
    )
    assert "objects of classes of TorchScript are not supported" in refusal(
        lambda: compiled(torch.jit.script(UsesClass()), torch.ones(3))
    )


def test_functions_and_other_methods_are_refused():
    function = torch.jit.trace(lambda x: x + 1, torch.ones(2))
    assert "is a function of TorchScript; put it into a module's forward" in refusal(
        lambda: compiled(function, torch.ones(2))
    )
    module = script_of("def other(self, x: Tensor) -> Tensor:\n  return x")
    assert "has no method forward; its methods are other" in refusal(
        lambda: compiled(module, torch.ones(2))
    )


# --- arguments ------------------------------------------------------------------------------------


def test_arguments_are_checked():
    linear, script = nn.Linear(3, 2), torch.jit.script(nn.Linear(3, 2))
    x = torch.ones(4, 3)
    cases = [
        (
            lambda: tc.compile(linear),
            "Linear needs example inputs: tc.compile(model, inputs=(x,)), a tuple of what the module is called "
            "with, or a dictionary by name",
        ),
        (
            lambda: tc.compile(script),
            "Linear does not say the shapes of its inputs: give example inputs (inputs=…), or "
            "shapes={'input': …} where all of them are float32 tensors",
        ),
        (lambda: compiled(script, x, x), "forward takes 1 arguments, not 2"),
        (
            lambda: tc.compile(script, inputs={"other": x}),
            "forward has no argument 'other'; it takes input",
        ),
        (lambda: tc.compile(script, inputs={}), "argument 'input' of forward is missing"),
        (
            lambda: tc.compile(script, inputs=((x,), {"input": x})),
            "argument 'input' is given twice",
        ),
        (
            lambda: compiled(linear, x, shapes={"input": ("n", 4)}),
            "shapes: 'input' has the size 4 on axis 1, and its example has 3",
        ),
        (
            lambda: compiled(linear, x, shapes={"input": ("n",)}),
            "shapes: 'input' has 1 sizes, and its example has the shape [4, 3]",
        ),
        (
            lambda: compiled(linear, x, shapes={"input": ("n", 3), "n": (5, 2)}),
            "shapes: the range of 'n' is (5, 2); give the smallest and the largest size",
        ),
        (
            lambda: compiled(linear, x, shapes={"other": (1, 2)}),
            "shapes: 'other' is no input of the model and no symbol of a shape; the inputs are input",
        ),
    ]
    for call, expected in cases:
        assert refusal(call, tc.ShapeError) == expected


def test_shapes_alone_do_where_all_inputs_are_floats():
    module = tc.compile(torch.jit.script(nn.Linear(3, 2)), shapes={"input": (4, 3)}, log=False)
    assert module.inputs[0].shape == (4, 3)


def test_an_exported_program_has_one_structure():
    class Sum(nn.Module):
        def forward(self, x, factor):
            return x * factor

    exported = torch.export.export(Sum(), (torch.ones(2), 3))
    module = tc.compile(exported, log=False)
    assert module(torch.ones(2), 3).tolist() == [3, 3]
    text = refusal(lambda: module(torch.ones(2), 4), tc.ShapeError)
    assert (
        text
        == "the model takes arguments of the structure (*, 3), not (*, 4): an exported program has one structure"
    )


def test_arguments_of_complex_numbers_have_their_type():
    module = compiled(nn.Identity(), torch.zeros(2, 3, dtype=torch.complex64))
    for given, kind in (
        (torch.zeros(2, 3), "float32"),
        (torch.zeros(2, 3, dtype=torch.complex128), "complex128"),
        (1.0, "float"),
    ):
        with pytest.raises(
            tc.ShapeError,
            match=f"^input 'input' has complex numbers of type complex64; {kind} is given: convert it to that type$",
        ):
            module(given)


LINEAR = nn.Linear(8, 3)


@pytest.mark.parametrize("size", (2.5, -3, True))
def test_sizes_that_are_none(size):
    text = refusal(
        lambda: tc.compile(LINEAR, inputs=(torch.ones(2, 8),), shapes={"input": (size, 8)}),
        tc.ShapeError,
    )
    assert (
        text
        == f"shapes: 'input' has the size {size!r} on axis 0; give a number, a name of an open size, or None for one without a name"
    )


@pytest.mark.parametrize("size", (None, -1))
def test_sizes_without_a_name_stay_open(size):
    given = {"inputs": (torch.ones(2, 8),), "shapes": {"input": (size, 8)}, "log": False}
    for model in (LINEAR, torch.jit.trace(LINEAR, (torch.ones(2, 8),))):
        compiled = tc.compile(model, **given)
        assert compiled.inputs[0].shape == ("input_0", 8)
        for batch in (1, 5):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(compiled(x), LINEAR(x).detach(), rtol=1e-5, atol=1e-5)
    ranged = tc.compile(
        LINEAR, inputs=given["inputs"], shapes={"input": (size, 8), "input_0": (1, 4)}, log=False
    )
    with pytest.raises(tc.ShapeError):
        ranged(torch.ones(5, 8))


def test_a_size_of_an_exported_program_is_what_it_is():
    exported = torch.export.export(LINEAR, (torch.ones(2, 8),), strict=False)
    text = refusal(lambda: tc.compile(exported, shapes={"input": (None, 8)}), tc.ShapeError)
    assert text == (
        "shapes: axis 0 of 'input' is 2 in the model, whatever it is given: export it with "
        "dynamic_shapes={'input': {0: torch.export.Dim.DYNAMIC}}"
    )


KNOWN = (
    "target, threads, tolerance, seed, tune, trials, time_limit, log, tracker, credentials, insecure, builders, progress, build_threads, max_ram, "
    "specialise, quantised, rounding"
)


@pytest.mark.parametrize(
    "options, expected",
    [
        (
            {"treads": 2},
            "torch.compile(options={'treads': …}): backend=\"tc\" has no such option; threads is one; it takes "
            + KNOWN,
        ),
        (
            {"shapes": {}},
            "torch.compile(options={'shapes': …}): backend=\"tc\" has no such option; it takes "
            + KNOWN,
        ),
        ({"target": "vax"}, "unknown target 'vax'"),
        ({"threads": 0}, "threads is 0; give a whole number from 1 to 1024, or None for all cores"),
        (
            {"target": "rv64gcv"},
            "does not run on this machine, and graphs of torch.compile are run where they are compiled; leave the target out",
        ),
    ],
)
def test_options_of_torch_compile(options, expected):
    """They are no reason for PyTorch to run the graph."""
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised, torch.no_grad():
        torch.compile(LINEAR, backend="tc", options=options)(torch.ones(2, 8))
    assert expected in str(raised.value)


def test_modes_of_torch_compile():
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised, torch.no_grad():
        torch.compile(LINEAR, backend="tc", mode="max-autotune")(torch.ones(2, 8))
    assert (
        "torch.compile(mode='max-autotune') is of PyTorch's own back end; backend=\"tc\" takes options={…}: "
        + KNOWN
        in str(raised.value)
    )


class Nested(nn.Module):
    """What PyTorch's encoder does, otherwise than that does it."""

    def __init__(self, sized: bool, product: bool = False):
        super().__init__()
        self.sized, self.product = sized, product

    def forward(self, x, mask):
        nested = torch._nested_tensor_from_mask(x, mask)
        if self.product:
            return torch.relu(nested).to_padded_tensor(0.0, x.size())
        return nested.to_padded_tensor(0.0, x.size() if self.sized else None)


def test_nested_tensors():
    inputs = torch.ones(2, 3, 4), torch.tensor([[True, True, False], [True, False, False]])

    def said(model, given=inputs):
        return refusal(lambda: tc.compile(torch.jit.script(model), inputs=given, log=False))

    assert (
        "a nested tensor is padded to its longest sequence, which depends on data: give output_size"
        in said(Nested(False))
    )
    assert "aten::relu of nested tensors is not supported" in said(Nested(True, True))
    module = script_of("def forward(self, x: Tensor):\n    return x.to_padded_tensor(0.0, [2, 3])")
    text = refusal(lambda: tc.compile(module, inputs=(torch.ones(2, 3),), log=False))
    assert "tensors that are nested before they reach the model are not supported" in text
    compiled = tc.compile(torch.jit.script(Nested(True)), inputs=inputs, log=False)
    holes = torch.tensor([[True, False, True], [True, True, True]])
    assert torch.equal(compiled(*inputs)[:, :, 0], inputs[1].float())
    # A mask with holes is none that PyTorch's encoder makes nested tensors of: all stays.
    assert torch.equal(compiled(inputs[0], holes), inputs[0])


class Running(nn.Module):
    def forward(self, x):
        return x.cummax(1).values + x.mode(1, True).values + x.logcumsumexp(1)


def test_open_lengths_that_operators_run_along():
    text = refusal(
        lambda: tc.compile(Running(), inputs=(torch.ones(2, 8),), shapes={"x": (None, "length")})
    )
    for operator in ("aten.cummax.default", "aten.mode.default", "aten.logcumsumexp.default"):
        assert operator in text
    assert (
        text.count("the length of its axis is not known while compiling; bind it with shapes=") == 3
    )
    compiled = tc.compile(Running(), inputs=(torch.ones(2, 8),), shapes={"x": (None, 8)}, log=False)
    x = torch.randn(5, 8)
    torch.testing.assert_close(compiled(x), Running()(x), rtol=1e-5, atol=1e-5)
