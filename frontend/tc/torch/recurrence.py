"""Computes the shapes of recurrent layers without running their steps. torch.export would run
PyTorch's decomposition step by step on tensors without data, which takes tens of milliseconds per
layer, and again whenever it decomposes the graph."""

import contextlib
import threading

import torch
from torch._C import DispatchKey
from torch._decomp import decomposition_table

_KEYS = DispatchKey.CompositeImplicitAutograd, DispatchKey.Autograd
_lock = threading.RLock()  # the patched operators are global to the process


def _sequence(input, state, layers):
    """`layers` are has_biases, num_layers, dropout, train, bidirectional and batch_first."""
    return input.new_empty((*input.shape[:-1], state.shape[-1] * (2 if layers[4] else 1)))


def _of_one_state(input, hx, params, *layers):
    return _sequence(input, hx, layers), hx.new_empty(hx.shape)


def _of_two_states(input, hx, params, *layers):
    return _sequence(input, hx[0], layers), *(state.new_empty(state.shape) for state in hx)


_SHAPES = {
    torch.ops.aten.gru.input: _of_one_state,
    torch.ops.aten.rnn_tanh.input: _of_one_state,
    torch.ops.aten.rnn_relu.input: _of_one_state,
    torch.ops.aten.lstm.input: _of_two_states,
}


def _in_thread(thread, shapes, kernel):
    """A kernel that computes only shapes, but only in this thread, since other threads may be
    tracing with their own compilers."""

    def call(*args):
        return (shapes if threading.get_ident() == thread else kernel)(*args)

    return call


@contextlib.contextmanager
def shapes_alone():
    """In this context recurrent layers that are traced return tensors of their results' shapes;
    real computations of PyTorch are not affected."""
    with _lock:
        # The places where PyTorch's tracers look: an operator's own kernels, and the table of
        # decompositions.
        places = [
            (operator, operator.py_kernels, key)
            for operator in _SHAPES
            for key in _KEYS
            if key in operator.py_kernels
        ]
        places += [
            (operator, decomposition_table, operator)
            for operator in _SHAPES
            if operator in decomposition_table
        ]
        kernels = [table[key] for _, table, key in places]
        try:
            for (operator, table, key), kernel in zip(places, kernels):
                table[key] = _in_thread(threading.get_ident(), _SHAPES[operator], kernel)
                operator._dispatch_cache.clear()
            yield
        finally:
            for (operator, table, key), kernel in zip(places, kernels):
                table[key] = kernel
                operator._dispatch_cache.clear()
