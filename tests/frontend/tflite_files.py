"""Small files of TensorFlow Lite, written by the package that reads them."""

import flatbuffers
import numpy as np
import tflite
from flatbuffers import flexbuffers

TYPES = {
    np.dtype(np.float32): "FLOAT32",
    np.dtype(np.int8): "INT8",
    np.dtype(np.uint8): "UINT8",
    np.dtype(np.int32): "INT32",
    np.dtype(np.int64): "INT64",
    np.dtype(np.bool_): "BOOL",
    np.dtype(np.int16): "INT16",
    np.dtype(np.uint32): "UINT32",
    np.dtype(np.uint64): "UINT64",
}


class Tensor:
    """Of a file: `data` makes a constant; `scale` and `zero` are a number or a list, along `axis`.
    `sparse` is (order of traversal, block map, levels): a level is the number of its places or
    (segments, indices)."""

    def __init__(
        self,
        name,
        shape=None,
        dtype=np.float32,
        data=None,
        scale=None,
        zero=0,
        axis=0,
        raw=None,
        type_number=None,
        sparse=None,
        variable=False,
    ):
        self.sparse, self.variable = sparse, variable
        self.name, self.data = name, None if data is None else np.asarray(data)
        self.shape = list(self.data.shape) if shape is None else list(shape)
        self.dtype = np.dtype(dtype) if data is None else self.data.dtype
        self.scale = None if scale is None else np.atleast_1d(np.asarray(scale, np.float32))
        self.zero, self.axis = zero, axis
        self.raw = self.data.tobytes() if raw is None and data is not None else raw
        self.type_number = (
            getattr(tflite.TensorType, TYPES[self.dtype]) if type_number is None else type_number
        )


class Operator:
    """`options` are fields of the schema's table `table`: Operator("CONV_2D", [0, 1], [2],
    "Conv2DOptions", StrideH=1). Those of a custom operator are names of whole numbers."""

    def __init__(self, name, inputs, outputs, table=None, custom=None, **options):
        self.name, self.inputs, self.outputs, self.table, self.custom, self.options = (
            name,
            inputs,
            outputs,
            table,
            custom,
            options,
        )
        self.intermediates = None  # numbers of tensors


def _ints(builder, numbers, kind=np.int32):
    return builder.CreateNumpyVector(np.asarray(numbers, kind))


def _offsets(builder, offsets):
    builder.StartVector(4, len(offsets), 4)
    for each in reversed(offsets):
        builder.PrependUOffsetTRelative(each)
    return builder.EndVector()


def _quantisation(builder, tensor):
    if tensor.scale is None:
        return None
    zeros = tensor.zero if np.ndim(tensor.zero) else [tensor.zero] * len(tensor.scale)
    scale, zero = _ints(builder, tensor.scale, np.float32), _ints(builder, zeros, np.int64)
    tflite.QuantizationParametersStart(builder)
    tflite.QuantizationParametersAddScale(builder, scale)
    tflite.QuantizationParametersAddZeroPoint(builder, zero)
    tflite.QuantizationParametersAddQuantizedDimension(builder, tensor.axis)
    return tflite.QuantizationParametersEnd(builder)


def _sparsity(builder, tensor):
    if tensor.sparse is None:
        return None
    order, blocks, levels = tensor.sparse
    made = []
    for level in levels:
        vectors = []
        for numbers in () if isinstance(level, int) else level:
            kind, stem = (
                (np.uint8, "Uint8Vector")
                if max(numbers, default=0) < 200
                else (np.uint16, "Uint16Vector")
                if max(numbers) < 60000
                else (np.int32, "Int32Vector")
            )
            values = _ints(builder, numbers, kind)
            getattr(tflite, stem + "Start")(builder)
            getattr(tflite, stem + "AddValues")(builder, values)
            vectors.append(
                (getattr(tflite.SparseIndexVector, stem), getattr(tflite, stem + "End")(builder))
            )
        tflite.DimensionMetadataStart(builder)
        tflite.DimensionMetadataAddFormat(
            builder, tflite.DimensionType.SPARSE_CSR if vectors else tflite.DimensionType.DENSE
        )
        if vectors:
            tflite.DimensionMetadataAddArraySegmentsType(builder, vectors[0][0])
            tflite.DimensionMetadataAddArraySegments(builder, vectors[0][1])
            tflite.DimensionMetadataAddArrayIndicesType(builder, vectors[1][0])
            tflite.DimensionMetadataAddArrayIndices(builder, vectors[1][1])
        else:
            tflite.DimensionMetadataAddDenseSize(builder, level)
        made.append(tflite.DimensionMetadataEnd(builder))
    order, blocks, metadata = _ints(builder, order), _ints(builder, blocks), _offsets(builder, made)
    tflite.SparsityParametersStart(builder)
    tflite.SparsityParametersAddTraversalOrder(builder, order)
    tflite.SparsityParametersAddBlockMap(builder, blocks)
    tflite.SparsityParametersAddDimMetadata(builder, metadata)
    return tflite.SparsityParametersEnd(builder)


