"""The file with which an exported language model turns texts into tokens and back
(runtime/tokenizer.cc reads it): numbers of 32 bits, little-endian.

    "tctoken1"; kind, division, digits, flags, begin, unknown; the numbers of tokens, of tokens in
    the order of their texts, of merges, of tokens that end a text, of tokens that are never
    divided, and of ranges of letters; 64 bits: bytes of texts
    the token of each byte; where each token's text begins, and where the last one ends; tokens in
    the order of their texts; merges as left, right and result; tokens that end a text; tokens that
    are never divided, the longest first; ranges of letters as first, last and class; the texts
"""

import struct
import sys
import unicodedata

import numpy as np

from ..errors import UnsupportedError, printable

_MAGIC = b"tctoken1"
_NONE = 0xFFFFFFFF
_CONTROLS = 1 << 31  # of a token that is never divided: its text is not shown
_BYTE_PAIRS, _PIECES = 0, 1
# Ways of dividing texts: by the pattern of GPT-2, the same with each digit on its own, by that of
# cl100k, and not at all.
_WORDS, _SINGLE_DIGITS, _GROUPS, _UNDIVIDED = range(4)
_WHOLE_WORDS, _ADDS_BEGIN, _ADDS_SPACE = 1, 2, 4
_LETTER, _NUMBER, _SPACE = 1, 2, 3
# Unicode's White_Space, which a pattern's \s is.
_SPACES = (
    *range(9, 14),
    *(32, 0x85, 0xA0, 0x1680),
    *range(0x2000, 0x200B),
    *(0x2028, 0x2029, 0x202F, 0x205F, 0x3000),
)


def tokenizer_bytes(tokenizer):
    """The file of a tokenizer (tc.gguf.tokenizer.Tokenizer)."""
    parts = tokenizer.parts() if hasattr(tokenizer, "parts") else None
    if parts is None:
        raise UnsupportedError(
            f"{printable(tokenizer.name)}: the tokenizer of a folder cannot be written for an "
            "exported program, which reads those of .gguf files; run the program on tokens "
            "(--tokens)"
        )
    by_text = sorted(parts.normal, key=lambda token: parts.texts[token])
    whole = sorted(parts.whole, key=lambda token: (-len(parts.texts[token]), token))
    whole = [token | _CONTROLS if token in parts.controls else token for token in whole]
    ranges = _ranges() if parts.division != _UNDIVIDED else []
    texts = b"".join(parts.texts)
    numbers = [
        parts.bytes,
        np.concatenate([[0], np.cumsum([len(text) for text in parts.texts])]),
        by_text,
        np.array(parts.merges, np.int64).reshape(-1),
        sorted(tokenizer.ends),
        whole,
        np.array(ranges, np.int64).reshape(-1),
    ]
    flags = (
        _WHOLE_WORDS * parts.whole_words
        | _ADDS_BEGIN * tokenizer.adds_begin
        | _ADDS_SPACE * parts.adds_space
    )
    header = struct.pack(
        "<12IQ",
        parts.kind,
        parts.division,
        parts.digits,
        flags,
        tokenizer.begin if tokenizer.adds_begin else 0,
        _NONE if parts.unknown is None else parts.unknown,
        len(parts.texts),
        len(by_text),
        len(parts.merges),
        len(tokenizer.ends),
        len(whole),
        len(ranges),
        len(texts),
    )
    return b"".join(
        [_MAGIC, header, *(np.asarray(each, "<u4").tobytes() for each in numbers), texts]
    )


def _class_of(code):
    if code in _SPACES:
        return _SPACE
    return {"L": _LETTER, "N": _NUMBER}.get(unicodedata.category(chr(code))[0], 0)


def _ranges():
    """Letters, numbers and spaces as (first, last, class), in order."""
    ranges, first, kind = [], 0, 0
    for code in range(sys.maxunicode + 2):
        found = _class_of(code) if code <= sys.maxunicode else 0
        if found != kind:
            if kind:
                ranges.append((first, code - 1, kind))
            first, kind = code, found
    return ranges
