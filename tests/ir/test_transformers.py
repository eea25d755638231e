"""Attention in all its forms, and the operators that ONNX Runtime's optimiser leaves in
transformers, agree with ONNX Runtime on seeded random inputs."""

import numpy
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from ..support import output_file, run_under_qemu, worst_error

RANDOM = numpy.random.default_rng(11)
INT32 = numpy.int32


def floats(*shape):
    return RANDOM.standard_normal(shape).astype(numpy.float32)


def model_of(op, inputs, outputs, attributes, opset):
    """A model of one node; inputs that are None are left out."""
    domain, _, name = op.rpartition(".")
    node = helper.make_node(
        name,
        [key if array is not None else "" for key, array in inputs.items()],
        outputs,
        domain=domain,
        **attributes,
    )
    given = {key: array for key, array in inputs.items() if array is not None}
    ports = [
        helper.make_tensor_value_info(
            key, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for key, array in given.items()
    ]
    results = [
        helper.make_tensor_value_info(
            key, TensorProto.INT32 if key.startswith("i_") else TensorProto.FLOAT, None
        )
        for key in outputs
        if key
    ]
    graph = helper.make_graph([node], "row", ports, results)
    return helper.make_model(
        graph,
        ir_version=8,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)],
    )


class Case:
    """A node with its inputs, of which the compiler has to know those in `fixed`, and the outputs
    that are compared."""

    def __init__(self, op, inputs, outputs=("y",), opset=17, fixed=(), compared=None, **attributes):
        self.op, self.outputs, self.opset, self.attributes = op, list(outputs), opset, attributes
        self.inputs, self.fixed = inputs, fixed
        self.compared = compared or [name for name in outputs if name]

    def model(self):
        model = model_of(self.op, self.inputs, self.outputs, self.attributes, self.opset)
        for name in self.fixed:
            model.graph.initializer.append(
                numpy_helper.from_array(numpy.asarray(self.inputs[name]), name)
            )
            model.graph.input.remove(next(port for port in model.graph.input if port.name == name))
        return model.SerializeToString()

    def feeds(self):
        return {
            key: array
            for key, array in self.inputs.items()
            if array is not None and key not in self.fixed
        }


MS = "com.microsoft."
PAST = {"past_key": floats(2, 4, 3, 8), "past_value": floats(2, 4, 3, 8)}
QKV = {"q": floats(2, 5, 32), "k": floats(2, 5, 32), "v": floats(2, 5, 32)}
CROSS = {"q": floats(2, 5, 32), "k": floats(2, 7, 32), "v": floats(2, 7, 24)}
PRESENT = ("y", "present_key", "present_value")


def multi_head(
    inputs, bias=None, padding=None, added=None, past=None, outputs=("y",), **attributes
):
    inputs = {**{"k": None, "v": None}, **inputs}
    inputs = {
        "q": inputs["q"],
        "k": inputs["k"],
        "v": inputs["v"],
        "bias": bias,
        "padding": padding,
        "added": added,
    }
    return Case(
        MS + "MultiHeadAttention", {**inputs, **(past or {})}, outputs, num_heads=4, **attributes
    )


MULTI_HEAD = {
    "plain": multi_head(QKV),
    "scale": multi_head(QKV, scale=0.3),
    "bias": multi_head(QKV, bias=floats(96)),
    "cross": multi_head(CROSS, bias=floats(88)),
    "lengths": multi_head(QKV, padding=numpy.array([2, 5], INT32)),
    "padding": multi_head(QKV, padding=numpy.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]], INT32)),
    "padding per query": multi_head(QKV, padding=(RANDOM.random((2, 5, 5)) > 0.4).astype(INT32)),
    "filter": multi_head(
        QKV, padding=numpy.array([[1, 1, 0, 0, 0], [1, 0, 1, 1, 0]], INT32), mask_filter_value=-2.0
    ),
    "added": multi_head(QKV, added=floats(1, 4, 5, 5)),
    "added and padding": multi_head(
        QKV,
        added=floats(2, 1, 5, 5),
        padding=numpy.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], INT32),
    ),
    "causal": multi_head(QKV, unidirectional=1),
    "past": multi_head(QKV, past=PAST, outputs=PRESENT),
    "past, causal": multi_head(QKV, past=PAST, outputs=PRESENT, unidirectional=1, bias=floats(96)),
    "present": multi_head(QKV, outputs=PRESENT),
    "split keys": multi_head(
        {"q": floats(2, 5, 32), "k": floats(2, 4, 6, 8), "v": floats(2, 4, 6, 8)}
    ),
}


