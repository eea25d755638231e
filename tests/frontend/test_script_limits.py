"""Scripts that ask for much while they are read: lists, strings and numbers that grow are bounded,
and integers are PyTorch's."""

import pytest
import torch
from torch import nn

import tc
from tc.torch import script_limits


class Lists(nn.Module):
    def forward(self, x: torch.Tensor):
        values = [x]
        for _ in range(40):
            values = values + values
        return values[0]


class Texts(nn.Module):
    def forward(self, x: torch.Tensor):
        text = "abcdefgh"
        for _ in range(40):
            text = text + text
        return x + len(text)


class Extended(nn.Module):
    def forward(self, x: torch.Tensor):
        values = [1]
        for _ in range(40):
            values.extend(values)
        return x + len(values)


class Repeated(nn.Module):
    def forward(self, x: torch.Tensor):
        return x + len([1] * (1 << 31))


class Joined(nn.Module):
    def forward(self, x: torch.Tensor):
        words = ["abcdefgh"] * (1 << 16)
        text = "".join(words)
        for _ in range(20):
            text = text.join(words)
        return x + len(text)


class Replaced(nn.Module):
    def forward(self, x: torch.Tensor):
        text = "aa"
        for _ in range(10):
            text = text.replace("a", text)
        return x + len(text)


EXAMPLE = torch.arange(4.0)


@pytest.mark.parametrize("kind", [Lists, Texts, Extended, Repeated, Joined, Replaced])
def test_values_that_grow_are_refused(kind):
    with pytest.raises(
        tc.UnsupportedError,
        match=r"the model makes lists and strings of more than 33554432 elements \(aten::",
    ):
        tc.torch.read(torch.jit.script(kind()), (EXAMPLE,))


class Turning(nn.Module):
    def forward(self, x: torch.Tensor):
        count = 0
        for i in range(100):
            for j in range(100):
                count = (count + i * j) % 7
        return x + count


def test_steps_are_counted(monkeypatch):
    monkeypatch.setattr(script_limits, "_MAX_NODES", 10000)
    with pytest.raises(
        tc.UnsupportedError,
        match="the model takes more than 10000 steps of TorchScript, loops unrolled",
    ):
        tc.torch.read(torch.jit.script(Turning()), (EXAMPLE,))


class Squared(nn.Module):
    def forward(self, x: torch.Tensor):
        a, b, c = 3, 5, 1
        for _ in range(60):
            a, b, c = a * a + 1, b * 31 - a, (c << 5) + 1
        return x + a % 1000, x + b % 1000, x + c % 1000, x * float(7**400)


def test_whole_numbers_have_64_bits():
    """As PyTorch computes them."""
    scripted = torch.jit.script(Squared())
    for actual, expected in zip(
        tc.compile(scripted, inputs=(EXAMPLE,), log=False)(EXAMPLE), scripted(EXAMPLE)
    ):
        torch.testing.assert_close(actual, expected, equal_nan=True)


class Shifted(nn.Module):
    def forward(self, x: torch.Tensor):
        return x + (1 << (x.dim() + 99))


def test_shifts_beyond_a_number_are_refused():
    with pytest.raises(
        tc.UnsupportedError, match="a number is shifted by 100 places, which is not 0 to 63"
    ):
        tc.torch.read(torch.jit.script(Shifted()), (EXAMPLE,))
