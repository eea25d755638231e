"""Models of torchvision, timm and transformers with seeded weights: a seeded sample compiles and
agrees with PyTorch, all do with --full, and the page (docs/pytorch_models.md) tells of all."""

import copy
import importlib.util
import random

import pytest
import torch

from tests.torch import configurations, families

SHARE, LEAST = 0.95, {"torchvision": 75, "timm": 60, "transformers": 30}
CHOSEN = {"torchvision": 8, "timm": 8, "transformers": 14}
ROWS = families.written()


def sample():
    """Of each family the same models every time, from those that take the least time."""
    chosen = set()
    for family, count in CHOSEN.items():
        rows = sorted(
            (row["seconds"], name)
            for (each, name), row in ROWS.items()
            if each == family and row["verdict"] == "right"
        )
        fast = sorted(name for _, name in rows[: 2 * count])
        chosen.update((family, name) for name in random.Random(25).sample(fast, count))
    return chosen


SAMPLE = sample()
EVERY = [
    (family, name)
    for family in families.FAMILIES
    for name in getattr(configurations, family.upper())
]


@pytest.mark.parametrize(
    "family, name",
    [pytest.param(*each, marks=[] if each in SAMPLE else pytest.mark.full) for each in EVERY],
)
def test_models(family, name):
    if importlib.util.find_spec(family) is None:
        pytest.skip(f"the package {family} is not installed")
    ((_, row),) = (
        families.in_process(family, [name])
        if (family, name) not in SAMPLE
        else [(name, families.measure(family, name))]
    )
    assert row["verdict"] == ROWS[family, name]["verdict"], row["why"]


@pytest.mark.parametrize("family", families.FAMILIES)
def test_page_tells_of_all(family):
    rows = {name: row for (each, name), row in ROWS.items() if each == family}
    assert set(rows) == set(getattr(configurations, family.upper())), (
        "stale: python -m tests.torch.families --write"
    )
    assert len(rows) >= LEAST[family]
    assert not [name for name, row in rows.items() if row["verdict"] == "wrong"]


@pytest.mark.parametrize("family", families.FAMILIES)
def test_share_that_is_right(family):
    rows = {name: row for (each, name), row in ROWS.items() if each == family}
    assert sum(row["verdict"] == "right" for row in rows.values()) >= SHARE * len(rows)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name.startswith("ssdlite") else pytest.mark.full)
        for name in configurations.SPREAD
    ],
)
def test_detectors_are_stable(name):
    """PyTorch finds the same boxes in float64, so that whoever computes well does."""
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("the package torchvision is not installed")
    module, (images,), _ = families.prepared("torchvision", name)
    with torch.no_grad():
        found = module(images)
        exact = copy.deepcopy(module).double()([image.double() for image in images])
    assert len(found[0]["scores"]) >= 10
    assert families.distance(found, exact) <= families.TOLERANCE


def test_wrong_detections_are_told():
    torch.manual_seed(0)
    corners = torch.rand(20, 2) * 50
    found = {
        "boxes": torch.cat([corners, corners + 20], 1),
        "scores": torch.rand(20).sort(descending=True).values,
        "labels": torch.arange(20) % 4 + 1,
    }
    assert families.distance(found, found) == 0.0
    swapped = [1, 0, *range(2, 20)]
    for name in found:
        assert (
            families.distance({**found, name: found[name][swapped]}, found) > families.TOLERANCE
        ), name
    assert families.distance({**found, "labels": found["labels"] * 0}, found) > families.TOLERANCE
    with pytest.raises(AssertionError):
        families.distance({name: value[:-1] for name, value in found.items()}, found)
