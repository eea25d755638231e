"""Trees, linear models and preprocessing of ai.onnx.ml agree with ONNX Runtime, or with NumPy where
it has no such kernel."""

import numpy
import pytest
from onnx import TensorProto, helper

import tc

from ..support import worst_error
from .learned_models import FLOAT, NAN, TREE, model_of

onnxruntime = pytest.importorskip("onnxruntime")

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def ours(model, inputs):
    return list(tc.compile(model, threads=1, log=False).run(inputs).values())


def agree(op, inputs, outputs=(TensorProto.FLOAT,), **attributes):
    model = model_of(op, inputs, outputs, **attributes)
    expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(
        None, inputs
    )
    for mine, theirs in zip(ours(model, inputs), expected, strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        if mine.dtype == numpy.int64:
            assert (mine == theirs).all()
        else:
            assert (numpy.isnan(mine) == numpy.isnan(theirs)).all()
            assert worst_error(numpy.nan_to_num(mine), numpy.nan_to_num(theirs)) < 1e-5


def random_trees(random, trees, depth, modes, features, missing):
    """The attributes that say what nodes there are, and (tree, node) of the leaves."""
    nodes = {
        key: []
        for key in (
            "treeids",
            "nodeids",
            "featureids",
            "modes",
            "values",
            "truenodeids",
            "falsenodeids",
            "missing_value_tracks_true",
        )
    }
    leaves = []

    def grow(tree, level, numbers):
        own = numbers.pop()
        leaf = level == depth or (level > 0 and random.random() < 0.2)
        row = dict(
            treeids=tree,
            nodeids=own,
            featureids=0,
            modes="LEAF",
            values=0.0,
            truenodeids=0,
            falsenodeids=0,
            missing_value_tracks_true=0,
        )
        place = {key: len(values) for key, values in nodes.items()}
        for key, value in row.items():
            nodes[key].append(value)
        if leaf:
            leaves.append((tree, own))
            return own
        # Halves, so that samples meet the values exactly.
        row.update(
            featureids=int(random.integers(features)),
            modes=modes[random.integers(len(modes))],
            values=float(random.integers(-3, 4)) / 2,
            missing_value_tracks_true=int(missing and random.random() < 0.5),
        )
        row["truenodeids"], row["falsenodeids"] = (
            grow(tree, level + 1, numbers),
            grow(tree, level + 1, numbers),
        )
        for key, value in row.items():
            nodes[key][place[key]] = value
        return own

    for tree in range(trees):
        grow(tree, 0, list(range(2 ** (depth + 1), -1, -1)))
    if not missing:
        del nodes["missing_value_tracks_true"]
    return {f"nodes_{key}": values for key, values in nodes.items()}, leaves


def samples(random, count, features, missing):
    values = (random.integers(-4, 5, (count, features)) / 2).astype(FLOAT)
    if missing:
        values[random.random(values.shape) < 0.2] = NAN
    return values


def targets(random, leaves, count, name, each=2):
    """Votes of the leaves, each for some of the targets."""
    votes = [
        (tree, node, int(target))
        for tree, node in leaves
        for target in random.permutation(count)[:each]
    ]
    return {
        f"{name}_treeids": [vote[0] for vote in votes],
        f"{name}_nodeids": [vote[1] for vote in votes],
        f"{name}_ids": [vote[2] for vote in votes],
        f"{name}_weights": random.standard_normal(len(votes)).astype(FLOAT).tolist(),
    }


# ONNX Runtime takes one mode for all nodes for granted where the first two agree, and NaN in modes
# other than <=; it is asked for mixed modes without NaN.
@pytest.mark.parametrize(
    "modes, missing",
    [*(((mode,), False) for mode in MODES), (MODES, False), (("BRANCH_LEQ",), True)],
)
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regressors(modes, missing, aggregate):
    random = numpy.random.default_rng(len(modes) + 10 * missing)
    nodes, leaves = random_trees(random, 5, 4, modes, 3, missing)
    agree(
        "TreeEnsembleRegressor",
        {"x": samples(random, 40, 3, missing)},
        n_targets=3,
        aggregate_function=aggregate,
        **nodes,
        **targets(random, leaves, 3, "target", 3 if aggregate in ("MIN", "MAX") else 2),
        base_values=[0.5, -1.0, 2.0],
    )


@pytest.mark.parametrize("missing", [False, True])
def test_trees_that_go_on_below_their_tops(missing):
    """More than 32 leaves: a walk follows the tests that are all made."""
    random = numpy.random.default_rng(8)
    nodes, leaves = random_trees(random, 3, 8, ("BRANCH_LEQ",), 5, missing)
    assert len(leaves) > 3 * 32
    agree(
        "TreeEnsembleRegressor",
        {"x": samples(random, 100, 5, missing)},
        n_targets=2,
        **nodes,
        **targets(random, leaves, 2, "target"),
    )


def test_a_tree_of_one_side():
    """A chain of 40 tests, each with a leaf for its first child, beside a tree of one leaf."""
    depth = 40
    nodes = {
        "nodes_treeids": [0] * (2 * depth + 1) + [1],
        "nodes_nodeids": [*range(2 * depth + 1), 0],
        "nodes_featureids": [0] * (2 * depth + 2),
        "nodes_modes": ["BRANCH_LEQ"] * depth + ["LEAF"] * (depth + 2),
        "nodes_values": [float(i) for i in range(depth)] + [0.0] * (depth + 2),
        "nodes_truenodeids": [depth + i for i in range(depth)] + [0] * (depth + 2),
        "nodes_falsenodeids": [i + 1 for i in range(depth - 1)] + [2 * depth] + [0] * (depth + 2),
    }
    votes = {
        "target_treeids": [0] * (depth + 1) + [1],
        "target_nodeids": [*range(depth, 2 * depth + 1), 0],
        "target_ids": [0] * (depth + 2),
        "target_weights": [float(i) for i in range(depth + 1)] + [100.0],
    }
    x = numpy.arange(-1, 2 * depth).astype(FLOAT)[:, None] / 2 + FLOAT(0.25)
    model = model_of(
        "TreeEnsembleRegressor", {"x": x}, [TensorProto.FLOAT], n_targets=1, **nodes, **votes
    )
    wanted = numpy.clip(numpy.ceil(x[:, 0]), 0, depth) + 100
    assert ours(model, {"x": x})[0].ravel().tolist() == wanted.tolist()


def test_trees_without_tests():
    nodes = {
        "nodes_treeids": [0, 1],
        "nodes_nodeids": [0, 0],
        "nodes_featureids": [0, 0],
        "nodes_modes": ["LEAF", "LEAF"],
        "nodes_values": [0.0, 0.0],
        "nodes_truenodeids": [0, 0],
        "nodes_falsenodeids": [0, 0],
    }
    votes = {
        "target_treeids": [0, 1],
        "target_nodeids": [0, 0],
        "target_ids": [0, 0],
        "target_weights": [1.5, 2.0],
    }
    model = model_of(
        "TreeEnsembleRegressor",
        {"x": numpy.zeros((3, 0), FLOAT)},
        [TensorProto.FLOAT],
        n_targets=1,
        **nodes,
        **votes,
    )
    assert ours(model, {"x": numpy.zeros((3, 0), FLOAT)})[0].ravel().tolist() == [3.5] * 3


def test_nan_takes_the_branch_that_is_told_in_every_mode():
    """Against the meaning as the text has it: a comparison with NaN is false, but for the
    inequality, unless tracked."""
    compare = {
        "BRANCH_LEQ": numpy.less_equal,
        "BRANCH_LT": numpy.less,
        "BRANCH_GTE": numpy.greater_equal,
        "BRANCH_GT": numpy.greater,
        "BRANCH_EQ": numpy.equal,
        "BRANCH_NEQ": numpy.not_equal,
    }
    x = numpy.array([[NAN], [-1], [0.5], [2], [-0.0], [numpy.inf]], FLOAT)
    for mode, function in compare.items():
        for tracked in (0, 1):
            nodes = {
                "nodes_treeids": [0, 0, 0],
                "nodes_nodeids": [0, 1, 2],
                "nodes_featureids": [0, 0, 0],
                "nodes_modes": [mode, "LEAF", "LEAF"],
                "nodes_values": [0.5, 0.0, 0.0],
                "nodes_truenodeids": [1, 0, 0],
                "nodes_falsenodeids": [2, 0, 0],
                "nodes_missing_value_tracks_true": [tracked, 0, 0],
            }
            model = model_of(
                "TreeEnsembleRegressor",
                {"x": x},
                [TensorProto.FLOAT],
                n_targets=1,
                target_treeids=[0, 0],
                target_nodeids=[1, 2],
                target_ids=[0, 0],
                target_weights=[1.0, 2.0],
                **nodes,
            )
            wanted = numpy.where(function(x, 0.5) | (numpy.isnan(x) & (tracked == 1)), 1, 2)
            assert (ours(model, {"x": x})[0] == wanted).all(), (mode, tracked)


# No exporter writes a softmax of one score.
@pytest.mark.parametrize(
    "classes, each, transform",
    [
        *(
            (classes, each, transform)
            for classes, each in ((3, 2), (4, 1))
            for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
        ),
        (2, 1, "NONE"),
        (2, 1, "LOGISTIC"),
    ],
)
def test_classifiers(classes, each, transform):
    random = numpy.random.default_rng(classes)
    nodes, leaves = random_trees(random, 6, 4, ("BRANCH_LEQ",), 3, False)
    votes = targets(random, leaves, classes, "class", each)
    if classes == 2:
        votes["class_ids"] = [0] * len(votes["class_ids"])
    agree(
        "TreeEnsembleClassifier",
        {"x": samples(random, 40, 3, False)},
        (TensorProto.INT64, TensorProto.FLOAT),
        classlabels_int64s=[7, 3, 5, 11][:classes],
        post_transform=transform,
        **nodes,
        **votes,
    )


def test_two_classes_by_probability():
    random = numpy.random.default_rng(5)
    nodes, leaves = random_trees(random, 4, 3, ("BRANCH_LEQ",), 2, False)
    votes = targets(random, leaves, 1, "class", 1)
    votes["class_weights"] = (random.random(len(leaves)) / 4).astype(FLOAT).tolist()
    agree(
        "TreeEnsembleClassifier",
        {"x": samples(random, 60, 2, False)},
        (TensorProto.INT64, TensorProto.FLOAT),
        classlabels_int64s=[0, 1],
        **nodes,
        **votes,
    )


def test_doubles_are_compared_as_doubles():
    x = numpy.array([[0.1], [0.1 + 1e-12], [0.1 - 1e-12]])
    nodes = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "nodes_values_as_tensor": helper.make_tensor("", TensorProto.DOUBLE, [3], [0.1, 0, 0]),
    }
    model = model_of(
        "TreeEnsembleRegressor",
        {"x": x},
        [TensorProto.FLOAT],
        n_targets=1,
        target_treeids=[0, 0],
        target_nodeids=[1, 2],
        target_ids=[0, 0],
        target_weights_as_tensor=helper.make_tensor("", TensorProto.DOUBLE, [2], [1, 2]),
        **nodes,
    )
    assert ours(model, {"x": x})[0].ravel().tolist() == [2, 2, 1]


