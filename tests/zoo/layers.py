"""Layers that several networks share."""

import torch
from torch import nn
from torch.nn import functional


class _Lrn(torch.autograd.Function):
    """Local response normalisation that is exported as one ONNX LRN node."""

    @staticmethod
    def forward(ctx, x, size, alpha, beta, bias):
        return functional.local_response_norm(x, size, alpha, beta, bias)

    @staticmethod
    def symbolic(graph, x, size, alpha, beta, bias):
        y = graph.op("LRN", x, size_i=size, alpha_f=alpha, beta_f=beta, bias_f=bias)
        y.setType(x.type())
        return y


class Lrn(nn.Module):
    """Normalises across `size` channels with Caffe's usual constants."""

    def __init__(self, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0):
        super().__init__()
        self.constants = size, alpha, beta, bias

    def forward(self, x):
        return _Lrn.apply(x, *self.constants)


def conv_relu(inputs: int, outputs: int, kernel: int, **options) -> nn.Sequential:
    """A convolution with bias and a ReLU."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, **options), nn.ReLU())


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    activation: nn.Module | None = None,
) -> nn.Sequential:
    """A same-padded convolution without bias, batch normalisation and an optional activation."""
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([activation] if activation else []))
