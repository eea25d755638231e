"""Networks that the zoo does not have: what holds for the zoo has to hold for these, too.

Nothing in the compiler was chosen with them in view. They bring grouped convolutions (ResNeXt-50),
sums of many concatenated pieces (DenseNet-121), gates over channels and 5x5 depthwise filters
(EfficientNet-B0), attention over patches (DeiT-tiny), and layer norms over channels between 7x7
depthwise filters (ConvNeXt-tiny). `python -m tests.bench.peers --zoo unseen` compares them.
"""

import functools
import hashlib
from pathlib import Path
from unittest import mock

import torch
from torch import nn
from torch.nn import functional

from tests import zoo
from tests.zoo import models
from tests.zoo.layers import conv_norm
from tests.zoo.networks import Network, _image


class Grouped(nn.Module):
    """ResNeXt's block: a ResNet bottleneck whose 3x3 layer has 32 groups."""

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(
            conv_norm(inputs, width, 1, activation=nn.ReLU()),
            conv_norm(width, width, 3, stride, groups=32, activation=nn.ReLU()),
            conv_norm(width, 2 * width, 1),
        )
        projects = stride > 1 or inputs != 2 * width
        self.shortcut = conv_norm(inputs, 2 * width, 1, stride) if projects else nn.Identity()

    def forward(self, x):
        return functional.relu(self.shortcut(x) + self.body(x))


def resnext50() -> nn.Module:
    """ResNeXt-50 32x4d, arXiv:1611.05431."""
    layers = [conv_norm(3, 64, 7, 2, activation=nn.ReLU()), nn.MaxPool2d(3, 2, padding=1)]
    inputs = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        for block in range(depth):
            layers.append(Grouped(inputs, 128 << stage, 2 if stage and not block else 1))
            inputs = 256 << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


class Dense(nn.Module):
    """DenseNet's layer: its 32 channels are put behind everything that came in."""

    def __init__(self, inputs: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            nn.Conv2d(inputs, 128, 1, bias=False),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.Conv2d(128, 32, 3, padding=1, bias=False),
        )

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def densenet121() -> nn.Module:
    """DenseNet-121, arXiv:1608.06993."""
    layers = [conv_norm(3, 64, 7, 2, activation=nn.ReLU()), nn.MaxPool2d(3, 2, padding=1)]
    channels = 64
    for stage, depth in enumerate((6, 12, 24, 16)):
        if stage:
            layers += [
                nn.BatchNorm2d(channels),
                nn.ReLU(),
                nn.Conv2d(channels, channels // 2, 1, bias=False),
                nn.AvgPool2d(2),
            ]
            channels //= 2
        for _ in range(depth):
            layers.append(Dense(channels))
            channels += 32
    return nn.Sequential(
        *layers,
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 1000),
    )


