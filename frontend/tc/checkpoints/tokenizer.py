"""The tokenizer of a folder: tokenizer.json, read by the package tokenizers."""

import os

from ..errors import Error, ModelError, printable
from ..gguf.tokenizer import Stream
from .tensors import read_json

try:
    import tokenizers
except ImportError:
    raise Error(
        "texts are divided into tokens by the package tokenizers, which is not installed here: pip "
        "install 'tc-compiler[gguf]'"
    ) from None

_MAX_BYTES = 1 << 28


class FolderTokenizer:
    """Texts as numbers of tokens, and back; as tc.gguf.tokenizer.Tokenizer is for GGUF files."""

    def __init__(self, file):
        self.name, self._folder = printable(file.name), file.path
        path = os.path.join(file.path, "tokenizer.json")
        if not os.path.isfile(path):
            raise ModelError(
                f"'{self.name}' has no tokenizer.json; save the model's fast tokenizer into the folder"
            )
        if os.path.getsize(path) > _MAX_BYTES:
            raise ModelError(f"'tokenizer.json' of {self.name} has more than {_MAX_BYTES >> 20} MB")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(path)
        except BaseException as error:  # the package raises Exception, or panics
            if isinstance(error, KeyboardInterrupt):
                raise
            said = " ".join(str(error).split())[:200]
            raise ModelError(
                f"'tokenizer.json' of {self.name} cannot be read ({printable(said)}); fetch the "
                "folder again"
            ) from None
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        self.tokens = [""] * (max(vocabulary.values(), default=-1) + 1)
        for text, number in vocabulary.items():
            self.tokens[number] = text
        settings = self._settings("tokenizer_config.json")
        self.begin, self.end = (
            self._named(settings.get(key)) for key in ("bos_token", "eos_token")
        )
        self.ends = self._all_ends()

    def _settings(self, name):
        path = os.path.join(self._folder, name)
        return read_json(path, "configuration") if os.path.isfile(path) else {}

    def _named(self, found):
        """The number of a token that the tokenizer's configuration names, or None."""
        if isinstance(found, dict):
            found = found.get("content")
        return self._tokenizer.token_to_id(found) if isinstance(found, str) else None

    def _all_ends(self):
        """The tokens that end an answer, by all files that name some."""
        found = {self.end}
        for name in ("generation_config.json", "config.json"):
            ids = self._settings(name).get("eos_token_id")
            found |= set(ids if isinstance(ids, list) else [ids])
        count = len(self.tokens)
        return frozenset(each for each in found if type(each) is int and 0 <= each < count)

    def encode(self, text, add_ends=True):
        """The tokens of a text; with `add_ends`, also those that mark its begin and end where the
        file asks for them."""
        return self._tokenizer.encode(text, add_special_tokens=add_ends).ids

    def decode(self, ids, special=False):
        """The text of tokens; `special` includes control tokens."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=not special)

    def stream(self, before=()):
        return Stream(self, before)
