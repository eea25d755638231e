"""Non-maximum suppression, alone and in a detector: a run computes how many boxes are kept."""

import numpy as np
import pytest
from onnx import helper

import tc

from .data_sizes import FLOAT, INT64, check, model


def suppression(boxes, classes, limit, overlap, least, batch=2):
    constants = {"limit": np.array([limit]), "overlap": np.array([overlap], np.float32)}
    inputs = ["boxes", "scores", "limit", "overlap"]
    if least is not None:
        constants["least"] = np.array([least], np.float32)
        inputs.append("least")
    return model(
        [helper.make_node("NonMaxSuppression", inputs, ["chosen"])],
        [("boxes", FLOAT, [batch, boxes, 4]), ("scores", FLOAT, [batch, classes, boxes])],
        [("chosen", INT64, [None, 3])],
        constants,
    )


def random_boxes(rng, batch, boxes, classes):
    corners = rng.random((batch, boxes, 2)).astype(np.float32)
    sizes = (0.05 + 0.3 * rng.random((batch, boxes, 2))).astype(np.float32)
    return {
        "boxes": np.concatenate([corners, corners + sizes], 2),
        "scores": rng.random((batch, classes, boxes)).astype(np.float32),
    }


@pytest.mark.parametrize(
    "limit, overlap, least",
    [(3, 0.5, 0.2), (100, 0.3, None), (1000, 0.0, 0.9), (5, 0.7, 2.0), (0, 0.5, 0.1)],
)
def test_suppression(limit, overlap, least):
    data = suppression(60, 3, limit, overlap, least)
    module = tc.compile(data, threads=2)
    rng = np.random.default_rng(7)
    for _ in range(3):
        check(data, random_boxes(rng, 2, 60, 3), module)


def test_suppression_of_any_number_of_boxes():
    data = suppression("boxes", 2, 20, 0.4, 0.3, batch="batch")
    module = tc.compile(data)
    rng = np.random.default_rng(8)
    for batch, boxes in ((1, 1), (3, 10), (1, 500), (2, 33)):
        check(data, random_boxes(rng, batch, boxes, 2), module)


def test_boxes_that_do_not_fit():
    data = model(
        [helper.make_node("NonMaxSuppression", ["boxes", "scores"], ["chosen"], name="nms")],
        [("boxes", FLOAT, [1, 5, 4]), ("scores", FLOAT, [1, 2, 6])],
        [("chosen", INT64, [None, 3])],
    )
    with pytest.raises(tc.ShapeError) as told:
        tc.compile(data)
    assert "boxes of shape [1, 5, 4] and scores of shape [1, 2, 6] do not fit together" in str(
        told.value
    )


def detector():
    """Distances from anchors become boxes; the best of each class are chosen, and their boxes,
    scores and classes given."""
    rng = np.random.default_rng(9)
    anchors = rng.random((120, 2)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["image", "filter"], ["map"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("Reshape", ["map", "rows"], ["channels"]),  # 1, 9, 120
        helper.make_node("Transpose", ["channels"], ["points"], perm=[0, 2, 1]),  # 1, 120, 9
        helper.make_node("Split", ["points", "parts"], ["distances", "logits"], axis=2),
        helper.make_node("Sigmoid", ["distances"], ["small"]),
        helper.make_node("Split", ["small", "halves"], ["before", "after"], axis=2),
        helper.make_node("Sub", ["anchors", "before"], ["least"]),
        helper.make_node("Add", ["anchors", "after"], ["most"]),
        helper.make_node("Concat", ["least", "most"], ["boxes"], axis=2),
        helper.make_node("Sigmoid", ["logits"], ["probabilities"]),
        helper.make_node("Transpose", ["probabilities"], ["scores"], perm=[0, 2, 1]),
        helper.make_node(
            "NonMaxSuppression", ["boxes", "scores", "limit", "overlap", "threshold"], ["chosen"]
        ),
        helper.make_node("Gather", ["chosen", "two"], ["box_number"], axis=1),
        helper.make_node("Gather", ["chosen", "one"], ["class"], axis=1),
        helper.make_node("Squeeze", ["boxes", "zero"], ["all_boxes"]),
        helper.make_node("Gather", ["all_boxes", "box_number"], ["chosen_boxes"], axis=0),
        helper.make_node("GatherND", ["scores", "chosen"], ["chosen_scores"]),
        helper.make_node("Shape", ["chosen_scores"], ["count"]),
        helper.make_node("Concat", ["count", "most_kept"], ["both"], axis=0),
        helper.make_node("ReduceMin", ["both"], ["kept"], keepdims=1),
        helper.make_node("TopK", ["chosen_scores", "kept"], ["best", "order"]),
        helper.make_node("Gather", ["chosen_boxes", "order"], ["best_boxes"], axis=0),
        helper.make_node("Gather", ["class", "order"], ["best_classes"], axis=0),
    ]
    constants = {
        "filter": 0.5 * rng.standard_normal((9, 3, 4, 4)).astype(np.float32),
        "rows": np.array([1, 9, 120]),
        "parts": np.array([4, 5]),
        "halves": np.array([2, 2]),
        "anchors": anchors[None],
        "limit": np.array([30]),
        "overlap": np.array([0.5], np.float32),
        "threshold": np.array([0.6], np.float32),
        "two": np.int64(2),
        "one": np.int64(1),
        "zero": np.array([0]),
        "most_kept": np.array([25]),
    }
    return model(
        nodes,
        [("image", FLOAT, [1, 3, 40, 48])],
        [
            ("best", FLOAT, [None]),
            ("best_boxes", FLOAT, [None, 4]),
            ("best_classes", INT64, [None]),
        ],
        constants,
    )


def test_detector():
    data = detector()
    module = tc.compile(data, threads=2)
    rng = np.random.default_rng(10)
    for scale in (1, 0.5, 0.01, 0):
        check(
            data,
            {"image": (scale * rng.standard_normal((1, 3, 40, 48))).astype(np.float32)},
            module,
        )
