"""The sub-pixel super-resolution network (Shi et al. 2016, arXiv:1609.05158), three times."""

from torch import nn

from .layers import conv_relu


def superres() -> nn.Module:
    return nn.Sequential(
        conv_relu(1, 64, 5, padding=2),
        conv_relu(64, 64, 3, padding=1),
        conv_relu(64, 32, 3, padding=1),
        nn.Conv2d(32, 9, 3, padding=1),
        nn.PixelShuffle(3),
    )
