"""The relay between a tuner and a Ray cluster: `python -m tc.ray_relay --address HOST:PORT`.

A tuner writes requests to the standard input and reads answers from the standard output, in the
form of tuner/builder_wire.h. Each request becomes a task of the cluster, which asks a tc-builder of
its node. A task writes nothing that outlives it and gives the same answer each time, so Ray may run
it again where a worker or a node died.

What travels as a task and its result is bytes alone; the results are checked like any foreign text.
"""

import argparse
import contextlib
import os
import queue
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time

from . import cluster
from .errors import DeviceError, Error, printable
from .fleet import program
from .log import build_id
from .native import LIBRARY_FOLDER
from .tuning import work_folder

MOST_WORDS, MOST_WORD_BYTES = 1 << 14, 1 << 30
BUILD_SECONDS, MODEL_SECONDS = 120, 600  # of one candidate, and of one whole model
CONNECT_SECONDS = 30  # to a cluster that is there; one of our own also has to start
START_SECONDS = 90
SILENT_SECONDS = 700  # without any result, while the cluster has tasks of ours
RETRIES = 3  # of a task whose worker or node died
# Fields of a request that name folders of the tuner's machine.
_LIBRARIES, _WORK_FOLDER = 9, 10


def packed(words):
    """The message that consists of these words (bytes)."""
    parts = [len(words).to_bytes(4, "little")]
    for word in words:
        parts += [len(word).to_bytes(4, "little"), word]
    return b"".join(parts)


def read_words(read):
    """The next message by read(count), which returns that many bytes; None where it returns fewer,
    or where the message is larger than any of ours."""

    def number():
        found = read(4)
        return int.from_bytes(found, "little") if len(found) == 4 else MOST_WORD_BYTES + 1

    count = number()
    if count > MOST_WORDS:
        return None
    words = []
    for _ in range(count):
        size = number()
        if size > MOST_WORD_BYTES or len(word := read(size)) < size:
            return None
        words.append(word)
    return words


def _refusal(kind, text):
    """An answer without its number: "error" for a candidate at fault, "machine" for a machine."""
    return [kind.encode(), printable(text, 2000).encode()]


# --- on a node ------------------------------------------------------------------------------------


