"""Network in Network for ImageNet (Lin et al. 2013, arXiv:1312.4400), as published for Caffe."""

from torch import nn

from .layers import conv_relu


def _mlpconv(inputs: int, outputs: tuple[int, int, int], kernel: int, **options) -> nn.Module:
    first, second, third = outputs
    return nn.Sequential(
        conv_relu(inputs, first, kernel, **options),
        conv_relu(first, second, 1),
        conv_relu(second, third, 1),
    )


def nin() -> nn.Module:
    halve = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(
        _mlpconv(3, (96, 96, 96), 11, stride=4),
        halve(),
        _mlpconv(96, (256, 256, 256), 5, padding=2),
        halve(),
        _mlpconv(256, (384, 384, 384), 3, padding=1),
        halve(),
        _mlpconv(384, (1024, 1024, 1000), 3, padding=1),
        nn.AvgPool2d(6),
        nn.Flatten(),
        nn.Softmax(1),
    )
