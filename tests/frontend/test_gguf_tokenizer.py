"""Texts as tokens by the fields of GGUF files, and chats as texts by their templates."""

import importlib
import json
import sys

import numpy as np
import pytest

import tc

pytest.importorskip(
    "gguf", reason="GGUF files are read by the package gguf, which is not installed"
)
pytest.importorskip(
    "tokenizers", reason="texts are divided by the package tokenizers, which is not installed"
)
from tc.gguf.chat import ChatTemplate  # noqa: E402
from tc.gguf.file import open_file  # noqa: E402
from tc.gguf.tokenizer import Tokenizer  # noqa: E402

from .gguf_files import (  # noqa: E402
    END,
    KINDS_OF_TOKENS,
    LETTERS,
    MERGES,
    TEMPLATE,
    TOKENS,
    field,
    file_of,
)

SPACE = "\u2581"
PIECES = [
    "<unk>",
    "<s>",
    "</s>",
    *(f"<0x{code:02X}>" for code in range(256)),
    SPACE,
    "a",
    "b",
    "c",
    SPACE + "a",
    "ab",
    "bc",
    "abc",
    SPACE + "ab",
    "<mask>",
]
SCORES = [0.0] * 259 + [-9.0, -10.0, -11.0, -12.0, -3.0, -2.0, -1.0, -4.0, -5.0, 0.0]
PIECE_KINDS = [2, 3, 3, *[6] * 256, *[1] * 9, 4]


def byte_pairs(**more):
    fields = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": TOKENS,
        "token_type": np.array(KINDS_OF_TOKENS, np.int32),
        "merges": MERGES,
        "eos_token_id": END,
        **more,
    }
    return open_file(
        file_of(
            [
                field(f"tokenizer.ggml.{key}", value)
                for key, value in fields.items()
                if value is not None
            ]
        )
    )


def scored(**more):
    fields = {
        "model": "llama",
        "tokens": PIECES,
        "token_type": np.array(PIECE_KINDS, np.int32),
        "scores": np.array(SCORES, np.float32),
        "bos_token_id": 1,
        "eos_token_id": 2,
        **more,
    }
    return open_file(
        file_of(
            [
                field(f"tokenizer.ggml.{key}", value)
                for key, value in fields.items()
                if value is not None
            ]
        )
    )


def texts(tokenizer, ids):
    return [tokenizer.tokens[each] for each in ids]


def test_byte_pairs_are_merged_in_their_order():
    tokenizer = Tokenizer(byte_pairs())
    ids = tokenizer.encode("hello world hell12")
    assert texts(tokenizer, ids) == ["hello", "\u0120world", "\u0120", "hell", "1", "2"]
    assert tokenizer.decode(ids) == "hello world hell12"


def test_tokens_for_control_are_whole_and_end_a_text():
    tokenizer = Tokenizer(byte_pairs())
    ids = tokenizer.encode("<|im_start|>hello<|im_end|>")
    assert texts(tokenizer, ids) == ["<|im_start|>", "hello", "<|im_end|>"]
    assert (
        tokenizer.decode(ids) == "hello"
        and tokenizer.decode(ids, special=True) == "<|im_start|>hello<|im_end|>"
    )
    assert tokenizer.ends == {END}
    other = Tokenizer(
        byte_pairs(
            eos_token_id=END - 1, add_bos_token=True, bos_token_id=END - 1, add_eos_token=True
        )
    )
    assert other.ends == {END - 1, END}  # the second one by its name
    assert texts(other, other.encode("hell")) == ["<|im_start|>", "hell", "<|im_start|>"]
    assert texts(other, other.encode("hell", add_ends=False)) == ["hell"]


@pytest.mark.parametrize(
    "pre, parts",
    [
        ("gpt-2", ["Hello", " 2024", "'s", "\n\n ", " x", "!!"]),
        ("smollm", ["Hello", " ", "2", "0", "2", "4", "'s", "\n\n ", " x", "!!"]),
        ("llama-bpe", ["Hello", " ", "202", "4", "'s", "\n\n", " ", " x", "!!"]),
        ("qwen2", ["Hello", " ", "2", "0", "2", "4", "'s", "\n\n", " ", " x", "!!"]),
        ("gpt-4o", ["Hello", " ", "202", "4", "'s", "\n\n", " ", " x", "!!"]),
        ("tekken", ["Hello", " ", "2", "0", "2", "4", "'s", "\n\n", " ", " x", "!!"]),
    ],
)
def test_texts_are_divided_as_the_field_says(pre, parts):
    tokenizer = Tokenizer(byte_pairs(pre=pre))
    found = tokenizer._parts.pre_tokenize_str("Hello 2024's\n\n  x!!")
    assert [part.replace("\u0120", " ").replace("\u010a", "\n") for part, _ in found] == parts


