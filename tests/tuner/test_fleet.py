"""The commands certs, tracker and devices, with the native programs as a user starts them."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys

import pytest

import tc
from tc import certs, fleet
from tc.cli import main


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    folder = tmp_path_factory.mktemp("credentials")
    certs.init(folder)
    return folder


class Tracker:
    """`python -m tc tracker` on a free port, for a with statement."""

    def __init__(self, *options):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tc", "tracker", "--listen", "127.0.0.1:0", *map(str, options)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        found = re.fullmatch(r"tc-tracker \S+ listens at (127\.0\.0\.1:\d+) \((.*)\)\n", line)
        assert found, line + self.process.stderr.read()
        self.address, self.mode = found.groups()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def test_init_makes_closed_keys_and_keeps_its_authority(tmp_path):
    folder = tmp_path / "new" / "folder"
    first = certs.init(folder, ["board.example", "10.9.8.7"])
    assert first["authority"] == "new" and {"board.example", "10.9.8.7"} <= set(first["hosts"])
    names = {"ca", "tracker", "agent", "client"}
    assert {path.name for path in folder.iterdir()} == {n + e for n in names for e in (".pem", ".key")}
    for name in names:
        assert stat.S_IMODE((folder / (name + ".key")).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    second = certs.init(folder)
    # Hosts named once stay named.
    assert second["authority"] == "kept" and {"board.example", "10.9.8.7"} <= set(second["hosts"])
    for path in folder.iterdir():
        assert (path.read_bytes() == before[path.name]) == path.name.startswith("ca.")
    done = subprocess.run(["openssl", "verify", "-CAfile", "ca.pem", "tracker.pem", "agent.pem",
                           "client.pem"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_init_refuses_a_copy_without_the_authoritys_key(tmp_path, credentials):
    (tmp_path / "ca.pem").write_bytes((credentials / "ca.pem").read_bytes())
    with pytest.raises(tc.DeviceError, match="has ca.pem without ca.key: its authority was made "
                                             "elsewhere"):
        certs.init(tmp_path)


def test_init_refuses_odd_hosts_and_folders(tmp_path, monkeypatch):
    with pytest.raises(tc.DeviceError, match="--hosts takes host names and addresses, not 'a b'"):
        certs.init(tmp_path / "one", ["a b"])
    (tmp_path / "file").write_text("")
    with pytest.raises(tc.DeviceError, match="cannot be written"):
        certs.init(tmp_path / "file" / "folder")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(tc.DeviceError, match="the program openssl, .* is missing; install it"):
        certs.init(tmp_path / "two")


def test_a_tracker_with_tls_serves_who_has_credentials(credentials, tmp_path, capsys):
    with Tracker("--credentials", credentials) as tracker:
        assert tracker.mode == f"mutual TLS, credentials of {credentials}"
        assert fleet.devices(tracker.address, str(credentials)) == []
        assert main(["devices", "--tracker", tracker.address, "--credentials", str(credentials),
                     "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"devices": []}
        certs.init(tmp_path)
        with pytest.raises(tc.DeviceError, match="another authority"):
            fleet.devices(tracker.address, str(tmp_path))
        with pytest.raises(tc.DeviceError, match="talks TLS, this program plain text"):
            fleet.devices(tracker.address, insecure=True)
        assert fleet.devices(tracker.address, str(credentials)) == []


class Agent:
    """The native agent with TLS, for a with statement; starts when the tracker knows it."""

    def __init__(self, tracker, folder):
        self.process = subprocess.Popen(
            [fleet.program("agent"), "--tracker", tracker, "--credentials", str(folder), "--listen",
             "127.0.0.1:0", "--name", "board"], stdout=subprocess.PIPE, text=True)
        lines = []
        while not lines or "announced" not in lines[-1]:
            lines.append(self.process.stdout.readline())
            assert lines[-1], lines
        self.address = re.search(r"listens at (127\.0\.0\.1:\d+) \(mutual TLS\)", lines[0])[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


def answer_to_http(address, folder, certificate):
    """What a TLS server answers to the first bytes of HTTP/2; nothing where it hangs up."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if certificate:
        context.load_cert_chain(folder / "client.pem", folder / "client.key")
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        with contextlib.suppress(ssl.SSLError, ConnectionError), context.wrap_socket(plain) as wrapped:
            wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            return wrapped.recv(100)
    return b""


