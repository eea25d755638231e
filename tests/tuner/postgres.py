"""A PostgreSQL server of the tests' own."""

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
from pathlib import Path

import pytest

from tc.cli import main

SCRIPT = Path(__file__).with_name("postgres_server.sh")
PASSWORD = "s3cr:t@/?#"  # with every character that a URL has to escape


class Server:
    """Use `with Server() as server`; the test is skipped where PostgreSQL is not installed."""

    _numbers = itertools.count()

    def __enter__(self):
        made = subprocess.run([SCRIPT, "make"], capture_output=True, text=True)
        if made.returncode == 77:
            pytest.skip(made.stdout.strip().splitlines()[-1])
        assert made.returncode == 0, made.stderr
        self.folder = Path(made.stdout.strip())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder)

    def start(self):
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                [SCRIPT, "run", self.folder, str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + 30
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < end, self.words()
            time.sleep(0.05)

    def stop(self):
        self.process.send_signal(signal.SIGQUIT)  # at once
        self.process.wait(30)

    def kill(self):
        """Ends all processes of the server at once, as a failure of the machine does."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGSTOP)  # starts no other any more
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for child in [*map(int, children.read_text().split()), self.process.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self.process.wait(30)

    def words(self):
        return (self.folder / "server.log").read_text(errors="replace")[-2000:]

    def answers(self):
        done = self.psql("SELECT 1", check=False)
        return done.returncode == 0

    def psql(self, sql, database="postgres", check=True):
        """Runs statements as the administrator."""
        environment = {**os.environ, "PGPASSWORD": "admin"}
        return subprocess.run(
            ["psql", "-qtAX", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder), "-p", str(self.port)]
            + ["-U", "tc_admin", "-d", database, "-c", sql],
            capture_output=True,
            text=True,
            env=environment,
            check=check,
        )

    def database(self):
        """The name of a new database."""
        name = f"log{next(self._numbers)}"
        self.psql(f"CREATE DATABASE {name}")
        return name

    def user(self, name, *roles):
        """A new role that can log in, and is a member of those."""
        self.psql(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
        for role in roles:
            self.psql(f"GRANT {role} TO {name}")
        return name

    def url(self, database, user="tc_admin", password=None, **options):
        """A URL of the log over TLS."""
        password = urllib.parse.quote(password or "admin", safe="")
        options = {
            "sslmode": "verify-full",
            "sslrootcert": str(self.folder / "ROOT.crt"),
            **options,
        }
        return (
            f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}?"
            + urllib.parse.urlencode(options)
        )

    def made(self, database):
        """The URL of the log that is made in that database."""
        url = self.url(database)
        assert main(["log", "init", url]) == 0
        return url

    def shown(self, database, user="tc_admin"):
        """What messages have for that URL."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"
