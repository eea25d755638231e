"""How the small modules are declared: a function and its inputs, and the reason where it is
refused."""

import dataclasses
from collections.abc import Callable

import torch
from torch import nn


@dataclasses.dataclass
class Case:
    name: str
    function: Callable
    inputs: tuple  # tensors, and structures of them with numbers, strings and None
    refused: str = ""  # a part of the reason
    tolerance: float = 1e-5


class Module(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def scripted(function):
    """A function with self as its first parameter as TorchScript."""
    return torch.jit.script(type("Scripted", (nn.Module,), {"forward": function})())


class Cases(list):
    """The cases of a file, in order."""

    def of(self, *inputs, refused=""):
        """Declares the function below."""

        def add(function):
            self.append(Case(function.__name__, function, inputs, refused))
            return function

        return add

    def each(self, *inputs, refused="", tolerance=1e-5, **functions):
        """Declares functions of the same inputs."""
        self.extend(
            Case(name, function, inputs, refused, tolerance) for name, function in functions.items()
        )


def floats(*shape, dtype=torch.float32):
    """Numbers that differ, of both signs."""
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def whole(*shape, low=-9, high=10, dtype=torch.int64):
    generator = torch.Generator().manual_seed(sum(shape) + high)
    return torch.randint(low, high, shape, generator=generator).to(dtype)


def truths(*shape):
    return floats(*shape) > 0
