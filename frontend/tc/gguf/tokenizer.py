"""The tokenizer of a GGUF file, built from its fields for the package `tokenizers`."""

import numpy as np

from ..errors import Error, ModelError, UnsupportedError, printable
from .pieces import CONTROL, DIVISIONS, SPACE, UNKNOWN, USER_DEFINED
from .texts import Texts

try:
    import tokenizers
    from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
except ImportError:
    raise Error(
        "the texts of GGUF files are divided into tokens by the package tokenizers, which is not "
        "installed here: "
        "pip install 'tc-compiler[gguf]'"
    ) from None

_FIELDS = "tokenizer.ggml."
_MAX_TOKENS = 1 << 22
_LONGEST_TOKEN = 1 << 16
# Texts of the tokens that end an answer in a chat. A file names one of them as the end of texts,
# but models write the others too.
_ENDS = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
)
_BROKEN = "\ufffd"


class Tokenizer:
    """Texts as numbers of tokens, and back."""

    def __init__(self, file):
        self.name = file.name
        self._fields = file.fields
        kind = self._field("model", None)
        makers = {"gpt2": self._byte_pairs, "llama": self._scored_pieces}
        if kind not in makers:
            raise UnsupportedError(
                f"{file.name}: the tokenizer '{printable(kind)}' is not supported; known are "
                f"{', '.join(makers)}"
            )
        self.tokens = self._tokens()
        self.kinds = self._list("token_type", np.ones(len(self.tokens), np.int32))
        self._tokenizer = tokenizers.Tokenizer(makers[kind]())
        self._add_whole_tokens()
        begins = self._begins if kind == "gpt2" else True
        self.begin, self.end = self._id("bos_token_id"), self._id("eos_token_id")
        self.adds_begin = bool(self._field("add_bos_token", begins)) and self.begin is not None
        self.adds_end = bool(self._field("add_eos_token", False)) and self.end is not None
        self.ends = self._all_ends()

    # --- the fields ------------------------------------------------------------------------------

    def _field(self, name, default):
        return self._fields.get(_FIELDS + name, default)

    def _damaged(self, what):
        return ModelError(
            f"'{self.name}' is a damaged GGUF file: {what}; fetch or convert it again"
        )

    def _tokens(self):
        found = self._field("tokens", None)
        if not isinstance(found, Texts) or not found:
            raise self._damaged(f"the field '{_FIELDS}tokens' is no list of texts")
        longest = max(map(len, found))
        if len(found) > _MAX_TOKENS or longest > _LONGEST_TOKEN:
            raise self._damaged(
                f"'{_FIELDS}tokens' has {len(found)} tokens of up to {longest} "
                f"characters; at most {_MAX_TOKENS} "
                f"of {_LONGEST_TOKEN} are read"
            )
        return found

    def _list(self, name, default):
        """A field that is a list with a number for each token."""
        found = self._field(name, default)
        if not isinstance(found, np.ndarray) or len(found) != len(self.tokens):
            raise self._damaged(
                f"the field '{_FIELDS}{name}' has not a number for each of the {len(self.tokens)} "
                f"tokens"
            )
        return found

    def _id(self, name):
        """The token that a field names, or None."""
        found = self._field(name, None)
        if found is not None and not (type(found) is int and 0 <= found < len(self.tokens)):
            raise self._damaged(
                f"the field '{_FIELDS}{name}' is {found!r}, and there are {len(self.tokens)} tokens"
            )
        return found

    def _all_ends(self):
        found = {self._id(name) for name in ("eos_token_id", "eot_token_id", "eom_token_id")} - {
            None
        }
        return frozenset(
            found
            | {
                index
                for index in np.flatnonzero(self.kinds == CONTROL).tolist()
                if self.tokens[index] in _ENDS
            }
        )

    # --- the models ------------------------------------------------------------------------------

    def _vocabulary(self):
        vocabulary = {}
        for index, token in enumerate(self.tokens):
            vocabulary.setdefault(token, index)
        return vocabulary

    def parts(self):
        """What an exported program needs (tc.language.tokenizer_file); see Parts."""
        from .tokenizer_parts import byte_pairs, scored_pieces

        if self._field("model", None) == "gpt2":
            return byte_pairs(self, self._pairs(self._vocabulary()))
        return scored_pieces(self, self._scored_pairs(self._vocabulary()))

    def _pairs(self, vocabulary):
        """The pairs of tokens that are merged, the first of them first."""
        merges = self._field("merges", None)
        if not isinstance(merges, Texts):
            raise self._damaged(f"it has no list '{_FIELDS}merges'")
        pairs = []
        for index, merge in enumerate(merges):
            left, _, right = merge.partition(" ")
            if not (left in vocabulary and right in vocabulary and left + right in vocabulary):
                raise self._damaged(
                    f"element {index} of '{_FIELDS}merges' is '{printable(merge)}', which is no "
                    "pair of tokens that makes "
                    "a token"
                )
            pairs.append((left, right))
        return pairs

    def _byte_pairs(self):
        """A tokenizer that merges bytes, written as letters, by a list of pairs."""
        vocabulary = self._vocabulary()
        pairs = self._pairs(vocabulary)
        kind = self._field("pre", "default")
        if kind not in DIVISIONS:
            raise UnsupportedError(
                f"{self.name}: the division of texts '{printable(kind)}' is not supported; known "
                f"are {', '.join(DIVISIONS)}"
            )
        self.division = division = DIVISIONS[kind]
        self._begins = division.begins
        self._parts = pre_tokenizers.Sequence(
            [
                *(
                    pre_tokenizers.Split(Regex(pattern), "isolated")
                    for pattern in division.patterns
                ),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self._back = decoders.ByteLevel()
        self._normal = None
        return models.BPE(vocabulary, pairs, ignore_merges=division.whole_words)

    def _scored_pairs(self, vocabulary):
        """The pairs of pieces that make a piece; that whose piece has the best score is merged
        first."""
        scores = self._list("scores", None).tolist()
        pairs = []
        for token, index in vocabulary.items():
            parts = [(token[:at], token[at:]) for at in range(1, len(token))]
            parts = [
                (vocabulary[left], vocabulary[right], left, right)
                for left, right in parts
                if left in vocabulary and right in vocabulary
            ]
            pairs += [(-scores[index], left, right) for _, _, left, right in sorted(parts)]
        pairs.sort(key=lambda pair: pair[0])
        return [pair[1:] for pair in pairs]

    def _scored_pieces(self):
        """A tokenizer as SentencePiece's, with scored pieces of text. Text without a piece is
        written as bytes."""
        vocabulary = self._vocabulary()
        self.unknown = unknown = next(iter(np.flatnonzero(self.kinds == UNKNOWN).tolist()), None)
        self.adds_space = first = bool(self._field("add_space_prefix", True))
        self._normal = normalizers.Sequence(
            [*([normalizers.Prepend(SPACE)] if first else []), normalizers.Replace(" ", SPACE)]
        )
        self._parts = None
        self._back = decoders.Sequence(
            [
                decoders.Replace(SPACE, " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                *([decoders.Strip(" ", 1, 0)] if first else []),
            ]
        )
        return models.BPE(
            vocabulary,
            self._scored_pairs(vocabulary),
            byte_fallback=True,
            fuse_unk=True,
            unk_token=None if unknown is None else self.tokens[unknown],
        )

    def _add_whole_tokens(self):
        tokenizer = self._tokenizer
        if self._normal is not None:
            tokenizer.normalizer = self._normal
        if self._parts is not None:
            tokenizer.pre_tokenizer = self._parts
        tokenizer.decoder = self._back
        whole = [
            (index, self.kinds[index] == CONTROL)
            for index in np.flatnonzero(np.isin(self.kinds, (CONTROL, USER_DEFINED))).tolist()
            if self.tokens[index]
        ]
        tokenizer.add_special_tokens(
            [
                AddedToken(self.tokens[index], special=True, normalized=False)
                for index, special in whole
                if special
            ]
        )
        tokenizer.add_tokens(
            [
                AddedToken(self.tokens[index], special=False, normalized=False)
                for index, special in whole
                if not special
            ]
        )

    # --- texts -----------------------------------------------------------------------------------

    def encode(self, text, add_ends=True):
        """The tokens of a text. The file may ask for tokens before and after it that mark begin and
        end; they are added unless the text has them already."""
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        if not add_ends:
            return ids
        return [
            *([self.begin] if self.adds_begin else []),
            *ids,
            *([self.end] if self.adds_end else []),
        ]

    def decode(self, ids, special=False):
        """The text of tokens; `special` includes control tokens."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=not special)

    def stream(self, before=()):
        return Stream(self, before)


class Stream:
    """The text of tokens that arrive one by one; `before` are the tokens that precede them, whose
    text is not returned."""

    def __init__(self, tokenizer, before=()):
        self._tokenizer = tokenizer
        # The text of a token depends on a few tokens before it: they may hold bytes of the same
        # letter, and the first token of a text loses its space.
        self._ids = list(before)[-8:]
        self._told = tokenizer.decode(self._ids)

    def add(self, token):
        """The text that one more token adds; empty while a letter lacks bytes."""
        self._ids.append(token)
        text = self._tokenizer.decode(self._ids)
        if text.endswith(_BROKEN) and len(self._ids) < 64:
            return ""
        return self._tell(text)

    def rest(self):
        """The rest of the text at the end, even if a letter lacks bytes."""
        return self._tell(self._tokenizer.decode(self._ids))

    def _tell(self, text):
        # Where bytes form no letter, the bytes before them may now decode as broken too.
        piece = text[len(self._told) :] if text.startswith(self._told) else _BROKEN
        self._ids = self._ids[-8:]
        self._told = self._tokenizer.decode(self._ids)
        return piece