def test_base_values_of_doubles_count():
    x = numpy.array([[-1], [1]], numpy.float64)
    model = model_of(
        "TreeEnsembleRegressor",
        {"x": x},
        [TensorProto.FLOAT],
        **TREE,
        base_values_as_tensor=helper.make_tensor("", TensorProto.DOUBLE, [1], [0.5]),
    )
    assert ours(model, {"x": x})[0].ravel().tolist() == [1.5, 2.5]


def test_members_of_sets():
    """Two nodes that ask for sets: 6 is the mode BRANCH_MEMBER."""
    x = numpy.array([[1], [2], [3], [4], [5], [NAN]], FLOAT)
    tensor = lambda type, values: helper.make_tensor("", type, [len(values)], values)
    model = model_of(
        "TreeEnsemble",
        {"x": x},
        [TensorProto.FLOAT],
        n_targets=1,
        tree_roots=[0],
        nodes_featureids=[0, 0],
        nodes_splits=tensor(TensorProto.FLOAT, [0, 0]),
        nodes_modes=tensor(TensorProto.UINT8, [6, 6]),
        nodes_truenodeids=[0, 1],
        nodes_falsenodeids=[1, 2],
        nodes_trueleafs=[1, 1],
        nodes_falseleafs=[0, 1],
        leaf_targetids=[0, 0, 0],
        leaf_weights=tensor(TensorProto.FLOAT, [10, 20, 30]),
        membership_values=tensor(TensorProto.FLOAT, [1, 3, 5, NAN, 2, 5, NAN]),
    )
    assert ours(model, {"x": x})[0].ravel().tolist() == [10, 20, 10, 30, 10, 30]


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_linear_models(labels, transform):
    random = numpy.random.default_rng(labels)
    x = random.standard_normal((20, 5)).astype(FLOAT)
    coefficients = random.standard_normal(5 * labels).astype(FLOAT).tolist()
    intercepts = random.standard_normal(labels).astype(FLOAT).tolist()
    agree(
        "LinearClassifier",
        {"x": x},
        (TensorProto.INT64, TensorProto.FLOAT),
        coefficients=coefficients,
        intercepts=intercepts,
        classlabels_ints=[4, 2, 9][:labels],
        post_transform=transform,
    )
    agree(
        "LinearRegressor",
        {"x": x},
        coefficients=coefficients,
        intercepts=intercepts,
        targets=labels,
        post_transform=transform,
    )


KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.25, 1.0, 3.0],
    "RBF": [0.25, 0.0, 0.0],
    "SIGMOID": [0.125, 0.5, 0.0],
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vector_regression(kernel):
    random = numpy.random.default_rng(5)
    x, vectors = (
        random.standard_normal((20, 4)).astype(FLOAT),
        random.standard_normal((6, 4)).astype(FLOAT),
    )
    weights = random.standard_normal(6).astype(FLOAT).tolist()
    given = {
        "kernel_type": kernel,
        "kernel_params": KERNELS[kernel],
        "n_supports": 6,
        "support_vectors": vectors.ravel().tolist(),
        "coefficients": weights,
        "rho": [0.25],
    }
    agree("SVMRegressor", {"x": x}, **given)
    agree("SVMRegressor", {"x": x}, one_class=1, **given)


def test_linear_support_vectors():
    random = numpy.random.default_rng(6)
    x = random.standard_normal((20, 4)).astype(FLOAT)
    weights = random.standard_normal(12).astype(FLOAT).tolist()
    plain = {"kernel_type": "LINEAR", "kernel_params": KERNELS["LINEAR"]}  # ONNX Runtime wants both
    agree("SVMRegressor", {"x": x}, coefficients=weights[:4], rho=[0.5], **plain)
    # With two classes and coefficients of both signs, ONNX Runtime gives the second one where any
    # score is over 0, against the specification.
    for classes, coefficients in ((3, weights), (2, [abs(each) for each in weights[:8]])):
        agree(
            "SVMClassifier",
            {"x": x},
            (TensorProto.INT64, TensorProto.FLOAT),
            coefficients=coefficients,
            rho=[0.5],
            classlabels_ints=[7, 3, 5][:classes],
            **plain,
        )


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize(
    "kernel, transform, probable",
    [
        ("RBF", "NONE", True),
        ("RBF", "NONE", False),
        ("POLY", "LOGISTIC", False),
        ("SIGMOID", "SOFTMAX", False),
        ("LINEAR", "NONE", True),
    ],
)
def test_support_vector_classes(classes, kernel, transform, probable):
    """With probabilities those of pairs are put together by an iteration that ends at different
    rounds for each sample."""
    random = numpy.random.default_rng(classes)
    counts = [2, 3, 1, 2, 4][:classes]
    vectors, pairs = sum(counts), classes * (classes - 1) // 2
    x = random.standard_normal((30, 4)).astype(FLOAT)
    numbers = lambda count: random.standard_normal(count).astype(FLOAT).tolist()
    given = {
        "kernel_type": kernel,
        "kernel_params": KERNELS[kernel],
        "vectors_per_class": counts,
        "support_vectors": numbers(4 * vectors),
        "coefficients": numbers(vectors * (classes - 1)),
        "rho": numbers(pairs),
        "classlabels_ints": [4, 2, 9, 1, 6][:classes],
        "post_transform": transform,
    }
    if transform == "SOFTMAX" and classes == 2:
        given["post_transform"] = (
            "NONE"  # ONNX Runtime gives 1 - s and s, the specification's softmax is of -s and s
        )
    if probable:
        given |= {"prob_a": numbers(pairs), "prob_b": numbers(pairs)}
    agree("SVMClassifier", {"x": x}, (TensorProto.INT64, TensorProto.FLOAT), **given)


