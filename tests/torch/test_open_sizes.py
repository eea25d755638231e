"""One artefact of an encoder with open batch and length is right at all of their sizes: one, odd,
prime, whole vectors and tiles, and those around them. How it compares with artefacts of fixed
sizes, `python -m tests.torch.open_sizes` measures."""

import pytest
import torch

import tc
from tests.torch import open_sizes

LENGTHS = (1, 2, 3, 7, 13, 15, 16, 17, 29, 32, 33, 48, 61, 64, 65, 97, 128, 131)


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    module = open_sizes.Encoder().eval()
    sizes = {
        0: torch.export.Dim("batch", min=1, max=16),
        1: torch.export.Dim("length", min=1, max=256),
    }
    exported = torch.export.export(
        module, (torch.randint(0, 1000, (2, 32)),), dynamic_shapes=(sizes,), strict=False
    )
    return module, exported


@pytest.mark.parametrize("target, threads", [("native", 1), ("native", 2), ("x86-64-v3", 1)])
def test_one_artefact_is_right_at_all_sizes(encoder, target, threads):
    module, exported = encoder
    compiled = tc.compile(exported, target, log=False, threads=threads, specialise=0)
    for batch in (1, 2, 3):
        for length in LENGTHS:
            tokens = torch.randint(0, 1000, (batch, length))
            with torch.no_grad():
                expected = module(tokens)
            assert float((compiled(tokens) - expected).abs().max()) <= 1e-5 * float(
                expected.abs().max()
            ), (batch, length)
