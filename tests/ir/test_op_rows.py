"""Operator rows and forms that no ONNX node test covers (tests/golden/onnx_rows.txt, written by
onnx_node_test) agree with ONNX Runtime, or with NumPy where that has no such operator; a row that is
listed and has no case here fails."""

import numpy
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc
from tc.arguments import options_of, source_of
from tc.native import compiler

from ..support import ROOT, worst_error

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
TYPES = {numpy.dtype(numpy.float32): FLOAT, numpy.dtype(numpy.int64): INT64, numpy.dtype(bool): BOOL}
RANDOM = numpy.random.default_rng(7)

# Rows of which no graph that runs has a node, and why.
NEVER_RUN = {"Constant": "the importer makes constants of them"}


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(numpy.float32)


class Case:
    """A model of `nodes` (operator, inputs, outputs, attributes; a domain before a dot), its inputs,
    and the expected outputs where ONNX Runtime cannot tell them. `shapes` has names where sizes are
    known at run time only."""

    def __init__(self, opset, nodes, inputs, outputs=("y",), constants=None, expected=None, shapes=None,
                 types=None):
        self.inputs, self.expected, self.opset = inputs, expected, opset
        shapes = shapes or {}
        made = []
        for op, ins, outs, attributes in nodes:
            domain, _, name = op.rpartition(".")
            made.append(helper.make_node(name, ins, outs, domain=domain, **attributes))
        graph = helper.make_graph(
            made, "row",
            [helper.make_tensor_value_info(name, TYPES[array.dtype], shapes.get(name, array.shape))
             for name, array in inputs.items()],
            [helper.make_tensor_value_info(name, (types or {}).get(name, FLOAT), None) for name in outputs],
            [numpy_helper.from_array(numpy.asarray(array), name)
             for name, array in (constants or {}).items()])
        self.model = helper.make_model(
            graph, ir_version=8,
            opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)])


def one(op, opset, inputs, outputs=("y",), constants=None, **attributes):
    """A case of one node that reads all inputs, then all constants."""
    constants = constants or {}
    return Case(opset, [(op, [*inputs, *constants], outputs, attributes)], inputs, outputs, constants)


def cumulative_product():
    x = floats(3, 5)
    case = one("CumProd", 26, {"x": x}, constants={"axis": numpy.int64(1)})
    case.expected = {"y": numpy.cumprod(x, axis=1)}
    return case


def reorder_case():
    """Between two convolutions with blocked channels a transpose needs them plain."""
    return Case(13, [("Conv", ["x", "w"], ["a"], {}), ("Transpose", ["a"], ["b"], {"perm": [0, 1, 3, 2]}),
                     ("Conv", ["b", "w"], ["y"], {})],
                {"x": floats(1, 64, 9, 9)}, constants={"w": floats(64, 64, 3, 3)})


def window_case(name):
    """A window as long as an input whose size is known at run time only."""
    return Case(17, [("Shape", ["x"], ["s"], {}), ("Squeeze", ["s"], ["n"], {}), (name, ["n"], ["y"], {})], {"x": floats(11)}, shapes={"x": ("n",)})


def region_case(op, opset, regions, **attributes):
    inputs = {"x": floats(2, 3, 8, 9), "rois": numpy.array([[0, 0, 7, 6], [1.5, 2, 5, 8], [3, 3, 4, 4]], numpy.float32)}
    batch = numpy.array([0, 1, 1])
    if regions == "with batch":
        inputs["rois"] = numpy.concatenate([batch[:, None].astype(numpy.float32), inputs["rois"]], axis=1)
    else:
        inputs["batch"] = batch
    return one(op, opset, inputs, **attributes)


