"""The same model and options give the same bytes, whatever is around the compiler.

Every artefact is made twice, in two processes that differ in all that must not matter: the folder,
the file's name, the time, the build threads, the language (one with a decimal comma), the order of
Python's sets, the time zone, the current and the temporary folder.
"""

import json
import os
import shutil
import subprocess
import sys
import time

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import ROOT, models_folder

TARGETS = ["x86-64-v3", "x86-64-v4", "rv64gcv", "rv64gc"]
ARTEFACTS = ["artefact.so", "artefact.a", "artefact.h", "artefact.o", "artefact", "explained.txt"]


def model_of_every_class():
    """Convolutions, depthwise, pooling, products, softmax, layer norm, GRU, If: many kernels, a
    symbol."""
    random = numpy.random.default_rng(1)
    constants = {}

    def constant(name, *shape):
        constants[name] = numpy_helper.from_array(
            (random.standard_normal(shape) / 7).astype(numpy.float32), name
        )
        return name

    nodes = [
        helper.make_node(
            "Conv",
            ["image", constant("k1", 20, 3, 5, 5), constant("b1", 20)],
            ["c1"],
            strides=[2, 2],
            pads=[2, 2, 2, 2],
        ),
        helper.make_node("HardSwish", ["c1"], ["h1"]),
        helper.make_node(
            "Conv", ["h1", constant("k2", 20, 1, 3, 3)], ["c2"], group=20, pads=[1, 1, 1, 1]
        ),
        helper.make_node("Conv", ["c2", constant("k3", 24, 20, 1, 1)], ["c3"]),
        helper.make_node("Sigmoid", ["c3"], ["s3"]),
        helper.make_node("MaxPool", ["s3"], ["p"], kernel_shape=[3, 3], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["g"]),
        helper.make_node("Flatten", ["g"], ["flat"]),
        helper.make_node("Gemm", ["flat", constant("k4", 24, 16), constant("b4", 16)], ["row"]),
        helper.make_node(
            "GRU",
            ["frames", constant("w", 1, 48, 16), constant("r", 1, 48, 16), constant("gb", 1, 96)],
            ["y4", "last"],
            hidden_size=16,
        ),
        helper.make_node("Squeeze", ["y4", "axis1"], ["y3"]),
        helper.make_node("Add", ["y3", "row"], ["sum"]),
        helper.make_node(
            "LayerNormalization",
            ["sum", constant("scale", 16), constant("shift", 16)],
            ["norm"],
            axis=-1,
            epsilon=1e-5,
        ),
        helper.make_node("Transpose", ["norm"], ["turned"], perm=[1, 0, 2]),
        helper.make_node("MatMul", ["turned", constant("k5", 16, 40)], ["wide"]),
        helper.make_node("Gelu", ["wide"], ["gelu"]),
        helper.make_node("Softmax", ["gelu"], ["soft"], axis=-1),
        helper.make_node("ReduceMax", ["soft"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "half"], ["sure"]),
    ]
    branches = {}
    for name, op in (("then_branch", "Exp"), ("else_branch", "Tanh")):
        branches[name] = helper.make_graph(
            [helper.make_node(op, ["soft"], [name + "_out"])],
            name,
            [],
            [helper.make_tensor_value_info(name + "_out", TensorProto.FLOAT, None)],
        )
    nodes.append(helper.make_node("If", ["sure"], ["out"], **branches))
    initializers = list(constants.values())
    initializers.append(numpy_helper.from_array(numpy.array([1], numpy.int64), "axis1"))
    initializers.append(numpy_helper.from_array(numpy.array(0.5, numpy.float32), "half"))
    graph = helper.make_graph(
        nodes,
        "every_class",
        [
            helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, 21, 33)),
            helper.make_tensor_value_info("frames", TensorProto.FLOAT, ("count", 1, 16)),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.fixture(scope="module")
