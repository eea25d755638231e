"""How text is divided before byte pairs are merged, by the names that GGUF files use
(`tokenizer.ggml.pre`)."""

import dataclasses

# Kinds of tokens in the field `tokenizer.ggml.token_type`.
UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 2, 3, 4, 5, 6
SPACE = "\u2581"  # SentencePiece's character for a space

WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# The pattern of cl100k; the number is the most digits in a group.
_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)


def groups_of(digits):
    """The pattern of cl100k with groups of at most so many digits."""
    return _CL100K % digits


_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
# The pattern of o200k, in which words end where capitals begin.
_O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*%s|%s|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclasses.dataclass(frozen=True)
class Division:
    patterns: tuple  # regular expressions; each divides the parts that those before it left
    whole_words: bool = False  # a part that is a token itself is taken whole, without merging
    begins: bool = False  # texts begin with the begin token where the file does not say


_ROWS = {
    ("default", "gpt-2", "gpt2", "phi-2", "mpt", "olmo", "jina-en"): Division((WORDS,)),
    ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"): Division(
        (r"\p{N}", WORDS)
    ),
    ("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"): Division(
        (groups_of(3),), whole_words=True, begins=True
    ),
    ("dbrx", "smaug-bpe", "gpt-4", "chatglm-bpe"): Division((groups_of(3),)),
    ("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan"): Division((groups_of(1),)),
    ("gpt-4o", "llama4"): Division((_O200K % (_ENDINGS, _ENDINGS, r"\p{N}{1,3}"),)),
    ("tekken",): Division((_O200K % ("", "", r"\p{N}"),), whole_words=True),
}
DIVISIONS = {name: row for names, row in _ROWS.items() for name in names}