class _Builder:
    """A tc-builder of this node, and a folder for it."""

    def __init__(self):
        self._open = contextlib.ExitStack()
        self.folder = self._open.enter_context(work_folder())
        self._process = None

    def ask(self, request):
        """The words of the answer after the number."""
        if self._process is None:
            # What one that is killed leaves in its folder goes when the next worker starts here.
            self._process = subprocess.Popen(
                [program("builder")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=dict(os.environ, TMPDIR=self.folder),
            )
        seconds = MODEL_SECONDS if request[1] == b"model" else BUILD_SECONDS
        end = time.monotonic() + seconds

        def read(count):
            parts = bytearray()
            while len(parts) < count:
                ready, _, _ = select.select(
                    [self._process.stdout], [], [], max(0, end - time.monotonic())
                )
                if not ready:
                    raise TimeoutError
                if not (
                    part := os.read(self._process.stdout.fileno(), min(count - len(parts), 1 << 20))
                ):
                    break
                parts += part
            return bytes(parts)

        try:
            _write(self._process.stdin.fileno(), packed(request))
            if answer := read_words(read):
                return answer[1:]
        except TimeoutError:
            self._end()
            late = f"building it took more than {seconds} s"
            return [b"ok", b"5", late.encode(), b"1", b"", b""]  # Outcome::Timeout
        except OSError:
            pass
        return _refusal("error", f"the compiler {self._end()}")

    def close(self):
        if self._process:
            self._end()
        self._open.close()

    def _end(self):
        """Ends the process; how it ended."""
        process, self._process = self._process, None
        try:
            code = process.wait(1)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        process.stdin.close()
        process.stdout.close()
        return f"crashed: signal {-code}" if code < 0 else "ended early"


def _write(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


_builder = []  # of this process, which Ray uses for one task after the other


def build(request, tuner_build):
    """The task: the answer to the request, both as messages; the answer lacks its number."""
    if (own := build_id()) != tuner_build:
        return packed(
            _refusal(
                "machine",
                f"the node '{socket.gethostname()}' of the Ray cluster has tc {own}, the tuner tc "
                f"{tuner_build}: install the same on both",
            )
        )
    if not _builder:
        _builder.append(_Builder())
    at = [0]

    def read(count):
        at[0] += count
        return request[at[0] - count : at[0]]

    words = read_words(read)
    words[_LIBRARIES], words[_WORK_FOLDER] = LIBRARY_FOLDER.encode(), _builder[0].folder.encode()
    answer = _builder[0].ask(words)
    if answer[0] == b"machine" and len(answer) == 2:
        answer = _refusal(
            "machine", f"on the node '{socket.gethostname()}': {answer[1].decode(errors='replace')}"
        )
    return packed(answer)


# --- on the tuner's machine -----------------------------------------------------------------------


class Relay:
    """Reads requests in a thread of its own; answers may be written from any thread."""

    def __init__(self, source, sink):
        self.requests = queue.SimpleQueue()  # of words; None at the end
        self._source, self._sink, self._lock = source, sink, threading.Lock()
        self._open = set()  # numbers of requests without an answer
        threading.Thread(target=self._read, daemon=True, name="tc-requests").start()

    def _read(self):
        while request := read_words(self._source.read):
            with self._lock:
                self._open.add(request[0])
            self.requests.put(request)
        self.requests.put(None)

    def answer(self, number, words):
        with self._lock, contextlib.suppress(OSError):
            self._open.discard(number)
            _write(self._sink, packed([number, *words]))

    def refuse_all(self, text):
        """Tells whoever asks, until nobody does any more, that the cluster is at fault."""
        with self._lock:
            numbers = list(self._open)
        for number in numbers:
            self.answer(number, _refusal("machine", text))
        while (request := self.requests.get()) is not None:
            self.answer(request[0], _refusal("machine", text))


class _Connecting:
    """Ends the process where connecting takes too long, or where Ray says that the token is wrong:
    Ray itself goes on for long, and cannot be interrupted. Its messages go to a file meanwhile."""

    def __init__(self, relay, seconds, late):
        self._relay, self._end, self._late = relay, time.monotonic() + seconds, late
        self._done = threading.Event()

    def __enter__(self):
        self._messages = tempfile.TemporaryFile()
        os.dup2(self._messages.fileno(), 2)
        threading.Thread(target=self._watch, daemon=True, name="tc-connecting").start()

    def __exit__(self, *_):
        self._done.set()
        _silence()

    def _watch(self):
        descriptor = self._messages.fileno()
        while not self._done.wait(0.1):
            size = os.fstat(descriptor).st_size
            said = os.pread(descriptor, 1 << 16, max(0, size - (1 << 16)))
            if b"InvalidAuthToken" in said:
                self._relay.refuse_all("the Ray cluster has another token than this node")
                os._exit(1)
            if time.monotonic() > self._end:
                self._relay.refuse_all(self._late)
                os._exit(1)


def _silence():
    """From now on what Ray prints goes nowhere: the answers tell what has to be told, and Ray's own
    logs lie in /tmp/ray."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def connect(relay, address, folder, temporary):
    """Connects to the cluster, or starts one of this machine alone, whose files go to the folder
    `temporary`; returns the package ray."""
    if address:
        tls = cluster.use_credentials(folder, cluster.is_loopback(address))
        cluster.check_listens(address, tls)
        options, seconds = {"address": address}, CONNECT_SECONDS
        late = (
            f"the Ray cluster at '{address}' has not let this machine in within {seconds} s; it has to "
            "be a node of it: `python -m tc cluster node`"
        )
    else:
        options, seconds, tls = cluster.own_options(temporary), START_SECONDS, False
        late = f"Ray did not start on this machine within {seconds} s"
    import ray

    with _Connecting(relay, seconds, late):
        try:
            ray.init(log_to_driver=False, logging_level="CRITICAL", **options)
        except Exception as error:  # of many types, with texts of many lines
            raise DeviceError(
                f"the Ray cluster at '{address or 'this machine'}' cannot be used; this machine has to be "
                f"a node of it (`python -m tc cluster node`), with the same credentials: {error}"
            ) from None
    cluster.check_nodes(ray.nodes(), tls)
    return ray


class _Tasks:
    """The requests that the cluster works on."""

    def __init__(self, ray, relay):
        self._ray, self._relay = ray, relay
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES)(build)
        self._build = build_id()
        self._numbers = {}  # of the request, by the reference to its result
        self._last = time.monotonic()

    def run(self):
        """Until no more requests come. (What is under way then, nobody waits for.)"""
        while True:
            try:
                while True:
                    request = self._relay.requests.get(block=not self._numbers)
                    if request is None:
                        return
                    if not self._numbers:
                        self._last = time.monotonic()
                    self._numbers[self._task.remote(packed(request), self._build)] = request[0]
                    if self._relay.requests.empty():
                        break
            except queue.Empty:
                pass
            self._collect()

    def _collect(self):
        ready, _ = self._ray.wait(list(self._numbers), timeout=0.02)
        for reference in ready:
            self._relay.answer(self._numbers.pop(reference), self._answer(reference))
            self._last = time.monotonic()
        if self._numbers and time.monotonic() - self._last > SILENT_SECONDS:
            alive = sum(node["Alive"] for node in self._ray.nodes())
            text = (
                f"the Ray cluster has built nothing for {SILENT_SECONDS} s; {alive} of its nodes are "
                "alive: add nodes, or free processors of theirs"
            )
            for number in self._numbers.values():
                self._relay.answer(number, _refusal("machine", text))
            self._numbers = {}

    def _answer(self, reference):
        exceptions = self._ray.exceptions
        try:
            message = self._ray.get(reference, timeout=60)
        except (
            exceptions.WorkerCrashedError,
            exceptions.NodeDiedError,
            exceptions.ObjectLostError,
        ):
            return _refusal("error", f"its workers on the Ray cluster died {RETRIES + 1} times")
        except exceptions.OutOfMemoryError:
            return _refusal("error", "its workers on the Ray cluster ran out of memory")
        except Exception as error:  # Ray's own, and what a node raises
            return _refusal(
                "machine",
                f"a node of the Ray cluster cannot build ({type(error).__name__}: "
                f"{str(error).strip().splitlines()[-1:]}); install the same tc on each node",
            )
        at = [0]

        def read(count):
            at[0] += count
            return message[at[0] - count : at[0]]

        words = read_words(read) if isinstance(message, bytes) else None
        return words or _refusal("error", "what its builder answered is no answer")


def _serve(relay, options, temporary):
    """Hands on requests until there are no more; the exit status."""
    try:
        ray = connect(relay, options.address, options.credentials, temporary)
    except Error as error:
        relay.refuse_all(str(error))
        return 1
    try:
        _Tasks(ray, relay).run()
    except Exception as error:
        lost = f"the connection to the Ray cluster is lost ({type(error).__name__}: {error})"
        relay.refuse_all(lost)
        return 1
    finally:
        ray.shutdown()
    return 0


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tc.ray_relay", description=__doc__)
    parser.add_argument(
        "--address", default="", help="HOST:PORT of the head; default: a Ray of its own"
    )
    parser.add_argument("--credentials", required=True, help="folder of this node's credentials")
    options = parser.parse_args(arguments)
    sink = os.dup(1)  # answers go to the original standard output
    _silence()
    relay = Relay(sys.stdin.buffer, sink)
    # The paths of Ray's sockets, which have up to 107 characters, begin with that of the folder.
    with work_folder("/tmp") as temporary:
        return _serve(relay, options, temporary)


if __name__ == "__main__":
    # The nodes find the task in the module of this name.
    from tc import ray_relay

    sys.exit(ray_relay.main())
