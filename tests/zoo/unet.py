"""U-Net (Ronneberger et al. 2015, arXiv:1505.04597), padded, with batch normalisation."""

import torch
from torch import nn

from .layers import conv_norm


def _double(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        conv_norm(inputs, outputs, 3, activation=nn.ReLU()),
        conv_norm(outputs, outputs, 3, activation=nn.ReLU()),
    )


class UNet(nn.Module):
    def __init__(self, channels: int = 3, classes: int = 2):
        super().__init__()
        widths = [64, 128, 256, 512, 1024]
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(_double(a, b) for a, b in zip([channels] + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.mix = nn.ModuleList(_double(2 * w, w) for w in widths[-2::-1])
        self.classify = nn.Conv2d(64, classes, 1)

    def forward(self, x):
        skips = []
        for level in self.down:
            x = level(self.pool(x) if skips else x)
            skips.append(x)
        for up, mix, skip in zip(self.up, self.mix, skips[-2::-1]):
            x = mix(torch.cat([skip, up(x)], 1))
        return self.classify(x)


def unet() -> nn.Module:
    return UNet()
