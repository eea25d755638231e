"""What a module keeps between calls: saved, restored, gone back in, and two sequences in turns."""

import io
import random
import zipfile

import numpy as np
import pytest

import tc

torch = pytest.importorskip("torch")
from tc import state  # noqa: E402
from tc.torch.call_state import TorchState  # noqa: E402


class Sums(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("latest", torch.zeros(2, 3))

    def forward(self, x):
        self.count += x.sum(1)
        self.latest.copy_(x)
        return self.count * 2


def numbers(seed):
    return np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32)


@pytest.fixture
def sums():
    return tc.compile(Sums(), inputs=[torch.zeros(2, 3)], threads=1, log=False)


def test_a_state_is_saved_and_restored(sums, tmp_path):
    sums(numbers(0))
    sums.state.save(tmp_path / "state")
    wanted = [sums(numbers(seed)) for seed in (1, 2)]
    sums.state.reset()
    assert not sums.state["count"].any()
    sums.state.load(tmp_path / "state")
    np.testing.assert_array_equal(sums.state["latest"], numbers(0))
    for seed, expected in zip((1, 2), wanted):
        np.testing.assert_array_equal(sums(numbers(seed)), expected)
    assert set(sums.state) == {"count", "latest"} and len(sums.state) == 2


def test_two_states_take_turns(sums):
    alone = [sums(numbers(seed)) for seed in range(4)]
    sums.state.reset()
    first, second = sums.state, sums.state.copy()
    for seed, expected in enumerate(alone):
        for state in first, second:
            sums.state = state
            np.testing.assert_array_equal(sums(numbers(seed)), expected)


def test_what_is_no_state_of_the_module_is_refused(sums, tmp_path):
    with pytest.raises(tc.Error, match="give a copy of the state of this module"):
        sums.state = {"count": np.zeros(2, np.float32)}
    with pytest.raises(tc.Error) as error:
        sums.state.truncate(3)
    assert str(error.value).endswith(
        "is no sequence, so that it cannot go back to 3 steps; copy or save it before the step to which it is to go back"
    )
    path = tmp_path / "state"
    sums.state.save(path)

    class Other(Sums):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(2, 1, dtype=torch.float64))

        def forward(self, x):
            self.count += x.sum(1, keepdim=True)
            self.latest.copy_(x)
            return x + 1

    other = tc.compile(Other(), inputs=[torch.zeros(2, 3)], threads=1, log=False)
    with pytest.raises(tc.Error, match="it was saved from another version of the model"):
        other.state.load(path)
    with pytest.raises(tc.Error, match="cannot be read: No such file"):
        sums.state.load(tmp_path / "none")
    with pytest.raises(tc.Error, match="cannot be written|No such file|folder"):
        sums.state.save(tmp_path / "no folder" / "state")


def archive_of(parts, compression=zipfile.ZIP_STORED):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression) as archive:
        for name, content in parts:
            archive.writestr(name, content)
    return data.getvalue()


def npy(array):
    data = io.BytesIO()
    np.save(data, array, allow_pickle=True)
    return data.getvalue()


