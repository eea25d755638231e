"""Sequences whose keys and values lie side by side, so that one run of the model reads a token of
each of several."""

import time

import numpy as np

from ..errors import Error
from .session import Session, caches_for

# The attention of several sequences in one run, compared with that of as many runs.
_ATTENTION = 1.5
_TRIES = 3  # runs of which the fastest counts


class Separate:
    """Sequences that have memory of their own, of which each is decoded by a run of its own."""

    def __init__(self, language, make=Session):
        self._language, self._make = language, make

    def open(self):
        """An empty sequence."""
        return self._make(self._language)

    def close(self, session):
        """Takes back a sequence that is not used again."""

    def measure(self):
        """Nothing depends on what runs cost."""

    def groups(self, sessions):
        """The sessions in groups; decode() takes one of these."""
        return [[session] for session in sessions]

    def decode(self, sessions, tokens):
        """Reads a token with each session of a group; returns the logits after each."""
        return [session.decode(token) for session, token in zip(sessions, tokens)]


class Place(Session):
    """One of the sequences of Places: its caches are a part of theirs."""

    def __init__(self, places, index):
        self._language, self._places, self.index = places.language, places, index
        self.reset()

    @property
    def _caches(self):
        return self._places.part(self.index, self.index + 1)

    def _reserve(self, count):
        self._places.reserve(count)

    @property
    def is_full(self):
        """Whether the caches have no slot behind those of its tokens."""
        return self.length >= self._places.capacity


class Places:
    """Room for as many sequences as the module of a language reads in one run: `language.places`.
    A run takes neighbouring places, as their caches are one array. Places between those of a group
    are read too, and what that writes lies behind their tokens, where it is never looked at."""

    def __init__(self, language):
        self.language = language
        self._places = [None] * language.places
        self._caches = caches_for(language.parameters, 0, language.places)
        self._most = 0  # tokens that a place has had
        weights = language.prefill.memory.constants
        # What runs cost, in units of one that reads a token of an empty sequence: for each token in
        # a cache, and for each further row of the matrix products. measure() finds the second.
        self._slot = sum(cache[0, :, 0].nbytes for cache in self._caches) / weights
        self._row = 0.5

    @property
    def capacity(self):
        """The tokens for which each place has room."""
        return self._caches[0].shape[2]

    def open(self):
        """An empty sequence in a free place, of the lowest number."""
        if None not in self._places:
            raise Error(
                f"all {len(self._places)} places for sequences of {self.language.name} are in use; "
                "close one first"
            )
        index = self._places.index(None)
        self._places[index] = Place(self, index)
        return self._places[index]

    def close(self, session):
        """Takes back a place."""
        self._places[session.index] = None

    def part(self, begin, end):
        """The caches of some neighbouring places."""
        return [cache[begin:end] for cache in self._caches]

    def reserve(self, count):
        """Makes room for so many tokens in each place."""
        self._most = max(self._most, count)
        if count <= self.capacity:
            return
        caches = caches_for(self.language.parameters, count, len(self._places))
        for place in filter(None, self._places):
            for new, old in zip(caches, self._caches):
                filled = np.s_[place.index, :, : place.length]
                new[filled] = old[filled]
        self._caches = caches

    def measure(self):
        """Finds out what further rows cost on this machine, while no place is in use."""
        one, all_of_them = (self._time(count) for count in (1, len(self._places)))
        self._row = max(0.0, (all_of_them / one - 1) / (len(self._places) - 1))

    def _time(self, count):
        ids, lengths = np.zeros((count, 1), np.int64), np.zeros(count, np.int64)
        times = []
        for _ in range(_TRIES):
            begin = time.perf_counter()
            self.language.decode.run_in_place(ids, lengths, *self.part(0, count))
            times.append(time.perf_counter() - begin)
        return min(times)

    def groups(self, sessions):
        """The sessions in groups that cost the least; decode() reads each group in one run."""
        ordered = sorted(sessions, key=lambda session: session.index)
        # The least cost of the first so many sessions, and where their last group begins.
        best = [(0.0, 0)]
        for end in range(1, len(ordered) + 1):
            costs = self._costs(ordered[:end])
            best.append(min((best[begin][0] + cost, begin) for begin, cost in costs))
        groups, end = [], len(ordered)
        while end:
            begin = best[end][1]
            groups.append(ordered[begin:end])
            end = begin
        return groups[::-1]

    def _costs(self, ordered):
        """(begin, cost) of the groups that end with the last of some sessions: what it costs to
        read a token of each."""
        last, begin, longest = ordered[-1].index, len(ordered) - 1, 0
        yield begin, 1 + self._slot * ordered[-1].length
        for rows, index in enumerate(range(last, ordered[0].index - 1, -1), 1):
            place = self._places[index]
            longest = max(longest, place.length if place else 0)
            if place is ordered[begin]:
                if rows > 1:
                    attention = _ATTENTION * self._slot * rows * longest
                    yield begin, 1 + self._row * (rows - 1) + attention
                begin -= 1
            elif place and place.is_full:
                return  # nothing can be written behind its tokens

    def decode(self, sessions, tokens):
        """Reads a token with each session of a group; returns the logits after each. After an error
        no sequence has read its token, and each can be decoded alone."""
        if len(sessions) == 1:
            return [sessions[0].decode(tokens[0])]
        self.reserve(1 + max(session.length for session in sessions))
        begin, end = sessions[0].index, sessions[-1].index + 1
        ids = np.zeros((end - begin, 1), np.int64)
        ids[[session.index - begin for session in sessions], 0] = tokens
        lengths = [place.length if place else 0 for place in self._places[begin:end]]
        logits, *_ = self.language.decode.run_in_place(
            ids, np.array(lengths, np.int64), *self.part(begin, end)
        )
        found = [logits[session.index - begin, -1] for session in sessions]
        if not all(np.isfinite(each).all() for each in found):
            self._clear()
            raise Error(f"{self.language.name} gave logits that are no finite numbers")
        for session, token in zip(sessions, tokens):
            session.tokens = session.tokens + [token]
        return found

    def _clear(self):
        """Writes zeros behind the tokens of each place. A run of several multiplies what is left
        there of earlier sequences by 0, and where that is infinite, the result is no number."""
        for index, place in enumerate(self._places):
            for cache in self._caches:
                cache[index, :, place.length if place else 0 : self._most] = 0