def test_the_best_piece_is_merged_first():
    tokenizer = Tokenizer(scored())
    # "bc" has the best score, then the space with "a", so that "abc" is never made; "ab" has a
    # better one than the space with "a".
    assert texts(tokenizer, tokenizer.encode("abc ab")) == ["<s>", SPACE + "a", "bc", SPACE + "ab"]
    assert tokenizer.decode(tokenizer.encode("abc ab")) == "abc ab"
    assert texts(tokenizer, tokenizer.encode("\u00e9a")) == ["<s>", SPACE, "<0xC3>", "<0xA9>", "a"]
    assert tokenizer.decode(tokenizer.encode("\u00e9a")) == "\u00e9a"
    assert texts(tokenizer, tokenizer.encode("a<mask>a")) == [
        "<s>",
        SPACE + "a",
        "<mask>",
        SPACE + "a",
    ]
    plain = Tokenizer(scored(add_space_prefix=False, add_bos_token=False))
    assert texts(plain, plain.encode("a b")) == ["a", SPACE, "b"]


@pytest.mark.parametrize("text", ["hello world", "hello " * 30])
def test_pieces_of_a_stream_are_the_text(text):
    tokenizer = Tokenizer(byte_pairs())
    stream = tokenizer.stream(tokenizer.encode("hell"))
    assert "".join(stream.add(each) for each in tokenizer.encode(text)) + stream.rest() == text


def test_letters_of_several_tokens_come_whole():
    tokenizer = Tokenizer(scored())
    stream = tokenizer.stream(tokenizer.encode("a"))
    pieces = [stream.add(each) for each in tokenizer.encode("\u00e9a \u20ac", add_ends=False)]
    assert pieces == [" ", "", "\u00e9", "a", " ", "", "", "\u20ac"]
    assert stream.add(PIECES.index("<0xE2>")) == "" and stream.rest() == "\ufffd"