@pytest.mark.parametrize(
    "given, x, outputs",
    [
        (
            {"keys_int64s": [3, 1, 7], "values_int64s": [10, 20, 30], "default_int64": -5},
            [[1, 2], [7, 3], [-9, 8]],
            TensorProto.INT64,
        ),
        (
            {
                "keys_int64s": [3, 1, 1 << 40],
                "values_floats": [0.5, 1.5, 2.5],
                "default_float": 9.0,
            },
            [1, 1 << 40, 3, 4],
            TensorProto.FLOAT,
        ),
        (
            {"keys_floats": [0.5, NAN, 2.0], "values_int64s": [1, 2, 3]},
            [0.5, 2.0, NAN, 0.25],
            TensorProto.INT64,
        ),
        (
            {"keys_floats": [0.5, 2.0], "values_floats": [1.0, -2.0]},
            [0.5, 2.0, NAN, 0.25],
            TensorProto.FLOAT,
        ),
    ],
)
def test_labels_of_numbers(given, x, outputs):
    whole = "keys_int64s" in given
    agree(
        "LabelEncoder", {"x": numpy.array(x, numpy.int64 if whole else FLOAT)}, (outputs,), **given
    )


def test_labels_in_tensors():
    tensor = lambda type, values: helper.make_tensor("", type, [len(values)], values)
    model = model_of(
        "LabelEncoder",
        {"x": numpy.array([3, 5, 4])},
        [TensorProto.INT16],
        keys_tensor=tensor(TensorProto.INT64, [3, 4, 3]),
        values_tensor=tensor(TensorProto.INT16, [1, 2, 6]),
        default_tensor=tensor(TensorProto.INT16, [7]),
    )
    # The last of equal keys counts.
    assert ours(model, {"x": numpy.array([3, 5, 4])})[0].tolist() == [6, 7, 2]


