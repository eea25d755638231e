"""The table of networks: how to make each, what goes in, and what its authors published."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy

from . import (
    alexnet,
    bert,
    caffenet,
    googlenet,
    mobilenet,
    nin,
    nsnet2,
    resnet,
    squeezenet,
    superres,
    unet,
    yolov6,
    yolov7,
)


@dataclass(frozen=True)
class Network:
    """One network of the zoo.

    `make` gives the module with PyTorch's own weights (of `base`'s settled module, where a base is
    named, so that both share them); `inputs` draws one example, arrays by input name.
    `parameters` and `multiply_adds` are exact for the example's shapes; `published` holds the same
    two as the cited source gives them, and `tolerance` how far that may be rounded.
    `symbolic` names the free dimensions; `large` networks are run only by the full tests.
    """

    make: Callable
    inputs: Callable[[numpy.random.Generator], dict[str, numpy.ndarray]]
    outputs: tuple[str, ...]
    parameters: int
    multiply_adds: int
    published: tuple[float, float]
    tolerance: float = 0.02
    base: str | None = None
    symbolic: dict[str, dict[int, str]] = field(default_factory=dict)
    keep_batch_norm: bool = False
    large: bool = False


def _image(channels: int, height: int, width: int, name: str = "image") -> Callable:
    """Draws a picture with structure at three scales, of about unit deviation."""

    def draw(random):
        picture = numpy.zeros((1, channels, height, width), numpy.float32)
        for block in (32, 6, 1):
            coarse = random.standard_normal((1, channels, -(-height // block), -(-width // block)))
            picture += coarse.repeat(block, 2).repeat(block, 3)[:, :, :height, :width]
        return {name: picture / numpy.float32(3**0.5)}

    return draw


def _spectra(frames: int) -> Callable:
    """Draws log-power spectra, normalised, that change slowly from frame to frame."""

    def draw(random):
        slow = random.standard_normal((1, -(-frames // 8), 161)).repeat(8, 1)[:, :frames]
        return {
            "input": (0.7 * slow + 0.7 * random.standard_normal((1, frames, 161))).astype(
                numpy.float32
            )
        }

    return draw


def _frame(random) -> dict[str, numpy.ndarray]:
    shapes = {"input": 161, "state0": 400, "state1": 400}
    return {
        name: (random.standard_normal((1, size)) * (1 if name == "input" else 0.3)).astype(
            numpy.float32
        )
        for name, size in shapes.items()
    }


def _tokens(vocabulary: int, padding: int, length: int = 128) -> Callable:
    """Draws token ids and a mask; the last tenth or so is padding."""

    def draw(random):
        used = length - int(random.integers(8, 17))
        ids = random.integers(1000, vocabulary, (1, length))
        ids[:, used:] = padding
        return {"input_ids": ids, "attention_mask": (numpy.arange(length)[None] < used) * 1}

    return draw


_CLASSES = ("scores",)
_HIDDEN = ("hidden", "pooled")

# Above each row: where its published numbers, parameters then multiply-adds, come from.
# "tv" is torchvision's table of weights, whose GFLOPS count one multiply-add as one.
NETWORKS: dict[str, Network] = {
    # tv: AlexNet_Weights, 61,100,840 and 0.71 G.
    "alexnet": Network(
        alexnet.alexnet,
        _image(3, 224, 224),
        _CLASSES,
        61_100_840,
        714_188_480,
        (61_100_840, 0.71e9),
    ),
    # Sze et al. 2017, arXiv:1703.09039, table II: 61 M and 724 M for the grouped AlexNet at 227.
    "caffenet": Network(
        caffenet.caffenet, _image(3, 227, 227), _CLASSES, 60_965_224, 724_406_816, (61e6, 724e6)
    ),
    # Caffe's bvlc_googlenet has 7.0 M. The paper's table 1 adds up to 1,502 M, but lists the first
    # layer with 34 M, where 7x7x3x64 weights at 112x112 places make 118 M.
    "googlenet": Network(
        googlenet.googlenet,
        _image(3, 224, 224),
        _CLASSES,
        6_998_552,
        1_582_671_872,
        (7.0e6, 1502e6 - 34e6 + 118e6),
    ),
    # tv: SqueezeNet1_0_Weights, 1,248,424 and 0.82 G.
    "squeezenet1_0": Network(
        squeezenet.squeezenet1_0,
        _image(3, 224, 224),
        _CLASSES,
        1_248_424,
        818_924_576,
        (1_248_424, 0.82e9),
    ),
    # tv: SqueezeNet1_1_Weights, 1,235,496 and 0.35 G.
    "squeezenet1_1": Network(
        squeezenet.squeezenet1_1,
        _image(3, 224, 224),
        _CLASSES,
        1_235_496,
        349_151_936,
        (1_235_496, 0.35e9),
    ),
    # Caffe's model zoo, nin_imagenet: 7.6 M (29 MB); the Netscope analyser: 1.1 G.
    "nin": Network(
        nin.nin, _image(3, 224, 224), _CLASSES, 7_595_176, 1_100_188_800, (7.6e6, 1.1e9)
    ),
    # The paper's table 8: 4.2 M and 569 M.
    "mobilenet_v1": Network(
        mobilenet.mobilenet_v1,
        _image(3, 224, 224),
        _CLASSES,
        4_231_976,
        568_740_352,
        (4.2e6, 569e6),
        keep_batch_norm=True,
    ),
    # tv: MobileNet_V2_Weights, 3,504,872; the paper's table 4: 300 M.
    "mobilenet_v2": Network(
        mobilenet.mobilenet_v2,
        _image(3, 224, 224),
        _CLASSES,
        3_504_872,
        300_774_272,
        (3_504_872, 300e6),
    ),
    # tv: ResNet50_Weights, 25,557,032 and 4.09 G.
    "resnet50": Network(
        resnet.resnet50,
        _image(3, 224, 224),
        _CLASSES,
        25_557_032,
        4_089_184_256,
        (25_557_032, 4.09e9),
        keep_batch_norm=True,
    ),
    # tv: ResNet101_Weights, 44,549,160 and 7.80 G.
    "resnet101": Network(
        resnet.resnet101,
        _image(3, 224, 224),
        _CLASSES,
        44_549_160,
        7_801_405_440,
        (44_549_160, 7.80e9),
        large=True,
    ),
    # The paper's table 1, YOLOv6-N at 640: 4.3 M and 11.1 GFLOPs, two to a multiply-add.
    "yolov6n": Network(
        yolov6.yolov6n,
        _image(3, 640, 640),
        ("boxes_scores",),
        4_317_212,
        5_520_384_000,
        (4.3e6, 11.1e9 / 2),
    ),
    # The authors' summary of yolov7-tiny at 640, batch normalisation folded: 6,219,709 and 13.7
    # GFLOPs. Unfolded, each of the 7,392 normalised channels has one number more.
    "yolov7_tiny": Network(
        yolov7.yolov7_tiny,
        _image(3, 640, 640),
        ("cells",),
        6_227_101,
        6_850_355_200,
        (6_219_709 + 7_392, 13.7e9 / 2),
        keep_batch_norm=True,
        large=True,
    ),
    # milesial/Pytorch-UNet with two classes: 31,037,698. Segmentation papers quote 54.74 G at 256,
    # counted as if each 2x2 up-convolution, 2**29 multiply-adds, applied its whole kernel at every
    # output place: four times too many at four levels.
    "unet": Network(
        unet.unet,
        _image(3, 256, 256),
        ("scores",),
        31_037_698,
        48_171_581_440,
        (31_037_698, 54.74e9 - 4 * 3 * 2**29),
        large=True,
    ),
    # The ONNX model zoo's super-resolution-10: 59,657. The paper's layers, 5-3-3-3 with 64, 64, 32
    # and 9 maps, have 59,488 weights, each used once at 224x224 places.
    "superres": Network(
        superres.superres,
        _image(1, 224, 224),
        ("picture",),
        59_657,
        2_984_869_888,
        (59_657, 59_488 * 224**2),
    ),
    # The DNS challenge's nsnet2-20ms-baseline.onnx: 10,752,263 bytes of float32. Every weight that
    # is not a bias is used once in each frame.
    "nsnet2": Network(
        nsnet2.nsnet2,
        _spectra(100),
        ("gains",),
        2_687_561,
        268_100_000,
        (10_752_263 / 4, 100 * 10_752_263 / 4),
        symbolic={"input": {1: "frames"}, "gains": {1: "frames"}},
    ),
    "nsnet2_step": Network(
        nsnet2.NsNet2Step,
        _frame,
        ("gains", "next_state0", "next_state1"),
        2_687_561,
        2_681_000,
        (10_752_263 / 4, 10_752_263 / 4),
        base="nsnet2",
    ),
    # Devlin et al., arXiv:1810.04805: 110 M. Jiao et al., arXiv:1909.10351, table 1: 109 M and
    # 22.5 GFLOPs at 128 tokens, two to a multiply-add.
    "bert_base": Network(
        bert.bert_base,
        _tokens(30522, 0),
        _HIDDEN,
        109_482_240,
        11_174_215_680,
        (109e6, 22.5e9 / 2),
        large=True,
    ),
    # Jiao et al., table 1, TinyBERT-4: 14.5 M and 1.2 GFLOPs.
    "tinybert": Network(
        bert.tinybert,
        _tokens(30522, 0),
        _HIDDEN,
        14_350_248,
        623_737_920,
        (14.5e6, 1.2e9 / 2),
        tolerance=0.05,
    ),
    # Liu et al., arXiv:1907.11692: 125 M; the encoder is BERT-base's.
    "roberta_base": Network(
        bert.roberta_base,
        _tokens(50265, 1),
        _HIDDEN,
        124_645_632,
        11_174_215_680,
        (125e6, 22.5e9 / 2),
        large=True,
    ),
}
