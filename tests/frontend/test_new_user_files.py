"""What somebody meets who gives tc a file for the first time that it cannot read or write: each
mistake ends in one sentence that says what to do."""

import os
import pickle
import resource
import stat

import numpy as np
import pytest

import tc

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from .first_use import command, product_model, said  # noqa: E402
from .first_use import module, path  # noqa: E402, F401  Fixtures.


# --- files and objects that are no models ---------------------------------------------------------


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 97781\n"


@pytest.mark.parametrize(
    "name", ["model.onnx", "model.pt", "model.tflite", "model.gguf", "model.pt2"]
)
@pytest.mark.parametrize("call", [tc.compile, tc.check, tc.verify])
def test_a_pointer_of_git_lfs(tmp_path, name, call):
    (tmp_path / name).write_bytes(LFS)
    assert said(lambda: call(tmp_path / name), tc.ModelError) == (
        f"{tmp_path / name}: this is a pointer of Git LFS, not the model, which has 97781 bytes; fetch it with `git lfs pull` in its repository"
    )


def test_external_data_that_is_a_pointer_of_git_lfs(tmp_path):
    model = product_model()
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    (tmp_path / "w.bin").write_bytes(LFS)
    assert said(lambda: tc.compile(tmp_path / "m.onnx"), tc.ModelError).endswith(
        ": its external data 'w.bin' is a pointer of Git LFS, not the data; fetch it with `git lfs pull`"
    )


@pytest.mark.parametrize(
    "name", ["forest.pkl", "forest.pickle", "forest.joblib", "forest", "forest.model"]
)
def test_pickles(tmp_path, name):
    (tmp_path / name).write_bytes(pickle.dumps({"weights": [1.0]}))
    assert said(lambda: tc.compile(tmp_path / name), tc.UnsupportedError) == (
        f"{tmp_path / name}: this is a pickle, and reading one would run what is in it; load it yourself and write the model as ONNX (of "
        "scikit-learn: skl2onnx.to_onnx(model, X[:1])), or give tc.compile the torch.nn.Module with inputs="
    )


@pytest.mark.parametrize(
    "name, text",
    [
        (
            "m.keras",
            'this is a model of Keras; write it as ONNX with tf2onnx (or model.export(path, format="onnx")), or as TensorFlow Lite',
        ),
        (
            "m.pb",
            "this is a graph of TensorFlow; write it as ONNX with tf2onnx, or as TensorFlow Lite",
        ),
        (
            "m.safetensors",
            "this is a file of weights without a network; build the network in PyTorch with them, and give that to tc.compile with inputs=",
        ),
        (
            "m.engine",
            "this is a plan of TensorRT for one GPU; take the ONNX file that it was made of",
        ),
        (
            "m.ort",
            "this is a model in ONNX Runtime's own format; take the ONNX file that it was made of",
        ),
    ],
)
def test_files_of_other_programs(tmp_path, name, text):
    (tmp_path / name).write_bytes(b"\0" * 64)
    assert (
        said(lambda: tc.compile(tmp_path / name), tc.UnsupportedError)
        == f"{tmp_path / name}: {text}"
    )


def test_a_saved_model(tmp_path):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"")
    assert (
        said(lambda: tc.compile(tmp_path / "saved"), tc.UnsupportedError)
        == f"{tmp_path / 'saved'}: this is a SavedModel of TensorFlow; write it as ONNX with tf2onnx, or as TensorFlow Lite"
    )


