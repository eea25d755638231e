"""Packed sequences: the padded batch and its lengths go through the model instead of them.

The number of rows that torch.nn.utils.rnn packs is the sum of the lengths, which depends on data.
ONNX's recurrent operators take a padded batch with lengths, so this is what a PackedSequence holds
here. Recurrent layers on it are operators of tc's own library (tc::lstm …). Where it is padded
again, it is cut at its longest sequence.
"""

import contextlib
from unittest import mock

import torch
from torch.nn import functional as F

from ..errors import UnsupportedError
from .script_numbers import NumberTensor

_LAYERS = ("lstm", "gru", "rnn_tanh", "rnn_relu")
# Functions of single elements, or of rows along the last axis: they compute the same on the padded
# batch as on the packed one.
_BY_ROWS = (
    "linear",
    "relu",
    "tanh",
    "sigmoid",
    "gelu",
    "silu",
    "elu",
    "leaky_relu",
    "dropout",
    "layer_norm",
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "exp",
    "abs",
    "to",
    "float",
    "double",
    "half",
    "clone",
    "detach",
    "contiguous",
    "relu_",
    "tanh_",
    "sigmoid_",
)


def _define():
    library = torch.library.Library("tc", "DEF")
    for name in _LAYERS:
        states = "Tensor, Tensor" if name == "lstm" else "Tensor"
        library.define(
            f"{name}(Tensor input, Tensor lengths, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, bool "
            f"bidirectional) -> (Tensor, {states})"
        )
        torch.library.register_fake(f"tc::{name}", _shapes, lib=library)
    return library


def _shapes(input, lengths, hx, params, *settings):
    width = hx[0].shape[-1] * (2 if settings[-1] else 1)
    return input.new_empty((*input.shape[:-1], width)), *(
        state.new_empty(state.shape) for state in hx
    )


_library = _define()


class PackedRows:
    """The rows of a packed sequence: `padded` [time, batch, features] up to `lengths` [batch]."""

    def __init__(self, padded, lengths):
        self.padded, self.lengths = padded, lengths

    dtype = property(lambda self: self.padded.dtype)
    device = property(lambda self: self.padded.device)

    def dim(self):
        return self.padded.dim() - 1

    def size(self, axis):
        if axis not in (-1, self.dim() - 1):
            raise _refusal("how many rows it has")
        return self.padded.shape[-1]

    def by_rows(self, name, function, args, kwargs=None):
        """Applies a function that works row by row; an error for any other function."""
        args = [each.padded if isinstance(each, PackedRows) else each for each in args]
        # An operand that can be broadcast to rows can be broadcast to a padded batch only if it is
        # a number or a row.
        alone = all(
            not isinstance(each, torch.Tensor)
            or each is self.padded
            or name in ("linear", "layer_norm")
            or each.dim() < 2
            for each in args
        )
        if name not in _BY_ROWS or not alone:
            raise _refusal(f"what {name} makes of its rows")
        return PackedRows(function(*args, **(kwargs or {})), self.lengths)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        given = next(each for each in args if isinstance(each, PackedRows))
        return given.by_rows(getattr(function, "__name__", "a function"), function, args, kwargs)

    def __getattr__(self, name):
        if name not in _BY_ROWS or not hasattr(torch.Tensor, name):
            raise AttributeError(str(_refusal(f"its {name}")))
        return lambda *args, **kwargs: self.by_rows(
            name, getattr(torch.Tensor, name), (self, *args), kwargs
        )

    def __add__(self, other):
        return self.add(other)

    def __sub__(self, other):
        return self.sub(other)

    def __mul__(self, other):
        return self.mul(other)

    def __truediv__(self, other):
        return self.div(other)

    def __neg__(self):
        return self.neg()

    __radd__, __rmul__ = __add__, __mul__


def _refusal(what):
    return UnsupportedError(
        f"a packed sequence is kept padded, so {what} is not known: pad it first (torch.nn.utils.rnn.pad_packed_sequence)"
    )


class BatchSizes:
    """Stands for the number of sequences of a packed batch at each step, of which only the first is
    known."""

    device = torch.device("cpu")

    def __init__(self, batch):
        self.batch = batch

    def __getitem__(self, place):
        if place != 0:
            raise _refusal("how many sequences reach a step")
        return self.batch

    def size(self, axis):
        return Longest()


