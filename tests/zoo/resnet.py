"""ResNet-50 and ResNet-101 (He et al. 2015, arXiv:1512.03385), stride in the 3x3 layer."""

from torch import nn
from torch.nn import functional

from .layers import conv_norm


class Bottleneck(nn.Module):
    """1x1 down, 3x3, 1x1 up by four, and the shortcut."""

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            conv_norm(inputs, width, 1, activation=nn.ReLU()),
            conv_norm(width, width, 3, stride, activation=nn.ReLU()),
            conv_norm(width, 4 * width, 1),
        )
        projects = stride > 1 or inputs != 4 * width
        self.shortcut = conv_norm(inputs, 4 * width, 1, stride) if projects else nn.Identity()

    def forward(self, x):
        return functional.relu(self.shortcut(x) + self.body(x))


def _resnet(*depths: int) -> nn.Module:
    layers = [conv_norm(3, 64, 7, 2, activation=nn.ReLU()), nn.MaxPool2d(3, 2, padding=1)]
    inputs = 64
    for stage, depth in enumerate(depths):
        for block in range(depth):
            layers.append(Bottleneck(inputs, 64 << stage, 2 if stage and not block else 1))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def resnet50() -> nn.Module:
    return _resnet(3, 4, 6, 3)


def resnet101() -> nn.Module:
    return _resnet(3, 4, 23, 3)