IMAGE = (1, 2, 3, 4)
LAYER = {"scale": floats(8), "bias": floats(8)}
CASES = {
    "BatchNormalization as BatchNormalization 1": lambda: one(
        "BatchNormalization", 9, {"x": floats(*IMAGE), "scale": floats(2), "bias": floats(2), "mean": floats(2),
                                  "variance": floats(2) ** 2}, epsilon=1e-3),
    "BlackmanWindow": lambda: window_case("BlackmanWindow"),
    "HammingWindow": lambda: window_case("HammingWindow"),
    "HannWindow": lambda: window_case("HannWindow"),
    "Clip as Clip 6": lambda: one("Clip", 10, {"x": floats(4, 5)}, min=-0.5, max=0.25),
    "ConstantOfShape": lambda: Case(
        13, [("Shape", ["x"], ["s"], {}),
             ("ConstantOfShape", ["s"], ["y"],
              {"value": helper.make_tensor("value", FLOAT, [1], [2.5])})],
        {"x": floats(3, 4)}, shapes={"x": ("n", 4)}),
    "CumProd": cumulative_product,
    "CumProd as CumProd 11": cumulative_product,
    "Gelu as com.microsoft::Gelu 1": lambda: one("com.microsoft.Gelu", 13, {"x": floats(4, 5)}),
    "GlobalLpPool": lambda: one("GlobalLpPool", 13, {"x": floats(*IMAGE)}, p=3),
    "GlobalLpPool as GlobalLpPool 2": lambda: one("GlobalLpPool", 13, {"x": floats(*IMAGE)}),
    "GridSample as GridSample 16": lambda: one("GridSample", 16, {"x": floats(*IMAGE), "grid": floats(1, 4, 5, 2)}, mode="bicubic"),
    "MaxRoiPool": lambda: region_case("MaxRoiPool", 13, "with batch", pooled_shape=[2, 3]),
    "MaxRoiPool as MaxRoiPool 1": lambda: region_case("MaxRoiPool", 13, "with batch", pooled_shape=[3, 2], spatial_scale=0.5),
    "RoiAlign as RoiAlign 10": lambda: region_case("RoiAlign", 10, "beside", output_height=2, output_width=3, sampling_ratio=2),
    "Hardmax as Hardmax 1": lambda: one("Hardmax", 11, {"x": floats(3, 2, 4)}, axis=1),
    "LayerNormalization as LayerNormalization 1": lambda: one(
        "LayerNormalization", 13, {"x": floats(3, 8), **LAYER}, axis=-1, epsilon=1e-3),
    "LogSoftmax as LogSoftmax 1": lambda: one("LogSoftmax", 11, {"x": floats(3, 2, 4)}, axis=1),
    "Not": lambda: Case(13, [("Not", ["x"], ["y"], {})], {"x": floats(4, 5) > 0}, types={"y": BOOL}),
    "Pad as Pad 1": lambda: one("Pad", 10, {"x": floats(3, 4)}, pads=[1, 0, 2, 3], value=1.5),
    "RMSNormalization as SimplifiedLayerNormalization 1": lambda: one(
        "SimplifiedLayerNormalization", 13, {"x": floats(3, 8), "scale": LAYER["scale"]}, axis=-1, epsilon=1e-3),
    "Range": lambda: Case(
        13, [("Shape", ["x"], ["s"], {}), ("Squeeze", ["s"], ["n"], {}), ("Range", ["zero", "n", "two"], ["y"], {})],
        {"x": floats(7)}, constants={"zero": numpy.int64(0), "two": numpy.int64(2)}, shapes={"x": ("n",)},
        types={"y": INT64}),
    "Reorder": reorder_case,
    "Resize as Upsample 7": lambda: one("Upsample", 8, {"x": floats(*IMAGE)}, scales=[1.0, 1.0, 2.0, 3.0],
                                        mode="nearest"),
    "Resize as Resize 10": lambda: one("Resize", 10, {"x": floats(*IMAGE)}, mode="nearest",
                                       constants={"scales": numpy.array([1, 1, 2, 3], numpy.float32)}),
    "Shape": lambda: Case(13, [("Shape", ["x"], ["y"], {})], {"x": floats(3, 4)}, shapes={"x": ("n", 4)},
                          types={"y": INT64}),
    "Size": lambda: Case(13, [("Size", ["x"], ["y"], {})], {"x": floats(3, 4)}, shapes={"x": ("n", 4)},
                         types={"y": INT64}),
    "Slice as Slice 1": lambda: one("Slice", 9, {"x": floats(6, 5)}, axes=[0, 1], starts=[1, -3], ends=[5, 1000]),
    "Softmax as Softmax 1": lambda: one("Softmax", 11, {"x": floats(3, 2, 4)}, axis=1),
    "Split as Split 1": lambda: one("Split", 11, {"x": floats(6, 4)}, ("y", "z"), split=[2, 4], axis=0),
    "TopK as TopK 1": lambda: Case(9, [("TopK", ["x"], ["y", "at"], {"k": 3, "axis": 1})], {"x": floats(3, 7)},
                                   ("y", "at"), types={"at": INT64}),
}


