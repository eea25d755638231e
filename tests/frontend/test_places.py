"""Several sequences whose next tokens are read in one run: the same tokens as one by one, whatever
lies between them, and groups that cost less than their parts."""

import itertools
import random
import types

import numpy as np
import pytest

import tc

pytest.importorskip(
    "gguf", reason="GGUF files are read by the package gguf, which is not installed"
)
pytest.importorskip("transformers", reason="the model is of transformers, which is not installed")
from tc.gguf import language_of  # noqa: E402
from tc.language import session as sessions  # noqa: E402
from tc.language.places import Places  # noqa: E402
from tc.language.session import Session  # noqa: E402

from .test_gguf import written  # noqa: E402

PLACES = 5
PROMPTS = ([3, 1, 4, 1, 5], [9], [2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3], [8, 4], [6, 2, 6, 4])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return written(tmp_path_factory.mktemp("tiny"), "qwen3")[0]


@pytest.fixture(scope="module")
def language(path):
    return language_of(path, 1, PLACES)


@pytest.fixture(scope="module")
def alone(path):
    """A function from a prompt to (likeliest tokens, logits after each), by another module."""
    single = language_of(path, 1)

    def run(prompt, count):
        session, tokens, logits = Session(single), [], []
        logits.append(session.prefill(prompt))
        while len(tokens) < count:
            tokens.append(int(logits[-1].argmax()))
            logits.append(session.decode(tokens[-1]))
        return tokens, logits

    return run


def opened(places, prompts):
    """A sequence for each prompt, and its likeliest next token."""
    made = [places.open() for _ in prompts]
    return made, [int(each.prefill(prompt).argmax()) for each, prompt in zip(made, prompts)]


def test_one_run_gives_the_tokens_of_each(language, alone):
    places = Places(language)
    made, tokens = opened(places, PROMPTS)
    texts = [[token] for token in tokens]
    for step in range(1, 12):
        found = places.decode(made, [text[-1] for text in texts])
        for text, logits, prompt in zip(texts, found, PROMPTS):
            expected = alone(prompt, step)[1][-1]
            np.testing.assert_allclose(logits, expected, atol=2e-5 * np.abs(expected).max())
            text.append(int(logits.argmax()))
    assert texts == [alone(prompt, 12)[0] for prompt in PROMPTS]
    assert [each.tokens for each in made] == [[*p, *t[:-1]] for p, t in zip(PROMPTS, texts)]


def test_what_lies_between_stays_as_it_is(language, alone):
    """Places of a group's run that are not of the group: one that waits, one that is closed, and
    one that comes into use later."""
    places = Places(language)
    made, tokens = opened(places, PROMPTS[:4])
    places.close(made[2])
    before = [np.array(cache[:, :, : len(PROMPTS[1])]) for cache in made[1]._caches]
    group = [made[0], made[3]]
    texts = [[tokens[0]], [tokens[3]]]
    for _ in range(6):
        found = places.decode(group, [text[-1] for text in texts])
        for text, logits in zip(texts, found):
            text.append(int(logits.argmax()))
    assert texts == [alone(PROMPTS[0], 7)[0], alone(PROMPTS[3], 7)[0]]
    for cache, kept in zip(made[1]._caches, before):
        np.testing.assert_array_equal(cache[:, :, : kept.shape[2]], kept)
    again = places.open()
    assert again.index == made[2].index and again.length == 0
    pair = [made[1], again]
    texts = [[tokens[1]], [int(again.prefill(PROMPTS[4]).argmax())]]
    for _ in range(4):
        for text, logits in zip(texts, places.decode(pair, [text[-1] for text in texts])):
            text.append(int(logits.argmax()))
    assert texts == [alone(PROMPTS[1], 5)[0], alone(PROMPTS[4], 5)[0]]


