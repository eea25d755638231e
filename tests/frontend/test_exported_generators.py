"""Language models as programs (`python -m tc generate MODEL --export FILE`): the same tokens as
tc.generate, natively and under qemu; texts through the tokenizer's file; what is damaged."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import tc
from tests.qemu import cores, qemu_cpu, qemu_path

pytest.importorskip(
    "gguf", reason="GGUF files are read by the package gguf, which is not installed"
)
pytest.importorskip("transformers", reason="the models are transformers', which is not installed")
from tc.gguf import language_of  # noqa: E402
from tc.language.exporting import export_program  # noqa: E402
from tc.language.tokenizer_file import tokenizer_bytes  # noqa: E402

from .test_gguf import written  # noqa: E402

TEXTS = ("hello world", "h", "1 2 ab", "hello  world\n\n hello", "<|im_start|>hello")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return written(tmp_path_factory.mktemp("tiny"), "llama")[0]


@pytest.fixture(scope="module")
def native(model, tmp_path_factory):
    """(program, tokenizer's file) by the command."""
    folder = tmp_path_factory.mktemp("program")
    program, tokenizer = folder / "tiny", folder / "tiny.tokenizer"
    done = subprocess.run(
        [sys.executable, "-m", "tc", "generate", str(model), "--export", str(program)]
        + ["--tokenizer", str(tokenizer), "--threads", "1", "--json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["program"] == str(program)
    return program, tokenizer


def run(program, *arguments, emulator=()):
    return subprocess.run(
        [*emulator, str(program), "generate", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )


def numbers(tokens):
    return ",".join(map(str, tokens))


def expected(model, tokens, count):
    """(tokens, text) of tc.generate."""
    from tc.language.generating import Generation, language_for
    from tc.language.sampling import Sampling
    from tc.language.session import Session

    run = Generation(Session(language_for(model, 1)), list(tokens), Sampling(), count)
    text = "".join(run.pieces())
    return run.tokens, text


def prompt_of(model, least):
    """Tokens after which the model does not end at once."""
    prompts = ([first, second] for first in range(3, 30) for second in range(3, 30))
    return next(ids for ids in prompts if len(expected(model, ids, least)[0]) == least)


def test_the_tokens_of_tc_generate(model, native):
    program, tokenizer = native
    encode = language_of(model, 1).tokenizer.encode
    ids = prompt_of(model, 20)
    done = run(program, "--tokens", numbers(ids), "--tokenizer", tokenizer, "--max-tokens", 20)
    assert done.stdout == expected(model, ids, 20)[1] + "\n"
    for text in TEXTS:
        ids = encode(text)
        tokens, answer = expected(model, ids, 24)
        done = run(program, "--tokens", numbers(ids), "--tokenizer", tokenizer, "--max-tokens", 24)
        assert done.returncode == 0, done.stderr
        assert done.stdout == answer + "\n"
        done = run(
            program, "--prompt", text, "--tokenizer", tokenizer, "--max-tokens", 24, "--json"
        )
        told = json.loads(done.stdout)
        assert told["tokens"] == tokens and told["prompt"] == ids


def test_numbers_alone(model, native):
    ids = prompt_of(model, 5)
    tokens, _ = expected(model, ids, 5)
    done = run(native[0], "--tokens", numbers(ids), "--max-tokens", 5)
    assert done.stdout == " ".join(map(str, tokens)) + "\n"
    done = run(native[0], "--tokens", numbers(ids), "--max-tokens", 5, "--end", tokens[2])
    assert done.stdout.split() == [str(token) for token in tokens[: tokens.index(tokens[2])]]
    assert run(native[0], "--tokens", numbers(ids), "--max-tokens", 0).stdout == "\n"


def emulator_of(target):
    """The command that runs a target's programs here, or a skip that says what is not installed."""
    if target == "native":
        return []
    if qemu_path() is None:
        pytest.skip("qemu-riscv64 is not installed")
    return [qemu_path(), "-cpu", qemu_cpu(cores()["generic"], 256)]


def test_under_qemu(model, tmp_path):
    emulator = emulator_of("rv64gcv")
    program, tokenizer = tmp_path / "tiny", tmp_path / "tiny.tokenizer"
    export_program(model, str(program), str(tokenizer), target="rv64gcv", threads=1)
    encode = language_of(model, 1).tokenizer.encode
    ids = prompt_of(model, 12)
    prompts = [
        (["--tokens", numbers(ids), "--tokenizer", tokenizer], ids),
        (["--prompt", "hello  1 2\n", "--tokenizer", tokenizer], encode("hello  1 2\n")),
    ]
    for arguments, tokens in prompts:
        done = run(program, *arguments, "--max-tokens", 12, "--json", emulator=emulator)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["tokens"] == expected(model, tokens, 12)[0]
        assert told["prompt"] == tokens


@pytest.mark.parametrize("target", ["native", "rv64gcv"])
def test_weights_beside_the_program(model, tmp_path, target):
    emulator = emulator_of(target)
    export_program(model, str(tmp_path / "tiny"), target=target, threads=1, weights="separate")
    (weights,) = tmp_path.glob("*.weights")
    ids = prompt_of(model, 8)
    done = run(
        tmp_path / "tiny",
        *("--tokens", numbers(ids), "--max-tokens", 8, "--json"),
        emulator=emulator,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tokens"] == expected(model, ids, 8)[0]
    weights.unlink()
    done = run(tmp_path / "tiny", "--tokens", numbers(ids), emulator=emulator)
    assert done.returncode == 1 and weights.name in done.stderr


def test_the_end_of_the_context(model, native):
    done = run(native[0], "--tokens", numbers([3] * 60), "--max-tokens", 1000, "--json")
    tokens, _ = expected(model, [3] * 60, 1000)
    assert json.loads(done.stdout)["tokens"] == tokens and len(tokens) <= 5
    done = run(native[0], "--tokens", numbers([3] * 65))
    assert done.returncode == 1
    assert "the prompt has 65 tokens, and the model's context has room for 64" in done.stderr


@pytest.mark.parametrize(
    "arguments, code, sentence",
    [
        ([], 2, "give the prompt either by --tokens or by --prompt"),
        (["--prompt", "a"], 2, "--prompt needs --tokenizer FILE, which turns the text into tokens"),
        (["--tokens", "1,,2"], 1, "--tokens takes numbers of tokens with commas between them"),
        (["--tokens", "1", "--max-tokens", "-1"], 2, "--max-tokens takes a number from 0 to"),
        (["--tokens"], 2, "--tokens needs a value"),
        (["--heat", "1"], 2, "unknown argument '--heat'"),
        (["--prompt", "", "--tokenizer", "FILE"], 1, "a prompt has at least one token"),
        (["--prompt", "a", "--tokenizer", "/nowhere"], 1, "No such file or directory"),
    ],
)
def test_wrong_arguments(native, arguments, code, sentence):
    done = run(native[0], *(str(native[1]) if each == "FILE" else each for each in arguments))
    assert done.returncode == code and sentence in done.stderr


def test_tokens_that_the_model_has_not(native):
    """Embeddings of numbers out of range are those of the last token, as Gather's are."""
    assert run(native[0], "--tokens", "99999999999999999999").returncode == 1


def test_damaged_tokenizers(native, tmp_path):
    whole, damaged = native[1].read_bytes(), tmp_path / "damaged"
    random = np.random.default_rng(0)
    for size in (0, 7, 63, len(whole) - 1):
        damaged.write_bytes(whole[:size])
        done = run(native[0], "--prompt", "hello", "--tokenizer", damaged)
        assert done.returncode == 1
        assert "no tokenizer's file of tc" in done.stderr or "it is damaged" in done.stderr
    for _ in range(200):
        data = bytearray(whole)
        for place in random.integers(8, len(data), 3):
            data[place] = random.integers(256)
        damaged.write_bytes(data)
        done = run(native[0], "--prompt", "hello world", "--tokenizer", damaged, "--max-tokens", 1)
        assert done.returncode in (0, 1), done.stderr


def relu_program(path, target="native"):
    """Exports a program of a network that is no language model."""
    from onnx import TensorProto, helper

    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    relu = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    module = tc.compile(relu.SerializeToString(), target, threads=1, log=False)
    module.export(str(path), kind="executable")


def test_models_that_generate_nothing(tmp_path):
    relu_program(tmp_path / "relu")
    done = run(tmp_path / "relu", "--tokens", "1")
    assert done.returncode == 1
    assert (
        "the model generates no text: its inputs are not input_ids, length and caches that are "
        "written in place; export a language model with python -m tc generate MODEL --export FILE"
    ) in done.stderr


@pytest.mark.parametrize("target", ["native", "rv64gcv"])
def test_programs_of_other_models_have_no_generator(native, tmp_path, target):
    """The generator and its tokenizer are linked into programs of language models alone."""
    texts_of_both = (b"Continues a prompt with the tokens", b"it is no tokenizer's file of tc")
    assert all(text in native[0].read_bytes() for text in texts_of_both)
    relu_program(tmp_path / "relu", target)
    assert not any(text in (tmp_path / "relu").read_bytes() for text in texts_of_both)
    emulator = emulator_of(target)
    done = subprocess.run([*emulator, tmp_path / "relu"], capture_output=True, text=True)
    assert done.returncode == 2 and " generate ..." not in done.stderr
    done = run(tmp_path / "relu", "--tokens", "1", emulator=emulator)
    assert done.returncode == 1 and "the model generates no text" in done.stderr
    done = subprocess.run([native[0]], capture_output=True, text=True)
    assert done.returncode == 2 and " generate ..." in done.stderr


def test_options_of_the_command(model, tmp_path):
    for arguments, sentence in (
        (["--prompt", "a", "--export", "x"], "--export writes a program and generates nothing"),
        (["--prompt", "a", "--target", "rv64gcv"], "--target belongs to --export FILE"),
        (["--prompt", "a", "--weights", "separate"], "--weights belongs to --export FILE"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "tc", "generate", str(model), *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode != 0 and sentence in done.stderr
    assert os.listdir(tmp_path) == []


def test_the_file_of_a_tokenizer_is_the_same_each_time(model):
    tokenizer = language_of(model, 1).tokenizer
    assert tokenizer_bytes(tokenizer) == tokenizer_bytes(tokenizer)


class Described:
    """A tokenizer with the fields that its file needs."""

    name = "some.gguf"
    adds_end, adds_begin, kinds, tokens = False, False, np.array([1]), ["a"]

    def __init__(self, **fields):
        vars(self).update(fields)


def test_tokenizers_that_cannot_be_written():
    from tc.gguf.pieces import DIVISIONS
    from tc.gguf.tokenizer_parts import byte_pairs

    with pytest.raises(tc.UnsupportedError) as refused:
        byte_pairs(Described(division=DIVISIONS["tekken"]), [])
    assert "exported programs do not divide texts as this file asks; they can as for" in str(
        refused.value
    )
    with pytest.raises(tc.UnsupportedError) as refused:
        byte_pairs(Described(division=DIVISIONS["gpt2"], adds_end=True), [])
    assert (
        "some.gguf: exported programs do not add a token behind the prompt; run the program on "
        "tokens (--tokens)"
    ) in str(refused.value)
    with pytest.raises(tc.UnsupportedError) as refused:
        tokenizer_bytes(Described())
    assert (
        "some.gguf: the tokenizer of a folder cannot be written for an exported program, which "
        "reads those of .gguf files; run the program on tokens (--tokens)"
    ) in str(refused.value)


PROSE = (
    "The steam engine was invented in 1712; it's said that we'll see 12345 more. DON'T\n\n"
    "  def f(x):\n\treturn x**2  # two   spaces\r\n Größe, naïve, 東京 は 大きい, привет мир ١٢٣ ½ "
    "emoji 😀\u200d😀 end \u00a0 \u3000 x\u0301 <|im_start|>user <|im_end|> they've I'M 's"
)


def texts(strings):
    """A list of texts as a file has it."""
    from tc.gguf.texts import Texts

    data, places = b"", []
    for string in strings:
        places.append((len(data), len(data) + len(string.encode())))
        data += string.encode()
    made = Texts(data)
    for begin, end in places:
        made.add(begin, end)
    return made


def byte_pair_fields(division):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator(
        [PROSE] * 3, trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet)
    )
    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    merges = [each if isinstance(each, str) else " ".join(each) for each in model["merges"]]
    whole = ["<|im_start|>", "<|im_end|>"]
    return {
        "model": "gpt2",
        "pre": division,
        "tokens": texts([*tokens, *whole]),
        "token_type": np.array([1] * len(tokens) + [3, 4], np.int32),
        "merges": texts(merges),
        "eos_token_id": len(tokens),
        "bos_token_id": len(tokens),
    }


def piece_fields():
    space = "\u2581"
    pieces = sorted(
        {PROSE[at : at + size].replace(" ", space) for at in range(60) for size in range(1, 6)}
    )
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    scores = np.random.default_rng(4).permutation(len(tokens)).astype(np.float32)
    return {
        "model": "llama",
        "tokens": texts(tokens),
        "token_type": np.array([2, 3, 3] + [6] * 256 + [1] * len(pieces), np.int32),
        "scores": scores,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


@pytest.mark.parametrize("division", ["gpt2", "smollm", "llama-bpe", "qwen2", "pieces"])
def test_texts_are_divided_as_tc_generate_does(native, tmp_path, division):
    from tc.gguf.tokenizer import Tokenizer

    fields = piece_fields() if division == "pieces" else byte_pair_fields(division)
    named = {f"tokenizer.ggml.{name}": value for name, value in fields.items()}
    tokenizer = Tokenizer(Described(fields=named))
    (tmp_path / "tokenizer").write_bytes(tokenizer_bytes(tokenizer))
    random = np.random.default_rng(5)
    # The model's context has room for 64 tokens.
    samples = [PROSE[at : at + 14] for at in range(0, len(PROSE), 5)]
    samples += [*PROSE.split(" "), "a", " ", "\n", "  a", "1234567", "'"]
    samples += ["".join(random.choice(list(PROSE), 14)) for _ in range(60)]
    for sample in filter(None, samples):
        options = ("--prompt", sample, "--tokenizer", tmp_path / "tokenizer")
        done = run(native[0], *options, "--max-tokens", 0, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["prompt"] == tokenizer.encode(sample), repr(sample)
