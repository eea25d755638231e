"""One sequence of tokens that a model has read, with the keys and values that it keeps for them."""

import os

import numpy as np

from ..errors import Error
from ..state import read_state, write_state

# The number of positions in the first caches; caches double when they are full, up to the context.
_MIN_ROOM = 256
# A run reads at most so many tokens. It keeps the scores of each of them with all tokens before it,
# and computes them for those behind it too, which longer runs have more of.
_PART = 128
_TOKENS = "tokens"  # the array of them in a file


def caches_for(parameters, count, sequences=1):
    """Empty caches [sequences, heads, capacity, size] for at least `count` positions of each. The
    system provides the memory only when it is first written."""
    capacity = _MIN_ROOM
    while capacity < count:
        capacity *= 2
    capacity = min(capacity, parameters.context)
    return [
        np.zeros((sequences, parameters.key_heads, capacity, size), np.float32)
        for _ in range(parameters.layers)
        for size in (parameters.key_size, parameters.value_size)
    ]


class Session:
    """The state of one sequence: its tokens, and caches [1, heads, capacity, size] with room for
    keys and values of further tokens. Each run of the model writes those of the new tokens after
    the existing ones, in the same memory."""

    def __init__(self, language):
        self._language = language
        self._caches = caches_for(language.parameters, 0)
        self.reset()

    @property
    def tokenizer(self):
        return self._language.tokenizer

    @property
    def length(self):
        """How many tokens the model has read."""
        return len(self.tokens)

    @property
    def room(self):
        """How many more tokens the model may read."""
        return self._context - self.length

    def reset(self):
        """Forgets all tokens."""
        self.tokens = []

    def prepare(self, prompt, answer):
        """Compiles the modules for a prompt of `prompt` tokens and an answer of `answer` tokens,
        where that has not been done, and makes room for them. So this counts for neither phase's
        time."""
        entries = (["prefill"] if prompt > 1 and answer > 0 else []) + (
            ["decode"] if answer > 1 else []
        )
        for entry in entries:
            getattr(self._language, entry)
        self._reserve(min(self.length + prompt + answer, self._context))

    def prefill(self, tokens):
        """Reads tokens and returns the logits after the last one."""
        tokens = list(tokens)
        if not tokens:
            raise Error("a prompt has at least one token; give a text")
        before = self.tokens
        self._make_room(len(tokens))
        try:
            for begin in range(0, len(tokens), _PART):
                part = tokens[begin : begin + _PART]
                language = self._language
                logits = self._read(language.prefill if len(part) > 1 else language.decode, part)
        except BaseException:
            self.tokens = before  # all of the prompt is read, or nothing
            raise
        return logits

    def decode(self, token):
        """Reads one token and returns the logits after it."""
        self._make_room(1)
        return self._read(self._language.decode, [token])

    def truncate(self, count):
        """Makes the model forget all but the first tokens."""
        if not 0 <= count <= self.length:
            raise Error(f"a sequence of {self.length} tokens cannot be cut to {count}")
        self.tokens = self.tokens[:count]

    def copy(self):
        """A copy of the sequence that is independent from here on."""
        other = Session.__new__(Session)
        other._language, other.tokens = self._language, list(self.tokens)
        other._caches = self._copied(self._capacity)
        return other

    def save(self, path):
        """Writes the tokens, and the keys and values that are kept for them, to a file."""
        names = [str(number) for number in range(len(self._caches))]
        arrays = {name: cache[:, :, : self.length] for name, cache in zip(names, self._caches)}
        tokens = np.array(self.tokens, np.int64)
        write_state(path, self._description(), {**arrays, _TOKENS: tokens})

    def load(self, path):
        """Goes on from what `save` wrote for the same model; before, all tokens are forgotten."""
        about, arrays = read_state(path)
        if about != self._description():
            raise Error(
                f"'{os.fsdecode(path)}' holds the state of another model than {self._language.name}"
            )
        tokens = arrays.pop(_TOKENS)
        if tokens.dtype != np.int64 or tokens.ndim != 1 or len(tokens) > self._context:
            raise Error(f"'{os.fsdecode(path)}' is no saved state of a model: its tokens are none")
        for name, array in arrays.items():
            cache = self._caches[int(name)]
            wanted = (*cache.shape[:2], len(tokens), cache.shape[3])
            if array.dtype != cache.dtype or array.shape != wanted:
                raise Error(
                    f"'{os.fsdecode(path)}' is no saved state of a model: it has {array.dtype}{list(array.shape)} where "
                    f"{cache.dtype}{list(wanted)} is needed"
                )
        self.reset()
        self._reserve(len(tokens))
        for name, array in arrays.items():
            self._caches[int(name)][:, :, : len(tokens)] = array
        self.tokens = tokens.tolist()

    def fits(self, other):
        """Whether the other is a sequence of the same model."""
        return isinstance(other, Session) and other._language is self._language

    def __repr__(self):
        return f"<tc state of {self._language.name}: {self.length} of {self._context} tokens>"

    def _description(self):
        parameters = self._language.parameters
        names = [str(number) for number in range(len(self._caches))] + [_TOKENS]
        return {
            "variables": sorted(names),
            "model": self._language.name,
            **{
                name: getattr(parameters, name)
                for name in ("layers", "width", "key_heads", "key_size", "value_size", "context")
            },
        }

    @property
    def _context(self):
        return self._language.parameters.context

    @property
    def _capacity(self):
        return self._caches[0].shape[2]

    def _copied(self, count):
        """Caches for at least so many positions, with the present keys and values copied."""
        caches = caches_for(self._language.parameters, count)
        for new, old in zip(caches, self._caches):
            new[:, :, : self.length] = old[:, :, : self.length]
        return caches

    def _reserve(self, count):
        """Makes room for so many positions."""
        if count > self._capacity:
            self._caches = self._copied(count)

    def _make_room(self, count):
        """Makes room for so many more tokens."""
        if count > self.room:
            raise Error(
                f"{self._language.name} reads at most {self._language.parameters.context} tokens; "
                f"{self.length} are read and {count} "
                "more are given: give a shorter prompt, or ask for fewer tokens"
            )
        self._reserve(self.length + count)

    def _read(self, module, tokens):
        logits, *_ = module.run_in_place(
            np.array([tokens], np.int64), np.array([self.length], np.int64), *self._caches
        )
        self.tokens = self.tokens + tokens
        return logits[0, -1]
