"""Language models in files of other programs: what ONNX Runtime GenAI's builder writes, what
torch.onnx exports, and what transformers exports with a static cache. Each is compiled without
being told any size."""

import subprocess
import sys

import numpy as np
import onnx
import pytest

import tc
from tc.native import compiler

from ..support import worst_error
from . import genai_files

# (sequences, tokens that were read before, new tokens)
CALLS = ((1, 0, 5), (1, 5, 1), (2, 7, 3), (1, 6, 1))


def arguments(random, names, batch, before, new):
    """(arrays by the names of a builder's inputs, tokens, caches)."""
    ids = random.integers(0, genai_files.VOCABULARY, (batch, new))
    shape = (batch, genai_files.KEY_HEADS, before, genai_files.SIZE)
    past = [
        [random.standard_normal(shape).astype(np.float32) for _ in range(2)]
        for _ in range(genai_files.LAYERS)
    ]
    given = {
        "input_ids": ids,
        "attention_mask": np.ones((batch, before + new), np.int64),
        "position_ids": np.tile(np.arange(before, before + new), (batch, 1)),
    }
    for layer, pair in enumerate(past):
        for what, array in zip(("key", "value"), pair):
            given[f"past_key_values.{layer}.{what}"] = array
    return {name: given[name] for name in names}, ids, past


def hold_a_form(form, limit, folder, **options):
    maker = genai_files.Maker(form)
    path = maker.write(folder / "model.onnx")
    module = tc.compile(path, threads=1, log=False, specialise=0, **options)
    random = np.random.default_rng(8)
    for call in CALLS:
        given, ids, past = arguments(random, [port.name for port in module.inputs], *call)
        expected = genai_files.expected(maker, ids, past)
        found = module.run(given)
        assert set(found) == set(expected)
        errors = {name: worst_error(found[name], expected[name]) for name in expected}
        assert max(errors.values()) <= limit, (call, errors)


@pytest.mark.parametrize("form", genai_files.FORMS)
def test_files_of_the_builder(form, tmp_path):
    hold_a_form(form, 1e-5, tmp_path, tolerance=0)


def steps_of(module, symbols):
    """What the plan moves in each step of a run with these sizes."""
    rows = compiler.step_work(module._compiled, {**dict.fromkeys(module.symbols, 1), **symbols})
    return [row for row in rows if row["runs"]]


def test_growing_caches_are_written_once(tmp_path):
    """Caches that get longer are read and written once to make room; the new slots are then written
    where they lie."""
    path = genai_files.Maker("fp32").write(tmp_path / "model.onnx")
    module = tc.compile(path, threads=1, log=False, specialise=0)
    past = 4096
    sizes = {"past_sequence_length": past, "total_sequence_length": past + 1}
    cache = genai_files.KEY_HEADS * genai_files.SIZE * (past + 1) * 4
    steps = steps_of(module, {**sizes, "kv_cache_dim": genai_files.SIZE})
    assert sum(row["written"] >= cache for row in steps) == 2 * genai_files.LAYERS


def test_caches_with_room_are_changed_in_place(tmp_path):
    """ONNX Runtime GenAI's shared buffers: caches as long as the context, whose slots are filled by
    and by."""
    room, layers, size = 64, genai_files.LAYERS, genai_files.SIZE
    maker = genai_files.Maker("fp32")
    shapes = {
        "past_sequence_length": room,
        "total_sequence_length": (1, room),
        "kv_cache_dim": size,
    }
    path = maker.write(tmp_path / "model.onnx")
    module = tc.compile(path, threads=1, log=False, shapes=shapes, specialise=0)
    names = [
        f"past_key_values.{layer}.{what}" for layer in range(layers) for what in ("key", "value")
    ]
    assert module.in_place == {name.replace("past_key_values", "present"): name for name in names}
    # No copy but those that one memory saves, and each kernel writes less than a cache.
    steps = steps_of(module, {"total_sequence_length": room})
    copies = [row["label"] for row in steps if row["kind"] == "copy"]
    assert len(copies) == 2 * layers and all(" unless present." in label for label in copies)
    cache = genai_files.KEY_HEADS * room * size * 4
    kernels = [row for row in steps if row["kind"] == "kernel"]
    assert max(row["written"] for row in kernels) < cache / 4
    random, caches = np.random.default_rng(4), {}
    filled = [
        [random.standard_normal((1, genai_files.KEY_HEADS, 0, size)).astype(np.float32)] * 2
    ] * layers
    for name in names:
        caches[name] = np.full((1, genai_files.KEY_HEADS, room, size), 3, np.float32)
    for new in (5, 1, 1):
        before = filled[0][0].shape[2]
        ids = random.integers(0, genai_files.VOCABULARY, (1, new))
        given = {"input_ids": ids, "attention_mask": np.ones((1, before + new), np.int64), **caches}
        results = module.run_in_place(*(given[port.name] for port in module.inputs))
        found = dict(zip((port.name for port in module.outputs), results))
        expected = genai_files.expected(maker, ids, filled)
        assert worst_error(found["logits"], expected["logits"]) <= 1e-5
        filled = [
            [expected[f"present.{layer}.{what}"] for what in ("key", "value")]
            for layer in range(layers)
        ]
        for name in names:
            slots = caches[name][:, :, : before + new]
            assert worst_error(slots, expected[name.replace("past_key_values", "present")]) <= 1e-5


