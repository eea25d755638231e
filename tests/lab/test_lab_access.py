"""Who may see the lab, and what a request may do: nothing but read."""

import http.client
import os
import re
import subprocess
import sys

import pytest

for package in "starlette", "uvicorn":
    pytest.importorskip(package, reason=f"{package} is not installed")
from .labs import Server, add, some_rows  # noqa: E402


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("lab") / "log.db"
    add(path, some_rows())
    return path


@pytest.fixture(scope="module")
def server(log):
    with Server("--log", log) as running:
        yield running


EVERYWHERE = (
    "/",
    "/records",
    "/lab.css",
    "/lab.js",
    "/icon.svg",
    "/events",
    "/metrics",
    "/record/1",
    "/nothing",
)


@pytest.mark.parametrize("path", EVERYWHERE)
def test_without_the_token_nothing_is_shown(server, path):
    for headers in (
        {"cookie": ""},
        {"cookie": f"tc_lab_{server.port}=wrong"},
        {"cookie": "a=b; c"},
    ):
        status, answered, text = server.ask(path, **headers)
        assert status == 401 and "open the address with the token" in text
        assert "set-cookie" not in answered


def test_programs_show_the_token_itself(server):
    shown = {"cookie": "", "authorization": f"Bearer {server.token}"}
    status, headers, text = server.ask("/metrics", **shown)
    assert status == 200 and headers["content-type"].startswith("text/plain")
    assert "# TYPE tc_log_records gauge" in text
    for wrong in (f"Bearer {server.token}x", "Bearer ", server.token, f"bearer {server.token}"):
        assert server.ask("/metrics", **shown | {"authorization": wrong})[0] == 401


def test_a_wrong_token_is_refused(server):
    for wrong in ("x", server.token[:-1], server.token + "x", "%ff", "", f"{server.token}&token=x"):
        status, headers, text = server.ask(f"/?token={wrong}", cookie="")
        assert status == 401 and "set-cookie" not in headers
        assert server.token not in text


def test_the_token_becomes_a_cookie_and_leaves_the_address(server):
    status, headers, text = server.ask(f"/records?outcome=ok&token={server.token}&threads=1")
    assert status == 303 and headers["location"] == "/records?outcome=ok&threads=1" and not text
    cookie = headers["set-cookie"]
    assert cookie.startswith(f"tc_lab_{server.port}=") and server.token not in cookie
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie


@pytest.mark.parametrize("path", ["//evil.example/x", "/%2fevil.example", "/\\evil.example", "//"])
def test_the_step_leads_to_no_other_host(server, path):
    status, headers, _ = server.ask(f"{path}?token={server.token}")
    assert status == 303 and re.match(r"/(?![/\\])", headers["location"])


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "a b", "[::1"],
)
def test_a_wrong_host_is_refused(server, host):
    for path in EVERYWHERE:
        status, _, text = server.ask(path, host=host)
        assert status == 403 and "is no name of this server" in text


def test_two_hosts_are_refused(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.putrequest("GET", "/", skip_host=True)
    connection.putheader("Host", "localhost")
    connection.putheader("Host", "evil.example")
    connection.putheader("Cookie", server.cookie)
    connection.endheaders()
    assert connection.getresponse().status in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST:81"])
def test_names_of_this_machine_are_allowed(server, host):
    assert server.ask("/", host=host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"])
def test_other_methods_are_refused(server, method):
    for path in EVERYWHERE:
        status, headers, text = server.ask(path, method)
        assert status == 405 and headers["allow"] == "GET, HEAD" and "only show" in text


def test_every_answer_has_the_policy(server):
    answers = [server.ask(path) for path in EVERYWHERE if path != "/events"]
    answers += [
        server.ask("/", cookie=""),
        server.ask("/", host="evil.example"),
        server.ask("/", "PUT"),
    ]
    for status, headers, _ in answers:
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'"), status
        assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert (
            headers["referrer-policy"] == "no-referrer" and headers["cache-control"] == "no-store"
        )
        assert "access-control-allow-origin" not in headers and "server" not in headers


def test_long_addresses_are_refused(server):
    status, _, text = server.ask(f"/?x={'a' * 20_000}")
    assert status == 414 and "more than 16000 characters" in text


def test_head_has_no_body(server):
    status, headers, text = server.ask("/", "HEAD")
    assert status == 200 and text == "" and int(headers["content-length"]) > 1000


def test_the_log_stays_as_it_is(log, server):
    before = log.read_bytes(), os.stat(log).st_mtime_ns
    for path in ("/", "/kernels", "/records", "/record/1", "/compare"):
        server.page(path)
    assert (log.read_bytes(), os.stat(log).st_mtime_ns) == before
    assert [each.name for each in log.parent.iterdir()] == ["log.db"]


def test_a_log_that_may_not_be_written_is_shown(log, tmp_path):
    copy = tmp_path / "log.db"
    copy.write_bytes(log.read_bytes())
    copy.chmod(0o444)
    with Server("--log", copy) as running:
        assert "Tuning" in running.page("/")


def run(*options, **environment):
    return subprocess.run(
        [sys.executable, "-m", "tc", "lab", *map(str, options)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_a_token_is_drawn_and_printed(log):
    with Server("--log", log, token="") as running:
        assert running.ask("/", cookie="")[0] == 401
        assert len(running.token) >= 40 and running.page("/")


def test_what_the_command_refuses(log, tmp_path):
    said = run("--log", tmp_path / "none.db", "--port", "0")
    assert said.returncode == 1 and "none.db" in said.stderr
    said = run("--log", log, "--port", "0", "--host", "0.0.0.0", "--no-token")
    assert said.returncode == 1 and "leave one of the two out" in said.stderr
    said = run("--log", log, "--port", "70000")
    assert said.returncode == 1 and "--port is 70000" in said.stderr
    said = run("--log", log, "--port", "0", TC_LAB_TOKEN="short")
    assert said.returncode == 1 and "$TC_LAB_TOKEN has no token" in said.stderr
    said = run("--port", "0", TC_LOG="")
    assert said.returncode == 1 and "no log is named: give --log URL, or set TC_LOG" in said.stderr
    said = run("--log", log, "--port", "0", *["--against", log] * 9)
    assert said.returncode == 1 and "the lab shows up to 8 logs" in said.stderr


def test_without_the_packages_one_sentence_says_what_to_install(log, tmp_path):
    (tmp_path / "starlette.py").write_text("raise ImportError('none')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    said = run("--log", log, PYTHONPATH=path)
    assert said.returncode == 1
    assert said.stderr == (
        "tc: the lab is served by the packages starlette and uvicorn, of which one is not installed "
        "here: pip install 'tc-compiler[lab]'\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tc", "version"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, "other commands need none of it"
