"""Every operator with operands whose sizes have to agree, with a name of its own for every size:
right where they agree, refused by the run in these names where they do not, and refused by the
compiler, which says what to bind, where it needs a number.

The vectors are those of the ONNX project, and `MORE` those of the rows that it has no vectors of.
Changed sizes are compared with ONNX Runtime where it takes them."""

import re

import numpy as np
import onnx
import pytest

import tc
from tc.errors import Error
from tc.versions import VersionedModule

from ..ir import test_op_rows as rows
from ..ir import test_transformers as transformers
from ..support import onnxruntime_session
from .test_node_vectors import compare, passing, vectors

# Operators that need a number for one of these sizes: the window of a convolution, what divides
# into groups or heads, how many numbers an index has, how many tensors come of a split, how long a
# signal is.
BOUND = {
    "CenterCropPad": "axis 0 of size 'x_0' may be cut or padded to '10'",
    "Col2Im": "the number of elements of all blocks depends on 'input_1'",
    "ConvInteger": "the kernel's size depends on 'w_2'",
    "ConvTranspose": "the kernel's size depends on 'W_2'",
    "DeformConv": "equal ranks and a fixed kernel are needed",
    "GatherND": "need a fixed last axis",
    "GroupNormalization": "the number of channels depends on",
    "QLinearConv": "the kernel's size depends on 'w_2'",
    "RotaryEmbedding": "how many pairs of a head's elements are rotated depends on 'cos_cache_1'",
    "STFT": "frame_length depends on 'window_0'",
    "ScatterND": "need a fixed last axis",
    "SplitToSequence": "splits axis 0, whose size 'data_0' is not known, so that the number of tensors is not",
}


