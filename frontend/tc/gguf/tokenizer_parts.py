"""A tokenizer as lists of bytes and numbers, as an exported program takes it."""

import dataclasses
import re

from ..errors import UnsupportedError, printable
from .pieces import BYTE, CONTROL, DIVISIONS, SPACE, UNUSED, USER_DEFINED, WORDS, groups_of


@dataclasses.dataclass
class Parts:
    """`normal` are tokens that texts are divided into, `whole` those that are never divided, of
    which `controls` are not shown; `bytes` is the token of each byte."""

    kind: int  # 0: pairs of bytes; 1: pieces of text
    division: int
    digits: int
    texts: list
    bytes: list
    merges: list
    normal: list
    whole: list
    controls: set
    whole_words: bool = False
    adds_space: bool = False
    unknown: int | None = None


_NONE = 0xFFFFFFFF


def _letters_of_bytes():
    """GPT-2's letter for each byte: itself where it is visible, else one from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    letters = {byte: chr(byte) for byte in visible}
    return letters | {byte: chr(256 + index) for index, byte in enumerate(hidden)}


def _common(tokenizer):
    kinds = tokenizer.kinds.tolist()
    whole = [
        token
        for token, kind in enumerate(kinds)
        if kind in (CONTROL, USER_DEFINED) and tokenizer.tokens[token]
    ]
    controls = {token for token in whole if kinds[token] == CONTROL}
    if tokenizer.adds_end:
        raise UnsupportedError(
            f"{printable(tokenizer.name)}: exported programs do not add a token behind the prompt; "
            "run the program on tokens (--tokens)"
        )
    return kinds, whole, controls


def _division_of(tokenizer):
    """(division, digits) for the pattern of a tokenizer of byte pairs."""
    patterns = tokenizer.division.patterns
    if patterns == (WORDS,):
        return 0, 0
    if patterns == (r"\p{N}", WORDS):
        return 1, 0
    for digits in (1, 3):
        if patterns == (groups_of(digits),):
            return 2, digits
    known = [name for name, row in DIVISIONS.items() if row.patterns[-1] == WORDS]
    raise UnsupportedError(
        f"{printable(tokenizer.name)}: exported programs do not divide texts as this file asks; they "
        f"can as for {', '.join(known[:3])} and qwen2; run the program on tokens (--tokens)"
    )


def byte_pairs(tokenizer, pairs):
    kinds, whole, controls = _common(tokenizer)
    division, digits = _division_of(tokenizer)
    byte_of = {letter: byte for byte, letter in _letters_of_bytes().items()}
    texts, normal, vocabulary = [], [], {}
    undivided = set(whole)
    for token, text in enumerate(tokenizer.tokens):
        vocabulary.setdefault(text, token)
        is_bytes = token not in undivided and all(letter in byte_of for letter in text)
        texts.append(bytes(byte_of[letter] for letter in text) if is_bytes else text.encode())
        if is_bytes and text and vocabulary[text] == token:
            normal.append(token)
    singles = {texts[token]: token for token in normal if len(texts[token]) == 1}
    return Parts(
        0,
        division,
        digits,
        texts,
        [singles.get(bytes([byte]), _NONE) for byte in range(256)],
        _merges(vocabulary, pairs),
        normal,
        whole,
        controls,
        whole_words=tokenizer.division.whole_words,
    )


def _merges(vocabulary, pairs):
    """(left, right, result) of each pair; of equal pairs the last one counts."""
    numbers = {}
    for left, right in pairs:
        key = (vocabulary[left], vocabulary[right])
        numbers.pop(key, None)
        numbers[key] = vocabulary[left + right]
    return [(*pair, result) for pair, result in numbers.items()]


def scored_pieces(tokenizer, pairs):
    kinds, whole, controls = _common(tokenizer)
    texts, normal, vocabulary, tokens_of_bytes = [], [], {}, [_NONE] * 256
    undivided = set(whole)
    for token, text in enumerate(tokenizer.tokens):
        vocabulary.setdefault(text, token)
        if kinds[token] == BYTE and re.fullmatch("<0x[0-9A-Fa-f]{2}>", text):
            byte = int(text[3:5], 16)
            tokens_of_bytes[byte] = token
            texts.append(bytes([byte]))
            continue
        texts.append(text.replace(SPACE, " ").encode() if token not in undivided else text.encode())
        if token not in undivided and kinds[token] not in (UNUSED, BYTE) and text:
            if vocabulary[text] == token:
                normal.append(token)
    return Parts(
        1,
        3,
        0,
        texts,
        tokens_of_bytes,
        _merges(vocabulary, pairs),
        normal,
        whole,
        controls,
        adds_space=tokenizer.adds_space,
        unknown=tokenizer.unknown,
    )
