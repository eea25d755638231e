"""GoogLeNet without the training-time classifiers (Szegedy et al. 2014, arXiv:1409.4842)."""

import torch
from torch import nn

from .layers import Lrn, conv_relu


class Inception(nn.Module):
    """Four parallel branches joined over the channels; widths as in the paper's table 1."""

    def __init__(self, inputs, one, reduce_three, three, reduce_five, five, pool):
        super().__init__()
        self.one = conv_relu(inputs, one, 1)
        self.three = nn.Sequential(
            conv_relu(inputs, reduce_three, 1), conv_relu(reduce_three, three, 3, padding=1)
        )
        self.five = nn.Sequential(
            conv_relu(inputs, reduce_five, 1), conv_relu(reduce_five, five, 5, padding=2)
        )
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), conv_relu(inputs, pool, 1))

    def forward(self, x):
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)


def googlenet() -> nn.Module:
    halve = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(
        conv_relu(3, 64, 7, stride=2, padding=3),
        halve(),
        Lrn(),
        conv_relu(64, 64, 1),
        conv_relu(64, 192, 3, padding=1),
        Lrn(),
        halve(),
        Inception(192, 64, 96, 128, 16, 32, 32),
        Inception(256, 128, 128, 192, 32, 96, 64),
        halve(),
        Inception(480, 192, 96, 208, 16, 48, 64),
        Inception(512, 160, 112, 224, 24, 64, 64),
        Inception(512, 128, 128, 256, 24, 64, 64),
        Inception(512, 112, 144, 288, 32, 64, 64),
        Inception(528, 256, 160, 320, 32, 128, 128),
        halve(),
        Inception(832, 256, 160, 320, 32, 128, 128),
        Inception(832, 384, 192, 384, 48, 128, 128),
        nn.AvgPool2d(7),
        nn.Flatten(),
        nn.Linear(1024, 1000),
        nn.Softmax(1),
    )