def projected(width=96, bias=True, mask=None, past=None, added=None, outputs=("y",), **attributes):
    inputs = {
        "x": floats(2, 5, 16),
        "w": floats(16, width) / 4,
        "b": floats(width) if bias else None,
        "mask": mask,
        "past": past,
        "added": added,
    }
    return Case(
        MS + "Attention",
        inputs,
        outputs,
        num_heads=4,
        fixed=("w", "b") if bias else ("w",),
        **attributes,
    )


PROJECTED = {
    "plain": projected(),
    "no bias": projected(bias=False),
    "scale": projected(scale=0.25),
    "lengths": projected(mask=numpy.array([2, 5], INT32)),
    "ends and starts": projected(mask=numpy.array([4, 5, 1, 0], INT32)),
    "mask": projected(mask=numpy.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]], INT32)),
    "mask per query": projected(mask=(RANDOM.random((2, 5, 5)) > 0.4).astype(INT32)),
    "causal": projected(unidirectional=1),
    "past": projected(past=floats(2, 2, 4, 3, 8), outputs=("y", "present"), unidirectional=1),
    "past and mask": projected(
        past=floats(2, 2, 4, 3, 8),
        outputs=("y", "present"),
        unidirectional=1,
        mask=numpy.array([[0, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1]], INT32),
    ),
    "sizes": projected(width=32 + 32 + 48, qkv_hidden_sizes=[32, 32, 48]),
    "added": projected(added=floats(2, 4, 5, 5)),
}


def caches(length, width):
    angles = RANDOM.random((length, width)).astype(numpy.float32) * 6
    return {"cos": numpy.cos(angles), "sin": numpy.sin(angles)}


def grouped(
    queries=5,
    last=(4, 4),
    total=5,
    cache=None,
    packed=False,
    batch=2,
    rotary=None,
    added=None,
    compared=PRESENT,
    **attributes,
):
    """4 heads of 16 elements that share 2 of keys."""
    size, heads, kv = 16, 4, 2
    inputs = {
        "q": floats(batch, queries, size * (heads + 2 * kv if packed else heads)),
        "k": None if packed else floats(batch, queries, size * kv),
        "v": None if packed else floats(batch, queries, size * kv),
        "past_key": None if cache is None else floats(batch, kv, cache, size),
        "past_value": None if cache is None else floats(batch, kv, cache, size),
        "last": numpy.array(last, INT32),
        "total": numpy.array(total, INT32),
        "cos": None,
        "sin": None,
        "positions": None,
        "added": added,
    }
    if rotary:
        inputs.update(caches(16, rotary))
        attributes["do_rotary"] = 1
    return Case(
        MS + "GroupQueryAttention",
        inputs,
        PRESENT,
        num_heads=heads,
        kv_num_heads=kv,
        fixed=("total",),
        compared=compared,
        **attributes,
    )


GROUPED = {
    "prompt": grouped(),
    "scale": grouped(scale=0.1),
    "packed": grouped(packed=True),
    "rotary": grouped(rotary=8),
    "rotary, interleaved": grouped(rotary=8, rotary_interleaved=1),
    "rotary, packed": grouped(rotary=8, packed=True),
    "window": grouped(local_window_size=2),
    "softcap": grouped(softcap=2.0),
    "one more": grouped(queries=1, last=(6, 6), total=7, cache=6, rotary=8),
    # What caches hold behind the last key is open.
    "one more, lengths": grouped(
        queries=1, last=(6, 3), total=7, cache=6, rotary=8, compared=["y"]
    ),
    "shared buffer": grouped(
        queries=1, last=(6, 4), total=7, cache=12, rotary=8, local_window_size=4, compared=["y"]
    ),
    "one of a batch": grouped(queries=3, batch=1, last=(7,), total=8, cache=5, rotary=8),
    "added": grouped(added=floats(1, 4, 5, 5)),
}


def rotary(x, ids, width=8, **attributes):
    return Case(MS + "RotaryEmbedding", {"x": x, "ids": ids, **caches(20, width)}, **attributes)