def _tensor(builder, tensor, number):
    name, shape, found = (
        builder.CreateString(tensor.name),
        _ints(builder, tensor.shape),
        _quantisation(builder, tensor),
    )
    sparsity = _sparsity(builder, tensor)
    tflite.TensorStart(builder)
    tflite.TensorAddName(builder, name)
    tflite.TensorAddShape(builder, shape)
    tflite.TensorAddType(builder, tensor.type_number)
    tflite.TensorAddBuffer(builder, number)
    if found is not None:
        tflite.TensorAddQuantization(builder, found)
    if sparsity is not None:
        tflite.TensorAddSparsity(builder, sparsity)
    if tensor.variable:
        tflite.TensorAddIsVariable(builder, True)
    return tflite.TensorEnd(builder)


def _options(builder, operator):
    values = {
        field: _ints(builder, value)
        if isinstance(value, list)
        else builder.CreateString(value)
        if isinstance(value, str)
        else value
        for field, value in operator.options.items()
    }
    stem = operator.table
    getattr(tflite, stem + "Start")(builder)
    for field, value in values.items():
        getattr(tflite, f"{stem}Add{field}")(builder, value)
    return getattr(tflite, stem + "End")(builder)


def _flexible(options):
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in options.items():
            builder.Key(name)
            builder.Bool(value) if isinstance(value, bool) else builder.Int(value)
    return bytes(builder.Finish())


def _operator(builder, operator, number):
    inputs, outputs = _ints(builder, operator.inputs), _ints(builder, operator.outputs)
    options = _options(builder, operator) if operator.table else None
    custom = None
    if operator.custom and operator.options:
        custom = builder.CreateByteVector(_flexible(operator.options))
    intermediates = (
        None if operator.intermediates is None else _ints(builder, operator.intermediates)
    )
    tflite.OperatorStart(builder)
    if intermediates is not None:
        tflite.OperatorAddIntermediates(builder, intermediates)
    tflite.OperatorAddOpcodeIndex(builder, number)
    tflite.OperatorAddInputs(builder, inputs)
    tflite.OperatorAddOutputs(builder, outputs)
    if options is not None:
        tflite.OperatorAddBuiltinOptionsType(
            builder, getattr(tflite.BuiltinOptions, operator.table)
        )
        tflite.OperatorAddBuiltinOptions(builder, options)
    if custom is not None:
        tflite.OperatorAddCustomOptions(builder, custom)
    return tflite.OperatorEnd(builder)


def _code(builder, operator):
    number = getattr(tflite.BuiltinOperator, operator.name)
    custom = builder.CreateString(operator.custom) if operator.custom else None
    tflite.OperatorCodeStart(builder)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(builder, min(number, 127))
    tflite.OperatorCodeAddBuiltinCode(builder, number)
    tflite.OperatorCodeAddVersion(builder, 1)
    if custom is not None:
        tflite.OperatorCodeAddCustomCode(builder, custom)
    return tflite.OperatorCodeEnd(builder)


class Graph:
    """A further graph of a file: what operators that call graphs name by its number."""

    def __init__(self, tensors, operators, inputs=(), outputs=()):
        self.tensors, self.operators, self.inputs, self.outputs = (
            tensors,
            operators,
            inputs,
            outputs,
        )


def _graph(builder, graph, first_buffer, first_code):
    tensor_list = _offsets(
        builder,
        [
            _tensor(builder, tensor, number + first_buffer)
            for number, tensor in enumerate(graph.tensors)
        ],
    )
    operator_list = _offsets(
        builder,
        [
            _operator(builder, operator, number + first_code)
            for number, operator in enumerate(graph.operators)
        ],
    )
    input_list, output_list, name = (
        _ints(builder, graph.inputs),
        _ints(builder, graph.outputs),
        builder.CreateString("main"),
    )
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensor_list)
    tflite.SubGraphAddInputs(builder, input_list)
    tflite.SubGraphAddOutputs(builder, output_list)
    tflite.SubGraphAddOperators(builder, operator_list)
    tflite.SubGraphAddName(builder, name)
    return tflite.SubGraphEnd(builder)


def file_of(tensors, operators, inputs, outputs, version=3, codes=None, graphs=1, more=()):
    """The bytes of a file with this graph, `graphs` times, and `more` Graphs; `codes` in place of
    the operators' own."""
    builder = flatbuffers.Builder(1024)
    every = [Graph(tensors, operators, inputs, outputs), *more]
    buffers = [None, *(tensor.raw for graph in every for tensor in graph.tensors)]
    made = []
    for raw in buffers:
        data = builder.CreateByteVector(raw) if raw is not None else None
        tflite.BufferStart(builder)
        if data is not None:
            tflite.BufferAddData(builder, data)
        made.append(tflite.BufferEnd(builder))
    buffer_list = _offsets(builder, made)
    graph_offsets, first_buffer, first_code = [], 1, 0
    for graph in every:
        graph_offsets.append(_graph(builder, graph, first_buffer, first_code))
        first_buffer, first_code = (
            first_buffer + len(graph.tensors),
            first_code + len(graph.operators),
        )
    code_list = _offsets(
        builder,
        [
            _code(builder, operator)
            for operator in (
                [each for graph in every for each in graph.operators] if codes is None else codes
            )
        ],
    )
    graph_list = _offsets(builder, graph_offsets[:1] * graphs + graph_offsets[1:])
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, version)
    tflite.ModelAddOperatorCodes(builder, code_list)
    tflite.ModelAddSubgraphs(builder, graph_list)
    tflite.ModelAddBuffers(builder, buffer_list)
    builder.Finish(tflite.ModelEnd(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())
