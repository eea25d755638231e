"""Masks and keypoints of all boxes at once are those that torchvision computes box by box."""

import importlib.util

import pytest
import torch

from tc.torch import detectors
from tests.torchvision_package import import_torchvision

HEIGHT, WIDTH = 90, 96


@pytest.fixture(scope="module")
def heads():
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("the package torchvision is not installed")
    import_torchvision()
    from torchvision.models.detection import roi_heads

    return roi_heads


@pytest.fixture(scope="module", params=(0, 1, 30))
def boxes(request):
    torch.manual_seed(request.param)
    starts = torch.rand(request.param, 2) * 80
    found = torch.cat([starts, starts + torch.rand(request.param, 2) * 60], 1)
    found[:, 0::2].clamp_(max=WIDTH)
    found[:, 1::2].clamp_(max=HEIGHT)
    if request.param > 1:
        # The whole image, one place, a line.
        found[:3] = torch.tensor([[0, 0, WIDTH, HEIGHT], [5, 5, 5, 5], [0, 7, WIDTH, 7]])
    return found


def test_masks(heads, boxes):
    masks = torch.rand(len(boxes), 1, 28, 28)
    expected = heads.paste_masks_in_image(masks, boxes, (HEIGHT, WIDTH))
    torch.testing.assert_close(
        detectors._pasted(masks, boxes, (HEIGHT, WIDTH)), expected, rtol=0, atol=2e-5
    )


def test_keypoints(heads, boxes):
    maps = torch.randn(len(boxes), 17, 56, 56)
    places, scores = heads.heatmaps_to_keypoints(maps, boxes)
    found, found_scores = detectors._keypoints(maps, boxes, (HEIGHT, WIDTH))
    torch.testing.assert_close(found, places, rtol=0, atol=1e-4)
    torch.testing.assert_close(found_scores, scores, rtol=0, atol=1e-4)
