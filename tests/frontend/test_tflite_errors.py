"""Files of TensorFlow Lite that are damaged, or have what is not supported: a sentence for each."""

import importlib
import sys

import numpy as np
import pytest

import tc

pytest.importorskip(
    "tflite",
    reason="files of TensorFlow Lite are read by the package tflite, which is not installed",
)
from .tflite_files import Operator, Tensor  # noqa: E402
from .tflite_models import ABS, IMAGE, X, Y, floats, ints, one, relu  # noqa: E402

DAMAGED = "'model.tflite' is a damaged file of TensorFlow Lite: "
WRONG = {
    "version": (lambda: relu(version=2), DAMAGED + "its version is 2, and 3 is read"),
    "no graph": (lambda: relu(graphs=0), DAMAGED + "it has no graph"),
    "input": (
        lambda: relu(inputs=[7]),
        DAMAGED + "an input refers to tensor 7, and the graph has 2",
    ),
    "negative output": (
        lambda: relu(outputs=[-1]),
        DAMAGED + "an output refers to tensor -1, and the graph has 2",
    ),
    "operand": (
        lambda: relu(operators=[Operator("ABS", [9], [1])]),
        DAMAGED + "operator 0 (ABS) refers to tensor 9, and the graph has 2",
    ),
    "code": (lambda: relu(codes=[]), DAMAGED + "operator 0 has the code 0, and the file has 0"),
    "no output": (lambda: relu(outputs=[]), DAMAGED + "its graph has no output"),
    "not made": (lambda: relu(operators=[]), DAMAGED + "no operator makes its output 'y'"),
    "cycle": (
        lambda: relu(
            (X, Y, Tensor("z", (2, 3))), [Operator("ABS", [2], [1]), Operator("ABS", [1], [2])]
        ),
        DAMAGED + "ABS (operator 0, 'y') reads tensor 'z', which no operator before it makes",
    ),
    "made twice": (
        lambda: relu(operators=[ABS, ABS]),
        DAMAGED
        + "ABS (operator 1, 'y') writes tensor 'y', which is a constant, an input or what another operator makes",
    ),
    "constant input": (
        lambda: relu((Tensor("x", data=floats(2, 3)), Y)),
        DAMAGED + "input 'x' is a constant or given twice",
    ),
    "short": (
        lambda: relu((X, Y, Tensor("c", (2, 3), raw=b"1234"))),
        DAMAGED + "tensor 'c' has 4 bytes, and its shape [2, 3] of FLOAT32 needs 24",
    ),
    "negative size": (
        lambda: relu((Tensor("x", (2, -3)), Y)),
        DAMAGED + "tensor 'x' has the shape [2, -3]; sizes are 0 to 2147483647, and a "
        "tensor has at most 1099511627776 elements",
    ),
    "huge": (
        lambda: relu((Tensor("x", (1 << 30, 1 << 30)), Y)),
        DAMAGED + "tensor 'x' has the shape [1073741824, 1073741824]; sizes are 0 to "
        "2147483647, and a tensor has at most 1099511627776 elements",
    ),
    "many axes": (
        lambda: relu((Tensor("x", (1,) * 17), Y)),
        DAMAGED + "tensor 'x' has 17 axes; at most 16 are read",
    ),
    "scales": (
        lambda: relu((X, Y, Tensor("c", (2, 3), np.int8, scale=[1, 1, 1], axis=0))),
        DAMAGED + "tensor 'c' of shape [2, 3] has 3 scales for axis 0",
    ),
    "scale of 0": (
        lambda: relu((X, Y, Tensor("c", (2, 3), np.int8, scale=0))),
        DAMAGED + "tensor 'c' has the scale 0.0; a scale is a finite number over 0",
    ),
    "scale NaN": (
        lambda: relu((X, Y, Tensor("c", (2, 3), np.int8, scale=np.nan))),
        DAMAGED + "tensor 'c' has the scale nan; a scale is a finite number over 0",
    ),
    "zero points": (
        lambda: relu((X, Y, Tensor("c", (2, 3), np.int8, scale=1, zero=[1, 2]))),
        DAMAGED + "tensor 'c' has 1 scales and 2 zero points",
    ),
    "far zero point": (
        lambda: relu((X, Y, Tensor("c", (2, 3), np.int8, scale=1, zero=1 << 40))),
        DAMAGED + "tensor 'c' has a zero point that is no number of 32 bits",
    ),
    "names of lines": (
        lambda: relu((Tensor("x\ny", (2, 3), type_number=5), Y)),
        "model.tflite: input 'x\ufffdy' has the type STRING, which is not supported",
    ),
    "strings": (
        lambda: relu((Tensor("x", (2, 3), type_number=5), Y)),
        "model.tflite: input 'x' has the type STRING, which is not supported",
    ),
}
UNSUPPORTED = {
    "custom": (
        lambda: relu(operators=[Operator("CUSTOM", [0], [1], custom="Mine")]),
        "CUSTOM Mine (operator 0, 'y'): it is not supported",
    ),
    "calls": (
        lambda: relu(
            operators=[
                Operator(
                    "WHILE", [0], [1], "WhileOptions", CondSubgraphIndex=0, BodySubgraphIndex=0
                )
            ]
        ),
        "WHILE (operator 0, 'y'): it is not supported",
    ),
    "other options": (
        lambda: relu(operators=[Operator("SOFTMAX", [0], [1], "Pool2DOptions")]),
        "SOFTMAX (operator 0, 'y'): its options are Pool2DOptions, and it takes SoftmaxOptions",
    ),
    "operands": (
        lambda: relu(operators=[Operator("ABS", [0, 0], [1])]),
        "ABS (operator 0, 'y'): it has 2 inputs and takes 1",
    ),
    "outputs": (
        lambda: relu((X, Y, Tensor("z", (2, 3))), [Operator("ABS", [0], [1, 2])]),
        "ABS (operator 0, 'y'): it has 2 outputs; 'z' is not one that it makes",
    ),
    "integers": (
        lambda: relu(
            (Tensor("x", (2, 3), np.int16), Tensor("y", (2, 3), np.int16)),
            [Operator("COS", [0], [1])],
        ),
        "COS (operator 0, 'y'): 'x' is i16, and only f32 is supported here",
    ),
    "stride": (
        lambda: one(
            "MAX_POOL_2D",
            [IMAGE],
            IMAGE,
            "Pool2DOptions",
            StrideH=-1,
            StrideW=1,
            FilterHeight=1,
            FilterWidth=1,
        ),
        "MAX_POOL_2D (operator 0, 'y0'): its option StrideH is -1; at least 1 is needed",
    ),
    "slice": (
        lambda: one("SLICE", [(2, 3), ints(0, 2), ints(1, 9)], (1, 9), "SliceOptions"),
        "SLICE (operator 0, 'y0'): the part from [0, 2] to [1, 11] is not inside the shape [2, 3]",
    ),
    "axis": (
        lambda: one("CONCATENATION", [(2, 3), (2, 3)], (2, 6), "ConcatenationOptions", Axis=5),
        "CONCATENATION (operator 0, 'y0'): axis 5 is none of 2",
    ),
    "rows": (
        lambda: one("FULLY_CONNECTED", [(2, 3), floats(5, 4)], (2, 5), "FullyConnectedOptions"),
        "FULLY_CONNECTED (operator 0, 'y0'): 'x0' of shape [2, 3] has no rows of 4 elements",
    ),
    "computed": (
        lambda: relu((X, Y), [Operator("PAD", [0, 0], [1])]),
        "PAD (operator 0, 'y'): the padding is computed while the model runs; only constants are supported",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_files(what):
    make, text = WRONG[what]
    with pytest.raises(tc.Error) as raised:
        tc.compile(make(), log=False)
    assert str(raised.value) == text


@pytest.mark.parametrize("what", UNSUPPORTED)
def test_what_is_not_supported(what):
    make, text = UNSUPPORTED[what]
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(make(), log=False)
    assert str(raised.value) == f"model.tflite uses what tc cannot compile: {text}"
    assert tc.check(make()) == [text]


def test_paths_that_are_no_models(tmp_path):
    path = tmp_path / "x.tflite"
    cases = [(path, f"'{path}' cannot be read: No such file or directory")]
    folder = tmp_path / "folder.tflite"
    folder.mkdir()
    cases.append((folder, f"'{folder}' is a folder, not a model's file"))
    magic = tmp_path / "magic.tflite"
    magic.write_bytes(b"\x1c\0\0\0TFL2" + bytes(40))
    cases.append(
        (
            magic,
            "'magic.tflite' is no file of TensorFlow Lite: its bytes 4 to 7 are b'TFL2', and b'TFL3' is expected",
        )
    )
    large = tmp_path / "large.tflite"
    with open(large, "wb") as file:
        file.truncate((1 << 31) + 1)
    cases.append((large, f"'{large}' has 2147483649 bytes; at most 2147483648 are read"))
    for model, text in cases:
        with pytest.raises(tc.ModelError) as raised:
            tc.compile(model, log=False)
        assert str(raised.value) == text


def test_the_package_is_asked_for(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("tc.tflite")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(tc.Error) as raised:
        tc.compile(relu(), log=False)
    assert str(raised.value) == (
        "files of TensorFlow Lite are read by the package tflite, which is not installed here: pip install "
        "'tc-compiler[tflite]'"
    )
    monkeypatch.undo()
    importlib.import_module("tc.tflite")
