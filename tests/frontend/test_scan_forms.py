"""Scan along any axis and as opset 8 has it; lengths of sequences of recurrent operators."""

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tc

from .test_errors import refusal

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
node = helper.make_node


def port(name, shape, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model_of(nodes, inputs, outputs, opset=17):
    return helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=8,
    )


def running_sum(extra=()):
    nodes = [node("Add", ["s", "t"], ["sum"]), *extra, node("Identity", ["sum"], ["shown"])]
    return helper.make_graph(
        nodes,
        "body",
        [port("s", [2, 3]), port("t", [2, 3])],
        [port("sum", [2, 3]), port("shown", [2, 3])],
    )


@pytest.mark.parametrize("before, after", [(1, 0), (0, 2), (-1, 1), (2, -3), (1, -1)])
def test_other_axes(before, after):
    scan = node(
        "Scan",
        ["s0", "x"],
        ["y", "z"],
        "scan",
        body=running_sum(),
        num_scan_inputs=1,
        scan_input_axes=[before],
        scan_output_axes=[after],
    )
    shape = [2, 3]
    shape.insert(before % 3, 5)
    module = tc.compile(
        model_of([scan], [port("s0", [2, 3]), port("x", shape)], [port("y", None), port("z", None)])
    )
    random = np.random.default_rng(1)
    start, x = (
        random.standard_normal((2, 3)).astype(np.float32),
        random.standard_normal(shape).astype(np.float32),
    )
    sums = start + np.cumsum(np.moveaxis(x, before, 0), 0)
    y, z = module(start, x)
    np.testing.assert_allclose(y, sums[-1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(z, np.moveaxis(sums, 0, after), rtol=1e-5, atol=1e-6)


def old_scan(batch=3, lengths="", inputs=("s0", "x"), opset=8, **attributes):
    scan = node(
        "Scan",
        [lengths, *inputs],
        ["y", "z"],
        "scan",
        **{"body": running_sum(), "num_scan_inputs": 1, **attributes},
    )
    return model_of(
        [scan],
        [port("s0", [batch, 2, 3]), port("x", [batch, 4, 2, 3]), port("n", [batch], INT64)],
        [port("y", None), port("z", None)],
        opset,
    )


@pytest.mark.parametrize("backwards", [0, 1])
def test_each_element_of_a_batch(backwards):
    random = np.random.default_rng(2)
    start, x = (
        random.standard_normal((3, 2, 3)).astype(np.float32),
        random.standard_normal((3, 4, 2, 3)).astype(np.float32),
    )
    given = {"s0": start, "x": x, "n": np.zeros(3, np.int64)}
    found = tc.compile(old_scan(directions=[backwards])).run(given)
    sums = start[:, None] + np.cumsum(x[:, ::-1] if backwards else x, 1)
    np.testing.assert_allclose(found["y"], sums[:, -1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["z"], sums, rtol=1e-5, atol=1e-6)


def test_refusals():
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(old_scan(lengths="n")),
        "node 'scan' (Scan, opset 8) of model.onnx has lengths of sequences as input 'n', which "
        "are not supported; leave them out, or export the model with opset 9 or later",
    )
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(old_scan("B")),
        "scans each element of a batch, whose size is not known; bind it with shapes=",
    )
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(old_scan(300)),
        "scans each element of a batch of 300 by itself; at most 256 are supported",
    )
    larger = running_sum([node("Upsample", ["sum"], ["u"], scales=[1.0, 1.0])])
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(old_scan(body=larger)),
        "has Upsample in its body, which is not supported there; export the model with opset 9",
    )
    longer = running_sum([node("Neg", ["sum"], [f"n{i}"]) for i in range(100)])
    refusal(
        tc.UnsupportedError,
        lambda: tc.compile(old_scan(256, body=longer)),
        "scans each element of a batch by itself, of which 26112 nodes would come; at most 4096",
    )
    refusal(
        tc.ModelError,
        lambda: tc.compile(old_scan(num_scan_inputs=4)),
        "has 3 inputs and num_scan_inputs 4, which do not fit its body",
    )
    model = old_scan()
    del model.graph.node[0].attribute[:]
    refusal(tc.ModelError, lambda: tc.compile(model), "node 'scan'", "lacks attribute 'body'")
    scan = node(
        "Scan",
        ["s0", "x"],
        ["y", "z"],
        "scan",
        body=running_sum(),
        num_scan_inputs=1,
        scan_input_axes=[3],
    )
    refusal(
        tc.ModelError,
        lambda: tc.compile(
            model_of(
                [scan],
                [port("s0", [2, 3]), port("x", [2, 5, 3])],
                [port("y", None), port("z", None)],
            )
        ),
        "scan_input_axes has 3, which is none of the 3 axes",
    )


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(op, direction, lengths=True, **attributes):
    directions, outputs = (
        2 if direction == "bidirectional" else 1,
        ["y", "h", "c"][: 3 if op == "LSTM" else 2],
    )
    random, gates = np.random.default_rng(4), GATES[op]

    def constant(name, *shape):
        return helper.make_tensor(
            name, FLOAT, shape, random.standard_normal(shape).ravel().astype(np.float32)
        )

    weights = [
        constant("w", directions, gates * 4, 3),
        constant("r", directions, gates * 4, 4),
        constant("b", directions, gates * 8),
        constant("h0", directions, 3, 4),
    ]
    cell = node(
        op,
        ["x", "w", "r", "b", "n" if lengths else "", "h0"],
        outputs,
        "cell",
        hidden_size=4,
        direction=direction,
        **attributes,
    )
    graph = helper.make_graph(
        [cell],
        "g",
        [port("x", ["T", 3, 3])] + [port("n", [3], INT32)] * lengths,
        [port(name, None) for name in outputs],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lengths_of_sequences(op, direction):
    model = recurrent(op, direction)
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    module = tc.compile(model)
    for time, lengths in ((6, [6, 2, 4]), (3, [1, 3, 3]), (5, [5, 5, 5])):
        given = {
            "x": np.random.default_rng(time).standard_normal((time, 3, 3)).astype(np.float32),
            "n": np.array(lengths, np.int32),
        }
        found = module.run(given)
        for output, expected in zip(peer.get_outputs(), peer.run(None, given)):
            np.testing.assert_allclose(found[output.name], expected, rtol=1e-4, atol=1e-5)


def test_lengths_that_are_known():
    """A constant that says what the input's shape says, or less."""
    module = tc.compile(recurrent("LSTM", "forward"), values={"n": np.array([2, 3, 1], np.int32)})
    x = np.random.default_rng(5).standard_normal((4, 3, 3)).astype(np.float32)
    np.testing.assert_array_equal(
        module(x)[0], tc.compile(recurrent("LSTM", "forward"))(x, np.array([2, 3, 1], np.int32))[0]
    )
    assert not module(x)[0][3].any()


def test_the_forget_gate_follows_the_input_gate():
    """ONNX Runtime has the same."""
    model = recurrent("LSTM", "forward", lengths=False, input_forget=1)
    x = np.random.default_rng(6).standard_normal((4, 3, 3)).astype(np.float32)
    peer = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for found, expected in zip(tc.compile(model)(x), peer.run(None, {"x": x})):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_lengths_of_another_shape():
    model = recurrent("GRU", "forward")
    model.graph.input[1].CopyFrom(port("n", [4], INT32))
    refusal(
        tc.ShapeError,
        lambda: tc.compile(model),
        "node 'cell'",
        "sequence_lens has shape [4]; [3] is needed",
    )
