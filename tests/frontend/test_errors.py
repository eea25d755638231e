"""Bad input ends in one clear sentence and a tc.Error; the process lives on."""

import os
import resource
import subprocess
import sys

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import models_folder


def small_model(op="Relu", inputs=("x",), shape=(1, 4), **attributes):
    node = helper.make_node(op, list(inputs), ["y"], name="the_node", **attributes)
    graph = helper.make_graph(
        [node],
        "small",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def refusal(kind, call, *words):
    """The text of the error that `call` raises; it is one clean sentence or two."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert "isl_" not in message and "terminate called" not in message
    assert len(message) < 2000
    return message


def test_missing_file():
    refusal(tc.ModelError, lambda: tc.compile("no/such/model.onnx"), "no/such/model.onnx")


def test_empty_file(tmp_path):
    path = tmp_path / "empty.onnx"
    path.write_bytes(b"")
    refusal(tc.ModelError, lambda: tc.compile(str(path)), "empty.onnx", "empty")


def test_not_an_onnx_file(tmp_path):
    path = tmp_path / "text.onnx"
    path.write_text("this is no model " * 50)
    refusal(tc.ModelError, lambda: tc.compile(str(path)), "text.onnx")


def same_but_for_metadata(cut, whole):
    """Whether a file that lost its end still holds the whole graph and its opset."""
    try:
        model = onnx.ModelProto.FromString(cut)
    except Exception:
        return False
    whole = onnx.ModelProto.FromString(whole)
    return (
        model.graph == whole.graph
        and {o.domain: o.version for o in model.opset_import}.get("")
        == {o.domain: o.version for o in whole.opset_import}[""]
    )


# One of few large weights, one with recurrent layers, one with subgraphs inside subgraphs.
@pytest.mark.parametrize(
    "name",
    [
        "ultraface_rfb320/Ultraface.version-RFB-320.onnx",
        "dtln/model_1.onnx",
        "silero_vad/silero_vad.onnx",
    ],
)
def test_truncated(name, request):
    """Cut at every 50,000 bytes, and at every byte of the first and the last 40: one sentence, no
    crash. With --full at every 1,000, and of the first and the last 300."""
    step, ends = (1000, 300) if request.config.getoption("--full") else (50000, 40)
    data = (models_folder() / name).read_bytes()
    whole = len(data)
    assert 1_000_000 < whole < 5_000_000
    sizes = {*range(0, whole, step), *range(ends), *range(whole - ends, whole)}
    reasons, complete = {}, 0
    for size in sorted(sizes):
        if size > whole - ends and same_but_for_metadata(data[:size], data):
            complete += 1
            continue
        message = refusal(tc.ModelError, lambda: tc.compile(data[:size]), "model.onnx")
        assert "\n" not in message and message.count(";") == 1
        reason, advice = message.split("; ")
        assert advice in (
            "an ONNX model is needed",
            "export it again or copy it whole",
            "export it again with opset 1 or later",
        )
        reasons[reason] = reasons.get(reason, 0) + 1
    assert len(reasons) >= 2 and complete + sum(reasons.values()) == len(sizes) and complete < 100


def test_wrong_input_shape_and_dtype():
    module = tc.compile(small_model().SerializeToString())
    refusal(
        tc.ShapeError,
        lambda: module(numpy.zeros((2, 4), numpy.float32)),
        "input 'x'",
        "axis 0 is 2",
        "expects 1",
    )
    refusal(tc.Error, lambda: module(numpy.zeros((1, 4), numpy.float64)), "x", "float64", "float32")


def test_wrong_inputs_by_name():
    module = tc.compile(small_model().SerializeToString())
    refusal(tc.Error, lambda: module.run({"z": numpy.zeros((1, 4), numpy.float32)}), "z", "x")
    refusal(tc.Error, lambda: module())


def test_all_unsupported_operators_at_once():
    graph = helper.make_graph(
        [
            helper.make_node("FancyOne", ["x"], ["a"], name="first"),
            helper.make_node("FancyTwo", ["a"], ["y"], name="second"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1,))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(model.SerializeToString()),
        "FancyOne",
        "first",
        "FancyTwo",
        "second",
    )
    problems = tc.check(model.SerializeToString())
    assert len(problems) == 2


def test_shape_error_names_node_and_sizes():
    model = small_model("MatMul", ("a", "b"), (3, 4))
    refusal(tc.ShapeError, lambda: tc.compile(model.SerializeToString()), "the_node", "4", "3")


def test_unknown_target_lists_the_nearest():
    refusal(
        tc.TargetError,
        lambda: tc.compile(small_model().SerializeToString(), target="rv64gvc"),
        "rv64gvc",
        "rv64gcv",
    )


def external(location, tmp_path):
    tensor = numpy_helper.from_array(numpy.ones((4,), numpy.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "16")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], name="add")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))],
        [tensor],
    )
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    path = folder / "external.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    )
    return path


def test_external_data_inside_the_folder(tmp_path):
    path = external("weights.bin", tmp_path)
    (path.parent / "weights.bin").write_bytes(numpy.full(4, 2, numpy.float32).tobytes())
    result = tc.compile(str(path))(numpy.ones((1, 4), numpy.float32))
    assert numpy.array_equal(result, numpy.full((1, 4), 3, numpy.float32))


@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "/etc/passwd", "a/../../secret.bin", "link.bin", "hard.bin", "missing.bin"],
)
def test_external_data_outside_the_folder(location, tmp_path):
    path = external(location, tmp_path)
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    (path.parent / "a").mkdir(exist_ok=True)
    if location == "link.bin":
        os.symlink(tmp_path / "secret.bin", path.parent / "link.bin")
    if location == "hard.bin":
        os.link(tmp_path / "secret.bin", path.parent / "hard.bin")
    refusal(tc.ModelError, lambda: tc.compile(str(path)), location)


def test_artefact_of_another_instruction_set(tmp_path):
    module = tc.compile(small_model().SerializeToString(), target="rv64gcv")
    refusal(tc.Error, lambda: module(numpy.zeros((1, 4), numpy.float32)), "rv64gcv")
    path = tmp_path / "model.so"
    module.export(str(path), kind="shared")
    refusal(tc.Error, lambda: tc.load(str(path)), "riscv64", "x86-64")
    (tmp_path / "junk.so").write_bytes(b"junk" * 100)
    refusal(tc.Error, lambda: tc.load(str(tmp_path / "junk.so")), "junk.so")


@pytest.mark.parametrize(
    "kind, room",
    [
        ("shared", 0),
        ("shared", 1),
        ("object", 1),
        ("static", 1),
        ("static", 20),
        ("executable", 20),
    ],
)
def test_a_full_disk_is_one_sentence_and_leaves_no_file(tmp_path, kind, room):
    onnx.save(small_model(), tmp_path / "model.onnx")
    folder = tmp_path / "out"
    folder.mkdir()
    limit = room << 10  # bytes that a file may have, as on a disk that is full then
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tc",
            "compile",
            tmp_path / "model.onnx",
            "--kind",
            kind,
            "-o",
            folder / "model",
        ],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("tc: cannot ")
    if room == 0:  # the first that is written
        assert done.stderr.startswith(
            "tc: cannot write the model's constants to the temporary folder: "
        )
    assert "; is the disk full?" in done.stderr or "; free some disk space" in done.stderr
    assert list(folder.iterdir()) == []


def test_no_folder_for_temporary_files(tmp_path):
    onnx.save(small_model(), tmp_path / "model.onnx")
    command = [
        sys.executable,
        "-m",
        "tc",
        "compile",
        tmp_path / "model.onnx",
        "-o",
        tmp_path / "model.so",
    ]
    done = subprocess.run(
        command, env={**os.environ, "TMPDIR": "/nowhere"}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr == (
        "tc: temporary files go to '/nowhere', which is no folder; set TMPDIR to a folder that can "
        "be written\n"
    )


def test_a_file_whose_name_is_no_text(tmp_path):
    """Names are bytes to the system: such a file compiles, and an error about it can be printed."""
    path = os.fsencode(tmp_path) + b"/caf\xe9.onnx"
    with open(path, "wb") as file:
        file.write(small_model().SerializeToString())
    tc.compile(os.fsdecode(path)).save(path.replace(b".onnx", b".so"))
    assert tc.load(os.fsdecode(path.replace(b".onnx", b".so"))).inputs[0].name == "x"
    with open(path, "wb") as file:
        file.write(b"no model")
    refusal(tc.ModelError, lambda: tc.compile(os.fsdecode(path)), r"caf\xe9.onnx")
    os.remove(path)
    refusal(tc.ModelError, lambda: tc.compile(os.fsdecode(path)), r"caf\xe9.onnx", "cannot be read")
