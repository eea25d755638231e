"""Damaged GGUF files, and files that hold what is not supported: one sentence each, about the
place, the reason and what to do."""

import struct

import numpy as np
import pytest

import tc

pytest.importorskip(
    "gguf", reason="GGUF files are read by the package gguf, which is not installed"
)
from .gguf_files import F32, Q4_0, TOKENS, field, file_of, tensor, text  # noqa: E402

ARRAY, STRING, I8 = 9, 8, 24
WHERE = "'model.gguf' is a damaged GGUF file: "
DO = "; fetch or convert it again"
NUMBERS = {
    "context_length": 16,
    "embedding_length": 8,
    "block_count": 1,
    "feed_forward_length": 8,
    "attention.head_count": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
}
SHAPES = {
    "token_embd.weight": (4, 8),
    "output_norm.weight": (8,),
    "blk.0.attn_norm.weight": (8,),
    "blk.0.ffn_norm.weight": (8,),
    "blk.0.attn_q.weight": (8, 8),
    "blk.0.attn_k.weight": (8, 8),
    "blk.0.attn_v.weight": (8, 8),
    "blk.0.attn_output.weight": (8, 8),
    "blk.0.ffn_gate.weight": (8, 8),
    "blk.0.ffn_up.weight": (8, 8),
    "blk.0.ffn_down.weight": (8, 8),
}


