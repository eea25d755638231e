"""What the tests of the lab share: logs of invented records, and a server."""

import contextlib
import http.client
import os
import re
import subprocess
import sys
import time
import urllib.parse

from tc.log import opened

TARGET, DEVICE = "x86-64-v3", "x86-64/A processor/8 cores/256 bits/seconds"
BEGAN = 1_790_000_000


def workload(number):
    """The statements of a kernel; each number is another kernel."""
    size = number + 8
    return (
        f"kernel k\n  input b0 f32[{size}, 32]\n  input b1 f32[32, 16]\n  output b2 f32[{size}, 16]\n"
        f"  s0[i0:{size}, i1:16]: b2[i0, i1] = 0\n"
        f"  s1[i0:{size}, i1:16, r0:32]: b2[i0, i1] += b0[i0, r0] * b1[r0, i1]\n"
    )


def row(kernel=0, ratio=0.8, **fields):
    """A record as a dict; one with an outcome other than "ok" has no time."""
    failed = fields.get("outcome", "ok") != "ok"
    median = 0.0 if failed else 1e-4 * (kernel + 1) * ratio
    return {
        "workload": workload(kernel),
        "target": TARGET,
        "device": DEVICE,
        "unit": "seconds",
        "threads": 1,
        "trace": [f"split i0 {kernel + 2} as a b", f"unroll b{ratio}"],
        "outcome": "ok",
        "detail": "",
        "samples": 0 if failed else 5,
        "minimum": median * 0.98,
        "median": median,
        "spread": 0.0 if failed else 0.01,
        "ratio": 0.0 if failed else ratio,
        "worst_error": 0.0 if failed else 1e-6,
        "build": "0.1.0 aaaa",
        "language": "1.0",
        "seed": 0,
        "created": BEGAN,
        "chosen": False,
    } | fields


def add(url, rows):
    opened(str(url), write=True).add(list(rows))


def some_rows():
    """Two kernels by two builds, one of which became slower; failures; another device."""
    yield row(0, 1.0, chosen=False)
    yield row(0, 0.5, created=BEGAN + 60)
    yield row(1, 1.0, created=BEGAN + 70)
    yield row(1, 0.9, created=BEGAN + 80, chosen=True)
    yield row(1, 0.0, created=BEGAN + 90, outcome="wrong result", detail="element 3 is 7, not 8")
    yield row(2, 0.0, created=BEGAN + 95, outcome="crash", detail="signal 11")
    later = {"build": "0.2.0 bbbb", "created": BEGAN + 90_000}
    yield row(0, 0.7, **later)
    yield row(1, 0.6, **later)
    yield row(0, 0.9, device="rv64/board/4 cores/256 bits/simulated cycles", target="rv64gcv")


class Server:
    """`python -m tc lab` with these options. Use it with `with`."""

    def __init__(self, *options, token="a token of the tests".replace(" ", "-")):
        self.token = token
        self.command = [sys.executable, "-m", "tc", "lab", "--port", "0", *map(str, options)]

    def __enter__(self):
        environment = {**os.environ, "TC_LAB_TOKEN": self.token}
        self.process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(r"open http://127\.0\.0\.1:([0-9]+)/(?:\?token=(\S+))?", line):
                self.port, self.token = int(found[1]), found[2] or self.token
                break
        else:
            raise AssertionError(f"the lab did not start: {''.join(self.said)}")
        self.url = f"http://127.0.0.1:{self.port}"
        end = time.monotonic() + 10
        while True:  # it says its address just before it answers
            with contextlib.suppress(OSError):
                self.cookie = self._enter()
                break
            assert time.monotonic() < end
        while "still being read" in self.page("/"):
            time.sleep(0.05)
        return self

    def _enter(self):
        status, headers, _ = self.ask(f"/?token={self.token}")
        assert status == 303, status
        return headers["set-cookie"].partition(";")[0]

    cookie = folder = None

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.communicate(timeout=20)
        finally:
            self.process.kill()

    def ask(self, path, method="GET", **headers):
        """(status, headers in lower case, text) of an answer."""
        if self.cookie and "cookie" not in headers:
            headers["cookie"] = self.cookie
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, text
        finally:
            connection.close()

    def page(self, path):
        status, _, text = self.ask(path)
        assert status == 200, (path, status, text[:300])
        return text

    @contextlib.contextmanager
    def events(self):
        """The stream of events; calling what this gives returns the next one's bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/events", headers={"cookie": self.cookie})
        answer = connection.getresponse()
        assert answer.status == 200

        def following():
            lines = []
            while True:
                line = answer.readline()
                assert line, "the stream has ended"
                lines.append(line)
                if line == b"\n":
                    return b"".join(lines)

        yield following
        connection.close()


def addresses_in(text):
    """The addresses of this server that a page leads to, without fragments."""
    import html

    found = re.findall(r'href="([^"#]+)"', text)
    return list(dict.fromkeys(html.unescape(each) for each in found))


def parameters(address):
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(address).query))


class InventedFleet:
    """A fleet as the pages see it, of invented devices."""

    def __init__(self, count, name="board {}", **fields):
        self.tracker, self.problem, self.version = "tracker:9190", "", 1
        self.counters = {
            "announcements": 5000,
            "leases": 40,
            "without_device": 2,
            "failures": 1,
            "measured": 1200,
            "waited_seconds": 31.5,
            "waiting": 3,
            "seconds": 600.0,
        }
        self.rows = [
            self._row(name.replace("{}", str(number)), number, fields) for number in range(count)
        ]
        self.rates = {row["name"]: 12.0 for row in self.rows}

    def _row(self, name, number, fields):
        return {
            "name": name,
            "state": ("free", "leased", "quarantined")[number % 3],
            "client": "anna" if number % 3 == 1 else "",
            "lease_seconds": 12.0,
            "waiting": [{"client": "bert", "seconds": 1.0, "seconds_left": 9.0}]
            if number % 9 == 1
            else [],
            "waiting_count": int(number % 9 == 1),
            "load": 0.5,
            "celsius": None,
            "gigahertz": 1.6,
            "measured": 100 * number,
            "seconds_since_heartbeat": 0.5,
            "processor": "A processor",
            "architecture": "x86-64",
            "key": DEVICE,
        } | fields

    @property
    def busy(self):
        return sum(row["state"] == "leased" for row in self.rows)

    def start(self):
        pass

    stop = start
