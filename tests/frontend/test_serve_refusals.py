"""What `python -m tc serve` refuses: requests without a token, malformed ones, prompts that are too
long and options that do not fit. It says why in a sentence, and serves on."""

import json
import os
import random
import socket
import subprocess
import sys

import pytest

for name in "gguf", "transformers", "starlette", "uvicorn", "prometheus_client":
    pytest.importorskip(name, reason=f"{name} is not installed")
from .serve_fixtures import CHAT, COMPLETIONS, USER  # noqa: E402
from .serve_fixtures import model, server  # noqa: E402, F401  Fixtures.
from .served import JSON, TOKEN  # noqa: E402


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, path, token, headers, status, message",
    [
        (
            "GET",
            "/v1/models",
            None,
            {},
            401,
            "the token is missing or wrong; give the one of the "
            "server's start with the header Authorization: Bearer TOKEN",
        ),
        ("GET", "/v1/models", TOKEN[:-1], {}, 401, None),
        ("GET", "/v1/models", TOKEN + "x", {}, 401, None),
        ("GET", "/metrics", None, {}, 401, None),
        ("POST", COMPLETIONS, None, JSON, 401, None),
        ("GET", "/v1/models", None, {"Authorization": f"Basic {TOKEN}"}, 401, None),
        ("GET", "/v1/models", None, {"Authorization": f"bearer {TOKEN}"}, 200, None),
        ("GET", "/health", None, {}, 200, None),
        (
            "GET",
            "/health",
            None,
            {"Host": "evil.example"},
            403,
            "the Host header is 'evil.example', "
            "which is no name of this server; --allow-host NAME adds one",
        ),
        ("GET", "/v1/models", TOKEN, {"Host": "127.0.0.1.evil.example:80"}, 403, None),
        ("GET", "/health", None, {"Host": "localhost:1"}, 200, None),
        ("GET", "/health", None, {"Host": "[::1]:80"}, 200, None),
        ("GET", "/health", None, {"Host": "Models.Example"}, 200, None),
        ("GET", COMPLETIONS, TOKEN, {}, 405, "/v1/completions is not for GET"),
        ("DELETE", "/v1/models", TOKEN, {}, 405, "/v1/models is not for DELETE"),
        ("OPTIONS", CHAT, TOKEN, {"Origin": "http://evil.example"}, 405, None),
        (
            "GET",
            "/v1/models/other",
            TOKEN,
            {},
            404,
            "there is no model 'other' here; served is 'tiny.gguf'",
        ),
        (
            "GET",
            "/../etc/passwd",
            TOKEN,
            {},
            404,
            "there is no '/../etc/passwd' here; there are "
            "/v1/completions, /v1/chat/completions, /v1/models, /health and /metrics",
        ),
        (
            "POST",
            COMPLETIONS,
            TOKEN,
            {"Content-Type": "text/plain"},
            415,
            "the body's type is "
            "'text/plain'; give JSON with the header Content-Type: application/json",
        ),
        (
            "POST",
            COMPLETIONS,
            TOKEN,
            {**JSON, "Content-Length": "99999999"},
            413,
            "the body is larger than 4194304 bytes",
        ),
    ],
)
def test_who_is_let_through(server, method, path, token, headers, status, message):
    body = "{}" if method == "POST" else None
    found, _, answer = server.ask(method, path, body, headers, token)
    assert found == status
    if status >= 400:
        assert set(answer["error"]) == {"message", "type", "param", "code"}
    if message:
        assert answer["error"]["message"] == message


def test_large_bodies_without_a_length(server):
    def parts():
        for _ in range(5):
            yield b" " * (1 << 20)

    status, _, answer = server.ask("POST", COMPLETIONS, parts(), JSON)
    assert (status, answer["error"]["message"]) == (413, "the body is larger than 4194304 bytes")


