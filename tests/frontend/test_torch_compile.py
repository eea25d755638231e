"""torch.compile with tc as its back end: results and writes are PyTorch's, and what tc does not
compile is left to PyTorch."""

import warnings

import pytest
import torch
from torch import nn

import tc

from .torch_calls import assert_close


def test_torch_compile():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    fast = torch.compile(module, backend="tc", options={"log": False})
    with torch.no_grad():
        for batch in 2, 3:
            x = torch.randn(batch, 4)
            assert_close(fast(x), module(x))
        module[0].weight.add_(1)  # weights are constants of the graph until they change
        assert_close(fast(x), module(x))
    with pytest.warns(UserWarning, match="gradients are asked for, so PyTorch runs the graph"):
        fast(x).sum().backward()
    assert module[0].weight.grad is not None
    with (
        torch.no_grad(),
        pytest.warns(UserWarning, match="PyTorch runs a graph: .*aten._linalg_eigh"),
    ):
        torch.compile(
            lambda x: torch.linalg.eigvalsh(x @ x.T), backend="tc", options={"log": False}
        )(x)


def view_of_argument(x):
    y = x[1:, 0]
    torch._dynamo.graph_break()
    y.add_(1)
    torch._dynamo.graph_break()
    return x * 2


def views_of_result(x):
    y = x * 2
    row, turned = y[1], y.t()
    torch._dynamo.graph_break()
    row.add_(1)
    torch._dynamo.graph_break()
    return y + 0, turned * 1


def views_without_their_base(x):
    y = x * 2
    row, column = y[1], y[:, 1]
    torch._dynamo.graph_break()
    row.add_(1)
    torch._dynamo.graph_break()
    return row + 0, column * 1


def views_of_other_types(x):
    y = x.view(torch.int32)
    torch._dynamo.graph_break()
    y.add_(1)
    return x * 1


@pytest.mark.parametrize(
    "function, followed",
    [
        (view_of_argument, True),
        (views_of_result, True),
        (views_without_their_base, False),
        (views_of_other_types, False),
    ],
)
def test_writes_between_graphs_are_seen(function, followed):
    torch._dynamo.reset()
    fast = torch.compile(function, backend="tc", options={"log": False})
    x = torch.arange(12.0).reshape(3, 4)
    y = x.clone()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result, expected = fast(x), function(y)
    torch.testing.assert_close((result, x), (expected, y))
    assert (
        any(
            "its results share memory in a way that is not followed" in str(each.message)
            for each in told
        )
        != followed
    )


def test_written_arguments_that_share_memory_are_left_to_pytorch():
    def write(x, y):
        x.add_(1)
        y.mul_(2)
        return x + y

    torch._dynamo.reset()
    fast = torch.compile(write, backend="tc", options={"log": False})
    x, y = torch.arange(6.0), torch.arange(6.0)
    with pytest.warns(
        UserWarning,
        match="PyTorch runs a graph: the model writes into its input .* pass a copy of one of them",
    ):
        result = fast(x[:3], x[1:4])
    torch.testing.assert_close((result, x), (write(y[:3], y[1:4]), y))


def test_autocast_is_refused_and_left_to_pytorch():
    module, x = nn.Linear(4, 4).eval(), torch.randn(2, 4)
    fast = torch.compile(module, backend="tc", options={"log": False})
    exported = torch.export.export(module, (x,))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for model, inputs in ((module, (x,)), (exported, None)):
            with pytest.raises(tc.UnsupportedError) as error:
                tc.compile(model, inputs=inputs, log=False)
            assert str(error.value).endswith(
                " is compiled under torch.autocast, which is not supported: compile it outside, or convert it "
                "with .to(torch.bfloat16)"
            )
        with pytest.warns(UserWarning, match="PyTorch runs a graph: .*torch.autocast"):
            torch.testing.assert_close(fast(x), module(x))
