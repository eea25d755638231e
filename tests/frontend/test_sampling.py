"""Choosing tokens: distributions that were computed by hand, the same draws for the same seed, and
what is refused."""

import math

import numpy as np
import pytest

import tc
from tc.language.sampling import Sampler, Sampling, distribution

# Probabilities 0.4, 0.1, 0.3, 0.2, as logits.
LOGITS = np.log([0.4, 0.1, 0.3, 0.2])

CASES = {
    "all": ({}, {0: 0.4, 2: 0.3, 3: 0.2, 1: 0.1}),
    "a temperature of a half squares": (
        {"temperature": 0.5},
        {0: 0.16 / 0.3, 2: 0.09 / 0.3, 3: 0.04 / 0.3, 1: 0.01 / 0.3},
    ),
    "a temperature of 2 takes roots": (
        {"temperature": 2.0},
        {
            token: math.sqrt(share) / sum(map(math.sqrt, (0.4, 0.3, 0.2, 0.1)))
            for token, share in ((0, 0.4), (2, 0.3), (3, 0.2), (1, 0.1))
        },
    ),
    "the two likeliest": ({"top_k": 2}, {0: 4 / 7, 2: 3 / 7}),
    "more than there are": ({"top_k": 9}, {0: 0.4, 2: 0.3, 3: 0.2, 1: 0.1}),
    "a sum of 0.5 needs two": ({"top_p": 0.5}, {0: 4 / 7, 2: 3 / 7}),
    "a sum of 0.4 needs one": ({"top_p": 0.39}, {0: 1.0}),
    "a sum of 0 keeps one": ({"top_p": 0.0}, {0: 1.0}),
    "a sum of 1 keeps all": ({"top_p": 1.0}, {0: 0.4, 2: 0.3, 3: 0.2, 1: 0.1}),
    "at least half of the likeliest": ({"min_p": 0.45}, {0: 4 / 9, 2: 3 / 9, 3: 2 / 9}),
    "at least as likely as the likeliest": ({"min_p": 1.0}, {0: 1.0}),
    "one after the other": ({"top_k": 3, "top_p": 0.8, "min_p": 0.7}, {0: 4 / 7, 2: 3 / 7}),
    "without a temperature": ({"temperature": 0}, {0: 1.0}),
}


@pytest.mark.parametrize("name", CASES)
def test_distributions(name):
    options, expected = CASES[name]
    tokens, shares = distribution(LOGITS, Sampling(**{"temperature": 1.0, **options}))
    assert tokens.tolist() == list(expected)
    np.testing.assert_allclose(shares, list(expected.values()), rtol=1e-12)


def test_equal_tokens_come_in_order():
    assert distribution([1.0, 3.0, 3.0, 3.0, 0.0], Sampling(1.0, top_k=4))[0].tolist() == [
        1,
        2,
        3,
        0,
    ]
    assert Sampler(Sampling()).choose(np.array([1.0, 3.0, 3.0])) == 1


def test_draws_follow_the_distribution_and_the_seed():
    sampler = Sampler(Sampling(1.0, seed=5))
    drawn = [sampler.choose(LOGITS) for _ in range(20000)]
    np.testing.assert_allclose(np.bincount(drawn) / len(drawn), [0.4, 0.1, 0.3, 0.2], atol=0.015)
    again, other = Sampler(Sampling(1.0, seed=5)), Sampler(Sampling(1.0, seed=6))
    assert [again.choose(LOGITS) for _ in range(100)] == drawn[:100]
    assert [other.choose(LOGITS) for _ in range(100)] != drawn[:100]


def test_large_logits_are_no_overflow():
    tokens, shares = distribution([1e4, 1e4 - 1, -1e4], Sampling(0.5))
    np.testing.assert_allclose(
        shares, [1 / (1 + math.exp(-2)), math.exp(-2) / (1 + math.exp(-2)), 0], atol=1e-12
    )
    assert tokens.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"temperature": -1}, "temperature is -1; give a number of at least 0"),
        ({"temperature": math.nan}, "temperature is nan; give a number of at least 0"),
        ({"top_k": 0}, "top_k is 0; give a whole number of at least 1, or None for all tokens"),
        ({"top_k": 1.5}, "top_k is 1.5; give a whole number of at least 1, or None for all tokens"),
        ({"top_p": 1.5}, "top_p is 1.5; give a number from 0 to 1, or None"),
        ({"min_p": "x"}, "min_p is 'x'; give a number from 0 to 1, or None"),
        ({"seed": -1}, "seed is -1; give a whole number from 0 to 2^64 - 1"),
    ],
)
def test_refusals(options, expected):
    with pytest.raises(tc.Error) as raised:
        Sampling(**options)
    assert str(raised.value) == expected