IDS = RANDOM.integers(0, 20, (2, 5))
ROTARY = {
    "flat": rotary(floats(2, 5, 64), IDS),
    "offset": rotary(floats(2, 5, 64), numpy.array([3])),
    "interleaved": rotary(floats(2, 5, 64), IDS, interleaved=1),
    "heads": rotary(floats(2, 4, 5, 16), IDS),
    "part": rotary(floats(2, 5, 64), IDS, width=4, num_heads=4, rotary_embedding_dim=8),
}

GAMMA, BETA, BIAS = floats(8), floats(8), floats(8)
WORDS = {
    "ids": RANDOM.integers(0, 9, (2, 5)).astype(INT32),
    "segments": RANDOM.integers(0, 2, (2, 5)).astype(INT32),
    "words": floats(9, 8),
    "positions": floats(7, 8),
    "kinds": floats(2, 8),
    "gamma": GAMMA,
    "beta": BETA,
}
NORMALISED = {
    "skip": Case(
        MS + "SkipLayerNormalization",
        {"x": floats(2, 5, 8), "skip": floats(2, 5, 8), "gamma": GAMMA, "beta": BETA, "bias": BIAS},
        ("y", "", "", "sum"),
        epsilon=1e-5,
    ),
    "skip without a shift": Case(
        MS + "SkipLayerNormalization",
        {"x": floats(2, 5, 8), "skip": floats(2, 5, 8), "gamma": GAMMA},
    ),
    "skip that broadcasts": Case(
        MS + "SkipLayerNormalization",
        {"x": floats(2, 5, 8), "skip": floats(1, 5, 8), "gamma": GAMMA, "beta": BETA},
    ),
    "simplified skip": Case(
        MS + "SkipSimplifiedLayerNormalization",
        {"x": floats(2, 5, 8), "skip": floats(2, 5, 8), "gamma": GAMMA, "bias": BIAS},
        ("y", "", "", "sum"),
    ),
    "simplified": Case(
        "SimplifiedLayerNormalization",
        {"x": floats(2, 5, 8), "scale": GAMMA},
        ("y", "deviation"),
        axis=-1,
        epsilon=1e-5,
    ),
    "embedding": Case(MS + "EmbedLayerNormalization", WORDS, ("y", "i_count")),
    "embedding with a mask": Case(
        MS + "EmbedLayerNormalization",
        {**WORDS, "mask": numpy.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], INT32)},
        ("y", "i_count", "sum"),
    ),
    "embedding with places": Case(
        MS + "EmbedLayerNormalization",
        {**WORDS, "mask": None, "places": RANDOM.integers(0, 7, (2, 5)).astype(INT32)},
        ("y", "i_count"),
    ),
    "embedding without segments": Case(
        MS + "EmbedLayerNormalization", {**WORDS, "segments": None, "kinds": None}, ("y", "i_count")
    ),
}

MATRIX = {"a": floats(2, 3, 4), "b": floats(2, 4, 5)}
OTHERS = {
    "bias gelu": Case(MS + "BiasGelu", {"x": floats(2, 3, 8), "bias": BIAS}),
    "fast gelu": Case(MS + "FastGelu", {"x": floats(2, 3, 8), "bias": BIAS}),
    "fast gelu without a bias": Case(MS + "FastGelu", {"x": floats(2, 3, 8)}),
    "quick gelu": Case(MS + "QuickGelu", {"x": floats(2, 3, 8)}, alpha=1.5),
    "product": Case(MS + "FusedMatMul", MATRIX, alpha=0.5),
    "product by its older name": Case(MS + "TransposeMatMul", MATRIX, alpha=0.5),
    "product, A": Case(MS + "FusedMatMul", {"a": floats(2, 4, 3), "b": floats(2, 4, 5)}, transA=1),
    "product, B": Case(
        MS + "FusedMatMul", {"a": floats(2, 3, 4), "b": floats(2, 5, 4)}, transB=1, alpha=2.0
    ),
    "product, batches": Case(
        MS + "FusedMatMul",
        {"a": floats(3, 2, 6, 4), "b": floats(4, 2, 6, 5)},
        transBatchA=1,
        transBatchB=1,
    ),
    "product, all": Case(
        MS + "FusedMatMul",
        {"a": floats(4, 2, 3), "b": floats(5, 2, 4)},
        transBatchA=1,
        transBatchB=1,
        transA=1,
        transB=1,
    ),
}

