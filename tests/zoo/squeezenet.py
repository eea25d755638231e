"""SqueezeNet 1.0 and 1.1 (Iandola et al. 2016, arXiv:1602.07360)."""

import torch
from torch import nn

from .layers import conv_relu


class Fire(nn.Module):
    """A 1x1 squeeze, then 1x1 and 3x3 expansions side by side."""

    def __init__(self, inputs: int, squeeze: int, expand: int):
        super().__init__()
        self.squeeze = conv_relu(inputs, squeeze, 1)
        self.one = conv_relu(squeeze, expand, 1)
        self.three = conv_relu(squeeze, expand, 3, padding=1)

    def forward(self, x):
        x = self.squeeze(x)
        return torch.cat([self.one(x), self.three(x)], 1)


def _halve() -> nn.Module:
    return nn.MaxPool2d(3, 2, ceil_mode=True)


def _classifier() -> list[nn.Module]:
    return [conv_relu(512, 1000, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def squeezenet1_0() -> nn.Module:
    return nn.Sequential(
        conv_relu(3, 96, 7, stride=2),
        _halve(),
        Fire(96, 16, 64),
        Fire(128, 16, 64),
        Fire(128, 32, 128),
        _halve(),
        Fire(256, 32, 128),
        Fire(256, 48, 192),
        Fire(384, 48, 192),
        Fire(384, 64, 256),
        _halve(),
        Fire(512, 64, 256),
        *_classifier(),
    )


def squeezenet1_1() -> nn.Module:
    return nn.Sequential(
        conv_relu(3, 64, 3, stride=2),
        _halve(),
        Fire(64, 16, 64),
        Fire(128, 16, 64),
        _halve(),
        Fire(128, 32, 128),
        Fire(256, 32, 128),
        _halve(),
        Fire(256, 48, 192),
        Fire(384, 48, 192),
        Fire(384, 64, 256),
        Fire(512, 64, 256),
        *_classifier(),
    )