DO = "; fetch or convert it again"
WRONG = {
    "another kind": (
        dict(model="bert"),
        "model.gguf: the tokenizer 'bert' is not supported; known are gpt2, llama",
    ),
    "no kind": (
        dict(model=None),
        "model.gguf: the tokenizer 'None' is not supported; known are gpt2, llama",
    ),
    "no tokens": (
        dict(tokens=None),
        "'model.gguf' is a damaged GGUF file: the field 'tokenizer.ggml.tokens' is no list of texts"
        + DO,
    ),
    "long tokens": (
        dict(tokens=["x" * 70000, *TOKENS[1:]]),
        f"'model.gguf' is a damaged GGUF file: 'tokenizer.ggml.tokens' has {len(TOKENS)} tokens of "
        "up to "
        "70000 characters; at most 4194304 of 65536 are read" + DO,
    ),
    "kinds of some": (
        dict(token_type=np.ones(3, np.int32)),
        "'model.gguf' is a damaged GGUF file: the field 'tokenizer.ggml.token_type' has not a "
        "number "
        f"for each of the {len(TOKENS)} tokens" + DO,
    ),
    "no merges": (
        dict(merges=None),
        "'model.gguf' is a damaged GGUF file: it has no list 'tokenizer.ggml.merges'" + DO,
    ),
    "a merge of nothing": (
        dict(merges=["h e", "x y"]),
        "'model.gguf' is a damaged GGUF file: element 1 of 'tokenizer.ggml.merges' is 'x y', which "
        "is no pair "
        "of tokens that makes a token" + DO,
    ),
    "another division": (
        dict(pre="klingon"),
        "model.gguf: the division of texts 'klingon' is not supported; known are default, gpt-2, "
        "gpt2,",
    ),
    "a token that is none": (
        dict(eos_token_id=4000),
        "'model.gguf' is a damaged GGUF file: the field 'tokenizer.ggml.eos_token_id' is 4000, "
        "and there are "
        f"{len(TOKENS)} tokens" + DO,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_fields_that_are_wrong(name):
    fields, expected = WRONG[name]
    with pytest.raises(tc.Error) as raised:
        Tokenizer(byte_pairs(**fields))
    assert str(raised.value).startswith(expected)


def test_scores_that_are_missing():
    with pytest.raises(
        tc.ModelError,
        match="the field 'tokenizer.ggml.scores' has not a number for each of the 269 tokens",
    ):
        Tokenizer(scored(scores=None))


# --- chats --------------------------------------------------------------------------------------

HELLO = [{"role": "user", "content": "hello"}]


def template(text, **more):
    file = open_file(
        file_of(
            [
                *([field("tokenizer.chat_template", text)] if text is not None else []),
                *(
                    field(f"tokenizer.ggml.{key}", value)
                    for key, value in {
                        "model": "gpt2",
                        "tokens": LETTERS,
                        "merges": MERGES[:0],
                        "eos_token_id": 3,
                        "bos_token_id": 2,
                        **more,
                    }.items()
                ),
            ]
        )
    )
    return ChatTemplate(file, Tokenizer(file))


def refusal(text, messages=HELLO):
    with pytest.raises(tc.Error) as raised:
        template(text).fill(messages)
    return str(raised.value)


def test_templates_are_filled_in():
    assert template(TEMPLATE).fill(HELLO) == "<|im_start|>userhello<|im_end|><|im_start|>assistant"
    assert template("{{ bos_token }}{{ eos_token }}{{ messages | tojson }}").fill(
        HELLO
    ) == "cd" + json.dumps(HELLO)
    assert (
        template("{% for m in messages %}{% break %}{% endfor %}{{ strftime_now('x') }}").fill(
            HELLO
        )
        == "x"
    )


def test_templates_that_refuse_or_are_none():
    begin = "model.gguf: its template for chat "
    assert refusal(None) == (
        "model.gguf has no template for chat (field 'tokenizer.chat_template'); "
        "give the prompt as text"
    )
    assert (
        refusal("{{ raise_exception('no system') }}")
        == begin + "refuses these messages: TemplateError: no system"
    )
    assert refusal("{% if %}").startswith(begin + "refuses these messages: TemplateSyntaxError: ")
    assert refusal("{{ ''.__class__.__mro__[1].__subclasses__() }}").startswith(
        begin + "refuses these messages: SecurityError: "
    )
    assert refusal("{{ messages.append(1) }}").startswith(
        begin + "refuses these messages: SecurityError: "
    )
    with pytest.raises(
        tc.ModelError, match="its template for chat is no text of at most 1048576 characters"
    ):
        template("x" * ((1 << 20) + 1))


def test_templates_are_bounded(monkeypatch):
    from tc.gguf import chat

    monkeypatch.setattr(chat, "_MAX_SECONDS", 1)
    long = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    assert refusal(long) == (
        "model.gguf: its template for chat takes more than 1 seconds of a processor "
        "or too much memory; give the prompt as text"
    )
    assert "MemoryError" in refusal("{{ ('x' * 5000000000) | length }}")
    monkeypatch.setattr(chat, "_LONGEST_TEXT", 1000)
    assert refusal("{% for a in range(2000) %}{{ a }}{% endfor %}").endswith(
        "ValueError: its text has more than 1000 characters"
    )
    monkeypatch.setattr(chat, "_MAX_SECONDS", 10)
    monkeypatch.setattr(chat, "_MAX_WAIT", 0.5)
    assert (
        refusal(long)
        == "model.gguf: its template for chat takes more than 0.5 seconds; give the prompt as text"
    )


@pytest.mark.parametrize(
    "messages, expected",
    [
        ([], 'a chat is a list of messages, [{"role": "user", "content": "..."}]'),
        (
            [{"role": "king", "content": "x"}],
            'a message of a chat is {"role": one of system, user, '
            'assistant, tool, "content": text}, not ',
        ),
        (
            [{"role": "user", "content": 3}],
            'a message of a chat is {"role": one of system, user, '
            'assistant, tool, "content": text}, not ',
        ),
    ],
)
def test_messages_that_are_none(messages, expected):
    assert refusal(TEMPLATE, messages).startswith(expected)


@pytest.mark.parametrize(
    "package, expected",
    [
        (
            "jinja2",
            "templates for chat are filled in by the package jinja2, which is not installed "
            "here: pip install 'tc-compiler[gguf]'",
        ),
        (
            "tokenizers",
            "the texts of GGUF files are divided into tokens by the package tokenizers, "
            "which is not installed here: pip install "
            "'tc-compiler[gguf]'",
        ),
    ],
)
def test_without_a_package(package, expected, monkeypatch):
    made = template(TEMPLATE)
    monkeypatch.delitem(sys.modules, "tc.gguf.tokenizer")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(tc.Error) as raised:
        if package == "jinja2":
            made.fill(HELLO)
        else:
            importlib.import_module("tc.gguf.tokenizer")
    assert str(raised.value) == expected