def comma(tmp_path_factory):
    """A folder with a locale whose decimal point is a comma; none need be installed."""
    folder = tmp_path_factory.mktemp("locales")
    source = folder / "source"
    source.write_text(
        'LC_NUMERIC\ndecimal_point "<U002C>"\nthousands_sep "<U002E>"\ngrouping 3;3\nEND LC_NUMERIC\n'
    )
    subprocess.run(["localedef", "-c", "-i", source, folder / "comma"], capture_output=True)
    assert (folder / "comma" / "LC_NUMERIC").exists(), "localedef made no locale"
    return folder


def make(model, target, build_threads, folder, shapes, decimal_point, **environment):
    folder.mkdir(parents=True)
    (folder / "temporary").mkdir()
    base = {
        key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "TZ"))
    }
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tests/frontend/determinism_worker.py"),
            str(model),
            target,
            str(build_threads),
            str(folder),
            json.dumps(shapes),
        ],
        env={**base, "PYTHONPATH": path, "TMPDIR": str(folder / "temporary"), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == decimal_point
    return {name: (folder / name).read_bytes() for name in ARTEFACTS}


def expect_same_bytes(source, target, folder, comma, shapes):
    one, other = folder / "model.onnx", folder / "another folder" / "Übung 2 (copy).onnx"
    other.parent.mkdir()
    shutil.copy(source, one)
    shutil.copy(source, other)
    begin = time.time()
    first = make(
        one, target, 1, folder / "a", shapes, ".", PYTHONHASHSEED="0", LC_ALL="C", TZ="UTC"
    )
    time.sleep(max(0.0, begin + 1.1 - time.time()))  # archives and files count seconds
    second = make(
        other,
        target,
        2,
        folder / "another folder" / "out" / "b",
        shapes,
        ",",
        PYTHONHASHSEED="4242",
        LC_ALL="comma",
        LOCPATH=str(comma),
        TZ="Asia/Tokyo",
    )
    for name in ARTEFACTS:
        assert len(first[name]) > 100, name
        assert first[name] == second[name], f"{name} for {target} differs"
    return first


@pytest.mark.parametrize("target", TARGETS)
def test_same_bytes(target, tmp_path, comma):
    source = tmp_path / "source.onnx"
    source.write_bytes(model_of_every_class().SerializeToString())
    made = expect_same_bytes(source, target, tmp_path, comma, {})
    # The comparison means something: another model gives other bytes.
    changed = onnx.load(source)
    changed.graph.initializer[0].raw_data = bytes(4) + changed.graph.initializer[0].raw_data[4:]
    module = tc.compile(changed, target, threads=2)
    (tmp_path / "changed").mkdir()
    module.export(str(tmp_path / "changed" / "artefact.so"))
    assert (tmp_path / "changed" / "artefact.so").read_bytes() != made["artefact.so"]


@pytest.mark.parametrize("target", ["x86-64-v4", "rv64gcv"])
@pytest.mark.parametrize(
    "name",
    [
        "mnist-8/model.onnx",
        "hand_gesture/point_history_classifier_lstm.onnx",
        pytest.param("ppocr/cls-model.onnx", marks=pytest.mark.full),
        pytest.param("yunet/yunet_n_320_320.onnx", marks=pytest.mark.full),
    ],
)
def test_same_bytes_of_real_models(name, target, tmp_path, comma):
    source = models_folder() / name
    with numpy.load(source.with_name(source.stem + ".ref_ort_seed0.npz")) as file:
        shapes = {key[len("in__") :]: file[key].shape for key in file if key.startswith("in__")}
    expect_same_bytes(source, target, tmp_path, comma, shapes)


def test_same_bytes_from_path_bytes_and_model(tmp_path):
    """However the model is handed over, and however often this process compiled before."""
    model = model_of_every_class()
    path = tmp_path / "a.onnx"
    path.write_bytes(model.SerializeToString())
    made = set()
    for number, source in enumerate((str(path), path.read_bytes(), model, str(path))):
        file = tmp_path / str(number) / "model.so"
        file.parent.mkdir()
        tc.compile(source, "x86-64-v3", threads=2, build_threads=1 + number % 2).export(str(file))
        made.add(file.read_bytes())
    assert len(made) == 1
