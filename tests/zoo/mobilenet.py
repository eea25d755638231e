"""MobileNetV1 (arXiv:1704.04861) and MobileNetV2 (arXiv:1801.04381), width 1."""

from torch import nn

from .layers import conv_norm


def _separable(inputs: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(
        conv_norm(inputs, inputs, 3, stride, groups=inputs, activation=nn.ReLU()),
        conv_norm(inputs, outputs, 1, activation=nn.ReLU()),
    )


def mobilenet_v1() -> nn.Module:
    layers = [conv_norm(3, 32, 3, 2, activation=nn.ReLU())]
    widths = [32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024]
    strides = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1]
    for inputs, outputs, stride in zip(widths, widths[1:], strides):
        layers.append(_separable(inputs, outputs, stride))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


class InvertedResidual(nn.Module):
    """Expands, filters each channel, projects; adds the input where the shapes allow it."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int):
        super().__init__()
        hidden = inputs * expansion
        expand = [conv_norm(inputs, hidden, 1, activation=nn.ReLU6())] if expansion > 1 else []
        self.body = nn.Sequential(
            *expand,
            conv_norm(hidden, hidden, 3, stride, groups=hidden, activation=nn.ReLU6()),
            conv_norm(hidden, outputs, 1),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


def mobilenet_v2() -> nn.Module:
    layers, inputs = [conv_norm(3, 32, 3, 2, activation=nn.ReLU6())], 32
    for expansion, outputs, repeats, stride in [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]:
        for repeat in range(repeats):
            layers.append(InvertedResidual(inputs, outputs, 1 if repeat else stride, expansion))
            inputs = outputs
    return nn.Sequential(
        *layers,
        conv_norm(320, 1280, 1, activation=nn.ReLU6()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(1280, 1000),
    )
