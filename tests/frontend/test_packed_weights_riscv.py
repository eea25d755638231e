"""Products by weights in packed formats on RISC-V vectors, under qemu, against float64; and the
instructions that multiply them."""

import numpy
import pytest

import tc
from tests.support import run_under_qemu

from .test_packed_weights import (  # noqa: F401
    FORMATS,
    experts_model,
    gguf,
    matrix,
    product_model,
    worst,
)

CODES = [name for name in FORMATS if FORMATS[name]["block"] > 1]


@pytest.fixture
def random():
    return numpy.random.default_rng(53)


def compared(random, folder, name, target, tolerance, rows, columns, batch, vlen=256):
    """The largest error of a product, relative to its largest result."""
    planes, weights = matrix(random, name, rows, columns)
    x = random.normal(0, 1, (batch, columns)).astype(numpy.float32)
    module = tc.compile(
        product_model(name, rows, columns, [batch], planes),
        target=target,
        tolerance=tolerance,
        threads=1,
        log=False,
    )
    module.export(str(folder / "product"), kind="executable")
    result = run_under_qemu(folder / "product", {"x": x}, folder, vlen=vlen)["y.npy"]
    return worst(result, x.astype(numpy.float64) @ weights.T)


@pytest.mark.parametrize("tolerance, allowed", [(1e-4, 1e-6), (1e-3, 1e-4), (0.2, 3e-2)])
@pytest.mark.parametrize("name", CODES)
def test_products(random, tmp_path, name, tolerance, allowed):
    columns = 2 * FORMATS[name]["block"]
    assert compared(random, tmp_path, name, "rv64gcv_zvl256b", tolerance, 96, columns, 3) <= allowed


@pytest.mark.parametrize(
    "target, vlen", [("rv64gcv", 128), ("rv64gcv", 512), ("rv64gcv_zvl512b", 512)]
)
@pytest.mark.parametrize("name", ["q4_0", "q5_1", "q8_0"])
@pytest.mark.parametrize("rows, batch", [(1, 1), (37, 1), (96, 5)])
def test_vectors_that_are_longer_and_not_full(random, tmp_path, name, target, vlen, rows, batch):
    assert compared(random, tmp_path, name, target, 1e-4, rows, 4 * 32, batch, vlen=vlen) <= 1e-6


def texts_of(random, name, tolerance):
    planes, _ = matrix(random, name, 64, 128)
    model = product_model(name, 64, 128, [1], planes)
    kernels = tc.kernels(model, "rv64gcv_zvl256b", threads=1, tolerance=tolerance)
    return [kernel.schedule().assembly for kernel in kernels]


def test_codes_of_few_bits_are_multiplied_by_digits(random):
    """By bytes in scalar registers, three for each weight at the default tolerance, in sums of 16
    bits; codes are not made floats."""
    for tolerance, digits in ((1e-4, 3), (0.2, 1)):
        texts = texts_of(random, "q4_0", tolerance)
        (text,) = [each for each in texts if "vwmaccsu.vx" in each]
        products = text.count("vwmaccsu.vx")
        assert products > 0 and products % (32 * digits) == 0  # groups of 32
        # Each byte has two codes.
        assert text.count("vand.vi") == text.count("vsrl.vi") == products / (2 * digits)
        assert "vwmaccsu.vv" not in text


def test_codes_of_8_bits_are_floats_where_those_take_fewer_cycles(random):
    """A code is widened to 16 bits and becomes a float by one instruction each."""
    texts = texts_of(random, "q8_0", 1e-4)
    assert not any("vwmacc" in text for text in texts)
    (text,) = [each for each in texts if "vfwcvt.f.x.v" in each]
    assert "vsext.vf4" not in text and "vzext.vf4" not in text
    assert any("vwmacc.vx" in text for text in texts_of(random, "q8_0", 0.2))


@pytest.mark.parametrize("name", ["q4_0", "q8_0", "q4_k"])
def test_chosen_matrices(random, tmp_path, name):
    """Four matrices, of which each of three rows has two."""
    columns = max(64, FORMATS[name]["block"])
    model, weights = experts_model(random, name, 4, 48, columns, [3, 2], False)
    x = random.normal(0, 1, (3, 2, columns)).astype(numpy.float32)
    chosen = numpy.array([[0, 3], [2, 2], [1, 0]])
    module = tc.compile(model, target="rv64gcv_zvl256b", threads=1, log=False)
    module.export(str(tmp_path / "experts"), kind="executable")
    inputs = {"x": x, "chosen": chosen}
    result = run_under_qemu(tmp_path / "experts", inputs, tmp_path)["y.npy"]
    reference = numpy.einsum("rck,rcnk->rcn", x.astype(numpy.float64), weights[chosen])
    assert worst(result, reference) <= 1e-6