def model(architecture="llama", shapes=None, more=(), kinds=None, **numbers):
    """A whole model, or what a caller makes of it; `kinds` are types of tensors that are not
    F32."""
    numbers = {**NUMBERS, **{key.replace("__", "."): value for key, value in numbers.items()}}
    fields = [
        field("general.architecture", architecture),
        *(
            field(f"{architecture}.{key}", value)
            for key, value in numbers.items()
            if value is not None
        ),
        *more,
    ]
    rows, offset = [], 0
    for name, shape in {**SHAPES, **(shapes or {})}.items():
        if shape is not None:
            rows.append(tensor(name, shape[::-1], (kinds or {}).get(name, F32), offset))
            offset += -(-4 * int(np.prod(shape)) // 32) * 32
    return file_of(fields, rows, bytes(offset))


ROW = tensor("x", [4])
DATA = bytes(64)
WHOLE = file_of([field("a", 1)], [ROW], DATA)


def damaged(what):
    return f"{WHERE}{what}{DO}"


DAMAGED = {
    "nothing behind the magic": (
        b"GGUF",
        damaged("the version at byte 4 needs 4 bytes, and the file has 0 more"),
    ),
    "an old version": (
        file_of(version=1),
        "model.gguf: GGUF files of version 1 are not supported, only 2 and 3; convert the model "
        "again",
    ),
    "the other order of bytes": (
        file_of(version=3 << 24),
        "model.gguf: this GGUF file is written for big-endian machines; convert the model for "
        "little-endian ones",
    ),
    "too many fields": (
        file_of(counts=(0, 1 << 60)),
        damaged(
            "the number of fields is 1152921504606846976, and the 8 bytes that follow hold "
            "at most 0"
        ),
    ),
    "too many tensors": (
        file_of([field("a", 1)], counts=(1 << 61, 1)),
        damaged(
            "the number of tensors is 2305843009213693952, and the 23 bytes that follow "
            "hold at most 0"
        ),
    ),
    "a long key": (
        file_of([struct.pack("<Q", 1 << 40) + bytes(80)]),
        damaged(
            "the key of field 0 at byte 24 has 1099511627776 bytes; at most 65535 are possible"
        ),
    ),
    "a key without end": (
        file_of([struct.pack("<Q", 60000) + bytes(80)]),
        damaged("the key of field 0 at byte 32 needs 60000 bytes, and the file has 96 more"),
    ),
    "a key that is no text": (
        file_of([field("a", 1).replace(b"a", b"\xff")]),
        damaged("the key of field 0 at byte 32 is no UTF-8"),
    ),
    "a key twice": (
        file_of([field("a", 1), field("a", 2)]),
        damaged("the field 'a' is there twice"),
    ),
    "a type of fields": (
        file_of([text("a") + struct.pack("<IQ", 77, 0)]),
        damaged("field 'a' has the type 77, which no field has"),
    ),
    "a list of lists": (
        file_of([text("a") + struct.pack("<IIQ", ARRAY, ARRAY, 1) + bytes(16)]),
        damaged("the elements of field 'a' have the type 9; lists have numbers or texts"),
    ),
    "a long list": (
        file_of([text("a") + struct.pack("<IIQ", ARRAY, 6, 1 << 62)]),
        damaged(
            "the length of field 'a' is 4611686018427387904, and the 15 bytes that follow "
            "hold at most 3"
        ),
    ),
    "a long list of texts": (
        file_of([text("a") + struct.pack("<IIQ", ARRAY, STRING, 1 << 62)]),
        damaged(
            "the length of field 'a' is 4611686018427387904, and the 15 bytes that follow "
            "hold at most 1"
        ),
    ),
    "an alignment": (
        file_of([field("general.alignment", 24)]),
        damaged("'general.alignment' is 24; a power of two up to 1048576 is possible"),
    ),
    "an alignment of 0": (
        file_of([field("general.alignment", 0)]),
        damaged("'general.alignment' is 0; a power of two up to 1048576 is possible"),
    ),
    "a tensor twice": (file_of([], [ROW, ROW], DATA), damaged("the tensor 'x' is there twice")),
    "a long name": (
        file_of([], [tensor("x" * 65, [4])], DATA),
        damaged("the name of tensor 0 at byte 24 has 65 bytes; at most 64 are possible"),
    ),
    "many axes": (
        file_of([], [tensor("x", [1] * 5)], DATA),
        damaged("the tensor 'x' has 5 axes; 1 to 4 are possible"),
    ),
    "no elements": (
        file_of([], [tensor("x", [4, 0])], DATA),
        damaged("the tensor 'x' has the sizes [4, 0]; a tensor has 1 to 1099511627775 elements"),
    ),
    "too many elements": (
        file_of([], [tensor("x", [1 << 30] * 4)], DATA),
        damaged(
            "the tensor 'x' has the sizes [1073741824, 1073741824, 1073741824, "
            "1073741824]; a tensor has 1 to 1099511627775 elements"
        ),
    ),
    "a type of tensors": (
        file_of([], [tensor("x", [4], 99)], DATA),
        damaged("the tensor 'x' has the type 99, which no tensor has"),
    ),
    "parts of blocks": (
        file_of([], [tensor("x", [16, 2], Q4_0)], DATA),
        damaged(
            "the tensor 'x' has rows of 16 elements, which are no whole blocks of 32, as "
            "Q4_0 has them"
        ),
    ),
    "between two places": (
        file_of([], [tensor("x", [4], F32, 8)], DATA),
        damaged("the tensor 'x' is at offset 8, which is no multiple of the file's alignment 32"),
    ),
    "cut short": (
        WHOLE[:-56],
        damaged(
            "the tensor 'x' of 16 bytes is at offset 0 of the 8 bytes of tensors; perhaps "
            "the file is cut short"
        ),
    ),
    "beyond the end": (
        file_of([], [tensor("x", [4], F32, 1 << 40)], DATA),
        damaged(
            "the tensor 'x' of 16 bytes is at offset 1099511627776 of the 64 bytes of "
            "tensors; perhaps the file is cut short"
        ),
    ),
    "on each other": (
        file_of([], [tensor("x", [12]), tensor("y", [4], F32, 32)], DATA),
        damaged("the tensors 'x' and 'y' lie on each other, at offset 32"),
    ),
    "one part of several": (
        file_of([field("split.count", 3)]),
        "model.gguf: this is one part of a model in 3 files; merge them with llama.cpp's "
        "`llama-gguf-split --merge`, and give that file",
    ),
    "an unknown architecture": (
        file_of([field("general.architecture", "mamba")]),
        "model.gguf has the architecture 'mamba'; known are llama, smollm3, qwen2, "
        "qwen2moe, qwen3, qwen3moe, gemma, gemma2, gemma3, phi3",
    ),
    "no architecture": (
        WHOLE,
        "model.gguf has no architecture; known are llama, smollm3, qwen2, qwen2moe, qwen3, "
        "qwen3moe, gemma, gemma2, gemma3, phi3",
    ),
    "experts of an architecture without": (
        model("phi3", expert_count=8),
        "model.gguf: experts are not supported in models of 'phi3' ('phi3.expert_count' is 8)",
    ),
    "more chosen experts than there are": (
        model(expert_count=8, expert_used_count=9),
        damaged(
            "the field 'llama.expert_used_count' is 9, and a whole number from 1 to 8 is needed"
        ),
    ),
    "no number of chosen experts": (
        model(expert_count=8),
        damaged("it has no field 'llama.expert_used_count'"),
    ),
    "experts of another shape": (
        model(
            expert_count=4,
            expert_used_count=2,
            shapes={"blk.0.ffn_gate_inp.weight": (4, 8), "blk.0.ffn_gate_exps.weight": (3, 8, 8)},
        ),
        damaged(
            "the tensor 'blk.0.ffn_gate_exps.weight' has the shape [3, 8, 8], and its fields need "
            "[4, 8, 8]"
        ),
    ),
    "an expert without a tensor": (
        model(shapes={f"blk.0.ffn_up.{expert}.weight": (8, 8) for expert in (0, 1, 3)}),
        damaged(
            "of the 3 experts' tensors like 'blk.0.ffn_up.0.weight', that of expert 2 is missing"
        ),
    ),
    "experts of several shapes": (
        model(shapes={"blk.0.ffn_up.0.weight": (8, 8), "blk.0.ffn_up.1.weight": (4, 8)}),
        damaged(
            "the tensors 'blk.0.ffn_up.0.weight' (F32 [8, 8]) and 'blk.0.ffn_up.1.weight' "
            "(F32 [4, 8]) are experts of one layer and have to be alike"
        ),
    ),
    "experts apart and together": (
        model(shapes={"blk.0.ffn_up.0.weight": (8, 8), "blk.0.ffn_up_exps.weight": (1, 8, 8)}),
        damaged(
            "it has both 'blk.0.ffn_up_exps.weight' and 'blk.0.ffn_up.0.weight', which is a part "
            "of it"
        ),
    ),
    "shares that are a number": (
        model(expert_count=8, expert_used_count=2, expert_weights_norm=3),
        damaged("the field 'llama.expert_weights_norm' is 3, and true or false is needed"),
    ),
    "no number of layers": (
        model(block_count=None),
        damaged("it has no field 'llama.block_count'"),
    ),
    "many layers": (
        model(block_count=100000),
        damaged(
            "the field 'llama.block_count' is 100000, and a whole number from 1 to 1024 is needed"
        ),
    ),
    "a text for a number": (
        model(embedding_length="8"),
        damaged(
            "the field 'llama.embedding_length' is '8', and a whole number from 1 to "
            "16777216 is needed"
        ),
    ),
    "heads of many sizes": (
        model(attention__head_count=np.array([2, 4], np.int32)),
        "model.gguf: the field 'llama.attention.head_count' differs from layer to layer, which "
        "is not supported",
    ),
    "uneven heads": (
        model(attention__head_count_kv=3),
        damaged(
            "the field 'llama.attention.head_count_kv' is 3, and a divisor of the 2 heads "
            "of queries is needed"
        ),
    ),
    "no number": (
        model(attention__layer_norm_rms_epsilon=float("nan")),
        damaged(
            "the field 'llama.attention.layer_norm_rms_epsilon' is nan, and a number from "
            "0 to 1 is needed"
        ),
    ),
    "half a pair": (
        model(rope__dimension_count=3),
        damaged("the field 'llama.rope.dimension_count' is 3, and an even number is needed"),
    ),
    "an unknown scaling": (
        model(rope__scaling__type="magic"),
        "model.gguf: the field 'llama.rope.scaling.type' is 'magic'; known are none, linear, "
        "yarn, longrope",
    ),
    "a tensor that is missing": (
        model(shapes={"blk.0.ffn_up.weight": None}),
        damaged("it has no tensor 'blk.0.ffn_up.weight'"),
    ),
    "no embedding": (
        model(shapes={"token_embd.weight": None}),
        damaged("it has no tensor 'token_embd.weight'"),
    ),
    "another shape": (
        model(shapes={"blk.0.ffn_up.weight": (4, 8)}),
        damaged(
            "the tensor 'blk.0.ffn_up.weight' has the shape [4, 8], and its fields need [8, 8]"
        ),
    ),
    "a bias that is missing": (model("qwen2"), damaged("it has no tensor 'blk.0.attn_q.bias'")),
    "a matrix of whole numbers": (
        model(kinds={"blk.0.ffn_up.weight": I8}),
        "model.gguf: tensor 'blk.0.ffn_up.weight' has the type I8, which is not supported; "
        "quantise the model to one of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, "
        "MXFP4, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K",
    ),
    "a norm of whole numbers": (
        model(kinds={"blk.0.ffn_norm.weight": I8}),
        "model.gguf: tensor 'blk.0.ffn_norm.weight' has the type I8, which is not supported; "
        "quantise the model to another one",
    ),
    "more tensors": (
        model(shapes={"blk.0.attn_sinks.weight": (8,)}),
        "model.gguf has 1 tensors of which the architecture 'llama' knows nothing: "
        "'blk.0.attn_sinks.weight'; it is a variant that is not supported",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_is_wrong_is_said_in_a_sentence(name):
    data, expected = DAMAGED[name]
    with pytest.raises(tc.Error) as raised:
        tc.compile(data, log=False)
    assert str(raised.value) == expected
    assert raised.type in (tc.ModelError, tc.UnsupportedError)


def test_files_that_cannot_be_read(tmp_path):
    folder = tmp_path / "folder.gguf"
    folder.mkdir()
    empty = tmp_path / "empty.gguf"
    empty.write_bytes(b"")
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGML" + WHOLE[4:])
    cases = [
        (folder, f"'{folder}' is a folder, not a model's file"),
        (
            tmp_path / "none.gguf",
            f"'{tmp_path / 'none.gguf'}' cannot be read: No such file or directory",
        ),
        (
            other,
            "'other.gguf' is no GGUF file: its first bytes are b'GGML', and b'GGUF' is expected; "
            "give a model's .gguf file",
        ),
        (
            empty,
            "'empty.gguf' is no GGUF file: its first bytes are b'', and b'GGUF' is expected; give a "
            "model's .gguf file",
        ),
    ]
    for path, expected in cases:
        with pytest.raises(tc.ModelError) as raised:
            tc.compile(path, log=False)
        assert str(raised.value) == expected


def test_every_mutant_is_a_model_or_a_sentence():
    """Bytes of a whole file changed at random: nothing but a result of the reader or an Error
    leaves it."""
    from tc.gguf.file import open_file
    from tc.gguf.parameters import parameters_of

    data, random = model(more=[field("tokenizer.ggml.tokens", TOKENS)]), np.random.default_rng(3)
    head = data.index(b"blk.0.ffn_down.weight") + 60
    refused = 0
    for _ in range(3000):
        mutant = bytearray(data)
        for place in random.integers(0, head, random.integers(1, 4)):
            mutant[place] = random.integers(0, 256)
        try:
            parameters_of(open_file(bytes(mutant)))
        except tc.Error as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 500
