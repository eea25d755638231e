"""ImageDecoder on the host, beside compiled code; against the pixels that an image was made of."""

import io
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc
from tc import host_operators
from tc.strings import HostNode

Image = pytest.importorskip("PIL.Image", reason="Pillow, which decodes images, is not installed")

PIXELS = np.random.default_rng(2).integers(0, 256, (5, 7, 3), np.uint8)
GREY = PIXELS[:, :, :1]


def encoded(pixels, form, **options):
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, form, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def model(pixel_format=None, behind=(), output=TensorProto.UINT8):
    """The decoder, and the nodes behind it, which go from `image` to `y`."""
    attributes = {} if pixel_format is None else {"pixel_format": pixel_format}
    nodes = [
        helper.make_node(
            "ImageDecoder", ["file"], ["image" if behind else "y"], "decode", **attributes
        ),
        *behind,
    ]
    constants = [numpy_helper.from_array(np.array(255, np.float32), "whole")]
    graph = helper.make_graph(
        nodes,
        "picture",
        [helper.make_tensor_value_info("file", TensorProto.UINT8, ["bytes"])],
        [helper.make_tensor_value_info("y", output, None)],
        constants,
    )
    return helper.make_model(
        graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)]
    ).SerializeToString()


def decoded(file, pixel_format=None):
    return tc.compile(model(pixel_format), log=False).run({"file": file})["y"]


@pytest.mark.parametrize(
    "form, options",
    [
        ("PNG", {}),
        ("BMP", {}),
        ("TIFF", {}),
        ("PPM", {}),
        ("WEBP", {"lossless": True}),
        ("JPEG2000", {"irreversible": False}),
    ],
)
def test_formats_without_loss(form, options):
    np.testing.assert_array_equal(decoded(encoded(PIXELS, form, **options)), PIXELS)


def test_jpeg():
    smooth = np.broadcast_to(np.linspace(0, 255, 32, dtype=np.uint8)[:, None, None], (32, 48, 3))
    found = decoded(encoded(smooth, "JPEG", quality=95))
    assert found.shape == smooth.shape and abs(found.astype(int) - smooth).max() <= 4


def test_orders_of_channels():
    file = encoded(PIXELS, "PNG")
    np.testing.assert_array_equal(decoded(file, "RGB"), PIXELS)
    np.testing.assert_array_equal(decoded(file, "BGR"), PIXELS[:, :, ::-1])
    luminance = PIXELS.astype(np.float64) @ (0.299, 0.587, 0.114)  # ITU-R 601
    grey = decoded(file, "Grayscale")
    assert grey.shape == (5, 7, 1) and abs(grey[:, :, 0] - luminance).max() <= 1


def test_grey_files_have_the_channels_that_are_asked_for():
    file = encoded(GREY, "PNG")
    np.testing.assert_array_equal(decoded(file), np.repeat(GREY, 3, 2))
    np.testing.assert_array_equal(decoded(file, "Grayscale"), GREY)


def test_what_is_no_image_gives_an_empty_one():
    for file in (np.arange(64, dtype=np.uint8), encoded(PIXELS, "PNG")[:40], np.zeros(0, np.uint8)):
        assert decoded(file).shape == (0, 0, 3)


def test_a_compiled_part_behind_it():
    behind = [
        helper.make_node("Cast", ["image"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["floats", "whole"], ["y"]),
    ]
    module = tc.compile(model(behind=behind, output=TensorProto.FLOAT), log=False)
    for pixels in (PIXELS, PIXELS[:2]):
        np.testing.assert_allclose(
            module.run({"file": encoded(pixels, "PNG")})["y"], pixels / 255, rtol=1e-6
        )


def test_a_stream_of_two_dimensions():
    node = HostNode("ImageDecoder", "node 'decode'", 20, ("file",), ("y",), {}, None)
    with pytest.raises(tc.ShapeError) as caught:
        host_operators.run(node, {"file": np.zeros((2, 3), np.uint8)})
    assert "takes the bytes of a file as uint8 of shape [length], not uint8 of shape [2, 3]" in str(
        caught.value
    )


def test_an_image_that_is_too_large(monkeypatch):
    monkeypatch.setattr("tc.host_operators.MAX_ELEMENTS", 60)
    with pytest.raises(
        tc.ShapeError, match="is given an image of 7 x 5 pixels; at most 20 are supported"
    ):
        decoded(encoded(PIXELS, "PNG"))


def test_refusals(monkeypatch):
    with pytest.raises(
        tc.UnsupportedError,
        match="attribute 'pixel_format' is 'CMYK'; known are RGB, BGR, Grayscale",
    ):
        decoded(encoded(PIXELS, "PNG"), "CMYK")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(
        tc.UnsupportedError,
        match=r"node 'decode' \(ImageDecoder, opset 20\).* decodes images, which the package Pillow does: pip install pillow",
    ):
        decoded(np.zeros(3, np.uint8))
