"""Numbers of Python beside tensors of every type and rank, for operators that promote types: as
modules that can be traced, scripted and exported, with what PyTorch gives of them."""

import dataclasses
import importlib.util

import torch

TYPES = {
    "truth": torch.bool,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
}
NUMBERS = ("True", "2", "2.5")
# {x} is the tensor, {n} the number, `mask` a tensor of truth values of the tensor's shape.
EXPRESSIONS = (
    "{x} + {n}",
    "{n} + {x}",
    "{x} - {n}",
    "{n} - {x}",
    "{x} * {n}",
    "{n} * {x}",
    "{x} / {n}",
    "{n} / {x}",
    "{x} // {n}",
    "{x} % {n}",
    "{x} ** {n}",
    "{n} ** {x}",
    "-{x} * {n}",
    "torch.where(mask, {x}, {n})",
    "torch.where(mask, {n}, {x})",
    "torch.clamp({x}, min={n})",
    "torch.clamp({x}, max={n})",
    "torch.clamp({x}, {n}, 7)",
    "{x} > {n}",
    "{x} <= {n}",
    "{x} == {n}",
    "{x} != {n}",
    "{x}.masked_fill(mask, {n})",
    "torch.full_like({x}, {n})",
    "{x}.new_full((2,), {n})",
    "torch.full((2,), {n}) + {x}[..., None]",
    "torch.arange(3) * {n} + {x}[..., None]",
    "torch.arange({n}, 9) + {x}[..., None]",
    "torch.fmod({x}, {n})",
    "torch.remainder({n}, {x})",
    "torch.add({x}, {x}, alpha={n})",
    "torch.sub({x}, {x}, alpha={n})",
    "torch.addcmul({x}, {x}, {x}, value={n})",
    "torch.addcdiv({x}, {x}, {x}, value={n})",
    "torch.float_power({x}, {n})",
    "torch.xlogy({x}, {n})",
    "torch.copysign({x}, {n})",
    "torch.true_divide({x}, {n})",
    "torch.div({x}, {n}, rounding_mode='floor')",
    "torch.div({x}, {n}, rounding_mode='trunc')",
    "torch.scalar_tensor({n}) * {x}",
    "torch.tensor({n}) * {x}",
    "torch.maximum({x}, torch.tensor({n}))",
    "{x}.sum() * {n}",
    "torch.lerp({x}, {x} + 1, {n})",
    "torch.bitwise_and({x}, {n})",
    "{x} << {n}",
    "{x}.add({n}).mul({n})",
    "({x} > {n}) * {n}",
    "torch.stack([{x}, {x}]) * {n}",
    "torch.atan2({x}, torch.full((), {n}))",
    "torch.nn.functional.leaky_relu({x} * {n}, 0.25)",
    "torch.nn.functional.threshold({x}, {n}, {n})",
    "torch.nn.functional.hardtanh({x}, -{n}, {n})",
    "torch.sqrt({x}.abs()) * {n}",
)


@dataclasses.dataclass(frozen=True)
class Case:
    expression: str
    kind: str
    rank: int
    number: str

    @property
    def text(self):
        return self.expression.format(x=f"{self.kind}_{self.rank}", n=self.number).replace(
            "mask", f"mask_{self.rank}"
        )


CASES = [
    Case(expression, kind, rank, number)
    for expression in EXPRESSIONS
    for kind in TYPES
    for rank in (0, 1)
    for number in NUMBERS
]


def inputs():
    """{name of a parameter: tensor}: small numbers of each type, as a vector and as a scalar."""
    found = {"mask_0": torch.tensor(True), "mask_1": torch.tensor([True, False, True])}
    for kind, dtype in TYPES.items():
        vector = torch.tensor([1, 3, 6], dtype=torch.float64)
        vector = (
            vector > 2
            if kind == "truth"
            else (vector * 0.75 if dtype.is_floating_point else vector).to(dtype)
        )
        found |= {f"{kind}_0": vector[1], f"{kind}_1": vector}
    return found


def module_of(cases, folder, name):
    """A module that gives the result of each case; its source is a file, as TorchScript wants
    it."""
    arguments = ", ".join(f"{key}: torch.Tensor" for key in inputs())
    body = "".join(f"            {case.text},\n" for case in cases)
    path = folder / f"{name}.py"
    path.write_text(
        "import torch\n\n\nclass Numbers(torch.nn.Module):\n"
        f"    def forward(self, {arguments}):\n        return (\n{body}        )\n",
        encoding="utf-8",
    )
    spec = importlib.util.spec_from_file_location(name, path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made.Numbers().eval()


def expected(module):
    with torch.no_grad():
        return module(*inputs().values())


def evaluated(case):
    """What PyTorch gives of a case, or None where it raises."""
    try:
        return eval(case.text, {"torch": torch, **inputs()})  # noqa: S307 - a text of this file
    except Exception:  # noqa: BLE001 - whatever PyTorch raises
        return None