@pytest.mark.parametrize("form", ["int4", "QDQ with zero points"])
def test_digits_within_the_tolerance(form, tmp_path):
    hold_a_form(form, 2e-4, tmp_path)


def test_the_reference_is_that_of_onnx_runtime(tmp_path):
    """The numbers in float64 beside ONNX Runtime's, for the forms that it computes in float32."""
    onnxruntime = pytest.importorskip("onnxruntime")
    random = np.random.default_rng(9)
    for form in ("fp32", "fp32, separate"):
        maker = genai_files.Maker(form)
        session = onnxruntime.InferenceSession(
            maker.write(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"]
        )
        names = [port.name for port in session.get_inputs()]
        given, ids, past = arguments(random, names, 1, 5, 3)
        expected = genai_files.expected(maker, ids, past)
        for port, found in zip(session.get_outputs(), session.run(None, given)):
            assert worst_error(found, expected[port.name]) <= 1e-5


def test_a_mask_of_new_tokens_is_expanded_to_all(tmp_path):
    """The builder's mask for float16: [new, new] becomes [new, all], which is possible for empty
    caches and for one new token."""
    node, constant = onnx.helper.make_node, onnx.numpy_helper.from_array
    nodes = [
        node("Shape", ["past"], ["before"], start=1, end=2),
        node("Shape", ["new"], ["count"], start=1, end=2),
        node("Add", ["before", "count"], ["all"]),
        node("Shape", ["new"], ["batch"], start=0, end=1),
        node("Concat", ["batch", "one", "count", "all"], ["shape"], axis=0),
        node("Concat", ["count", "count"], ["square"], axis=0),
        node("Reshape", ["mask", "square"], ["flat"]),
        node("Expand", ["flat", "shape"], ["y"]),
    ]
    ports = [("past", ["b", "p"]), ("new", ["b", "s"]), ("mask", ["n"])]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in ports],
        [onnx.helper.make_tensor_value_info("y", 1, None)],
        [constant(np.array([1]), "one")],
    )
    opsets = [onnx.helper.make_opsetid("", 21)]
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx"
    )
    module = tc.compile(tmp_path / "m.onnx", threads=1, log=False, shapes={"p": (0, 64)})

    def run(batch, before, new):
        mask = np.random.default_rng(1).standard_normal(new * new).astype(np.float32)
        past, tokens = (np.zeros((batch, count), np.float32) for count in (before, new))
        square = mask.reshape(1, 1, new, new)
        return module(past, tokens, mask), square, (batch, 1, new, before + new)

    for call in (1, 0, 5), (2, 0, 3), (2, 7, 1), (1, 0, 1):
        found, square, shape = run(*call)
        assert np.array_equal(found, np.broadcast_to(square, shape))
    with pytest.raises(
        tc.Error, match=r"\(Expand.*'min\(p, s - 1\)' has to be '0'; they are 2 and 0"
    ):
        run(1, 7, 3)


# --- torch.onnx and transformers ----------------------------------------------------------------