def test_places_grow_and_can_be_saved(language, alone, monkeypatch, tmp_path):
    monkeypatch.setattr(sessions, "_MIN_ROOM", 4)
    places = Places(language)
    assert places.capacity == 4
    made, tokens = opened(places, PROMPTS[:3])
    assert places.capacity == 16
    made[0].save(tmp_path / "state")
    other = made[0].copy()
    texts = [[token] for token in tokens]
    for _ in range(8):
        for text, logits in zip(texts, places.decode(made, [text[-1] for text in texts])):
            text.append(int(logits.argmax()))
    assert places.capacity == 32
    assert texts == [alone(prompt, 9)[0] for prompt in PROMPTS[:3]]
    assert int(other.decode(tokens[0]).argmax()) == texts[0][1]
    made[1].load(tmp_path / "state")
    assert int(made[1].decode(tokens[0]).argmax()) == texts[0][1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_an_earlier_sequence_left_harms_none(language, alone, value):
    """Slots behind a sequence's tokens that hold no finite numbers, up to the longest sequence."""
    places = Places(language)
    made, tokens = opened(places, [PROMPTS[2], PROMPTS[1]])
    places.reserve(30)
    for cache in made[1]._caches:
        cache[:, :, made[1].length : 30] = value
    before = [list(each.tokens) for each in made]
    with pytest.raises(tc.Error, match="tiny.gguf gave logits that are no finite numbers"):
        places.decode(made, tokens)
    assert [each.tokens for each in made] == before
    # The run that failed has overwritten nothing that each of them needs.
    assert int(made[1].decode(tokens[1]).argmax()) == alone(PROMPTS[1], 2)[0][1]
    made[1].truncate(len(PROMPTS[1]))
    texts = [[token] for token in tokens]
    for _ in range(5):
        for text, logits in zip(texts, places.decode(made, [text[-1] for text in texts])):
            text.append(int(logits.argmax()))
    assert texts == [alone(PROMPTS[2], 6)[0], alone(PROMPTS[1], 6)[0]]


def test_full_places_and_too_many(language):
    places = Places(language)
    made, _ = opened(places, PROMPTS)
    with pytest.raises(tc.Error) as raised:
        places.open()
    assert str(raised.value) == (
        "all 5 places for sequences of tiny.gguf are in use; close one first"
    )
    # A place without a free slot is in no run of others.
    made[1].prefill([1] * made[1].room)
    assert made[1].is_full and places.capacity == 64
    groups = places.groups([made[0], made[2], made[3]])
    assert groups == [[made[0]], [made[2], made[3]]]


def test_what_rows_cost_is_measured(language, monkeypatch):
    places = Places(language)
    monkeypatch.setattr(places, "_time", lambda count: 2.0 + 0.5 * (count - 1))
    places.measure()
    assert places._row == 0.25
    monkeypatch.undo()
    places.measure()
    assert 0 <= places._row < 2
    # What the measurement wrote is read by none.
    assert all(place is None for place in places._places)


def filled_places(lengths, row, room):
    """Places of a model whose weights are 8,000 bytes, and a slot of a cache 8."""
    parameters = types.SimpleNamespace(
        layers=1, key_heads=1, key_size=1, value_size=1, context=10_000
    )
    memory = types.SimpleNamespace(constants=8_000)
    places = Places(
        types.SimpleNamespace(
            places=len(lengths), parameters=parameters, prefill=types.SimpleNamespace(memory=memory)
        )
    )
    places._row = row
    made = [places.open() for _ in lengths]
    places.reserve(room)
    for place, length in zip(made, lengths):
        place.tokens = [0] * length
    return places, made


def test_groups_cost_the_least():
    """Further rows are half of what one costs, until the longest sequence of a group makes all of
    them dear."""

    def groups(lengths, of, row=0.5):
        places, made = filled_places(lengths, row, max(lengths) + 1)
        found = places.groups([made[index] for index in of])
        return [[place.index for place in group] for group in found]

    assert groups([9, 9, 9, 9, 9, 9], range(6)) == [[0, 1, 2, 3, 4, 5]]
    # Rows of places between, which are of no use, cost as much as others.
    assert groups([9, 9, 9, 9, 9, 9], [4, 0, 1]) == [[0, 1], [4]]
    assert groups([9, 9, 9, 9, 9, 9], [4, 0, 1], row=0.2) == [[0, 1, 4]]
    assert groups([9, 9, 9, 9, 9, 9], [5, 0, 1], row=0.3) == [[0, 1], [5]]
    assert groups([9, 9, 9, 9, 9, 9], range(6), row=1.1) == [[index] for index in range(6)]
    assert groups([9, 9, 900, 9, 9], range(5)) == [[0, 1], [2], [3, 4]]
    assert groups([5000, 5000], range(2)) == [[0], [1]]


def test_no_division_costs_less():
    """Beside all divisions of 6 out of 9 places, some of which are full."""
    draw = random.Random(4)
    for _ in range(60):
        row = draw.choice([0.05, 0.2, 0.5, 1.2])
        lengths = [draw.choice([5, 50, 150, 256]) for _ in range(9)]
        places, made = filled_places(lengths, row, 256)
        chosen = sorted(draw.sample(range(9), 6))

        def cost(group):
            between = range(group[0], group[-1] + 1)
            if len(group) == 1:
                return 1 + lengths[group[0]] / 1000
            if any(lengths[each] == 256 for each in between if each not in group):
                return float("inf")
            longest = max(lengths[each] for each in between)
            return 1 + row * (len(between) - 1) + 1.5 * len(between) * longest / 1000

        divisions = []
        for cuts in itertools.product((True, False), repeat=5):
            groups = [[chosen[0]]]
            for cut, each in zip(cuts, chosen[1:]):
                if cut:
                    groups.append([])
                groups[-1].append(each)
            divisions.append(sum(map(cost, groups)))
        found = places.groups([made[each] for each in chosen])
        assert sum(cost([place.index for place in group]) for group in found) == pytest.approx(
            min(divisions)
        )
