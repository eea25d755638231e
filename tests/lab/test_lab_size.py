"""A log of 100,000 records and a fleet of 1,000 devices: how soon a page is there, and what is new
on it."""

import json
import shutil
import subprocess
import sys
import time

import pytest

for package in "starlette", "uvicorn":
    pytest.importorskip(package, reason=f"{package} is not installed")
from ..reporting.test_report_browser import MISSING, browser  # noqa: E402, F401
from ..support import ROOT  # noqa: E402
from .labs import BEGAN, Server, add, row  # noqa: E402
from .test_lab import PATHS  # noqa: E402
from .test_lab_browser import opened  # noqa: E402

RECORDS, DEVICES = 100_000, 1_000
# A server whose tracker has invented devices.
PROGRAM = """
import sys
from tc.lab import command, server
from tc.lab.lab import Lab
from tc.parser import Parser
from tests.lab.labs import InventedFleet

parser = Parser()
command.add_command(lambda *_: parser)
lab = Lab([sys.argv[1]], fleet=InventedFleet(int(sys.argv[2])))
server.serve(lab, parser.parse_args(["--port", "0"]))
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("lab") / "log.db"
    rows = []
    for number in range(RECORDS):
        fields = {"outcome": "crash", "detail": "signal 11"} if number % 10 == 0 else {}
        trace = [f"split s1_i0 {number} as a b", *["order a b c d e f g h"] * 8]
        ratio = 0.4 + (number * 7919 % 1000) / 1500
        rows.append(row(number % 60, ratio, created=BEGAN + number // 3, trace=trace, **fields))
    add(path, rows)
    yield path
    shutil.rmtree(path.parent)


@pytest.fixture(scope="module")
def server(log):
    made = Server()
    made.command = [sys.executable, "-c", PROGRAM, str(log), str(DEVICES)]
    made.folder = ROOT
    with made as running:
        yield running


def test_every_page_is_there_soon(server):
    for path in PATHS:
        took = []
        for number in range(3):
            begin = time.monotonic()
            # Another address of the same page, which was not made before.
            text = server.page(f"{path}?again={number}")
            took.append(time.monotonic() - begin)
            assert len(text) < 400_000, path
        assert min(took) < 1.0, path
    assert "100,000" in server.page("/") and "of 1,000" in server.page("/")
    assert "900 more devices are not shown here" in server.page("/devices")


@pytest.mark.skipif(bool(MISSING), reason=f"no browser: {', '.join(MISSING)} missing")
def test_the_first_paint_is_within_a_second(server, browser):  # noqa: F811
    for path in ("/", "/kernels", "/devices", "/records", "/records?outcome=crash"):
        paints = []
        for _ in range(3):  # other programs of this machine may delay one
            page, messages, _ = opened(browser, server, path)
            paints += page.evaluate(
                "performance.getEntriesByName('first-contentful-paint').map(e => e.startTime)"
            )
            assert messages == []
            page.context.close()
            if paints and min(paints) < 1000:
                break
        assert paints and min(paints) < 1000, (path, paints)


def records_of(event):
    """How many records an event says that the log has; None of a ping."""
    data = [line for line in event.split(b"\n") if line.startswith(b"data: ")]
    return json.loads(data[0].removeprefix(b"data: "))["records"][0] if data else None


def test_a_record_is_shown_within_a_second(server, log):
    with server.events() as following:
        assert len(following()) < 4096
        took = []
        for number in range(3):
            add(log, [row(0, 0.9, trace=[f"unroll new{number}"], created=BEGAN + 50_000)])
            begin = time.monotonic()
            # Other events say that operations of kernels were counted.
            while records_of(event := following()) != RECORDS + number + 1:
                assert time.monotonic() < begin + 20
            assert len(event) < 4096
            assert f"{RECORDS + number + 1:,}" in server.page("/")
            took.append(time.monotonic() - begin)
        assert min(took) < 1.0, "other programs of this machine may delay one"


def test_memory_is_bounded(server):
    done = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(server.process.pid)], capture_output=True, text=True
    )
    assert int(done.stdout) < 400_000, "kB"
