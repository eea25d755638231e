"""From a file of TensorFlow Lite to a source that the compiler reads."""

import os

from ..errors import ModelError, UnsupportedError
from ..given_files import open_regular
from .describe import Describer, Refusal, Value
from .file import open_file
from .fixed_channels import without_fixed_channels
from .operators import row_of
from .operators.table import Call
from .operators.variables import key_of

_LARGEST_FILE = 1 << 31


def read(model):
    """The compiler.Source of a path or of bytes."""
    return read_with_states(model)[0]


def read_with_states(model):
    """(compiler.Source, states) of a path or of bytes. A state is (name, input and output of the
    source that are its value before and after a run, initial value)."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        name, data = "model.tflite", bytes(model)
    else:
        path = os.fspath(model)
        name = os.path.basename(os.fsdecode(path))
        data = _bytes_of(path)
    describer = describe_file(open_file(data, name))
    states = [
        (state.name, state.before, state.current, state.initial)
        for state in describer.states.values()
        if state.before is not None
    ]
    return describer.model.source(name), states


def _bytes_of(path):
    shown = os.fsdecode(path)
    if os.path.isdir(path):
        raise ModelError(f"'{shown}' is a folder, not a model's file")
    try:
        file = open_regular(path)
    except ModelError as error:
        raise ModelError(f"'{shown}' cannot be read: {error}") from None
    with file:
        size = os.fstat(file.fileno()).st_size
        if size > _LARGEST_FILE:
            raise ModelError(f"'{shown}' has {size} bytes; at most {_LARGEST_FILE} are read")
        try:
            return file.read()
        except OSError as error:
            raise ModelError(f"'{shown}' cannot be read: {error.strerror}") from None


def describe_file(file):
    """The Describer that has described the file's first graph. The other graphs are run by control
    flow."""
    graph = without_fixed_channels(file.subgraphs[0])
    stem = os.path.splitext(file.name)[0]
    describer = Describer(stem)
    describer.file, describer.assigned = file, _assigned(graph)
    values = [Value(tensor) for tensor in graph.tensors]
    _add_inputs(describer, file, graph, values)
    # Reserved first, before operators name their results after these tensors.
    names = [describer.fresh(values[number].tensor.name) for number in graph.outputs]
    problems = []
    for operator in graph.operators:
        _describe_operator(describer, file, operator, values, problems)
    if problems:
        error = UnsupportedError(f"{file.name} uses what tc cannot compile: {'; '.join(problems)}")
        error.problems = tuple(problems)
        raise error
    _add_outputs(describer, file, [values[number] for number in graph.outputs], names)
    _add_states(describer)
    return describer


def _assigned(graph):
    """The keys of the variables to which a graph assigns."""
    handles = {
        operator.outputs[0]: key_of(operator)
        for operator in graph.operators
        if operator.name == "VAR_HANDLE" and operator.outputs
    }
    return {
        handles[operator.inputs[0]]
        for operator in graph.operators
        if operator.name == "ASSIGN_VARIABLE" and operator.inputs and operator.inputs[0] in handles
    }


def _add_states(describer):
    """Adds an output for each state that a run reads: its value after the run."""
    describer.node_name, describer.source = "", "state"
    for state in describer.states.values():
        if state.before is not None:
            state.current = describer.node(
                "Identity", [state.current], name=describer.fresh(f"next.{state.name}")
            )
            describer.graph.output(state.current, state.dtype)


def _add_inputs(describer, file, graph, values):
    for number in graph.inputs:
        value = values[number]
        if value.is_known:
            raise ModelError(
                f"'{file.name}' is a damaged file of TensorFlow Lite: input '{value.tensor.name}' is a constant or given twice"
            )
        if value.dtype is None:
            raise UnsupportedError(
                f"{file.name}: input '{value.tensor.name}' has the type {value.tensor.type_name}, which is not supported"
            )
        value.plain = describer.fresh(value.tensor.name)
        describer.graph.input(value.plain, value.dtype, list(value.shape))


def _add_outputs(describer, file, values, names):
    if not values:
        raise ModelError(
            f"'{file.name}' is a damaged file of TensorFlow Lite: its graph has no output"
        )
    for value, name in zip(values, names):
        if not value.is_known:
            raise ModelError(
                f"'{file.name}' is a damaged file of TensorFlow Lite: no operator makes its output '{value.tensor.name}'"
            )
        if value.handle is not None:
            raise UnsupportedError(
                f"{file.name}: output '{value.tensor.name}' is a variable, which is not supported"
            )
        describer.node_name, describer.source = "", "output"
        describer.node("Identity", [describer.plain(value)], name=name)
        describer.graph.output(name, "i8" if value.dtype == "i4" else value.dtype)


def _describe_operator(describer, file, operator, values, problems):
    inputs = [None if number < 0 else values[number] for number in operator.inputs]
    outputs = [values[number] for number in operator.outputs]
    where = f"{operator.name} (operator {operator.number}" + (
        f", '{outputs[0].tensor.name}')" if outputs else ")"
    )
    for value in outputs:
        if value.is_known:
            raise ModelError(
                f"'{file.name}' is a damaged file of TensorFlow Lite: {where} writes tensor '{value.tensor.name}', which is "
                "a constant, an input or what another operator makes"
            )
    describer.node_name = outputs[0].tensor.name if outputs else operator.name.lower()
    describer.source = f"{operator.name}, operator {operator.number}"
    try:
        missing = [value for value in inputs if value is not None and not value.is_known]
        unread = next((value for value in missing if not value.tensor.is_variable), None)
        if unread is not None:
            if problems:
                return  # it may be the result of an operator that was refused
            raise ModelError(
                f"'{file.name}' is a damaged file of TensorFlow Lite: {where} reads tensor '{unread.tensor.name}', which "
                "no operator before it makes"
            )
        row = row_of(operator.name)
        if row is None:
            raise Refusal("it is not supported")
        if missing and not row.resources:
            raise Refusal(f"tensor '{missing[0].tensor.name}' is variable, which is not supported")
        for value in [*inputs, *outputs]:
            if (
                value is not None
                and value.dtype is None
                and not (row.resources and value.tensor.type_name in ("RESOURCE", "INT32"))
            ):
                raise Refusal(
                    f"tensor '{value.tensor.name}' has the type {value.tensor.type_name}, which is not supported"
                )
        row.describe(
            describer,
            Call(
                row,
                operator,
                inputs,
                outputs,
                [values[number] for number in operator.intermediates],
            ),
        )
        undone = next((value for value in outputs if not value.is_known), None)
        if undone is not None:
            raise Refusal(
                f"it has {len(outputs)} outputs; '{undone.tensor.name}' is not one that it makes"
            )
    except Refusal as refusal:
        problems.append(f"{where}: {refusal}")