def test_preprocessing():
    random = numpy.random.default_rng(3)
    x = random.standard_normal((6, 4)).astype(FLOAT)
    zeros = x * (numpy.arange(6)[:, None] > 1)
    holes = numpy.where(random.random(x.shape) < 0.3, FLOAT(NAN), x)
    whole = random.integers(-2, 3, (6, 4))
    agree("Scaler", {"x": x}, offset=[0.5, -1.0, 2.0, 0.0], scale=[1.0, 2.0, 3.0, 0.5])
    agree("Scaler", {"x": whole}, offset=[0.5], scale=[2.0])
    for norm in ("L1", "L2"):
        agree("Normalizer", {"x": zeros}, norm=norm)
    agree(
        "Imputer", {"x": holes}, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=NAN
    )
    agree(
        "Imputer",
        {"x": whole},
        (TensorProto.INT64,),
        imputed_value_int64s=[9],
        replaced_value_int64=0,
    )
    agree("ArrayFeatureExtractor", {"x": x, "y": numpy.array([2, 0, 3])})
    agree("FeatureVectorizer", {"x": x, "y": whole.astype(FLOAT)}, inputdimensions=[4, 4])
    agree("OneHotEncoder", {"x": whole[:, 0]}, cats_int64s=[-1, 0, 2])
