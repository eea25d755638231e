"""Networks of tests/zoo for small pictures, quantised: their layers, in a time in which an
accelerator can be simulated."""

import io
import warnings
import zlib

import numpy as np
import tc
import torch

from .zoo import googlenet, mobilenet, nin, resnet, squeezenet, superres, unet, weights
from .zoo.models import OPSET


def of_small_pictures(make):
    """What makes the network with its last pooling, whose window is as large as what a large
    picture leaves, replaced by the mean of what a small one leaves."""

    def made():
        module = make()
        (last,) = (at for at, each in enumerate(module) if isinstance(each, torch.nn.AvgPool2d))
        module[last] = torch.nn.AdaptiveAvgPool2d(1)
        return module

    return made


# What makes each, and the input's channels, rows and columns.
NETWORKS = {
    "googlenet": (of_small_pictures(googlenet.googlenet), (3, 64, 64)),
    "mobilenet_v1": (mobilenet.mobilenet_v1, (3, 32, 32)),
    "mobilenet_v2": (mobilenet.mobilenet_v2, (3, 32, 32)),
    "nin": (of_small_pictures(nin.nin), (3, 67, 67)),
    "resnet50": (resnet.resnet50, (3, 32, 32)),
    "squeezenet1_1": (squeezenet.squeezenet1_1, (3, 48, 48)),
    "superres": (superres.superres, (1, 24, 24)),
    "unet": (unet.unet, (3, 32, 32)),
}


def quantised(name, folder, picture=None):
    """The file of the quantised network in the folder, and an input; `picture` are the input's
    channels, rows and columns in the place of those above."""
    make, shape = NETWORKS[name]
    shape = picture or shape
    random = np.random.default_rng(zlib.crc32(name.encode()))
    samples = random.standard_normal((4, 1, *shape)).astype(np.float32)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(zlib.crc32(name.encode()))
        module = make().eval()
        weights.initialise(module)
        weights.settle(module, (torch.from_numpy(samples[:, 0]),))
        file = io.BytesIO()
        torch.onnx.export(
            module.eval(),
            (torch.from_numpy(samples[0]),),
            file,
            dynamo=False,
            opset_version=OPSET,
            input_names=["image"],
            output_names=["scores"],
        )
    path = folder / f"{name}.onnx"
    tc.quantize(file.getvalue(), list(samples), progress=False, sensitivity=False).save(path)
    return path, samples[0]