@pytest.fixture(scope="module")
def llama():
    """A small model of transformers in float32."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers", reason="the model is of transformers")
    from . import gguf_models

    return gguf_models.made("llama")[0].float()


def test_an_export_of_torch_onnx_with_caches(llama, tmp_path):
    pytest.importorskip("onnxscript", reason="torch.onnx writes with onnxscript")
    import torch
    from transformers.cache_utils import DynamicCache

    class Cached(torch.nn.Module):
        def forward(self, input_ids, attention_mask, past):
            cache = DynamicCache([(key, value) for key, value in past])
            found = self.model(input_ids, attention_mask=attention_mask, past_key_values=cache)
            layers = found.past_key_values.layers
            return found.logits, [(layer.keys, layer.values) for layer in layers]

    def given(batch, before, new):
        torch.manual_seed(batch + before + new)
        past = [tuple(torch.randn(batch, 2, before, 8) for _ in range(2)) for _ in range(2)]
        mask = torch.ones(batch, before + new, dtype=torch.int64)
        return torch.randint(0, 41, (batch, new)), mask, past

    exported = Cached().eval()
    exported.model = llama
    free = torch.export.Dim.DYNAMIC
    row, cache = {0: free, 1: free}, {0: free, 2: free}
    path = tmp_path / "model.onnx"
    torch.onnx.export(
        exported,
        given(2, 7, 3),
        path,
        dynamo=True,
        dynamic_shapes=(row, row, [(cache, cache)] * 2),
        verbose=False,
    )
    module = tc.compile(path, threads=1, log=False, specialise=0)
    for call in CALLS[1:]:
        ids, mask, past = given(*call)
        with torch.no_grad():
            logits, new = exported(ids, mask, past)
        expected = [logits, *(each for pair in new for each in pair)]
        arrays = [ids, mask, *(each for pair in past for each in pair)]
        found = module(*(array.numpy() for array in arrays))
        assert max(map(worst_error, found, expected)) <= 1e-5


def test_an_export_with_a_static_cache(llama):
    import torch
    from transformers import GenerationConfig
    from transformers.integrations.executorch import convert_and_export_with_cache

    config = {"batch_size": 1, "max_cache_len": 16}
    llama.generation_config = GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=16, cache_config=config
    )
    module = tc.compile(convert_and_export_with_cache(llama), threads=1, log=False)
    tokens = [3, 1, 4, 1, 5, 9, 2]
    for count, token in enumerate(tokens):
        found = module(input_ids=torch.tensor([[token]]), cache_position=torch.tensor([count]))
        with torch.no_grad():
            expected = llama(torch.tensor([tokens[: count + 1]])).logits[:, -1:]
        assert worst_error(found, expected) <= 1e-5
    # The cache is the module's state: from the beginning again.
    module.state.reset()
    found = module(input_ids=torch.tensor([[5]]), cache_position=torch.tensor([0]))
    with torch.no_grad():
        assert worst_error(found, llama(torch.tensor([[5]])).logits) <= 1e-5


# --- the builder itself -------------------------------------------------------------------------


def built(llama, folder, precision, **options):
    """The path of the file that the builder writes of a model."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    source = folder / "source"
    if not source.exists():
        llama.save_pretrained(source)
        words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(41)}, unk_token="t0"))
        PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(source)
    target = folder / "-".join([precision, *map(str, options.values())])
    extra = [f"{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", source, "-o", target]
    command += ["-p", precision, "-e", "cpu", "-c", folder / "cache"]
    command += ["--extra_options", *extra] if extra else []
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return target / "model.onnx"


@pytest.mark.full
def test_what_the_builder_writes_in_float16(tmp_path):
    """Tokens after empty caches, then one after these, beside transformers in float32."""
    pytest.importorskip("onnxruntime_genai", reason="the builder is that of onnxruntime-genai")
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers", reason="the model is of transformers")
    from . import gguf_models

    sizes = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16}
    llama = gguf_models.made("llama", **sizes)[0].float()
    module = tc.compile(built(llama, tmp_path, "fp16"), threads=1, log=False)
    ids = np.random.default_rng(3).integers(0, 41, (2, 6))
    caches = {
        port.name: np.zeros((2, 2, 0, 16), np.float16)
        for port in module.inputs
        if port.name.startswith("past")
    }
    with torch.no_grad():
        expected = llama(torch.tensor(ids)).logits
    for begin, end in (0, 5), (5, 6):
        positions = np.tile(np.arange(begin, end), (2, 1))
        mask = np.ones((2, end), np.int64)
        given = {"input_ids": ids[:, begin:end], "attention_mask": mask, "position_ids": positions}
        found = module.run({**given, **caches})
        assert worst_error(found["logits"], expected[:, begin:end]) <= 5e-3
        caches = {name: found[name.replace("past_key_values", "present")] for name in caches}


@pytest.mark.full
@pytest.mark.parametrize("symmetric", ["true", "false"])
def test_what_the_builder_writes(symmetric, tmp_path):
    """float32 beside transformers. Products of packed weights beside those of the same weights
    that ONNX Runtime dequantises to float32, which it does where nothing is optimised."""
    pytest.importorskip("onnxruntime_genai", reason="the builder is that of onnxruntime-genai")
    onnxruntime = pytest.importorskip("onnxruntime")
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers", reason="the model is of transformers")
    from . import gguf_models

    sizes = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16}
    llama = gguf_models.made("llama", **sizes)[0].float()
    packing = {"block_size": 32, "is_symmetric": symmetric}
    qdq = built(llama, tmp_path, "int4", **packing, use_qdq="true")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(qdq, options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(3)
    given = {"input_ids": random.integers(0, 41, (1, 3)), "attention_mask": np.ones((1, 8), int)}
    for port in session.get_inputs()[2:]:
        given[port.name] = random.standard_normal((1, 2, 5, 16)).astype(np.float32)
    expected = session.run(None, given)
    for path in qdq, built(llama, tmp_path, "int4", **packing):
        module = tc.compile(path, threads=1, log=False, tolerance=0)
        assert max(map(worst_error, module.run(given).values(), expected)) <= 1e-5
    module = tc.compile(built(llama, tmp_path, "fp32"), threads=1, log=False)
    empty = {name: array[:, :, :0] for name, array in given.items() if array.ndim == 4}
    ids = given["input_ids"]
    found = module.run({**empty, "input_ids": ids, "attention_mask": np.ones_like(ids)})
    with torch.no_grad():
        assert worst_error(found["logits"], llama(torch.tensor(ids)).logits) <= 1e-5
