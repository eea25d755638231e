"""Node tests of the ONNX project by the call that users make: tc.compile(path).run(inputs), nothing
turned into a constant."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import tc
from tc.versions import VersionedModule

from ..support import ROOT, output_file, run_under_qemu

# Every so many of those that pass (tests/golden/onnx_node.txt lists those that do not).
EVERY = 25
# The reason there of those that only tc.Module runs.
STRINGS = "which no compiled code does"
# How many of them also run as executables for rv64gcv, without --full and with it.
RISCV_SAMPLE, RISCV_ALL = 12, 400
# Element types of .npy files.
NPY = {
    "float32",
    "float64",
    "float16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
}


def listed():
    """{name: reason}"""
    lines = (Path(ROOT) / "tests/golden/onnx_node.txt").read_text().splitlines()[1:]
    return dict(line.split(": ", 1) for line in lines)


def passing():
    folder, refused = Path(os.path.dirname(onnx.__file__)) / "backend/test/data/node", listed()
    return [
        path
        for path in sorted(folder.iterdir())
        if (path / "model.onnx").exists() and STRINGS in refused.get(path.name, STRINGS)
    ]


def read(file, kind):
    """The value in a file: an array, of a sequence a list of them, of an optional None or what it
    has."""
    data = file.read_bytes()
    if kind.HasField("tensor_type"):
        return numpy_helper.to_array(onnx.TensorProto.FromString(data))
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))


def values(folder, kind, ports):
    result = {}
    for number, port in enumerate(ports):
        file = folder / f"{kind}_{number}.pb"
        if file.exists():
            result[port.name] = read(file, port.type)
    return result


def compare(found, value):
    if value is None or isinstance(value, list):
        assert type(found) is type(value)
        assert value is None or len(found) == len(value)
        for one, other in zip(found or (), value or ()):
            compare(one, other)
        return
    assert found.dtype.name == value.dtype.name and found.shape == value.shape
    if value.dtype == object:
        assert found.tolist() == value.tolist()
    elif value.dtype.kind in "biu":
        # Quantised values may fall on the other side of a tie.
        slack = 1 if value.dtype.itemsize == 1 and value.dtype.kind != "b" else 0
        assert np.abs(found.astype(np.int64) - value.astype(np.int64)).max(initial=0) <= slack
    else:
        half = value.dtype.itemsize == 2
        # Sums of large terms may cancel.
        largest = np.abs(value[np.isfinite(value)].astype(np.float64)).max(initial=0)
        np.testing.assert_allclose(
            found.astype(np.float64),
            value.astype(np.float64),
            rtol=1e-2 if half else 1e-3,
            atol=1e-3 if half else max(1e-5, 1e-6 * largest),
        )


def vectors(graph, data):
    """(inputs by name, expected outputs by name) of a model, as far as the folder has files of
    them."""
    constants = {tensor.name for tensor in graph.initializer}
    given = values(data, "input", [port for port in graph.input if port.name not in constants])
    return given, values(data, "output", graph.output)


def check(path):
    graph = onnx.load(path / "model.onnx").graph
    given, expected = vectors(graph, path / "test_data_set_0")
    found = tc.compile(path / "model.onnx").run(given)
    for name, value in expected.items():
        compare(found[name], value)


def test_a_sample_of_vectors(request):
    tests = passing()
    chosen = tests if request.config.getoption("--full") else tests[::EVERY]
    wrong = {}
    for path in chosen:
        try:
            check(path)
        except (AssertionError, tc.Error) as error:
            wrong[path.name] = str(error)
    assert not wrong
    assert len(tests) > 1100


def riscv_case(path):
    """Inputs and expected outputs, or None where an executable does not take them: it reads and
    writes .npy files of arrays."""
    graph = onnx.load(path / "model.onnx").graph
    given, expected = vectors(graph, path / "test_data_set_0")
    arrays = [*given.values(), *expected.values()]
    fits = all(isinstance(array, np.ndarray) and array.dtype.name in NPY for array in arrays)
    return (given, expected) if fits and len(expected) == len(graph.output) else None


def check_riscv(path, folder, given, expected):
    shapes, decided, module = {name: array.shape for name, array in given.items()}, {}, None
    # An artefact is one version: what decides the structure is given to the compiler, as by whoever
    # exports one.
    while module is None or isinstance(module, VersionedModule):
        module = tc.compile(
            path / "model.onnx",
            target="rv64gcv",
            shapes={name: shapes[name] for name in shapes if name not in decided},
            values={name: given[name] for name in decided},
        )
        decided = {**decided, **dict.fromkeys(getattr(module, "deciding_inputs", ()))}
    module.export(str(folder / "model"), kind="executable")
    found = run_under_qemu(
        folder / "model", {port.name: given[port.name] for port in module.inputs}, folder
    )
    for name, value in expected.items():
        compare(found[output_file(name)], value)


def test_riscv64(request, tmp_path):
    """Each so many of those that pass and have arrays, evenly over the list."""
    cases = [(path, case) for path in passing() if (case := riscv_case(path))]
    wanted = RISCV_ALL if request.config.getoption("--full") else RISCV_SAMPLE
    assert len(cases) > RISCV_ALL
    wrong = {}
    for i in range(wanted):
        path, (given, expected) = cases[i * len(cases) // wanted]
        folder = tmp_path / path.name
        folder.mkdir()
        try:
            check_riscv(path, folder, given, expected)
        except (AssertionError, tc.Error) as error:
            wrong[path.name] = str(error)
    assert not wrong


def test_strings():
    """All of them: the runner of tests/frontend/onnx_node_test.cc has no strings."""
    names = {name for name, reason in listed().items() if STRINGS in reason}
    assert len(names) >= 25
    for path in passing():
        if path.name in names:
            check(path)


@pytest.mark.parametrize(
    "name",
    [
        "test_reduce_sum_keepdims_random",
        "test_resize_upsample_sizes_cubic",
        "test_slice",
        "test_range_int32_type_negative_delta_expanded",
        "test_if_opt",
        "test_loop16_seq_none",
        "test_sequence_insert_at_front",
        "test_optional_get_element_optional_sequence",
    ],
)
def test_operands_of_a_run(name):
    found = [path for path in passing() if path.name == name]
    assert found, f"{name} is no longer among those that pass"
    check(found[0])
