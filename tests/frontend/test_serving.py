"""The parts of a server without a network: bodies of requests, turns of the engine, names of hosts,
lines of the log."""

import importlib
import json
import sys
import threading
import types

import numpy as np
import pytest

import tc

for name in "starlette", "uvicorn", "prometheus_client":
    pytest.importorskip(name, reason=f"{name} is not installed")
from tc.language.sampling import Sampling  # noqa: E402
from tc.serving import engine as engines  # noqa: E402
from tc.serving.guard import Lines, is_allowed  # noqa: E402
from tc.serving.metrics import Metrics  # noqa: E402
from tc.serving.requests import Refusal, parsed  # noqa: E402

SAID = "a text or a list of up to 16, each of 1 to 1000 characters"
COMPLETIONS = [
    (b"[1]", None, "the body is [1]; give an object of JSON"),
    (
        b"{",
        None,
        "the body is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    (b"[" * 100_000, None, "the body is not JSON: it is nested too deep"),
    (b'{"prompt": NaN}', None, "the body is not JSON: NaN is no number of JSON"),
    ({}, "prompt", "the field prompt is missing"),
    ({"prompt": None}, "prompt", "the field prompt is missing"),
    ({"prompt": 3}, "prompt", "prompt is 3; give a text"),
    ({"prompt": ["a", "b"]}, "prompt", "prompt has 2 texts; give one, and a request for each"),
    (
        {"prompt": [1, True]},
        "prompt",
        "prompt is [1, True]; a list has to be one of tokens, whole numbers, and not empty",
    ),
    (
        {"prompt": [[]]},
        "prompt",
        "prompt is []; a list has to be one of tokens, whole numbers, and not empty",
    ),
    (
        {"prompt": "a\ud800"},
        "prompt",
        "prompt has half of a letter (a surrogate) at the character 1; give a text of whole letters",
    ),
    (
        {"prompt": "a", "temprature": 1},
        "temprature",
        "the field 'temprature' is unknown; did you mean temperature?",
    ),
    ({"prompt": "a", "\x1b": 1}, "\\x1b", "the field '\\x1b' is unknown"),
    ({"prompt": "a", "n": 2}, "n", "n is 2; this server supports 1 alone: leave it out"),
    ({"prompt": "a", "n": True}, "n", "n is True; this server supports 1 alone: leave it out"),
    (
        {"prompt": "a", "tool_choice": "x"},
        "tool_choice",
        'tool_choice is \'x\'; this server supports "none" or "auto" alone: leave it out',
    ),
    (
        {"prompt": "a", "model": "other"},
        "model",
        "there is no model 'other' here; served is 'tiny'",
    ),
    ({"prompt": "a", "model": 1}, "model", "model is 1; give a text"),
    ({"prompt": "a", "stream": 1}, "stream", "stream is 1; give true or false"),
    (
        {"prompt": "a", "max_tokens": 0},
        "max_tokens",
        "max_tokens is 0; give a whole number of at least 1",
    ),
    (
        {"prompt": "a", "max_tokens": True},
        "max_tokens",
        "max_tokens is True; give a whole number of at least 1",
    ),
    (
        {"prompt": "a", "temperature": "hot"},
        "temperature",
        "temperature is 'hot'; give a number of at least 0",
    ),
    ({"prompt": "a", "temperature": 10**400}, "temperature", None),
    ({"prompt": "a", "top_p": 2}, "top_p", "top_p is 2; give a number from 0 to 1, or None"),
    ({"prompt": "a", "seed": -1}, "seed", "seed is -1; give a whole number from 0 to 2^64 - 1"),
    ({"prompt": "a", "stop": 1}, "stop", f"stop is 1; give {SAID}"),
    ({"prompt": "a", "stop": ["a"] * 17}, "stop", f"stop is {['a'] * 16}"[:40]),
    ({"prompt": "a", "stop": "a" * 1001}, "stop", f"give {SAID}"),
    (
        {"prompt": "a", "stream_options": {}},
        "stream_options",
        'stream_options is {}; give an object, and that beside "stream": true alone',
    ),
    (
        {"prompt": "a", "max_completion_tokens": 3},
        "max_completion_tokens",
        "the field 'max_completion_tokens' is unknown",
    ),
]
CHATS = [
    (
        {"messages": []},
        "messages",
        'messages is []; give a list of messages, [{"role": "user", "content": "..."}]',
    ),
    (
        {"messages": ["a"]},
        "messages[0]",
        'messages[0] is \'a\'; give {"role": text, "content": text}',
    ),
    (
        {"messages": [{"role": "user"}]},
        "messages[0].content",
        "messages[0].content is None; give a text",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content",
        'messages[0].content has the part {\'type\': \'image_url\'}; only {"type": "text", "text": ...} is supported',
    ),
]


@pytest.mark.parametrize("body, param, message", COMPLETIONS + CHATS)
def test_bodies_that_are_wrong(body, param, message):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(Refusal) as raised:
        parsed(body, b'"messages"' in body, "tiny")
    assert raised.value.status == (404 if "there is no model" in str(raised.value) else 400)
    assert raised.value.param == param and (message or "") in str(raised.value)


def test_bodies_that_are_right():
    asked = parsed(
        json.dumps(
            {
                "model": "tiny",
                "prompt": ["a"],
                "temperature": 0.5,
                "top_k": 3,
                "top_p": None,
                "seed": 4,
                "stop": "x",
                "n": 1,
                "user": "someone",
                "frequency_penalty": 0.0,
                "logit_bias": {},
                "tools": [],
                "logprobs": False,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode(),
        False,
        "tiny",
    )
    assert asked.prompt == "a" and asked.sampling == Sampling(0.5, 3, seed=4)
    assert (asked.max_tokens, asked.stops, asked.stream, asked.with_usage) == (
        16,
        ("x",),
        True,
        True,
    )
    body = json.dumps(
        {
            "messages": [
                {"role": "developer", "content": "a"},
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}],
                },
            ]
        }
    ).encode()
    asked, again = (parsed(body, True, "tiny") for _ in range(2))
    assert asked.prompt == [{"role": "system", "content": "a"}, {"role": "user", "content": "bc"}]
    assert asked.max_tokens is None and not asked.stream and asked.sampling.temperature == 1.0
    assert asked.sampling.seed != again.sampling.seed


# --- the engine ---------------------------------------------------------------------------------


class Scripted:
    """A session whose model says after each token the one that is larger by 1; `steps` has what it
    was asked, and each step waits for a permit where `gate` is one."""

    steps, gate, made = [], None, 0

    def __init__(self, language):
        self.tokens, self.room = [], 1000
        Scripted.made += 1

    length = property(lambda self: len(self.tokens))

    def prepare(self, prompt, answer):
        pass

    def reset(self):
        self.tokens = []

    def truncate(self, count):
        self.tokens = self.tokens[:count]

    def prefill(self, tokens):
        Scripted.steps.append((len(tokens), tokens[0]))
        if Scripted.gate:
            assert Scripted.gate.acquire(timeout=20)
        if tokens[0] == 666:
            raise tc.ModelError("a run that fails")
        self.tokens = self.tokens + tokens
        return np.arange(2000) == tokens[-1] + 1

    def decode(self, token):
        return self.prefill([token])


class Words:
    ends, tokens = frozenset(), range(2000)

    def stream(self, prompt):
        return types.SimpleNamespace(add=lambda token: f"{token} ", rest=lambda: "")


LANGUAGE = types.SimpleNamespace(
    name="scripted", tokenizer=Words(), parameters=types.SimpleNamespace(context=1000), places=1
)


class Client:
    def __init__(self, engine, prompt, count):
        self.text, self.end = "", threading.Event()
        self.job = engine.job(list(prompt), Sampling(), count, (), self._tell)
        self._engine = engine

    def _tell(self, event):
        self.text += event.text
        if event.is_last:
            self.last = event
            self.end.set()

    def ask(self):
        self._engine.submit(self.job)
        return self

    def result(self):
        assert self.end.wait(20)
        return self.text, self.last.reason or str(self.last.error)


class Rows:
    """Places whose runs read the tokens of all sequences that there are; a run of several fails
    where one of them is to read 664."""

    def __init__(self, language):
        self._language, self.groups_read = language, []
        Rows.latest = self

    def open(self):
        return Scripted(self._language)

    def close(self, session):
        session.tokens = None

    def measure(self):
        pass

    def groups(self, sessions):
        return [sessions] if sessions else []

    def decode(self, sessions, tokens):
        self.groups_read.append(list(tokens))
        if len(tokens) > 1 and 664 in tokens:
            raise tc.Error("a run that fails")
        return [session.decode(token) for session, token in zip(sessions, tokens)]


@pytest.fixture
def started(monkeypatch):
    """A function that starts an engine with limits."""
    monkeypatch.setattr(engines, "Session", Scripted)
    monkeypatch.setattr(Scripted, "steps", [])
    monkeypatch.setattr(Scripted, "gate", None)
    monkeypatch.setattr(Scripted, "made", 0)
    made = []

    def start(gate=None, **limits):
        Scripted.gate = gate
        made.append(engines.Engine(LANGUAGE, engines.Limits(**limits), Metrics()))
        made[-1].start()
        Scripted.made = 0
        return made[-1]

    yield start
    for each in made:
        each.stop()
        if Scripted.gate:
            Scripted.gate.release(10_000)
        each.join(20)
        assert not each.is_alive


def test_prompts_are_read_in_parts_by_turns(started):
    gate = threading.Semaphore(0)
    engine = started(gate, part=10)
    first = Client(engine, range(25), 3).ask()
    while not Scripted.steps:
        pass
    others = [Client(engine, range(start, start + 12), 2).ask() for start in (100, 200)]
    gate.release(1000)
    assert first.result() == ("25 26 27 ", "length")
    assert [other.result() for other in others] == [("112 113 ", "length"), ("212 213 ", "length")]
    assert Scripted.steps == [
        (10, 0),
        (10, 100),
        (10, 200),
        (10, 10),
        (2, 110),
        (1, 112),
        (2, 210),
        (1, 212),
        (5, 20),
        (1, 25),
        (1, 26),
    ]


def test_a_sequence_that_begins_alike_is_gone_on_with(started):
    engine = started(places=2)
    prompt = list(range(30))
    assert Client(engine, prompt, 4).ask().result() == ("30 31 32 33 ", "length")
    # The answer's last token is not read, the others are.
    longer = Client(engine, [*prompt, 30, 31, 7], 1).ask()
    assert longer.result() == ("8 ", "length") and longer.job.cached == 32
    # The same prompt again: the last token is read for its logits.
    again = Client(engine, prompt, 1).ask()
    assert again.result() == ("30 ", "length") and again.job.cached == 29
    # Few tokens are not worth it, and there are never more sessions than places.
    for other in ([0, 1, 2, 9], [50, 51], [60, 61]):
        client = Client(engine, other, 1).ask()
        assert client.result()[1] == "length" and client.job.cached == 0
    assert Scripted.made == 2
    engine = started(reuse=False)
    for _ in range(2):
        client = Client(engine, prompt, 1).ask()
        assert client.result() == ("30 ", "length") and client.job.cached == 0


def test_a_run_that_fails_ends_its_own_request_alone(started):
    engine = started()
    good, bad = Client(engine, [1], 5).ask(), Client(engine, [666], 5).ask()
    assert bad.result() == ("", "a run that fails") and good.result() == ("2 3 4 5 6 ", "length")
    assert Client(engine, [664], 5).ask().result() == ("665 666 ", "a run that fails")
    assert Client(engine, [1], 2).ask().result() == ("2 3 ", "length")


def test_one_run_reads_the_tokens_of_several(started, monkeypatch):
    monkeypatch.setattr(engines, "Places", Rows)
    monkeypatch.setattr(LANGUAGE, "places", 8)
    gate = threading.Semaphore(0)
    engine = started(gate)
    first = Client(engine, [1], 6).ask()
    while not Scripted.steps:
        pass
    others = [Client(engine, [start], 3).ask() for start in (10, 20)]
    gate.release(1000)
    assert first.result() == ("2 3 4 5 6 7 ", "length")
    assert [other.result()[0] for other in others] == ["11 12 13 ", "21 22 23 "]
    # A prompt is read in each round; those that have an answer go on together.
    assert Rows.latest.groups_read == [[2], [3, 11], [4, 12, 21], [5, 22], [6]]


def test_a_run_of_several_that_fails_is_made_one_by_one(started, monkeypatch):
    monkeypatch.setattr(engines, "Places", Rows)
    monkeypatch.setattr(LANGUAGE, "places", 8)
    gate = threading.Semaphore(0)
    engine = started(gate)
    clients = [Client(engine, [1], 4).ask()]
    while not Scripted.steps:
        pass
    clients += [Client(engine, [662], 5).ask(), Client(engine, [663], 2).ask()]
    gate.release(1000)
    assert [client.result() for client in clients] == [
        ("2 3 4 5 ", "length"),
        ("663 664 665 666 ", "a run that fails"),
        ("664 665 ", "length"),
    ]
    assert [3, 663] in Rows.latest.groups_read and [4, 664, 664] in Rows.latest.groups_read
    assert [[4], [664], [664]] == [each for each in Rows.latest.groups_read if each in ([4], [664])]


def test_the_context_ends_an_answer(started):
    engine = started(context=8)
    assert Client(engine, [1, 2, 3], 100).ask().result() == ("4 5 6 7 8 9 ", "length")


def test_queues_are_bounded_and_left(started):
    gate = threading.Semaphore(0)
    engine = started(gate, places=1, queue=1, wait=0.0)
    first = Client(engine, [1], 3).ask()
    while not Scripted.steps:
        pass
    second = Client(engine, [1], 3).ask()
    with pytest.raises(
        engines.Full,
        match="^2 requests are under way, and at most 2 are taken on; try again later$",
    ):
        Client(engine, [1], 3).ask()
    engine.cancel(second.job)
    third = Client(engine, [1], 3).ask()
    gate.release(3)
    assert first.result() == ("2 3 4 ", "length")
    assert third.result() == ("", "no place became free within 0 seconds; try again later")
    assert second.text == "" and not second.end.is_set()


def test_what_is_left_at_the_end_is_told(started):
    gate = threading.Semaphore(0)
    engine = started(gate, places=1)
    clients = [Client(engine, [1], 3).ask() for _ in range(2)]
    engine.stop()
    gate.release(10)
    assert {client.result()[1] for client in clients} == {"the server is being shut down"}
    with pytest.raises(engines.Stopped, match="^the server is being shut down$"):
        Client(engine, [1], 3).ask()


# --- the guard ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host, allowed",
    [
        ("localhost", True),
        ("LOCALHOST.:80", True),
        ("127.0.0.1:8080", True),
        ("[::1]", True),
        ("[::1]:80", True),
        ("192.168.1.5", True),
        ("models.example:443", True),
        ("", False),
        ("localhost.example", False),
        ("evil", False),
        ("127.0.0.1.example", False),
        ("models.example.evil:80", False),
        ("[::1].evil", False),
        ("0x7f000001", False),
    ],
)
def test_names_of_hosts(host, allowed):
    assert is_allowed(host, {"models.example"}) == allowed


def test_lines_of_refused_requests_are_limited():
    now = [0.0]
    lines = Lines(lambda: now[0])
    assert [lines.add("line") for _ in range(25)] == ["line"] * 20 + [None] * 5
    now[0] = 3.0
    assert lines.add("line") == "line (5 lines of refused requests left out before)"
    assert lines.add("line") is None


def test_without_the_packages(monkeypatch):
    for name in [
        name for name in sys.modules if name.startswith("tc.serving.") or name == "tc.serving"
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(tc.Error) as raised:
        importlib.import_module("tc.serving")
    assert str(raised.value) == (
        "models are served by the packages starlette, uvicorn and prometheus-client, of which one is not installed "
        "here: pip install 'tc-compiler[serve]'"
    )
    monkeypatch.undo()
    importlib.import_module("tc.serving")