SEEN = numpy.array([[True, False, True, False, False], [False] * 5, [True] * 5])
STANDARD = {
    "mask": Case(
        "Attention",
        {"q": floats(1, 2, 3, 8), "k": floats(1, 2, 5, 8), "v": floats(1, 2, 5, 8), "mask": SEEN},
        opset=23,
    ),
    "mask, causal": Case(
        "Attention",
        {"q": floats(1, 2, 3, 8), "k": floats(1, 2, 5, 8), "v": floats(1, 2, 5, 8), "mask": SEEN},
        opset=23,
        is_causal=1,
    ),
    "softcap, causal": Case(
        "Attention",
        {"q": floats(1, 2, 5, 8), "k": floats(1, 2, 5, 8), "v": floats(1, 2, 5, 8)},
        opset=23,
        is_causal=1,
        softcap=0.5,
    ),
    "lengths, causal": Case(
        "Attention",
        {
            "q": floats(2, 4, 3, 8),
            "k": floats(2, 2, 7, 8),
            "v": floats(2, 2, 7, 8),
            "mask": None,
            "past_key": None,
            "past_value": None,
            "lengths": numpy.array([4, 7]),
        },
        opset=24,
        is_causal=1,
    ),
}

CASES = {
    f"{group}: {name}": case
    for group, cases in {
        "multi-head": MULTI_HEAD,
        "projected": PROJECTED,
        "grouped": GROUPED,
        "rotary": ROTARY,
        "normalised": NORMALISED,
        "other": OTHERS,
        "standard": STANDARD,
    }.items()
    for name, case in cases.items()
}


def expected(case):
    session = onnxruntime.InferenceSession(case.model(), providers=["CPUExecutionProvider"])
    return dict(zip(case.compared, session.run(list(case.compared), case.feeds())))


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_onnx_runtime(name):
    case = CASES[name]
    found = tc.compile(case.model(), log=False).run(case.feeds())
    for output, array in expected(case).items():
        assert found[output].dtype == array.dtype and found[output].shape == array.shape, output
        assert worst_error(found[output], array) <= 2e-5, output


@pytest.mark.parametrize(
    "name",
    [
        "standard: mask, causal",
        "multi-head: past, causal",
        "projected: mask",
        "grouped: one more, lengths",
        "rotary: interleaved",
        "normalised: embedding with a mask",
        "other: product, batches",
    ],
)
def test_agrees_on_riscv64(name, tmp_path):
    case = CASES[name]
    executable = tmp_path / "model"
    tc.compile(case.model(), target="rv64gcv", log=False).export(str(executable), kind="executable")
    for vlen in (128, 256):
        found = run_under_qemu(executable, case.feeds(), tmp_path, vlen)
        for output, array in expected(case).items():
            assert worst_error(found[output_file(output)], array) <= 2e-5, output


def test_packed_operands_are_those_that_they_hold():
    """ONNX Runtime has packed operands on other devices alone."""
    parts = [floats(2, 5, 4, 8) for _ in range(3)]
    flat = [part.reshape(2, 5, 32) for part in parts]
    result = expected(multi_head(dict(zip("qkv", flat))))["y"]
    for packed in (
        multi_head({"q": numpy.stack(parts, axis=3)}),
        multi_head({"q": flat[0], "k": numpy.stack(parts[1:], axis=3)}),
    ):
        assert (
            worst_error(tc.compile(packed.model(), log=False).run(packed.feeds())["y"], result)
            <= 2e-5
        )


def attention(masks, **attributes):
    inputs = {"q": floats(1, 2, 3, 8), "k": floats(1, 2, 5, 8), "v": floats(1, 2, 5, 8), **masks}
    case = Case(
        "Attention",
        inputs,
        ("y", "", "", "weights"),
        opset=23,
        qk_matmul_output_mode=3,
        **attributes,
    )
    return tc.compile(case.model(), log=False).run(case.feeds()), inputs


@pytest.mark.parametrize("softcap", [0.0, 1.5])
def test_a_query_that_sees_no_key_gives_zeros(softcap):
    infinite = numpy.where(SEEN, 0, -numpy.inf).astype(numpy.float32)
    for mask in (SEEN, infinite):
        found, inputs = attention({"mask": mask}, softcap=softcap)
        assert (found["y"][:, :, 1] == 0).all() and (found["weights"][:, :, ~SEEN] == 0).all()
        numpy.testing.assert_allclose(found["weights"].sum(axis=-1)[:, :, [0, 2]], 1, rtol=1e-5)
        scores = numpy.einsum("bhqd,bhkd->bhqk", inputs["q"], inputs["k"]) / numpy.sqrt(8)
        scores = softcap * numpy.tanh(scores / softcap) if softcap else scores
        weights = numpy.exp(scores) * SEEN
        weights /= numpy.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
        numpy.testing.assert_allclose(found["y"], weights @ inputs["v"], atol=1e-5)


