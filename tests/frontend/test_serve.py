"""`python -m tc serve`: a real server as a process, and real clients of it."""

import concurrent.futures
import json
import re
import signal
import socket
import ssl
import subprocess
import time

import pytest

import tc

for name in "gguf", "transformers", "starlette", "uvicorn", "prometheus_client":
    pytest.importorskip(name, reason=f"{name} is not installed")
from . import served  # noqa: E402
from .gguf_files import TOKENS  # noqa: E402
from .serve_fixtures import CHAT, COMPLETIONS, USER  # noqa: E402
from .serve_fixtures import model, server  # noqa: E402, F401  Fixtures.
from .served import JSON, TOKEN, Server, events_of, text_of  # noqa: E402
from .test_generate import real_model  # noqa: E402


@pytest.fixture(scope="module")
def slow(model, tmp_path_factory):
    """Two places and one to wait in; each token takes 0.1 s."""
    made = Server(
        tmp_path_factory.mktemp("slow"),
        model,
        "--parallel",
        "2",
        "--queue",
        "1",
        "--wait",
        "1",
        slow=0.1,
    )
    yield made
    made.close()


# --- texts --------------------------------------------------------------------------------------


def eight(count):
    """(path of the endpoint, fields, (prompt, options) of tc.generate) of eight requests."""
    for index in range(8):
        text = ("hello world", "1 2 ab", "old", "she held", "h", "lo. he", "two words", "2 2 2")[
            index
        ]
        options = (
            {"temperature": 1.5, "seed": index, "top_k": 30} if index % 4 else {"temperature": 0.0}
        )
        fields = {"max_tokens": count + index, "stream": index % 2 == 0, **options}
        if index < 4:
            yield COMPLETIONS, {"prompt": text, **fields}, (text, count + index, options)
        else:
            chat = [{"role": "user", "content": text}]
            yield CHAT, {"messages": chat, **fields}, (chat, count + index, options)


def hold_eight_at_once(server, model, count):
    requests = list(eight(count))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda each: server.post(each[0], **each[1]), requests))
    texts = [text_of(answer) for status, _, answer in answers]
    assert [status for status, _, _ in answers] == [200] * 8
    assert texts == [
        tc.generate(model, prompt, most, threads=1, **options)
        for _, _, (prompt, most, options) in requests
    ]
    assert len(set(texts)) > 5


def test_eight_at_once_each_get_what_they_would_get_alone(server, model):
    hold_eight_at_once(server, model, 24)


def test_each_may_be_read_by_runs_of_its_own(model, tmp_path):
    server = Server(tmp_path, model, "--no-batching")
    try:
        hold_eight_at_once(server, model, 6)
        counts = server.counts()
        assert counts["sequences_count"] == counts["sequences_sum"]
    finally:
        server.close()


def test_eight_at_once_with_a_real_model(tmp_path):
    path = real_model()
    server = Server(tmp_path, path, "--context", "256", "--no-reuse")
    try:
        hold_eight_at_once(server, path, 12)
    finally:
        server.close()


def test_the_form_of_whole_answers(server, model):
    status, headers, answer = server.post(
        COMPLETIONS, prompt="hello world", temperature=0, max_tokens=5, model="tiny.gguf"
    )
    text = tc.generate(model, "hello world", 5, threads=1)
    assert status == 200 and headers["content-type"] == "application/json"
    assert re.fullmatch("cmpl-[0-9a-f]{24}", answer.pop("id")) and answer.pop("created") > 1e9
    assert answer == {
        "object": "text_completion",
        "model": "tiny.gguf",
        "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": "length"}],
        "usage": {
            "prompt_tokens": 2,
            "completion_tokens": 5,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 0},
        },
    }
    stop = text[2:]
    _, _, answer = server.post(CHAT, messages=USER, temperature=0, max_completion_tokens=4)
    assert answer["object"] == "chat.completion" and answer["id"].startswith("chatcmpl-")
    assert answer["choices"] == [
        {
            "index": 0,
            "logprobs": None,
            "finish_reason": "length",
            "message": {
                "role": "assistant",
                "content": tc.generate(model, USER, 4, threads=1),
                "refusal": None,
            },
        }
    ]
    _, _, answer = server.post(COMPLETIONS, prompt="hello world", temperature=0, stop=[stop])
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["choices"][0]["text"] == text[: text.index(stop)]


