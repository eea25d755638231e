"""The native programs of a fleet, as a user starts them."""

import re
import subprocess
import sys
import tempfile

import pytest

from tc import certs, fleet
from tc.cli import main

from .tuning import wait_until


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    folder = tmp_path_factory.mktemp("credentials")
    certs.init(folder, devices=["board"])
    return folder


class Program:
    """A native program for a with statement; its lines on standard error are in `said()`."""

    def __init__(self, command):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=self.errors, text=True
        )

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def expect(self, text, seconds=15):
        wait_until(lambda: text in self.said(), seconds, lambda: f"no '{text}' in: {self.said()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.errors.close()


class Tracker(Program):
    """`python -m tc tracker` on a free port."""

    def __init__(self, *options):
        super().__init__(
            [sys.executable, "-m", "tc", "tracker", "--listen", "127.0.0.1:0", *options]
        )
        line = self.process.stdout.readline()
        found = re.fullmatch(r"tc-tracker \S+ listens at (127\.0\.0\.1:\d+) \((.*)\)\n", line)
        assert found, line + self.said()
        self.address, self.mode = found.groups()


class Agent(Program):
    """The native agent with TLS; starts when the tracker knows it."""

    def __init__(self, tracker, folder, *options, until="announced"):
        super().__init__(
            [
                fleet.program("agent"),
                "--tracker",
                tracker,
                "--credentials",
                folder,
                "--listen",
                "127.0.0.1:0",
                *options,
            ]
        )
        self.lines = []
        while not self.lines or until not in self.lines[-1]:
            self.lines.append(self.process.stdout.readline())
            assert self.lines[-1], str(self.lines) + self.said()
        self.address = re.search(r"listens at (127\.0\.0\.1:\d+) \(mutual TLS\)", self.lines[0])[1]


def command(capsys, *words):
    """What `python -m tc` prints for the words; its exit status is 0."""
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out
