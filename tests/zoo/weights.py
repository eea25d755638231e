"""Seeded weights of sensible scale, so that outputs neither vanish nor blow up."""

import torch
from torch import nn

_AFFINE = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)

# What every normalised channel has as mean, in deviations. At 0 half of each ReLU's inputs are
# cut off and a rounding error grows by a fifth from layer to layer, to 1e-4 over forty layers; here
# it grows by a tenth, as in trained networks, and a fifth of the inputs is still cut off.
_MEAN = 0.75


def initialise(module: nn.Module) -> None:
    """Draws all parameters from torch's generator: He's scale for convolutions and dense layers."""
    for layer in module.modules():
        if isinstance(layer, _AFFINE):
            transposed = isinstance(layer, nn.ConvTranspose2d)
            fan_in = layer.weight[:, 0].numel() if transposed else layer.weight[0].numel()
            nn.init.normal_(layer.weight, std=(2 / fan_in) ** 0.5)
            if layer.bias is not None:
                nn.init.normal_(layer.bias, std=0.1)
        elif isinstance(layer, (nn.BatchNorm2d, nn.LayerNorm)):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.bias, _MEAN, 0.2)
        elif isinstance(layer, nn.Embedding):
            nn.init.normal_(layer.weight)
        elif isinstance(layer, nn.GRU):
            for name, parameter in layer.named_parameters(recurse=False):
                fan_in = parameter.shape[-1] if name.startswith("weight") else 100
                nn.init.normal_(parameter, std=fan_in**-0.5)


@torch.no_grad()
def settle(module: nn.Module, batch: tuple[torch.Tensor, ...]) -> None:
    """Fits each layer to what a forward pass on `batch` brings it, in order of execution.

    Batch normalisation takes its statistics from the pass. A convolution or dense layer with a
    bias is scaled to outputs of deviation `layer.deviation` (1 where it has none), and its bias
    replaces each channel's mean: the part common to all inputs would grow from layer to layer and
    hide what differs.
    """
    handles = []
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.train()
            layer.momentum = 1.0
        elif isinstance(layer, _AFFINE) and layer.bias is not None:
            handles.append(layer.register_forward_hook(_standardise))
    module(*batch)
    for handle in handles:
        handle.remove()
    module.eval()


def _standardise(layer, inputs, output):
    dense = isinstance(layer, nn.Linear)
    channels_last = output if dense else output.movedim(1, -1)
    mean = channels_last.flatten(0, -2).mean(0)
    deviation = (channels_last - mean).std() / getattr(layer, "deviation", 1.0)
    offset = _MEAN + 0.2 * torch.randn_like(mean)
    layer.weight /= deviation
    layer.bias.copy_((layer.bias - mean) / deviation + offset)
    settled = (channels_last - mean) / deviation + offset
    return settled if dense else settled.movedim(-1, 1)
