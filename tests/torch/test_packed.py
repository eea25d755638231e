"""Packed sequences: recurrent layers of them give PyTorch's results at lengths that the example did
not have."""

import io
import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import tc

LENGTHS = ([2, 5, 3], [1, 1, 4], [3, 3, 3])


class Layer(nn.Module):
    def __init__(self, layer, batch_first: bool = True):
        super().__init__()
        self.layer, self.batch_first = layer, batch_first

    def forward(self, x, lengths):
        packed = pack_padded_sequence(
            x, lengths, batch_first=self.batch_first, enforce_sorted=False
        )
        result, state = self.layer(packed)
        padded, counts = pad_packed_sequence(result, batch_first=self.batch_first)
        return padded, state, counts


class Between(nn.Module):
    """Operators of the rows of a packed sequence, and a padding that is told."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.share = nn.GRU(3, 4), nn.GRU(2, 4), nn.Linear(4, 2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        result, _ = self.first(packed)
        rows = self.drop(torch.tanh(self.share(result.data))) * 0.5
        result, state = self.second(
            PackedSequence(rows, result.batch_sizes, result.sorted_indices, result.unsorted_indices)
        )
        return pad_packed_sequence(result, padding_value=-1.0, total_length=7)[0], state


class Mean(Layer):
    def forward(self, x, lengths):
        result, _ = self.layer(
            pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        )
        return result.data.mean(0)


def layers():
    torch.manual_seed(2)
    return {
        "gru": Layer(nn.GRU(3, 4, batch_first=True, bidirectional=True)),
        "lstm": Layer(nn.LSTM(3, 4, 2, bidirectional=True), False),
        "rnn": Layer(nn.RNN(3, 4, batch_first=True, nonlinearity="relu", bias=False)),
        "between": Between(),
    }


def inputs_of(name, lengths):
    x = torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(4))
    return x if name in ("gru", "rnn") else x.transpose(0, 1).contiguous(), torch.tensor(lengths)


def loaded(script):
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file)


CHOSEN = (("gru", "live"), ("lstm", "trace"), ("between", "live"), ("gru", "script"))


@pytest.mark.parametrize(
    "name, road",
    [
        pytest.param(name, road, marks=[] if (name, road) in CHOSEN else pytest.mark.full)
        for name in ("gru", "lstm", "rnn", "between")
        for road in ("live", "trace", "script")
    ],
)
def test_lengths_of_a_run(name, road):
    module, example = layers()[name].eval(), inputs_of(name, LENGTHS[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = (
            module
            if road == "live"
            else loaded(
                torch.jit.script(module)
                if road == "script"
                else torch.jit.trace(module, example, check_trace=False)
            )
        )
    compiled = tc.compile(model, inputs=example, log=False, threads=1)
    for lengths in LENGTHS:
        given = inputs_of(name, lengths)
        with torch.no_grad():
            expected = (module if road == "live" else model)(*given)
        for one, other in zip(
            torch.utils._pytree.tree_leaves(compiled(*given)),
            torch.utils._pytree.tree_leaves(expected),
            strict=True,
        ):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_refusals():
    def said(model):
        with pytest.raises(tc.UnsupportedError) as raised:
            tc.compile(model, inputs=inputs_of("gru", LENGTHS[0]), log=False)
        return str(raised.value)

    mean = Mean(nn.GRU(3, 4, batch_first=True)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(mean)
    for model in (mean, scripted):
        assert "a packed sequence is kept padded, so" in said(model)
        assert "is not known: pad it first (torch.nn.utils.rnn.pad_packed_sequence)" in said(model)
    projected = Layer(nn.LSTM(3, 4, batch_first=True, proj_size=2)).eval()
    assert "an LSTM with a projection does not take packed sequences" in said(projected)
    training = Layer(nn.GRU(3, 4, 2, batch_first=True, dropout=0.5)).train()
    assert (
        "dropout of a module in training mode is random; call .eval() on the module first"
        in said(training)
    )
