"""Servers for tests: `python -m tc serve` as a process of its own, and clients of it.

As a program, `python -m tests.frontend.served SECONDS OPTION...` is the same command with a model
that takes at least so long for each token.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import time

from ..support import ROOT

TOKEN = "a-token-of-a-test-0123456789"
JSON = {"Content-Type": "application/json"}


class Server:
    """One process. `options` are those of the command beside the model."""

    def __init__(self, folder, model, *options, slow=None, patience=300):
        program = ["-m", "tests.frontend.served", str(slow)] if slow else ["-m", "tc"]
        self.log = folder / f"serve-{time.monotonic_ns()}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    *program,
                    "serve",
                    str(model),
                    "--port",
                    "0",
                    "--threads",
                    "1",
                    "--json",
                    *options,
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env={**os.environ, "TC_SERVE_TOKEN": TOKEN, "TC_LOG": ""},
            )
        self.url = self._url(patience)
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])

    def _url(self, patience):
        end = time.monotonic() + patience
        while time.monotonic() < end and self.process.poll() is None:
            lines = [line for line in self.said().splitlines() if " at http" in line]
            if lines:
                return lines[0].rpartition(" ")[2]
            time.sleep(0.05)
        raise AssertionError(f"no server: {self.said()}")

    def said(self):
        return self.log.read_text(encoding="utf-8", errors="surrogateescape")

    def connection(self, seconds=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)

    def ask(self, method, path, body=None, headers=None, token=TOKEN):
        """(status, headers, body) of one request; the body as JSON where it is some."""
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        connection = self.connection()
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        kind = answer.headers.get("content-type", "")
        return (
            answer.status,
            answer.headers,
            json.loads(content) if kind.startswith("application/json") else content.decode(),
        )

    def post(self, path, **fields):
        status, headers, body = self.ask("POST", path, json.dumps(fields), JSON)
        return status, headers, events_of(body) if fields.get("stream") and status == 200 else body

    def begin(self, path, **fields):
        """A connection on which a request has been sent, and its answer so far."""
        connection = self.connection()
        connection.request(
            "POST", path, json.dumps(fields), {**JSON, "Authorization": f"Bearer {TOKEN}"}
        )
        return connection

    def counts(self):
        """{sample: value} of the metrics; labels are left out where there are none."""
        from prometheus_client.parser import text_string_to_metric_families

        text = self.ask("GET", "/metrics")[2]
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = "".join(f" {value}" for _, value in sorted(sample.labels.items()))
                found[sample.name.removeprefix("tc_serve_") + labels] = sample.value
        return found

    def wait_until(self, condition, seconds=10.0):
        """Until the condition of the metrics holds; they are returned."""
        end = time.monotonic() + seconds
        while not condition(counts := self.counts()):
            assert time.monotonic() < end, counts
            time.sleep(0.02)
        return counts

    def close(self):
        """The exit status, and what the command prints at its end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out


def events_of(text):
    """The values of server-sent events, up to the one that ends them."""
    parts = text.split("\n\n")
    assert parts.pop() == "" and all(part.startswith("data: ") for part in parts)
    values = [part.removeprefix("data: ") for part in parts]
    assert values.pop() == "[DONE]"
    return [json.loads(value) for value in values]


def text_of(answer):
    """The text of a whole answer, or of a stream's events."""
    if isinstance(answer, list):
        return "".join(text_of(event) for event in answer if event["choices"])
    choice = answer["choices"][0]
    part = choice.get("message") or choice.get("delta") or choice
    return part.get("content", part.get("text", ""))


def main():
    from tc.cli import main as command
    from tc.language.places import Places

    seconds, decode = float(sys.argv[1]), Places.decode

    def slowly(places, sessions, tokens):
        time.sleep(seconds)
        return decode(places, sessions, tokens)

    Places.decode = slowly
    sys.exit(command(sys.argv[2:]))


if __name__ == "__main__":
    main()