def renamed(model):
    """The model with a name of its own for every size of its inputs."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    constants = {tensor.name for tensor in result.graph.initializer}
    for port in result.graph.input:
        for axis, size in enumerate(
            port.type.tensor_type.shape.dim if port.name not in constants else ()
        ):
            size.Clear()
            size.dim_param = f"{port.name}_{axis}"
    for port in result.graph.output:
        port.type.tensor_type.ClearField("shape")
    return result


def plain(value):
    return isinstance(value, np.ndarray) and value.dtype != object


def node_vectors(every):
    """(name, operator, model, inputs, results) of the ONNX project's vectors of one node with two
    operands that have sizes; the first of each operator unless `every`."""
    seen = set()
    for path in passing():
        model = onnx.load(path / "model.onnx")
        node = model.graph.node[0]
        if (
            len(model.graph.node) != 1
            or model.functions
            or any(attribute.HasField("g") for attribute in node.attribute)
            or node.domain
        ):
            continue
        given, expected = vectors(model.graph, path / "test_data_set_0")
        sized = [
            value for value in given.values() if plain(value) and value.ndim > 0 and value.size > 0
        ]
        if (
            len(sized) < 2
            or not all(map(plain, given.values()))
            or any(0 in value.shape for value in given.values())
        ):
            continue
        if every or node.op_type not in seen:
            seen.add(node.op_type)
            yield path.name, node.op_type, model, given, expected


def changes(given):
    """The inputs with one size one larger, each in turn: (input, axis, inputs)."""
    for name, value in given.items():
        for axis in range(value.ndim):
            yield (
                name,
                axis,
                {**given, name: np.concatenate([value, np.take(value, [-1], axis)], axis)},
            )


def outcome(module, given):
    """Results, or the sentence with which a run refuses its inputs."""
    try:
        return module.run(given)
    except tc.ShapeError as error:
        return str(error)


NAME = re.compile(r"\b\w+_\d+\b")


def faults(model, given, expected):
    """What does not hold of a model with names of its own for all sizes."""
    module = tc.compile(renamed(model), log=False, specialise=0)
    found = outcome(module, given)
    if isinstance(found, str):
        # An operand that is broadcast in this run: its size is assumed to be that of the others.
        return [] if " has to be " in found and NAME.search(found) else [found]
    for name, value in expected.items():
        compare(found[name], value)
    wrong = []
    for name, axis, changed in changes(given):
        result = outcome(module, changed)
        if isinstance(result, str):
            # Numbers that decide the structure are told by how many they are.
            if not NAME.search(result) and not isinstance(module, VersionedModule):
                wrong.append(f"{name} axis {axis}: {result}")
            continue
        try:
            reference = onnxruntime_session(model_for(model, changed).SerializeToString()).run(
                list(result), changed
            )
        except Exception:
            continue  # what ONNX Runtime cannot tell
        for output, value in zip(result, reference):
            if plain(value) and np.isfinite(value.astype(np.float64)).all():
                compare(result[output], value)
    return wrong


def model_for(model, given):
    """The model with the sizes of these inputs."""
    result = renamed(model)
    for port in result.graph.input:
        if port.name in given:
            for size, number in zip(port.type.tensor_type.shape.dim, given[port.name].shape):
                size.Clear()
                size.dim_value = number
    return result


def test_every_operator_of_the_projects_vectors(request):
    wrong, bound, count = {}, set(), 0
    for name, operator, model, given, expected in node_vectors(request.config.getoption("--full")):
        count += 1
        try:
            told = faults(model, given, expected)
        except (AssertionError, Error) as error:
            told = [str(error)]
            if operator in BOUND and BOUND[operator] in str(error):
                assert '; bind the symbols to numbers: shapes={"' in str(error), name
                bound.add(operator)
                continue
        if told:
            wrong[name] = told
    assert not wrong
    assert count >= 80
    assert bound == set(BOUND)


# --- rows without vectors of the project ----------------------------------------------------------


def fits(case):
    """Whether a case has inputs with sizes and none whose numbers a random generator draws."""
    return any(value.ndim > 0 for value in case.inputs.values())


def also_tested(names, is_quick):
    """Parameters of a test: those that are not quick run with --full."""
    return [pytest.param(name, marks=[] if is_quick(name) else pytest.mark.full) for name in names]


def is_no_older_form(line):
    """Whether a row's name is none that ONNX's own operator had in an earlier version."""
    return " as " not in line or "::" in line


def first_of_each(names, count=2):
    """The first ones of each family, which a colon ends."""
    families = {}
    for name in names:
        families.setdefault(name.partition(":")[0], []).append(name)
    return {name for family in families.values() for name in family[:count]}


@pytest.mark.parametrize(
    "line",
    also_tested(
        sorted(
            name
            for name in rows.CASES
            if not name.startswith(("Random", "Bernoulli", "Multinomial"))
        ),
        is_no_older_form,
    ),
)
def test_rows_without_vectors(line):
    case = rows.CASES[line]()
    if not fits(case):
        return
    expected = case.expected
    if expected is None:
        session = onnxruntime_session(case.model.SerializeToString())
        names = [output.name for output in session.get_outputs()]
        expected = dict(zip(names, session.run(names, case.inputs)))
    try:
        assert not faults(case.model, case.inputs, expected)
    except tc.UnsupportedError as error:
        assert '; bind the symbols to numbers: shapes={"' in str(error)


@pytest.mark.parametrize(
    "name",
    also_tested(sorted(transformers.CASES), first_of_each(sorted(transformers.CASES)).__contains__),
)
def test_operators_of_onnx_runtime(name):
    case = transformers.CASES[name]
    try:
        module = tc.compile(renamed(onnx.load_from_string(case.model())), log=False, specialise=0)
    except tc.UnsupportedError as error:
        assert '; bind the symbols to numbers: shapes={"' in str(error)
        return
    found = outcome(module, case.feeds())
    assert not isinstance(found, str) or (" has to be " in found and NAME.search(found)), found
    if not isinstance(found, str):
        for output, value in transformers.expected(case).items():
            if output in found:
                compare(found[output], value)