def test_prompts_that_are_too_long(server):
    text = "hello world" * 40
    for path, fields in (
        (COMPLETIONS, {"prompt": text}),
        (CHAT, {"messages": [{"role": "user", "content": text}]}),
    ):
        status, _, answer = server.post(path, **fields)
        assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
        count = 80 if path == COMPLETIONS else 96
        assert answer["error"]["message"] == (
            f"the prompt has {count} tokens, and tiny.gguf reads at most 64 here: give a shorter "
            "one"
        )
    status, _, answer = server.post(COMPLETIONS, prompt=[1, 41])
    assert answer["error"]["message"] == "prompt has the token 41, and tiny.gguf has 41"
    assert server.post(COMPLETIONS, prompt="")[2]["error"]["message"] == (
        "a prompt has at least one token; give a text"
    )
    assert server.post(CHAT, messages=[{"role": "x", "content": ""}])[0] == 400


# --- hostile requests ---------------------------------------------------------------------------

WORDS = [
    "prompt",
    "messages",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "n",
    "model",
    "logit_bias",
    "role",
    "content",
    "user",
    "\x00",
    "include_usage",
    "tools",
    "response_format",
    "x" * 3000,
]
VALUES = [
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    1e308,
    -1e-320,
    10**40,
    10**400,
    0.5,
    "",
    "hello",
    "\ud800",
    "\x00",
    "hello world " * 60,
    [],
    {},
    [[]],
    ["hello"],
    [1, 2],
    [1, -2],
    [10**30],
    ["a", "b"],
    {"role": "user"},
    {"role": "user", "content": "h"},
    [{"role": "user", "content": "h"}],
    [{"role": "tool", "content": [{"type": "text", "text": "h"}]}],
    "tiny.gguf",
    {"include_usage": True},
]


def malformed(drawn):
    """(method, path, headers, body) of a request that is likely to be wrong somewhere."""
    path = drawn.choice([COMPLETIONS, CHAT] * 4 + ["/v1/models", "/v1/" + "x" * 200, "/metrics"])
    good = {"prompt": "hello"} if path == COMPLETIONS else {"messages": USER}
    fields = {**good, "max_tokens": 2}
    for _ in range(drawn.randrange(4)):
        fields[drawn.choice(WORDS)] = drawn.choice(VALUES)
    body = json.dumps(fields).encode()
    kind = drawn.randrange(10)
    if kind == 0:  # bytes that are changed
        body = bytearray(body)
        for _ in range(drawn.randrange(1, 6)):
            body[drawn.randrange(len(body))] = drawn.randrange(256)
    elif kind == 1:
        body = body[: drawn.randrange(len(body))]
    elif kind == 2:
        body = drawn.choice(
            [
                b"[" * 100_000,
                b'{"a":' * 50_000,
                b"9" * 5000,
                b"NaN",
                b"\xff\xfe{",
                b'{"prompt":"a","temperature":NaN}',
                b"",
                b"null",
                b"[]",
                b'"x"',
            ]
        )
    elif kind == 3:
        body = json.dumps(
            {"prompt": drawn.choice(VALUES), "messages": drawn.choice(VALUES)}
        ).encode()
    headers = dict(
        drawn.choice(
            [JSON] * 8
            + [
                {},
                {"Content-Type": "application/json; charset=\x80"},
                {**JSON, "Transfer-Encoding": "gzip"},
                {**JSON, "Expect": "100-continue"},
            ]
        )
    )
    return drawn.choice(["POST"] * 9 + ["PUT", "HEAD", "\x7f"]), path, headers, bytes(body)


def garbled(drawn):
    """Bytes that are no request of HTTP, or one that ends in its midst."""
    head = (
        b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        + TOKEN.encode()
        + b"\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n{}"
    )
    kind = drawn.randrange(4)
    if kind == 0:
        return drawn.randbytes(drawn.randrange(1, 400))
    if kind == 1:
        return head[: drawn.randrange(1, len(head))]
    if kind == 2:
        return head.replace(
            b"40", drawn.choice([b"-1", b"1e3", b"9" * 4000, b"2\r\nContent-Length: 3"])
        )
    return (
        b"GET /"
        + b"a" * drawn.choice([10, 70_000])
        + b" HTTP/9.9\r\n"
        + b"x: y\r\n" * drawn.randrange(300)
    )


