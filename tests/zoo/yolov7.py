"""YOLOv7-tiny (Wang et al. 2022, arXiv:2207.02696) up to the raw predictions of every cell."""

import torch
from torch import nn
from torch.nn import functional

from .layers import conv_norm


def _conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Module:
    return conv_norm(inputs, outputs, kernel, stride, activation=nn.LeakyReLU(0.1))


class Elan(nn.Module):
    """Two 1x1 branches, one continued by two 3x3 layers; all four maps joined."""

    def __init__(self, inputs: int, width: int, outputs: int):
        super().__init__()
        self.side, self.first = _conv(inputs, width), _conv(inputs, width)
        self.second, self.third = _conv(width, width, 3), _conv(width, width, 3)
        self.join = _conv(4 * width, outputs)

    def forward(self, x):
        first = self.first(x)
        second = self.second(first)
        return self.join(torch.cat([self.third(second), second, first, self.side(x)], 1))


class PyramidPooling(nn.Module):
    """Poolings of 13, 9 and 5 beside the map itself, and a bypass."""

    def __init__(self, inputs: int, width: int):
        super().__init__()
        self.side, self.main = _conv(inputs, width), _conv(inputs, width)
        self.pools = nn.ModuleList(nn.MaxPool2d(k, 1, padding=k // 2) for k in (13, 9, 5))
        self.mix, self.join = _conv(4 * width, width), _conv(2 * width, width)

    def forward(self, x):
        main = self.main(x)
        pooled = self.mix(torch.cat([*(pool(main) for pool in self.pools), main], 1))
        return self.join(torch.cat([pooled, self.side(x)], 1))


class YoloV7Tiny(nn.Module):
    def __init__(self, classes: int = 80, anchors: int = 3):
        super().__init__()
        self.second = nn.Sequential(_conv(3, 32, 3, 2), _conv(32, 64, 3, 2), Elan(64, 32, 64))
        self.third, self.fourth = Elan(64, 64, 128), Elan(128, 128, 256)
        self.fifth = nn.Sequential(nn.MaxPool2d(2), Elan(256, 256, 512), PyramidPooling(512, 256))
        self.pool = nn.MaxPool2d(2)
        self.up4, self.side4, self.top4 = _conv(256, 128), _conv(256, 128), Elan(256, 64, 128)
        self.up3, self.side3, self.top3 = _conv(128, 64), _conv(128, 64), Elan(128, 32, 64)
        self.down4, self.bottom4 = _conv(64, 128, 3, 2), Elan(256, 64, 128)
        self.down5, self.bottom5 = _conv(128, 256, 3, 2), Elan(512, 128, 256)
        self.predict = nn.ModuleList(
            nn.Sequential(
                _conv(width, 2 * width, 3), nn.Conv2d(2 * width, anchors * (classes + 5), 1)
            )
            for width in (64, 128, 256)
        )
        self.anchors = anchors

    def forward(self, x):
        third = self.third(self.pool(self.second(x)))
        fourth = self.fourth(self.pool(third))
        fifth = self.fifth(fourth)
        up = lambda y: functional.interpolate(y, scale_factor=2.0, mode="nearest")
        middle = self.top4(torch.cat([self.side4(fourth), up(self.up4(fifth))], 1))
        out3 = self.top3(torch.cat([self.side3(third), up(self.up3(middle))], 1))
        out4 = self.bottom4(torch.cat([self.down4(out3), middle], 1))
        out5 = self.bottom5(torch.cat([self.down5(out4), fifth], 1))
        return torch.cat(
            [self._cells(predict(y)) for predict, y in zip(self.predict, (out3, out4, out5))], 1
        )

    def _cells(self, x):
        batch, channels, height, width = x.shape
        x = x.view(batch, self.anchors, channels // self.anchors, height, width)
        return x.permute(0, 1, 3, 4, 2).flatten(1, 3).sigmoid()


def yolov7_tiny() -> nn.Module:
    return YoloV7Tiny()