def test_the_form_of_streams(server):
    fields = {
        "temperature": 1.5,
        "seed": 4,
        "max_tokens": 6,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    status, headers, events = server.post(CHAT, messages=USER, **fields)
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert len({event["id"] for event in events}) == 1
    first, *middle, last, usage = events
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert middle and all(
        list(event["choices"][0]["delta"]) == ["content"]
        and event["choices"][0]["finish_reason"] is None
        for event in middle
    )
    assert last["choices"] == [
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}
    ]
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == 6
    _, _, events = server.post(COMPLETIONS, prompt="hello", **fields)
    assert {event["object"] for event in events} == {"text_completion"}
    assert events[-2]["choices"][0] == {
        "index": 0,
        "text": "",
        "logprobs": None,
        "finish_reason": "length",
    }


def test_prompts_of_tokens(server):
    ids = [TOKENS.index("hello"), TOKENS.index("\u0120world")]
    texts = {
        text_of(server.post(COMPLETIONS, prompt=prompt, seed=1)[2])
        for prompt in ("hello world", ["hello world"], ids, [ids])
    }
    assert len(texts) == 1


def test_the_client_of_openai(server):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=server.url, api_key=TOKEN, max_retries=0)
    assert [model.id for model in client.models.list()] == ["tiny.gguf"]
    assert client.models.retrieve("tiny.gguf").owned_by == "tc"
    asked = {"model": "tiny.gguf", "temperature": 1.5, "seed": 3, "max_tokens": 8}
    whole = client.chat.completions.create(messages=USER, **asked)
    stream = client.chat.completions.create(messages=USER, stream=True, **asked)
    pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(pieces) == whole.choices[0].message.content and len(pieces) > 3
    assert whole.usage.completion_tokens == 8
    text = client.completions.create(prompt="hello", **asked).choices[0].text
    assert (
        "".join(
            chunk.choices[0].text
            for chunk in client.completions.create(prompt="hello", stream=True, **asked)
        )
        == text
    )
    with pytest.raises(openai.BadRequestError, match="temperature is -1"):
        client.completions.create(prompt="hello", **{**asked, "temperature": -1})
    with pytest.raises(openai.NotFoundError, match="there is no model 'other' here"):
        client.completions.create(prompt="hello", **{**asked, "model": "other"})
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=server.url, api_key="wrong", max_retries=0).models.list()


