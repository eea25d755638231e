"""What a token moves: weights, the filled part of the caches and new slots, and no copy of a
cache."""

import pytest

from tc.native import compiler

pytest.importorskip(
    "gguf", reason="GGUF files are read by the package gguf, which is not installed"
)
pytest.importorskip("transformers", reason="the model is of transformers, which is not installed")
from . import gguf_models  # noqa: E402
from .gguf_files import write_model  # noqa: E402

LAYERS, HEADS, KEY_HEADS, SIZE, CAPACITY, CONTEXT = 2, 8, 2, 32, 512, 4096
# Of all layers, keys and values, for one position.
SLOT = LAYERS * 2 * KEY_HEADS * SIZE * 4


@pytest.fixture(scope="module", name="decode")
def decode_module(tmp_path_factory):
    from tc.gguf import language_of

    model, configuration = gguf_models.made(
        "llama",
        hidden_size=HEADS * SIZE,
        intermediate_size=1024,
        num_attention_heads=HEADS,
        head_dim=SIZE,
        num_key_value_heads=KEY_HEADS,
        max_position_embeddings=CONTEXT,
    )
    return language_of(
        write_model(tmp_path_factory.mktemp("wide") / "wide.gguf", "llama", model, configuration), 1
    ).decode


def rows_of(decode, capacity):
    """The work of each step that reads one token, with caches of this capacity that are full."""
    rows = compiler.step_work(decode._compiled, {"capacity": capacity, "seq": 1})
    return [row for row in rows if row["runs"]]


def test_copies_are_those_that_one_memory_saves(decode):
    copies = [row["label"] for row in rows_of(decode, CAPACITY) if row["kind"] == "copy"]
    assert sorted(copies) == sorted(
        f"copy {cache} unless {present} lies there" for present, cache in decode.in_place.items()
    )
    assert len(copies) == 2 * LAYERS


def test_new_slots_are_all_that_is_written_to_caches(decode):
    rows = [row for row in rows_of(decode, CAPACITY) if row["kind"] == "kernel"]
    scatters = [
        row for row in rows if "tensorscatter" in row["label"].lower() or "present" in row["label"]
    ]
    assert len(scatters) == 2 * LAYERS and sum(row["written"] for row in scatters) == SLOT
    # Nothing else writes as much as depends on the caches' size but the scores.
    others = sum(row["written"] for row in rows) - sum(
        row["written"] for row in rows_of(decode, CAPACITY // 2) if row["kind"] == "kernel"
    )
    assert others <= 3 * LAYERS * HEADS * CAPACITY // 2 * 4


def test_a_token_moves_weights_the_cache_and_new_slots(decode):
    moved = sum(
        row["read"] + row["constants"] + row["written"]
        for row in rows_of(decode, CAPACITY)
        if row["kind"] == "kernel"
    )
    assert moved <= 1.05 * (decode.memory.constants + SLOT * CAPACITY + SLOT)
    # A position more in the caches is read once, and its scores are written and read.
    half = sum(
        row["read"] + row["constants"] + row["written"]
        for row in rows_of(decode, CAPACITY // 2)
        if row["kind"] == "kernel"
    )
    assert moved - half <= CAPACITY // 2 * (SLOT + 6 * LAYERS * HEADS * 4)


def test_at_4096_tokens_only_scores_are_moved_more_than_once(decode):
    """The scores, which stay in the second-level cache, are written twice and read twice: by the
    first product, the softmax and the second product."""
    moved = sum(
        row["read"] + row["constants"] + row["written"]
        for row in rows_of(decode, CONTEXT)
        if row["kind"] == "kernel"
    )
    scores = 4 * LAYERS * HEADS * CONTEXT * 4
    assert moved - scores <= 1.05 * (decode.memory.constants + SLOT * CONTEXT + SLOT)


def test_masks_of_a_prompt_are_computed_once(decode):
    """In the other layers an attention has its products, its softmax, and the two steps that put
    the rows of queries and of results in order; no mask is computed."""
    work = compiler.step_work(decode._compiled, {"capacity": CAPACITY, "seq": 5})
    labels = [row["label"] for row in work if row["runs"] and row["kind"] == "kernel"]
    steps = [labels.count(f"blk.{layer}.attention") for layer in range(LAYERS)]
    assert steps[0] > steps[1] == 5, labels
