"""Strangers that make connections and calls without end: tracker and agent keep few threads and
little memory, and answer those who may ask."""

import contextlib
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

import pytest

from tc import certs, fleet

from .tuning import wait_until

THREADS, MEGABYTES, SECONDS = 64, 100, 5


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    folder = tmp_path_factory.mktemp("credentials")
    certs.init(folder)
    return folder


class Watched:
    """A tracker, of which `peak` has the most threads and megabytes that were seen, and `answers`
    how long each question of an honest client took; with a folder of credentials over TLS."""

    def __init__(self, folder=None):
        self.options = {"credentials": str(folder)} if folder else {"insecure": True}
        self.how = ["--credentials", str(folder)] if folder else ["--insecure"]
        self.errors = tempfile.TemporaryFile("w+")
        self.process, self.address = self.start("tracker", "--listen", "127.0.0.1:0")
        self.port = int(self.address.rsplit(":", 1)[1])
        self.peak, self.answers, self.over = (0, 0), [], threading.Event()
        self.watchers = [threading.Thread(target=work) for work in (self.look, self.ask)]

    def start(self, name, *options):
        """The program, and where it listens."""
        process = subprocess.Popen(
            [fleet.program(name), *options, *self.how],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        return process, process.stdout.readline().partition(" listens at ")[2].split()[0]

    def status(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["Threads"]), int(lines["VmRSS"].split()[0]) >> 10

    def look(self):
        while not self.over.wait(0.02):
            self.peak = tuple(map(max, self.peak, self.status()))

    def ask(self):
        while not self.over.wait(0.1):
            begin = time.monotonic()
            self.ask_once()
            self.answers.append(time.monotonic() - begin)

    def ask_once(self):
        fleet.devices(self.address, **self.options)

    def __enter__(self):
        for watcher in self.watchers:
            watcher.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for watcher in self.watchers:
            watcher.join()
        self.process.kill()
        self.process.communicate()
        self.errors.close()


class WatchedAgent(Watched):
    """The same of an agent, whose tracker is left alone."""

    def __init__(self, folder=None):
        super().__init__(folder)
        self.tracker = self.process
        self.process, self.address = self.start(
            "agent", "--tracker", self.address, "--listen", "127.0.0.1:0"
        )
        self.port = int(self.address.rsplit(":", 1)[1])

    def ask_once(self):
        with contextlib.closing(self.connection()) as connection:
            connection.sendall(
                PREFACE + frame(1, 4, 1, headers("Agent/Hello")) + frame(0, 1, 1, bytes(5))
            )
            seen = b""
            while b"grpc-status" not in seen:
                part = connection.recv(4096)
                assert part, f"the agent closed the connection after {seen}"
                seen += part

    def connection(self):
        plain = connect(self.port)
        plain.settimeout(SECONDS)
        if not (folder := self.options.get("credentials")):
            return plain
        context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
        context.check_hostname = False
        context.load_cert_chain(f"{folder}/client.pem", f"{folder}/client.key")
        context.set_alpn_protocols(["h2"])
        return context.wrap_socket(plain)

    def __exit__(self, *arguments):
        super().__exit__(*arguments)
        self.tracker.kill()
        self.tracker.communicate()


def connect(port):
    return socket.create_connection(("127.0.0.1", port))


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def frame(kind, flags, stream, data=b""):
    return (
        struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data
    )


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0)


def headers(call):
    return b"".join(
        b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
        for name, value in [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/tc.rpc." + call.encode()),
            (b":authority", b"x"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
        ]
    )


HEADERS = headers("Tracker/Devices")


def connections(port, count, first=b""):
    for _ in range(count):
        connection = connect(port)
        connection.sendall(first)
        reset(connection)


def prefaces(port, count):
    connections(port, count, PREFACE)


def handshakes(port, count):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    connections(port, count, outgoing.read())


def silent(port, count):
    held = [connect(port) for _ in range(min(count, 3000))]
    time.sleep(1)
    for connection in held:
        connection.close()


def streams(port, count, take_back=True, of_one=5000):
    """Calls that are taken back as soon as they are made; the tracker may close the connection, and
    the next one goes on."""
    held = []
    for _ in range(max(1, count // of_one)):
        held.append(connect(port))
        with contextlib.suppress(OSError):
            held[-1].sendall(PREFACE)
            for stream in range(1, 2 * min(count, of_one), 2):
                held[-1].sendall(
                    frame(1, 4, stream, HEADERS)
                    + (frame(3, 0, stream, struct.pack(">I", 8)) if take_back else b"")
                )
    time.sleep(1)
    for connection in held:
        connection.close()


def open_streams(port, count):
    streams(port, count, False, 100)


FLOODS = [connections, prefaces, handshakes, silent, streams, open_streams]


AGENT_FLOODS = [connections, prefaces, handshakes, silent]


def check(watched, flood, count, credentials):
    with watched(credentials if flood is handshakes else None) as server:
        wait_until(lambda: server.answers, 10, "there is no answer")
        flood(server.port, count)
        during = len(server.answers)
        wait_until(lambda: len(server.answers) >= during + 3, 20, "there are no more answers")
        wait_until(
            lambda: server.status()[1] <= MEGABYTES, 10, lambda: f"it keeps {server.status()}"
        )
        assert server.peak[0] <= THREADS
        assert server.peak[1] <= MEGABYTES * (2 if flood is open_streams else 1)
        assert max(server.answers) < SECONDS
        assert server.process.poll() is None


@pytest.mark.parametrize("flood", FLOODS)
def test_floods_leave_the_tracker_small_and_answering(flood, credentials):
    check(Watched, flood, 2000, credentials)


@pytest.mark.full
@pytest.mark.parametrize("flood", FLOODS)
def test_large_floods_leave_the_tracker_small_and_answering(flood, credentials):
    check(Watched, flood, 20000, credentials)


@pytest.mark.parametrize("flood", AGENT_FLOODS)
def test_floods_leave_the_agent_small_and_answering(flood, credentials):
    check(WatchedAgent, flood, 2000, credentials)


@pytest.mark.full
@pytest.mark.parametrize("flood", AGENT_FLOODS)
def test_large_floods_leave_the_agent_small_and_answering(flood, credentials):
    check(WatchedAgent, flood, 20000, credentials)