def test_tracker_and_agent_with_tls_tune_and_live_through_strangers(credentials, tmp_path):
    pytest.importorskip("onnx")
    from .tuning import save_small_model

    model, log = tmp_path / "model.onnx", tmp_path / "log.db"
    save_small_model(model)
    certs.init(tmp_path / "other")
    bytes_of = random.Random(9)
    with Tracker("--credentials", credentials) as tracker, Agent(tracker.address, credentials) as agent:

        def tune(trials):
            result = tc.tune(model, threads=1, trials=trials, log=log, tracker=tracker.address,
                             credentials=credentials, _sample_seconds=0.001)
            return result.measured

        assert tune(2) == 2
        for program in tracker, agent:
            for options, text in (({"credentials": str(tmp_path / "other")}, "another authority"),
                                  ({"insecure": True}, "talks TLS, this program plain text")):
                with pytest.raises(tc.DeviceError, match=text):
                    fleet.devices(program.address, **options)
            assert answer_to_http(program.address, credentials, certificate=True)
            assert not answer_to_http(program.address, credentials, certificate=False)
            for number in range(40):
                host, _, port = program.address.rpartition(":")
                with socket.create_connection((host, int(port)), timeout=10) as stranger:
                    garbage = bytes_of.randbytes(bytes_of.randrange(400))
                    with contextlib.suppress(ConnectionError):
                        stranger.sendall(b"\x16\x03\x01" + garbage if number % 2 else garbage)
            assert program.process.poll() is None
        # A tracker is no agent: what is asked of the wrong program is told so.
        with pytest.raises(tc.DeviceError):
            fleet.devices(agent.address, str(credentials))
        with pytest.raises(tc.DeviceError, match="another authority"):
            tc.tune(model, threads=1, trials=4, log=log, tracker=tracker.address, credentials=tmp_path / "other")
        with pytest.raises(tc.DeviceError, match="talks TLS, this program plain text"):
            tc.tune(model, threads=1, trials=4, log=log, tracker=tracker.address, insecure=True)
        assert tune(4) == 2
        assert agent.process.poll() is None and tracker.process.poll() is None


def test_a_tracker_in_plain_text_stays_on_this_machine(capsys):
    with Tracker("--insecure") as tracker:
        assert tracker.mode == "plain text, this machine only"
        assert main(["devices", "--tracker", tracker.address, "--insecure"]) == 0
        assert "no agent has joined this tracker" in capsys.readouterr().out
        tracker.process.send_signal(signal.SIGTERM)
        assert tracker.process.wait(10) == 0
    for where in "0.0.0.0:0", "10.1.2.3:0":
        done = subprocess.run([fleet.program("tracker"), "--insecure", "--listen", where],
                              capture_output=True, text=True, timeout=30)
        assert done.returncode == 1
        assert "plain text goes over loopback only" in done.stderr


def test_what_keeps_a_tracker_from_starting(tmp_path, credentials):
    def refused(*options):
        done = subprocess.run([fleet.program("tracker"), *map(str, options)], capture_output=True,
                              text=True, timeout=30)
        assert done.returncode != 0 and done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        return done.stderr

    assert "ca.pem cannot be read; make credentials with `python -m tc certs init --folder" in \
        refused("--credentials", tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen at {where}: another program has the port" in \
            refused("--credentials", credentials, "--listen", where)
    for name in "ca.pem", "tracker.pem", "tracker.key":
        (tmp_path / name).write_bytes((credentials / name).read_bytes())
    os.chmod(tmp_path / "tracker.key", 0o644)
    assert "is open to other users of this machine; close it with `chmod 600" in \
        refused("--credentials", tmp_path)
    os.chmod(tmp_path / "tracker.key", 0o600)
    (tmp_path / "tracker.pem").write_text("nonsense")
    assert "tracker.pem is not PEM" in refused("--credentials", tmp_path)
    (tmp_path / "tracker.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
    assert "do not fit together" in refused("--credentials", tmp_path, "--listen", "127.0.0.1:0")


def test_an_absent_tracker_is_one_sentence(capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
    assert main(["devices", "--tracker", where, "--insecure"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"tc: nothing listens at {where}: the tracker is not running")
    assert len(error.splitlines()) == 1
