"""CaffeNet, Caffe's AlexNet with grouped convolutions, pooling before normalisation."""

from torch import nn

from .layers import Lrn, conv_relu


def caffenet() -> nn.Module:
    return nn.Sequential(
        conv_relu(3, 96, 11, stride=4),
        nn.MaxPool2d(3, 2),
        Lrn(),
        conv_relu(96, 256, 5, padding=2, groups=2),
        nn.MaxPool2d(3, 2),
        Lrn(),
        conv_relu(256, 384, 3, padding=1),
        conv_relu(384, 384, 3, padding=1, groups=2),
        conv_relu(384, 256, 3, padding=1, groups=2),
        nn.MaxPool2d(3, 2),
        nn.Flatten(),
        nn.Linear(256 * 6 * 6, 4096),
        nn.ReLU(),
        nn.Linear(4096, 4096),
        nn.ReLU(),
        nn.Linear(4096, 1000),
        nn.Softmax(1),
    )