class Longest:
    """Stands for the length of the longest sequence, which depends on data; comparisons assume that
    a given total length is at least that."""

    def __gt__(self, other):
        return False

    def __lt__(self, other):
        return False


def pack(input, lengths, batch_first=False):
    """aten::_pack_padded_sequence."""
    padded = input.transpose(0, 1) if batch_first else input
    return PackedRows(padded, lengths), BatchSizes(padded.shape[1])


def pad(rows, batch_sizes, batch_first, padding_value, total_length):
    """aten::_pad_packed_sequence: (padded, lengths)."""
    padded, time = rows.padded, rows.padded.shape[0]
    if padding_value or padding_value != padding_value or not isinstance(rows, _Given):
        outside = torch.arange(time)[:, None] >= rows.lengths
        padded = padded.masked_fill(
            outside.reshape(*outside.shape, *[1] * (padded.dim() - 2)), padding_value
        )
    if isinstance(total_length, Longest):
        longest = rows.lengths.max().item()
        torch._check(longest >= 1)
        torch._check(longest <= time)
        padded = padded.narrow(0, 0, longest)
    elif total_length > time:
        padded = F.pad(
            padded, [*[0] * (2 * padded.dim() - 1), total_length - time], value=padding_value
        )
    else:
        padded = padded[:total_length]
    return padded.transpose(0, 1) if batch_first else padded, rows.lengths


class _Given(PackedRows):
    """The result of a recurrent layer, which is zero after each sequence's length."""


def layer(name, rows, batch_sizes, hx, params, *settings):
    """A recurrent layer of a packed sequence: (rows, states…). The settings are has_biases,
    num_layers, dropout, train, bidirectional."""
    has_biases, num_layers, dropout, train, bidirectional = settings
    if dropout and train and num_layers > 1:
        raise UnsupportedError(
            "dropout of a module in training mode is random; call .eval() on the module first"
        )
    states = list(hx) if isinstance(hx, (tuple, list)) else [hx]
    operator = getattr(torch.ops.tc, name)
    result, *finals = operator(
        rows.padded, rows.lengths, states, list(params), has_biases, num_layers, bidirectional
    )
    return _Given(result, rows.lengths), *finals


def _of_packed(name, function):
    def call(input, *args):
        return (
            layer(name, input, *args) if isinstance(input, PackedRows) else function(input, *args)
        )

    return call


@contextlib.contextmanager
def known_packing():
    """In this context torch.nn.utils.rnn and recurrent modules make PackedRows."""
    functions = {
        "_pack_padded_sequence": pack,
        "_pad_packed_sequence": pad,
        **{name: _of_packed(name, getattr(torch._VF, name)) for name in _LAYERS},
    }
    with contextlib.ExitStack() as stack:
        for name, function in functions.items():
            stack.enter_context(mock.patch.object(torch._VF, name, function, create=True))
        yield


# --- in TorchScript -------------------------------------------------------------------------------


def of_script(name, inputs):
    """The result of an operator of TorchScript with such values among its inputs; NotImplemented
    where there are none."""
    if name == "_pack_padded_sequence":
        return pack(*inputs)
    first = inputs[0] if inputs else None
    if isinstance(first, Longest) and name in (
        "NumToTensor",
        "Int",
        "IntImplicit",
        "ScalarImplicit",
    ):
        return first
    if isinstance(first, BatchSizes):
        return _of_batch_sizes(first, name, inputs)
    if isinstance(first, PackedRows):
        if name in ("dim", "size"):
            return getattr(first, name)(*inputs[1:])
        if name == "_pad_packed_sequence":
            return pad(*inputs)
        if name in _LAYERS:
            return layer(name, *inputs)
        return first.by_rows(
            name,
            _function(name),
            [each.value if isinstance(each, NumberTensor) else each for each in inputs],
        )
    if any(isinstance(each, (PackedRows, BatchSizes)) for each in inputs):
        raise _refusal(f"what {name} makes of it")
    return NotImplemented


def _of_batch_sizes(sizes, name, inputs):
    if name in ("select", "__getitem__"):
        return sizes[inputs[-1]]
    if name == "size" and len(inputs) > 1:
        return sizes.size(inputs[1])
    if name == "device":
        return sizes.device
    raise _refusal(f"what {name} makes of how many sequences reach each step")


def _function(name):
    return getattr(torch, name, None) or getattr(F, name, None) or getattr(torch.Tensor, name, None)