def test_a_pipeline_of_scikit_learn():
    """A class of that package's name stands for it."""
    pipeline = type("Pipeline", (), {"__module__": "sklearn.pipeline"})()
    assert (
        said(lambda: tc.compile(pipeline), tc.UnsupportedError)
        == "a Pipeline of sklearn is no model that tc reads; write it as ONNX and give that: skl2onnx.to_onnx(model, X[:1])"
    )
    booster = type("Mine", (type("XGBClassifier", (), {"__module__": "xgboost.sklearn"}),), {})()
    assert (
        said(lambda: tc.check(booster), tc.UnsupportedError)
        == "a Mine of xgboost is no model that tc reads; write it as ONNX and give that: onnxmltools.convert_xgboost(model, initial_types=…)"
    )
    assert said(lambda: tc.quantize(pipeline, np.ones((4, 4))), tc.UnsupportedError).startswith(
        "a Pipeline of sklearn is no model that tc reads; "
    )
    assert (
        said(lambda: tc.compile({"w": np.ones(3)}), tc.ModelError)
        == "a dictionary of arrays has weights alone; give the network: a torch.nn.Module with them and inputs=, or an ONNX file"
    )


# --- names of models ------------------------------------------------------------------------------


def test_messages_name_the_file(path, module, tmp_path):
    assert module.name == "digits.onnx" and "graph_name" not in repr(module)
    assert said(lambda: module(), tc.ShapeError) == "model 'digits.onnx' takes 1 inputs, not 0"
    module.save(tmp_path / "saved.so")
    assert (
        said(lambda: tc.load(tmp_path / "saved.so")(), tc.ShapeError)
        == "model 'saved.so' takes 1 inputs, not 0"
    )
    deciding = helper.make_graph(
        [helper.make_node("Reshape", ["x", "to"], ["y"], "reshape")],
        "graph_name",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
            helper.make_tensor_value_info("to", TensorProto.INT64, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    onnx.save(
        helper.make_model(deciding, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "reshaping.onnx",
    )
    reshaping = tc.compile(tmp_path / "reshaping.onnx", log=False)
    assert "model 'reshaping.onnx'" in said(
        lambda: reshaping(np.ones(4, np.float32)), tc.ShapeError
    )
    refused = said(
        lambda: tc.compile(path, shapes={"n": 100000}, max_ram=16, log=False), tc.UnsupportedError
    )
    assert refused.startswith("model 'digits.onnx' needs 128 bytes for constants "), refused


# --- folders and disks ----------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written(module, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(closed, os.W_OK):  # the administrator may write everywhere
        closed = "/proc/self"
        text = f"'{closed}/digits.so' cannot be written: No such file or directory"
    else:
        text = f"'{closed}/digits.so' cannot be written: Permission denied; choose a folder that can be written"
    assert said(lambda: module.save(f"{closed}/digits.so"), tc.DeviceError) == text


def limited(room):
    """Files may have so many bytes, as on a disk that is full then."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))


def test_a_full_disk_leaves_no_part_of_a_result(path, tmp_path):
    code, out, err = command(
        "run",
        path,
        "--random",
        "--shape",
        "n=100000",
        "--output-dir",
        tmp_path / "results",
        "--log",
        "",
        preexec_fn=limited(300_000),
        env={**os.environ, "TC_LOG": ""},
    )
    assert (code, out) == (1, "")
    assert (
        err
        == f"tc: '{tmp_path}/results/y.npy' cannot be written: File too large; the file system takes no file that large\n"
    )
    assert os.listdir(tmp_path / "results") == []


def test_a_home_that_cannot_be_written(path, tmp_path):
    """Compiling does without a log; tuning says which folder, and how to name another."""
    (tmp_path / "home").write_text("no folder")
    own = {
        **{
            key: value
            for key, value in os.environ.items()
            if key not in ("TC_LOG", "XDG_CACHE_HOME")
        },
        "HOME": str(tmp_path / "home"),
    }
    code, _, err = command("compile", path, "-o", tmp_path / "digits.so", env=own)
    assert (code, err) == (0, "")
    code, _, err = command("tune", path, "--shape", "n=2", env=own)
    assert (code, err) == (
        1,
        f"tc: the folder '{tmp_path}/home/.cache/tc' of the log cannot be made: Not a directory; name a log elsewhere "
        '(log="FILE", --log FILE, or the variable TC_LOG)\n',
    )