def outputs_of(case):
    return tc.compile(case.model.SerializeToString(), log=False).run(case.inputs)


def test_hardmax_gives_the_place_of_the_first_nan():
    x = numpy.array([[1, numpy.nan, 3, numpy.nan], [5, 1, 5, 0]], numpy.float32)
    assert outputs_of(one("Hardmax", 13, {"x": x}))["y"].tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization_of_zeros_is_zeros(p):
    x = numpy.array([[0, 0, 0], [3, 0, -4]], numpy.float32)
    y = outputs_of(one("LpNormalization", 13, {"x": x}, p=p, axis=1))["y"]
    numpy.testing.assert_allclose(y, [[0, 0, 0], x[1] / (7, 5)[p - 1]], rtol=1e-6)


@pytest.mark.parametrize("size", [1, 4, 5, 11, 12, 1001, 2**31 - 1])
def test_local_response_takes_no_longer_for_windows_beyond_the_channels(size):
    x = floats(1, 6, 2, 3)
    y = outputs_of(one("LRN", 13, {"x": x}, size=size, alpha=0.5))["y"]
    sums = numpy.zeros_like(x)
    for channel in range(6):
        first, last = max(0, channel - (size - 1) // 2), min(5, channel + size // 2)
        sums[:, channel] = (x[:, first:last + 1] ** 2).sum(axis=1)
    numpy.testing.assert_allclose(y, x / (1 + 0.5 / size * sums) ** 0.75, rtol=1e-5)


def test_split_with_an_output_that_is_left_out():
    x = floats(6, 4)
    case = Case(13, [("Split", ["x", "parts"], ["a", "", "c"], {"axis": 0}), ("Neg", ["a"], ["y"], {}),
                     ("Neg", ["c"], ["z"], {})], {"x": x}, ("y", "z"), {"parts": numpy.array([1, 2, 3])})
    found = outputs_of(case)
    assert (found["y"] == -x[:1]).all() and (found["z"] == -x[3:]).all()


def uncovered():
    """The lines of the list behind its heading."""
    lines = (ROOT / "tests/golden/onnx_rows.txt").read_text().splitlines()
    return lines[2:]


def forms():
    """{ONNX name, with its domain: {first opsets}} of the table in docs/operators.md."""
    found = {}
    for line in (ROOT / "docs/operators.md").read_text().splitlines():
        cells = line.split(" | ")
        if not line.startswith("| ") or len(cells) < 4 or cells[1] == "-":
            continue
        for form in cells[1].split(", "):
            name, _, since = form.rpartition(" ")
            if since.isdigit():
                found.setdefault(name, set()).add(int(since))
    return found


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            yield from nodes_of(attribute.g)


@pytest.mark.parametrize("line", uncovered())
def test_row(line):
    if line in NEVER_RUN:
        assert line not in CASES
        return
    assert line in CASES, f"'{line}' is covered by no outside vector: add a case"
    case = CASES[line]()
    data = case.model.SerializeToString()
    row, _, form = line.partition(" as ")
    if form:
        name, since = form.rsplit(" ", 1)
        domain, _, plain = name.rpartition("::")
        assert any((node.domain, node.op_type) == (domain, plain) for node in nodes_of(case.model.graph))
        opset = 1 if domain else case.opset
        assert int(since) == max(version for version in forms()[name] if version <= opset)
    module = tc.compile(data)
    if not form:
        graph, _ = compiler.import_model(source_of(data), options_of())
        made = "(reorder)" in module._compiled.plan if line == "Reorder" else f"= {row}(" in graph
        assert made, "no node of the row runs"
    results = module.run(case.inputs)
    expected = case.expected
    if expected is None:
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        expected = dict(zip(results, session.run(list(results), case.inputs)))
    for name, array in results.items():
        assert array.dtype == expected[name].dtype, name
        assert worst_error(array, expected[name]) <= 1e-5, name


def test_no_case_is_left_over():
    assert not set(CASES) - set(uncovered())
    assert not set(NEVER_RUN) - set(uncovered())
