"""Files and objects of other tools, which tc does not read as models, and what to do with them."""

import os
import re

from .errors import ModelError, UnsupportedError
from .given_files import begin_of

_LFS = b"version https://git-lfs.github.com/spec/"
# By a file's suffix: what the file is, and how to get a model that tc reads from it.
_SUFFIXES = {
    ".pb": ("a graph of TensorFlow", "write it as ONNX with tf2onnx, or as TensorFlow Lite"),
    ".h5": ("a model of Keras", "write it as ONNX with tf2onnx, or as TensorFlow Lite"),
    ".keras": (
        "a model of Keras",
        'write it as ONNX with tf2onnx (or model.export(path, format="onnx")), or as TensorFlow Lite',
    ),
    ".safetensors": (
        "a file of weights without a network",
        "build the network in PyTorch with them, and give that to tc.compile with inputs=",
    ),
    ".mlmodel": ("a model of Core ML", "write the model that it was made of as ONNX"),
    ".mlpackage": ("a model of Core ML", "write the model that it was made of as ONNX"),
    ".engine": ("a plan of TensorRT for one GPU", "take the ONNX file that it was made of"),
    ".plan": ("a plan of TensorRT for one GPU", "take the ONNX file that it was made of"),
    ".ort": ("a model in ONNX Runtime's own format", "take the ONNX file that it was made of"),
    ".pmml": (
        "a model in PMML",
        "write the model that it was made of as ONNX: of scikit-learn with skl2onnx",
    ),
}
_PICKLES = (".pkl", ".pickle", ".joblib")
# Packages whose models have a converter: the first part of an object's module.
_CONVERTERS = {
    "sklearn": "skl2onnx.to_onnx(model, X[:1])",
    "imblearn": "skl2onnx.to_onnx(model, X[:1])",
    "xgboost": "onnxmltools.convert_xgboost(model, initial_types=…)",
    "lightgbm": "onnxmltools.convert_lightgbm(model, initial_types=…)",
    "catboost": 'model.save_model(path, format="onnx")',
    "keras": "tf2onnx.convert.from_keras(model)",
    "tensorflow": "tf2onnx.convert.from_keras(model)",
    "jax": "jax2tf and tf2onnx",
    "flax": "jax2tf and tf2onnx",
}


def refuse_file(model, of_pickles=()):
    """Refuses the path of a file that is known to be no model for tc; accepts everything else.
    Files with the suffixes `of_pickles` have a reader that says itself what to do with a pickle."""
    try:
        path = os.fsdecode(os.fspath(model))
    except TypeError:
        return
    suffix = os.path.splitext(path)[1].lower()
    begin = begin_of(path, 200)
    if begin.startswith(_LFS):
        size = re.search(rb"\nsize (\d+)", begin)
        large = f", which has {int(size[1])} bytes" if size else ""
        raise ModelError(
            f"{path}: this is a pointer of Git LFS, not the model{large}; fetch it with `git lfs pull` in its repository"
        )
    # Pickles of protocol 2 and later.
    if suffix in _PICKLES or (
        begin[:1] == b"\x80" and begin[1:2] in b"\2\3\4\5" and suffix not in (*of_pickles, ".bin")
    ):
        raise UnsupportedError(
            f"{path}: this is a pickle, and reading one would run what is in it; load it yourself and write the model as "
            "ONNX (of scikit-learn: skl2onnx.to_onnx(model, X[:1])), or give tc.compile the torch.nn.Module with inputs="
        )
    if os.path.isdir(path) and os.path.exists(os.path.join(path, "saved_model.pb")):
        raise UnsupportedError(
            f"{path}: this is a SavedModel of TensorFlow; write it as ONNX with tf2onnx, or as TensorFlow Lite"
        )
    if suffix in _SUFFIXES:
        what, remedy = _SUFFIXES[suffix]
        raise UnsupportedError(f"{path}: this is {what}; {remedy}")


def refuse_object(model):
    """Refuses a model object of another library, naming what converts it to ONNX; accepts
    everything else."""
    for each in type(model).__mro__:
        package = each.__module__.partition(".")[0]
        if package in _CONVERTERS:
            raise UnsupportedError(
                f"a {type(model).__name__} of {package} is no model that tc reads; write it as ONNX and give that: "
                f"{_CONVERTERS[package]}"
            )
    if (
        isinstance(model, dict)
        and model
        and all(hasattr(value, "dtype") for value in model.values())
    ):
        raise ModelError(
            "a dictionary of arrays has weights alone; give the network: a torch.nn.Module with them and inputs=, or an ONNX file"
        )