def hostile(saved):
    """(file that is no saved state, or says what it does not hold; end of the sentence)."""
    about = ("tc_state.npy", npy(np.frombuffer(b'{"variables": ["a"]}', np.uint8)))
    no_state = "is no saved state of a model: "
    for data in (b"", b"PK\x03\x04", saved[: len(saved) // 2]):
        yield data, no_state + "File is not a zip file"
    for parts in ([], [("a.npy", npy(np.zeros(3)))]):
        yield archive_of(parts), no_state + "it does not say what it is of"
    yield archive_of([about]), no_state + "its names and arrays differ"
    of_objects = archive_of([about, ("1.npy", npy(np.array([object()], object)))])
    yield of_objects, no_state + "an array is not of plain numbers in rows"
    large = archive_of([about, ("1.npy", npy(np.zeros(1 << 20)))], zipfile.ZIP_DEFLATED)
    yield large, no_state + "it has compressed or too many parts"
    header = npy(np.zeros(4)).replace(b"(4,), }", b"(-4,),}")
    for array in (npy(np.zeros(4))[:-8], header):
        data = archive_of([about, ("1.npy", array)])
        yield data, no_state + "an array has another size than its shape says"
    newer = npy(np.zeros(4)).replace(b"NUMPY\x01", b"NUMPY\x07")
    yield (
        archive_of([about, ("1.npy", newer)]),
        no_state + "an array has the unknown version (7, 0)",
    )
    long = archive_of([("tc_state.npy", npy(np.zeros(1 << 17, np.uint8)))])
    yield long, no_state + "its description is too long"
    nested = archive_of([("tc_state.npy", npy(np.frombuffer(b"[" * 50000, np.uint8)))])
    yield nested, ""
    names = ("tc_state.npy", npy(np.frombuffer(b'{"variables": [1]}', np.uint8)))
    yield archive_of([names, ("1.npy", npy(np.zeros(4)))]), no_state + "its names are no names"


def test_hostile_files_are_one_sentence(sums, tmp_path):
    path = tmp_path / "state"
    sums(numbers(0))
    sums.state.save(path)
    saved = path.read_bytes()
    before = sums.state.copy()
    for content, text in hostile(saved):
        path.write_bytes(content)
        with pytest.raises(tc.Error) as error:
            sums.state.load(path)
        assert str(error.value).startswith(f"'{path}' ") and "\n" not in str(error.value)
        assert str(error.value).endswith(text)
    # Whatever bit is changed, it is refused or loaded.
    draw = random.Random(5)
    for _ in range(300):
        changed = bytearray(saved)
        for _ in range(draw.choice([1, 1, 8])):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        try:
            sums.state.load(path)
        except tc.Error:
            continue
        assert {name: array.shape for name, array in sums.state.items()} == {
            name: array.shape for name, array in before.items()
        }


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    pytest.importorskip("gguf", reason="GGUF files are read by the package gguf")
    pytest.importorskip("transformers", reason="the model is made by transformers")
    from .test_gguf import written

    path, _ = written(tmp_path_factory.mktemp("tiny"), "qwen3")
    return tc.compile(path, threads=1, log=False)


def decoded(module, count):
    """So many likeliest tokens after what was read."""
    logits, tokens = module.decode(module.state.tokens[-1]), []
    for _ in range(count):
        tokens.append(int(logits.argmax()))
        logits = module.decode(tokens[-1])
    return tokens


def test_a_sequence_is_saved_restored_and_gone_back_in(language, tmp_path):
    assert language.entries == ("prefill", "decode")
    prompt = language.tokenizer.encode("hello world")
    language.state.reset()
    language.prefill(prompt)
    language.state.save(tmp_path / "state")
    wanted = decoded(language, 8)
    assert language.state.length == len(prompt) + 9

    language.state.truncate(len(prompt))
    assert decoded(language, 8) == wanted
    language.state.reset()
    language.state.load(tmp_path / "state")
    assert language.state.tokens == prompt and decoded(language, 8) == wanted
    assert repr(language.state).endswith(
        f"{len(prompt) + 9} of {language.state.room + len(prompt) + 9} tokens>"
    )


def test_two_sequences_take_turns(language):
    prompts = [language.tokenizer.encode(text) for text in ("hello world", "1 2 ab")]

    def after(prompt):
        language.state.reset()
        language.prefill(prompt)
        return decoded(language, 6)

    alone = [after(prompt) for prompt in prompts]
    language.state.reset()
    states = [language.state, language.state.copy()]
    for prompt, state in zip(prompts, states):
        language.state = state
        language.prefill(prompt)
    found = [[], []]
    for place, (state, prompt) in enumerate(zip(states, prompts)):
        language.state = state
        found[place].append(int(language.decode(prompt[-1]).argmax()))
    for _ in range(5):
        for place, state in enumerate(states):
            language.state = state
            found[place].append(int(language.decode(found[place][-1]).argmax()))
    assert found == alone


def test_a_state_of_another_model_is_refused(language, sums, tmp_path):
    sums.state.save(tmp_path / "state")
    with pytest.raises(tc.Error, match="holds the state of another model than"):
        language.state.load(tmp_path / "state")
    language.state.save(tmp_path / "state")
    with pytest.raises(tc.Error, match="holds the state of another model than"):
        sums.state.load(tmp_path / "state")
    with pytest.raises(tc.Error, match="give a copy of the state of this module"):
        language.state = sums.state


def test_damaged_sequences_are_refused(language, tmp_path):
    path = tmp_path / "state"
    language.state.reset()
    language.prefill(language.tokenizer.encode("hello world"))
    language.state.save(path)
    about, arrays = state.read_state(path)
    for change, text in (
        ({"tokens": arrays["tokens"].astype(np.float64)}, "its tokens are none"),
        ({"0": arrays["0"][:, :, 1:]}, "is no saved state of a model: it has float32["),
    ):
        state.write_state(path, about, {**arrays, **change})
        with pytest.raises(tc.Error) as error:
            language.state.load(path)
        assert text in str(error.value)


def test_values_that_cannot_be_saved_are_refused(tmp_path):
    for value, text in (
        (
            torch.zeros(2, dtype=torch.bfloat16),
            "torch.bfloat16, which cannot be saved: NumPy has no such type",
        ),
        ([1], "type list, which cannot be saved: keep tensors, numbers and texts"),
    ):
        with pytest.raises(tc.Error) as error:
            TorchState("m", {"x": value}).save(tmp_path / "state")
        assert str(error.value).endswith(text)
    plain = TorchState("m", {"x": 3, "y": torch.ones(2)})
    plain.save(tmp_path / "state")
    plain.update({"x": 4})
    plain.load(tmp_path / "state")
    assert plain["x"] == 3