class Gate(nn.Module):
    """Scales each channel by what two dense layers make of all channels' means."""

    def __init__(self, channels: int, hidden: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, hidden, 1),
            nn.SiLU(),
            nn.Conv2d(hidden, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return x * self.body(x)


class GatedResidual(nn.Module):
    """EfficientNet's block: expand, depthwise, gate, project; plus the input where shapes allow."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        hidden = inputs * expansion
        expand = [conv_norm(inputs, hidden, 1, activation=nn.SiLU())] if expansion > 1 else []
        self.body = nn.Sequential(
            *expand,
            conv_norm(hidden, hidden, kernel, stride, groups=hidden, activation=nn.SiLU()),
            Gate(hidden, inputs // 4),
            conv_norm(hidden, outputs, 1),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


def efficientnet_b0() -> nn.Module:
    """EfficientNet-B0, arXiv:1905.11946."""
    layers, inputs = [conv_norm(3, 32, 3, 2, activation=nn.SiLU())], 32
    for expansion, outputs, repeats, stride, kernel in [
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    ]:
        for repeat in range(repeats):
            layers.append(
                GatedResidual(inputs, outputs, kernel, 1 if repeat else stride, expansion)
            )
            inputs = outputs
    return nn.Sequential(
        *layers,
        conv_norm(320, 1280, 1, activation=nn.SiLU()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(1280, 1000),
    )


class Attention(nn.Module):
    """Every token looks at every other, in heads of 64 numbers."""

    def __init__(self, width: int):
        super().__init__()
        self.heads = width // 64
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.output.deviation = 0.5

    def forward(self, x):
        parts = self.queries_keys_values(x).reshape(1, -1, 3, self.heads, 64).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts[0], parts[1], parts[2]
        weights = (queries @ keys.transpose(-2, -1) * 64**-0.5).softmax(-1)
        return self.output((weights @ values).transpose(1, 2).reshape(1, -1, 64 * self.heads))


class Transformer(nn.Module):
    """Attention and two dense layers, each behind a layer norm and added to what came in."""

    def __init__(self, width: int):
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width, eps=1e-6), Attention(width))
        self.dense = nn.Sequential(
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.dense(x)


class VisionTransformer(nn.Module):
    """Patches of 16x16, a token for the class, learned places."""

    def __init__(self, width: int, depth: int):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 197, width))
        self.blocks = nn.Sequential(
            *[Transformer(width) for _ in range(depth)], nn.LayerNorm(width, eps=1e-6)
        )
        self.head = nn.Linear(width, 1000)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        # One row at a time, so that a settling batch can pass, too.
        rows = [self.blocks(torch.cat([self.token, row], 1) + self.places) for row in x.split(1)]
        return self.head(torch.cat(rows)[:, 0])


def deit_tiny() -> nn.Module:
    """DeiT-tiny without distillation, arXiv:2012.12877."""
    return VisionTransformer(192, 12)


class ChannelNorm(nn.LayerNorm):
    """A layer norm over the channels of each place."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Next(nn.Module):
    """ConvNeXt's block: depthwise 7x7, then dense layers on each place, scaled and added."""

    def __init__(self, width: int):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.dense = nn.Sequential(
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )
        self.scale = nn.Parameter(0.3 + 0.05 * torch.randn(width))

    def forward(self, x):
        y = self.dense(self.depthwise(x).permute(0, 2, 3, 1)) * self.scale
        return x + y.permute(0, 3, 1, 2)


def convnext_tiny() -> nn.Module:
    """ConvNeXt-tiny, arXiv:2201.03545."""
    widths = (96, 192, 384, 768)
    layers = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96, eps=1e-6)]
    for stage, depth in enumerate((3, 3, 9, 3)):
        if stage:
            layers += [
                ChannelNorm(widths[stage - 1], eps=1e-6),
                nn.Conv2d(widths[stage - 1], widths[stage], 2, 2),
            ]
        layers += [Next(widths[stage]) for _ in range(depth)]
    return nn.Sequential(
        *layers,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.LayerNorm(768, eps=1e-6),
        nn.Linear(768, 1000),
    )


def _row(make, parameters: int, multiply_adds: int, published: tuple[float, float]) -> Network:
    return Network(make, _image(3, 224, 224), ("scores",), parameters, multiply_adds, published)


# Published numbers: torchvision's table of weights; DeiT-tiny's: the authors' repository, 5.7 M and
# 1.26 G.
NETWORKS = {
    "resnext50": _row(resnext50, 25_028_904, 4_230_479_872, (25_028_904, 4.23e9)),
    "densenet121": _row(densenet121, 7_978_856, 2_834_161_664, (7_978_856, 2.83e9)),
    "efficientnet_b0": _row(efficientnet_b0, 5_288_548, 385_814_752, (5_288_548, 0.39e9)),
    "deit_tiny": _row(deit_tiny, 5_717_416, 1_253_683_200, (5.7e6, 1.26e9)),
    "convnext_tiny": _row(convnext_tiny, 28_589_128, 4_455_531_264, (28_589_128, 4.46e9)),
}


def known():
    """While it is entered, the functions of the zoo know these networks, too."""
    return mock.patch.dict(zoo.NETWORKS, NETWORKS)


def export(name: str, folder: Path | None = None) -> Path:
    """zoo.export of a network of the zoo or of these, in a folder of its own for each state of this
    file."""
    if name in NETWORKS and folder is None:
        folder = _cache_folder()
    with known():
        return zoo.export(name, folder)


def reference(name: str) -> tuple[dict, dict]:
    """zoo.reference of a network of these."""
    with known():
        return zoo.reference(name, _cache_folder())


def save_module(name: str, file: Path) -> None:
    """The PyTorch module of a network of the zoo or of these, as a peer's process can load it."""
    with known():
        torch.save(zoo.build(name), file)


@functools.cache
def _cache_folder() -> Path:
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    return models.cache_folder() / f"unseen-{digest}"
