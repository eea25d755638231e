"""YOLOv6-n 2.0 as deployed: re-parameterised blocks, decoupled head (arXiv:2209.02976)."""

import torch
from torch import nn

from .layers import conv_relu


def _rep(inputs: int, outputs: int, stride: int = 1) -> nn.Module:
    """A RepVGG block after its branches were merged: one 3x3 convolution."""
    return conv_relu(inputs, outputs, 3, stride=stride, padding=1)


def _rep_block(inputs: int, outputs: int, repeats: int) -> nn.Module:
    return nn.Sequential(
        _rep(inputs, outputs), *[_rep(outputs, outputs) for _ in range(repeats - 1)]
    )


def _stage(inputs: int, outputs: int, repeats: int) -> nn.Module:
    return nn.Sequential(_rep(inputs, outputs, 2), _rep_block(outputs, outputs, repeats))


class Sppf(nn.Module):
    """Three chained 5x5 poolings, all kept, between two 1x1 convolutions."""

    def __init__(self, channels: int):
        super().__init__()
        self.reduce = conv_relu(channels, channels // 2, 1)
        self.pool = nn.MaxPool2d(5, 1, padding=2)
        self.expand = conv_relu(2 * channels, channels, 1)

    def forward(self, x):
        kept = [self.reduce(x)]
        for _ in range(3):
            kept.append(self.pool(kept[-1]))
        return self.expand(torch.cat(kept, 1))


class Head(nn.Module):
    """Per level: four box numbers and the class scores of every cell."""

    def __init__(self, channels: int, classes: int):
        super().__init__()
        silu = lambda kernel: nn.Sequential(
            nn.Conv2d(channels, channels, kernel, padding=kernel // 2), nn.SiLU()
        )
        self.stem, self.score, self.box = silu(1), silu(3), silu(3)
        self.scores = nn.Conv2d(channels, classes, 1)
        self.boxes = nn.Conv2d(channels, 4, 1)

    def forward(self, x):
        x = self.stem(x)
        boxes, scores = self.boxes(self.box(x)), self.scores(self.score(x)).sigmoid()
        return torch.cat([boxes, scores], 1).flatten(2).transpose(1, 2)


class YoloV6(nn.Module):
    def __init__(self, classes: int = 80):
        super().__init__()
        self.stem = nn.Sequential(_rep(3, 16, 2), _stage(16, 32, 2))
        self.third = _stage(32, 64, 4)
        self.fourth = _stage(64, 128, 6)
        self.fifth = nn.Sequential(_stage(128, 256, 2), Sppf(256))
        self.reduce4, self.up4 = conv_relu(256, 64, 1), nn.ConvTranspose2d(64, 64, 2, 2)
        self.reduce3, self.up3 = conv_relu(64, 32, 1), nn.ConvTranspose2d(32, 32, 2, 2)
        self.top4, self.top3 = _rep_block(192, 64, 4), _rep_block(96, 32, 4)
        self.down4 = conv_relu(32, 32, 3, stride=2, padding=1)
        self.down5 = conv_relu(64, 64, 3, stride=2, padding=1)
        self.bottom4, self.bottom5 = _rep_block(64, 64, 4), _rep_block(128, 128, 4)
        self.heads = nn.ModuleList(Head(channels, classes) for channels in (32, 64, 128))

    def forward(self, x):
        third = self.third(self.stem(x))
        fourth = self.fourth(third)
        side5 = self.reduce4(self.fifth(fourth))
        side4 = self.reduce3(self.top4(torch.cat([self.up4(side5), fourth], 1)))
        out3 = self.top3(torch.cat([self.up3(side4), third], 1))
        out4 = self.bottom4(torch.cat([self.down4(out3), side4], 1))
        out5 = self.bottom5(torch.cat([self.down5(out4), side5], 1))
        return torch.cat([head(x) for head, x in zip(self.heads, (out3, out4, out5))], 1)


def yolov6n() -> nn.Module:
    return YoloV6()
