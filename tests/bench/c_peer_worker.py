"""Has other generators of C write the source of a file of TensorFlow Lite.

`python c_peer_worker.py prepare FILE RESULT.tflite` writes the file as these generators take it,
and `python c_peer_worker.py PEER FILE FOLDER` the peer's source: NAME.c and what is beside it.
The Python is one that has the packages bakenn, emx-onnx-cgen, tflite and tflite2onnx; tc is not
needed. Says in one line of JSON what was refused, if anything was.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path

import flatbuffers
import tflite

# Fields of tables, by their places in the schema.
SHAPE_SIGNATURE, SUBGRAPH_OUTPUTS, SUBGRAPH_OPERATORS = 18, 8, 10


def numbers(builder, start, values):
    start(builder, len(values))
    for value in reversed(values):
        builder.PrependInt32(int(value))
    return builder.EndVector()


def reshape_with_options(graph, operator):
    """The operator as a buffer of its own, with the shape as an option."""
    builder = flatbuffers.Builder(256)
    shape = numbers(
        builder,
        tflite.ReshapeOptionsStartNewShapeVector,
        graph.Tensors(operator.Outputs(0)).ShapeAsNumpy(),
    )
    tflite.ReshapeOptionsStart(builder)
    tflite.ReshapeOptionsAddNewShape(builder, shape)
    options = tflite.ReshapeOptionsEnd(builder)
    inputs = numbers(builder, tflite.OperatorStartInputsVector, operator.InputsAsNumpy())
    outputs = numbers(builder, tflite.OperatorStartOutputsVector, operator.OutputsAsNumpy())
    tflite.OperatorStart(builder)
    tflite.OperatorAddOpcodeIndex(builder, operator.OpcodeIndex())
    tflite.OperatorAddInputs(builder, inputs)
    tflite.OperatorAddOutputs(builder, outputs)
    tflite.OperatorAddBuiltinOptionsType(builder, tflite.BuiltinOptions.ReshapeOptions)
    tflite.OperatorAddBuiltinOptions(builder, options)
    builder.Finish(tflite.OperatorEnd(builder))
    return bytes(builder.Output())


def prepared(file):
    """The file with a batch of 1, the shapes of reshapes as options, and without the softmax at its
    end, which bakenn does not have."""
    data, model = bytearray(file), tflite.Model.GetRootAs(file, 0)
    graph = model.Subgraphs(0)

    def kind(operator):
        code = model.OperatorCodes(operator.OpcodeIndex())
        return max(code.BuiltinCode(), code.DeprecatedBuiltinCode())

    def begin(table, field):
        return table._tab.Vector(table._tab.Offset(field))

    for tensor in map(graph.Tensors, range(graph.TensorsLength())):
        for axis in range(tensor.ShapeSignatureLength()):
            place = begin(tensor, SHAPE_SIGNATURE) + 4 * axis
            struct.pack_into("<i", data, place, tensor.Shape(axis))
    count, operators = graph.OperatorsLength(), begin(graph, SUBGRAPH_OPERATORS)
    for number, operator in enumerate(map(graph.Operators, range(count))):
        if kind(operator) != tflite.BuiltinOperator.RESHAPE or operator.BuiltinOptionsType():
            continue
        table = reshape_with_options(graph, operator)
        data += bytes(-len(data) % 16)
        root = len(data) + struct.unpack_from("<I", table)[0]
        data += table
        place = operators + 4 * number
        struct.pack_into("<I", data, place, root - place)
    last = graph.Operators(count - 1)
    if kind(last) == tflite.BuiltinOperator.SOFTMAX:
        struct.pack_into("<I", data, operators - 4, count - 1)
        struct.pack_into("<i", data, begin(graph, SUBGRAPH_OUTPUTS), last.Inputs(0))
    return bytes(data)


def bakenn(file, folder):
    import bakenn

    bakenn.compile_tflite(str(file), str(folder), name="model")


def emx(file, folder):
    import tflite2onnx

    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model.onnx"
    tflite2onnx.convert(str(file), str(model))
    # Everything in one file, and all that is computed on the stack: nothing is allocated.
    command = [Path(sys.executable).with_name("emx-onnx-cgen"), "compile", model]
    command += [folder / "model.c", "--restrict-arrays"]
    command += ["--large-weight-threshold", "0", "--large-temp-threshold", "0"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError((done.stdout + done.stderr).strip().splitlines()[-1])


def main(what, file, result):
    if what == "prepare":
        Path(result).write_bytes(prepared(Path(file).read_bytes()))
        return {}
    try:
        {"bakenn": bakenn, "emx": emx}[what](Path(file), Path(result))
    except Exception as error:  # the packages raise what they like
        return {"refused": (str(error) or type(error).__name__)[:200]}
    return {}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
