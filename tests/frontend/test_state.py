"""What a module keeps between calls: saved, restored, gone back in, and two sequences in turns."""

import io
import random
import zipfile

import numpy as np
import pytest

import tc

torch = pytest.importorskip("torch")


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
    with pytest.raises(tc.Error, match="is no sequence, so that it cannot go back to 3 steps"):
        sums.state.truncate(3)
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
    """Files that are no saved states, or say what they do not hold."""
    about = ("tc_state.npy", npy(np.frombuffer(b'{"variables": ["a"]}', np.uint8)))
    yield b""
    yield b"PK\x03\x04"
    yield saved[: len(saved) // 2]
    yield archive_of([])
    yield archive_of([("a.npy", npy(np.zeros(3)))])
    yield archive_of([about])
    yield archive_of([about, ("1.npy", npy(np.array([object()], object)))])
    yield archive_of([about, ("1.npy", npy(np.zeros(1 << 20)))], zipfile.ZIP_DEFLATED)
    yield archive_of([about, ("1.npy", npy(np.zeros(4))[:-8])])
    header = npy(np.zeros(4)).replace(b"(4,)", b"(-4,)")
    yield archive_of([about, ("1.npy", header)])
    yield archive_of([("tc_state.npy", npy(np.frombuffer(b"[" * 50000, np.uint8)))])
    yield archive_of([("tc_state.npy", npy(np.frombuffer(b'{"variables": [1]}', np.uint8)))])


def test_hostile_files_are_one_sentence(sums, tmp_path):
    path = tmp_path / "state"
    sums(numbers(0))
    sums.state.save(path)
    saved = path.read_bytes()
    before = sums.state.copy()
    for content in hostile(saved):
        path.write_bytes(content)
        with pytest.raises(tc.Error) as error:
            sums.state.load(path)
        assert str(error.value).startswith(f"'{path}' ") and "\n" not in str(error.value)
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
