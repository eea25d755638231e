"""What `tc.generate` and its command take of memory: the file, the cache and 60 MB."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip(
    "gguf", reason="GGUF files are read by the package gguf, which is not installed"
)
from gguf.constants import GGMLQuantizationType  # noqa: E402
from gguf.quants import quantize  # noqa: E402

from .gguf_files import field, file_of, tensor  # noqa: E402
from .test_generate import real_model  # noqa: E402

ALLOWANCE = 60_000_000  # beside the file and the cache
# A process's own largest resident size; that of getrusage begins with its parent's.
_PEAK = """
import re
print("PEAK", int(re.search("VmHWM:\\\\s*(\\\\d+)", open("/proc/self/status").read())[1]) << 10)
"""
_GENERATE = f"""
import sys, tc
tc.generate(sys.argv[1], sys.argv[2], max_tokens=40, threads=1)
{_PEAK}
"""
_COMMAND = f"""
import atexit, runpy, sys
atexit.register(lambda: exec({_PEAK!r}))
path, prompt = sys.argv[1:]
sys.argv = ["tc", "generate", path, "--prompt", prompt, "--max-tokens", "40", "--threads", "1"]
runpy.run_module("tc", run_name="__main__", alter_sys=True)
"""
_LETTERS = [chr(code) for code in range(0x21, 0x7F)] + [chr(0xA1 + code) for code in range(11)]
_VOCABULARY, _WIDTH, _HIDDEN, _HEADS, _CONTEXT = 49152, 512, 1024, 8, 256


def peak_of(script, path, prompt):
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), prompt],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout.split("PEAK ")[-1])


def vocabulary():
    """As many tokens, and nearly as many merges, as SmolLM2 has."""
    pairs = [(left, right) for left in _LETTERS for right in _LETTERS]
    merges = [f"{left} {right}" for left, right in pairs]
    longer = [(left + right, last) for left, right in pairs for last in _LETTERS[:4]]
    merges += [f"{left} {right}" for left, right in longer]
    merges = merges[: _VOCABULARY - len(_LETTERS) - 1]
    return [*_LETTERS, *(merge.replace(" ", "") for merge in merges), "<|im_end|>"], merges


def generated(path):
    """A model of one layer with a large vocabulary, whose two matrices of tokens differ."""
    tokens, merges = vocabulary()
    fields = [
        field("general.architecture", "llama"),
        field("llama.context_length", _CONTEXT),
        field("llama.embedding_length", _WIDTH),
        field("llama.block_count", 1),
        field("llama.feed_forward_length", _HIDDEN),
        field("llama.attention.head_count", _HEADS),
        field("llama.attention.layer_norm_rms_epsilon", 1e-5),
        field("tokenizer.ggml.model", "gpt2"),
        field("tokenizer.ggml.pre", "smollm"),
        field("tokenizer.ggml.tokens", tokens),
        field("tokenizer.ggml.token_type", np.ones(len(tokens), np.int32)),
        field("tokenizer.ggml.merges", merges),
        field("tokenizer.ggml.eos_token_id", len(tokens) - 1),
    ]
    random = np.random.default_rng(0)
    shapes = {
        "token_embd": (len(tokens), _WIDTH),
        "output": (len(tokens), _WIDTH),
        **{f"blk.0.attn_{name}": (_WIDTH, _WIDTH) for name in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{name}": (_HIDDEN, _WIDTH) for name in ("gate", "up")},
        "blk.0.ffn_down": (_WIDTH, _HIDDEN),
    }
    kind, rows, data = GGMLQuantizationType.Q8_0, [], b""
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        rows.append(tensor(f"{name}.weight", [_WIDTH], offset=len(data)))
        data += np.ones(_WIDTH, np.float32).tobytes()
    for name, shape in shapes.items():
        rows.append(tensor(f"{name}.weight", shape[::-1], kind, len(data)))
        data += quantize(random.standard_normal(shape, np.float32) * 0.05, kind).tobytes()
    path.write_bytes(file_of(fields, rows, data))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return generated(tmp_path_factory.mktemp("large") / "large.gguf")


@pytest.mark.parametrize("script", [_GENERATE, _COMMAND], ids=["tc.generate", "command"])
def test_the_file_the_cache_and_60_mb(model, script):
    cache = 2 * _CONTEXT * _WIDTH * 4
    assert peak_of(script, model, "hello") <= model.stat().st_size + cache + ALLOWANCE


@pytest.mark.full
@pytest.mark.parametrize("script", [_GENERATE, _COMMAND], ids=["tc.generate", "command"])
def test_a_real_model_with_the_cache_and_60_mb(script):
    path = real_model()
    layers, heads, capacity, size = 30, 3, 256, 64
    cache = 2 * layers * heads * capacity * size * 4
    peak = peak_of(script, path, "The steam engine was invented")
    assert peak <= os.path.getsize(path) + cache + ALLOWANCE