def send(server, drawn):
    """Sends one; the status of its answer, None where the connection ended without one."""
    if drawn.randrange(8) == 0:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
            try:
                raw.sendall(garbled(drawn))
                raw.shutdown(socket.SHUT_WR)
                line = raw.recv(64).split(b" ")
            except OSError:
                return None
            return int(line[1]) if len(line) > 1 else None
    method, path, headers, body = malformed(drawn)
    raw = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        client.sendall(
            raw.encode("latin-1") + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
        )
        try:
            client.sendall(body)
            if drawn.randrange(20) == 0:  # it does not wait for its answer
                return None
            status = int(client.recv(64).split(b" ")[1])
            while client.recv(1 << 16):
                pass
        except OSError:  # refused before all of it was read
            return None
    return status


def hold_against_malformed_requests(server, count):
    seed = int(os.environ.get("TC_SEED", "53"))
    before = server.post(COMPLETIONS, prompt="hello", seed=1)[2]["choices"]
    statuses = []
    for index in range(count):
        statuses.append(send(server, random.Random(f"{seed} {index}")))
        assert server.process.poll() is None, (
            f"seed {seed}, request {index}: {server.said()[-2000:]}"
        )
        assert statuses[-1] not in (500, 502), (
            f"seed {seed}, request {index}: {server.said()[-2000:]}"
        )
    assert {200, 400, 405, 415} <= set(statuses)
    server.wait_until(lambda counts: counts["running"] == counts["waiting"] == 0)
    assert server.post(COMPLETIONS, prompt="hello", seed=1)[2]["choices"] == before
    assert "internal error" not in server.said()


def test_malformed_requests_leave_it_alive(server):
    hold_against_malformed_requests(server, 1_000)


@pytest.mark.full
def test_many_malformed_requests_leave_it_alive(server):
    hold_against_malformed_requests(server, 10_000)


def refused(*arguments, environment=None):
    done = subprocess.run(
        [sys.executable, "-m", "tc", "serve", *map(str, arguments)],
        text=True,
        capture_output=True,
        check=False,
        timeout=300,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == 1
    return done.stderr


def test_options_that_do_not_fit(model, tmp_path):
    (tmp_path / "short").write_text("too-short\n")
    assert refused(model, "--port", 0, "--token-file", tmp_path / "short") == (
        f"tc: '{tmp_path / 'short'}' has no token: give 16 to 1000 printable letters of ASCII "
        "without spaces in one line\n"
    )
    assert refused(model, "--port", 0, "--token-file", tmp_path / "none") == (
        f"tc: --token-file '{tmp_path / 'none'}' cannot be read: No such file or directory\n"
    )
    assert "tc: $TC_SERVE_TOKEN has no token: give" in refused(
        model, "--port", 0, environment={"TC_SERVE_TOKEN": "with spaces in it, and long enough"}
    )
    assert refused(model, "--port", 0, "--host", "0.0.0.0", "--no-token") == (
        "tc: --host 0.0.0.0 can be reached from other machines, where --no-token would let anyone "
        "use the model: leave one of the two out\n"
    )
    assert refused(model, "--port", 0, "--tls-key", "x") == (
        "tc: --tls-certificate and --tls-key belong together: give both or neither\n"
    )
    for name in "cert", "key":
        (tmp_path / name).write_text("no certificate\n")
    cert, key = tmp_path / "cert", tmp_path / "key"
    said = refused(model, "--port", 0, "--tls-certificate", cert, "--tls-key", key)
    assert said.startswith(
        f"tc: --tls-certificate '{cert}' and --tls-key '{key}' cannot be used: [SSL"
    )
    assert refused(model, "--port", 70000) == "tc: --port is 70000; give a number from 0 to 65535\n"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused(model, "--port", port) == (
            f"tc: '127.0.0.1' port {port} cannot be listened at: Address already in use; give another "
            "--host or --port\n"
        )
    assert refused(model, "--port", 0, "--host", "a..b") == (
        "tc: 'a..b' port 0 cannot be listened at: it is no name of a host; give another --host or "
        "--port\n"
    )
    said = refused(tmp_path / "none.gguf", "--port", 0, "--host", "0.0.0.0")
    assert said == (
        "tc serve: what is sent and the token can be read on their way to other machines: TLS is "
        "the business of a proxy before this server, or give --tls-certificate and --tls-key\n"
        f"tc: '{tmp_path / 'none.gguf'}' cannot be read: No such file or directory\n"
    )