def test_a_conversation_is_gone_on_with(server):
    chat = [{"role": "user", "content": "one two three four"}]
    for cached in (0, 16):
        _, _, answer = server.post(CHAT, messages=chat, temperature=0, max_tokens=3)
        usage = answer["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] >= cached
        assert usage["prompt_tokens"] > usage["prompt_tokens_details"]["cached_tokens"]
        chat += [
            answer["choices"][0]["message"] | {"role": "assistant"},
            {"role": "user", "content": "h"},
        ]


def test_logs_show_names_as_escapes(server):
    time.sleep(4)  # lines of refused requests are let through one in three seconds at least
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(
            b"GET /a%0d%0aforged%1b[31m%E2%80%AE HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer \x1b\r\n\r\n"
        )
        raw.recv(100)
    end = time.monotonic() + 10
    while "GET /a\\r\\nforged\\x1b[31m\\u202e 401" not in server.said():
        assert time.monotonic() < end, server.said()
        time.sleep(0.05)
    assert "\x1b" not in server.said() and "\nforged" not in server.said()
    assert TOKEN not in server.said()


# --- turns and places ---------------------------------------------------------------------------

LONG = {"prompt": "hello", "temperature": 1.0, "seed": 5, "max_tokens": 50}  # 5 s on `slow`


def test_two_streams_come_by_turns(slow):
    first, second = (slow.begin(COMPLETIONS, **LONG, stream=True) for _ in range(2))
    answers = [connection.getresponse() for connection in (first, second)]
    assert all(answer.read1(20) for answer in answers)
    ends = []
    for answer in answers:
        assert text_of(events_of(("data: " + answer.read().decode().partition("data: ")[2])))
        ends.append(time.monotonic())
    assert ends[1] - ends[0] < 2  # one after the other would be 5 s
    first.close()
    second.close()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_vanishes_frees_its_place(slow, stream):
    before = slow.wait_until(lambda counts: counts["running"] == 0)
    connection = slow.begin(COMPLETIONS, **LONG, stream=stream)
    if stream:
        assert connection.getresponse().read1(20)
    slow.wait_until(lambda counts: counts["running"] == 1)
    begin = time.monotonic()
    connection.sock.close() if not stream else connection.close()
    connection.close()
    after = slow.wait_until(lambda counts: counts["running"] == 0)
    assert (
        time.monotonic() - begin < 2 and after["cancelled_total"] == before["cancelled_total"] + 1
    )


def test_more_than_it_takes_on_is_refused(slow):
    slow.wait_until(lambda counts: counts["running"] == 0)
    running = [slow.begin(COMPLETIONS, **LONG) for _ in range(2)]
    slow.wait_until(lambda counts: counts["running"] == 2)
    waiting = slow.begin(COMPLETIONS, **LONG)
    slow.wait_until(lambda counts: counts["waiting"] == 1)
    status, headers, answer = slow.post(COMPLETIONS, **LONG)
    assert (status, headers["retry-after"]) == (429, "2")
    assert answer["error"]["message"] == (
        "3 requests are under way, and at most 3 are taken on; try again later"
    )
    # The one that waits gives up after a second.
    late = waiting.getresponse()
    assert (late.status, late.headers["retry-after"]) == (503, "2")
    assert json.load(late)["error"]["message"] == (
        "no place became free within 1 seconds; try again later"
    )
    for connection in running:
        assert connection.getresponse().status == 200
        connection.close()
    waiting.close()


def test_metrics_count(server):
    before = server.counts()
    server.post(COMPLETIONS, prompt="hello world", temperature=0, max_tokens=7, stop=["never"])
    server.post(COMPLETIONS, prompt=3.5)
    after = server.counts()
    added = {name: after[name] - before.get(name, 0) for name in after}
    assert added["prompt_tokens_total"] == 2 and added["tokens_total"] == 7
    assert added["requests_total /v1/completions 200"] == 1
    assert added["requests_total /v1/completions 400"] == 1
    assert added["first_token_seconds_count"] == 1 and added["token_seconds_count"] == 6


# --- the command --------------------------------------------------------------------------------


def test_streams_end_where_the_server_does(model, tmp_path):
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
            "-keyout",
            tmp_path / "key.pem",
            "-out",
            tmp_path / "cert.pem",
        ],
        check=True,
        capture_output=True,
    )
    server = Server(
        tmp_path,
        model,
        "--tls-certificate",
        str(tmp_path / "cert.pem"),
        "--tls-key",
        str(tmp_path / "key.pem"),
        "--name",
        "tiny",
        slow=0.1,
    )
    assert server.url.startswith("https://127.0.0.1:")
    context = ssl.create_default_context(cafile=tmp_path / "cert.pem")
    connection = served.http.client.HTTPSConnection(
        "localhost", server.port, timeout=60, context=context
    )
    connection.request(
        "POST",
        COMPLETIONS,
        json.dumps({**LONG, "stream": True, "model": "tiny"}),
        {**JSON, "Authorization": f"Bearer {TOKEN}"},
    )
    answer = connection.getresponse()
    begun = answer.read1(20)
    server.process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    *_, last = events_of((begun + answer.read()).decode())
    assert last["error"]["message"] == "the server is being shut down"
    connection.close()
    status, out = server.close()
    assert status == 0 and time.monotonic() - begin < 5
    result = json.loads(out)
    assert (result["model"], result["requests"], result["prompt_tokens"]) == ("tiny", 1, 1)