@pytest.mark.parametrize(
    "kind",
    [
        numpy.int64,
        numpy.int32,
        numpy.int16,
        numpy.int8,
        numpy.uint8,
        numpy.uint32,
        numpy.float64,
        numpy.float16,
    ],
)
def test_a_mask_of_other_numbers_is_added_to_the_scores(kind):
    mask = numpy.array([[0, 2, 1, 0, 3], [1, 0, 0, 4, 0], [2, 2, 0, 1, 0]]).astype(kind)
    inputs = {
        "q": floats(1, 2, 3, 8),
        "k": floats(1, 2, 5, 8),
        "v": floats(1, 2, 5, 8),
        "mask": mask,
    }
    graph = helper.make_graph(
        [helper.make_node("Attention", list(inputs), ["y"])],
        "g",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in inputs.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    found = tc.compile(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10),
        log=False,
    ).run(inputs)["y"]
    scores = numpy.einsum("bhqd,bhkd->bhqk", inputs["q"], inputs["k"]).astype(
        numpy.float64
    ) / numpy.sqrt(8) + mask.astype(numpy.float64)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    numpy.testing.assert_allclose(
        found, weights / weights.sum(-1, keepdims=True) @ inputs["v"], atol=1e-5
    )


@pytest.mark.parametrize("size", [4, 8, 15])
def test_heads_of_a_size_that_a_run_tells(size):
    inputs = {"q": floats(2, 3, 4, size), "k": floats(2, 3, 5, size), "v": floats(2, 3, 5, 7)}
    names = {name: ["b", 3, f"{name}n", f"{name}s"] for name in inputs}
    graph = helper.make_graph(
        [helper.make_node("Attention", list(inputs), ["y"])],
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, names[name]) for name in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    module = tc.compile(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10),
        log=False,
    )
    scores = numpy.einsum("bhqd,bhkd->bhqk", inputs["q"], inputs["k"]).astype(
        numpy.float64
    ) / numpy.sqrt(size)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    numpy.testing.assert_allclose(
        module.run(inputs)["y"], weights / weights.sum(-1, keepdims=True) @ inputs["v"], atol=1e-5
    )
    with pytest.raises(tc.ShapeError, match="'ks' has to be 'qs'|'qs' has to be 'ks'"):
        module.run({**inputs, "k": floats(2, 3, 5, size + 1)})


@pytest.mark.parametrize("queries, past", [(1, 1), (1, 6), (4, 1), (4, 3)])
def test_sizes_that_are_known_at_run_time(queries, past):
    """One artefact for every length of a cache."""
    named = model_of(
        "Attention",
        {
            "q": floats(1, 4, 2, 8),
            "k": floats(1, 2, 2, 8),
            "v": floats(1, 2, 2, 8),
            "mask": None,
            "past_key": floats(1, 2, 2, 8),
            "past_value": floats(1, 2, 2, 8),
        },
        PRESENT,
        {"is_causal": 1},
        23,
    )
    for port in named.graph.input:
        port.type.tensor_type.shape.dim[2].dim_param = (
            "past" if port.name.startswith("past") else "new"
        )
    inputs = {
        name: floats(1, heads, length, 8)
        for name, heads, length in [
            ("q", 4, queries),
            ("k", 2, queries),
            ("v", 2, queries),
            ("past_key", 2, past),
            ("past_value", 2, past),
        ]
    }
    found = tc.compile(named.SerializeToString(), log=False).run(inputs)
    keys = numpy.concatenate([inputs["past_key"], inputs["k"]], axis=2)
    values = numpy.concatenate([inputs["past_value"], inputs["v"]], axis=2)
    assert (found["present_key"] == keys).all() and (found["present_value"] == values).all()
    scores = numpy.einsum("bhqd,bhkd->bhqk", inputs["q"], keys.repeat(2, axis=1)) / numpy.sqrt(8)
    seen = numpy.arange(past + queries) <= past + numpy.arange(queries)[:, None]
    weights = numpy.exp(scores) * seen
    weights /= weights.sum(axis=-1, keepdims=True)
    numpy.testing.assert_allclose(found["y"], weights @ values.repeat(2, axis=1), atol=1e-5)
