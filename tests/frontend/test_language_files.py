"""Language models in files of other programs: what ONNX Runtime GenAI's builder writes, what
torch.onnx exports, and what transformers exports with a static cache. Each is compiled without
being told any size."""

import subprocess
import sys

import numpy as np
import pytest

import tc

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
