"""The commands certs, tracker and devices, with the native programs as a user starts them."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import tc
from tc import certs, fleet
from tc.cli import main

from ..support import ROOT
from .tuning import save_small_model, wait_until


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


def test_init_makes_closed_keys_and_keeps_its_authority(tmp_path):
    folder = tmp_path / "new" / "folder"
    first = certs.init(folder, ["board.example", "10.9.8.7"])
    assert first["authority"] == "new" and {"board.example", "10.9.8.7"} <= set(first["hosts"])
    names = {"ca", "tracker", "agent", "client"}
    files = {n + e for n in names for e in (".pem", ".key")}
    assert {path.name for path in folder.iterdir()} == {*files, "issued.txt"}
    for name in names:
        assert stat.S_IMODE((folder / (name + ".key")).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    second = certs.init(folder)
    # Hosts named once stay named.
    assert second["authority"] == "kept" and {"board.example", "10.9.8.7"} <= set(second["hosts"])
    assert (second["agent"], second["client"]) == (first["agent"], first["client"])
    for path in (folder / name for name in files):
        assert (path.read_bytes() == before[path.name]) == path.name.startswith("ca.")
    done = subprocess.run(
        ["openssl", "verify", "-CAfile", "ca.pem", "tracker.pem", "agent.pem", "client.pem"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_init_refuses_a_copy_without_the_authoritys_key(tmp_path, credentials):
    (tmp_path / "ca.pem").write_bytes((credentials / "ca.pem").read_bytes())
    with pytest.raises(
        tc.DeviceError, match="has ca.pem without ca.key: its authority was made elsewhere"
    ):
        certs.init(tmp_path)


def test_init_refuses_odd_hosts_and_folders(tmp_path, monkeypatch):
    with pytest.raises(tc.DeviceError, match="--hosts takes host names and addresses, not 'a b'"):
        certs.init(tmp_path / "one", ["a b"])
    with pytest.raises(
        tc.DeviceError,
        match="--hosts takes no 'x.tc-agent': names that end so are those of devices",
    ):
        certs.init(tmp_path / "one", ["x.tc-agent"])
    for name in "Board", "", "-x", "a/b", "a b", "a\nb", "ä", "x" * 64:
        with pytest.raises(
            tc.DeviceError, match="is no name for a device or a client: it has 1 to 63 lower-case"
        ):
            certs.init(tmp_path / "one", devices=[name])
    assert not (tmp_path / "one").exists() or not list((tmp_path / "one").glob("devices/*"))
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
        assert (
            main(
                [
                    "devices",
                    "--tracker",
                    tracker.address,
                    "--credentials",
                    str(credentials),
                    "--json",
                ]
            )
            == 0
        )
        assert json.loads(capsys.readouterr().out) == {"devices": [], "warnings": []}
        certs.init(tmp_path)
        with pytest.raises(tc.DeviceError, match="another authority"):
            fleet.devices(tracker.address, str(tmp_path))
        with pytest.raises(tc.DeviceError, match="talks TLS, this program plain text"):
            fleet.devices(tracker.address, insecure=True)
        assert fleet.devices(tracker.address, str(credentials)) == []


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


def answer_to_http(address, folder, certificate):
    """What a TLS server answers to the first bytes of HTTP/2; nothing where it hangs up."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if certificate:
        context.load_cert_chain(folder / "client.pem", folder / "client.key")
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain:
        with (
            contextlib.suppress(ssl.SSLError, ConnectionError),
            context.wrap_socket(plain) as wrapped,
        ):
            wrapped.sendall(
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
            )
            return wrapped.recv(100)
    return b""


def test_tracker_and_agent_with_tls_tune_and_live_through_strangers(credentials, tmp_path):
    pytest.importorskip("onnx")
    model, log = tmp_path / "model.onnx", tmp_path / "log.db"
    save_small_model(model)
    certs.init(tmp_path / "other")
    bytes_of = random.Random(9)
    with (
        Tracker("--credentials", credentials) as tracker,
        Agent(tracker.address, credentials / "devices/board") as agent,
    ):

        def tune(trials):
            result = tc.tune(
                model,
                threads=1,
                trials=trials,
                log=log,
                tracker=tracker.address,
                credentials=credentials,
                _sample_seconds=0.001,
            )
            return result.measured

        assert tune(2) == 2
        for program in tracker, agent:
            for options, text in (
                ({"credentials": str(tmp_path / "other")}, "another authority"),
                ({"insecure": True}, "talks TLS, this program plain text"),
            ):
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
            tc.tune(
                model,
                threads=1,
                trials=4,
                log=log,
                tracker=tracker.address,
                credentials=tmp_path / "other",
            )
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
        done = subprocess.run(
            [fleet.program("tracker"), "--insecure", "--listen", where],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 1
        assert "plain text goes over loopback only" in done.stderr


def test_what_keeps_a_tracker_from_starting(tmp_path, credentials):
    def refused(*options):
        done = subprocess.run(
            [fleet.program("tracker"), *map(str, options)],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode != 0 and done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        return done.stderr

    assert (
        "ca.pem cannot be read; make credentials with `python -m tc certs init --folder"
        in refused("--credentials", tmp_path)
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"cannot listen at {where}: another program has the port" in refused(
            "--credentials", credentials, "--listen", where
        )
    for name in "ca.pem", "tracker.pem", "tracker.key":
        (tmp_path / name).write_bytes((credentials / name).read_bytes())
    os.chmod(tmp_path / "tracker.key", 0o644)
    assert "is open to other users of this machine; close it with `chmod 600" in refused(
        "--credentials", tmp_path
    )
    os.chmod(tmp_path / "tracker.key", 0o600)
    (tmp_path / "tracker.pem").write_text("nonsense")
    assert "tracker.pem is not PEM" in refused("--credentials", tmp_path)
    (tmp_path / "tracker.pem").write_text(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    )
    assert "tracker.pem holds no certificate; issue another" in refused("--credentials", tmp_path)
    (tmp_path / "tracker.pem").write_bytes((credentials / "client.pem").read_bytes())
    assert "tracker.pem is that of the client '" in refused("--credentials", tmp_path)
    (tmp_path / "tracker.pem").write_bytes((credentials / "tracker.pem").read_bytes())
    (tmp_path / "tracker.key").write_bytes((credentials / "client.key").read_bytes())
    assert "and the key tracker.key do not fit together; copy both" in refused(
        "--credentials", tmp_path
    )
    assert "the audit log /nowhere/log cannot be appended to" in refused(
        "--credentials", credentials, "--audit-log", "/nowhere/log"
    )


def test_an_absent_tracker_is_one_sentence(capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{free.getsockname()[1]}"
    assert main(["devices", "--tracker", where, "--insecure"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"tc: nothing listens at {where}: the tracker is not running")
    assert len(error.splitlines()) == 1


def command(capsys, *words):
    """What `python -m tc` prints for the words; its exit status is 0."""
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def names_in(text):
    """(names of TLS, URI) of a certificate's text by openssl."""
    return re.findall(r"(?:DNS|URI):([^,\s]+)", text)


def test_certificates_have_names_and_a_list_of_what_was_issued(tmp_path, capsys):
    text = command(capsys, "certs", "init", "--folder", tmp_path, "--devices", "board7", "board8")
    assert f"device       {tmp_path}/devices/board7: copy what is in it to that board" in text
    assert names_in(
        certs._openssl(
            "x509",
            "-in",
            str(tmp_path / "devices/board7/agent.pem"),
            "-noout",
            "-ext",
            "subjectAltName",
        )
    ) == ["tc://agent/board7", "board7.tc-agent"]
    assert {path.name for path in (tmp_path / "devices/board7").iterdir()} == {
        "ca.pem",
        "agent.pem",
        "agent.key",
    }
    command(capsys, "certs", "add", "lab.1", "--folder", tmp_path)
    assert "clients/ann: copy what is in it to its machine" in command(
        capsys, "certs", "add", "ann", "--role", "client", "--folder", tmp_path
    )
    text = command(capsys, "certs", "revoke", "board8", "--folder", tmp_path)
    assert f"the list is {tmp_path}/revoked.txt: copy it to the tracker's folder" in text
    assert not (tmp_path / "devices/board8").exists()
    assert (tmp_path / "devices/board7/revoked.txt").read_text() == (
        tmp_path / "revoked.txt"
    ).read_text()
    rows = json.loads(command(capsys, "certs", "list", "--folder", tmp_path, "--json"))["issued"]
    assert [(row["role"], row["name"], row["revoked"]) for row in rows][-5:] == [
        ("client", certs.init(tmp_path)["client"], False),
        ("agent", "board7", False),
        ("agent", "board8", True),
        ("agent", "lab.1", False),
        ("client", "ann", False),
    ]
    # What is revoked is not issued again by itself, and what is there is.
    assert certs.init(tmp_path)["devices"] == ["board7", "lab.1"]
    for words, text in (
        (["add"], "certs add needs the names of devices"),
        (["init", "x"], "takes no names; --devices"),
        (["revoke", "nobody"], "no certificate was issued to agent 'nobody'"),
    ):
        assert main(["certs", *words, "--folder", str(tmp_path)]) == 1
        assert text in capsys.readouterr().err
    with pytest.raises(
        tc.DeviceError, match="has no authority; make one with `python -m tc certs init`"
    ):
        certs.add(["x"], tmp_path / "none")


def without_name(folder, role):
    """Puts a certificate in place as earlier versions made them."""
    with tempfile.TemporaryDirectory() as work:
        pair = certs._certificate(
            work,
            f"tc-{role}",
            certs._USES[role],
            f"DNS:tc-{role},DNS:localhost,IP:127.0.0.1",
            [str(folder / "ca.pem"), str(folder / "ca.key")],
        )
    for text, end in zip(pair, (".pem", ".key")):
        (folder / (role + end)).write_text(text)
        os.chmod(folder / (role + end), 0o600)


def test_credentials_of_earlier_versions_are_refused_with_what_to_do(tmp_path, credentials):
    certs.init(tmp_path)
    for role in "tracker", "agent", "client":
        without_name(tmp_path, role)
    for options in (["tracker", "--listen", "127.0.0.1:0"], ["agent", "--tracker", "127.0.0.1:9"]):
        done = subprocess.run(
            [fleet.program(options[0]), *options[1:], "--credentials", tmp_path],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 1
        assert (
            "has no name in it, as those of earlier versions; issue new ones with `python -m tc certs init` where "
            "the authority's key is, and copy the files here" in done.stderr
        )
    with pytest.raises(tc.DeviceError, match="client.pem has no name in it"):
        fleet.devices("127.0.0.1:9", str(tmp_path))
    certs.init(tmp_path)
    with Tracker("--credentials", tmp_path) as tracker:
        assert fleet.devices(tracker.address, str(tmp_path)) == []


def test_a_device_has_the_name_in_its_certificate(tmp_path):
    certs.init(tmp_path, devices=["board", "other"])
    with (
        Tracker("--credentials", tmp_path) as tracker,
        Agent(tracker.address, tmp_path / "devices/board"),
        Agent(tracker.address, tmp_path / "devices/other"),
    ):
        assert [row["name"] for row in fleet.devices(tracker.address, str(tmp_path))] == [
            "board",
            "other",
        ]
        done = subprocess.run(
            [
                fleet.program("agent"),
                "--tracker",
                tracker.address,
                "--credentials",
                tmp_path / "devices/other",
                "--name",
                "board",
            ],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 1
        assert (
            "agent.pem is that of the agent 'other'; leave --name out, or make one with `python -m tc certs add "
            "board` and copy it here" in done.stderr
        )


def test_revoking_and_renewing_need_no_restart(tmp_path, capsys):
    certs.init(tmp_path, devices=["board", "other"])
    with (
        Tracker("--credentials", tmp_path, "--heartbeat-ms", 300) as tracker,
        Agent(tracker.address, tmp_path / "devices/board") as board,
        Agent(tracker.address, tmp_path / "devices/other") as other,
    ):

        def names():
            return [row["name"] for row in fleet.devices(tracker.address, str(tmp_path))]

        assert names() == ["board", "other"]
        own = tmp_path / "devices/board"
        kept = {path.name: path.read_bytes() for path in own.iterdir()}
        certs.revoke(["board"], tmp_path)
        wait_until(lambda: names() == ["other"], 10, "the revoked board is still there")
        tracker.expect("read the list of revoked certificates: 1 entries")
        tracker.expect("refused Announce from ipv4:127.0.0.1:")
        tracker.expect("the caller's certificate of the agent 'board' is revoked (serial ")
        line = board.process.stdout.readline()
        assert "refused: the caller's certificate of the agent 'board' is revoked" in line, line
        assert "issue another with `python -m tc certs add board`; trying on" in line
        # Another certificate, put where the agent looks.
        certs.add(["board"], tmp_path)
        assert (own / "agent.pem").read_bytes() != kept["agent.pem"]
        wait_until(lambda: names() == ["board", "other"], 15, "the new certificate is not used")
        board.expect(f"took new credentials from {own}, valid until 20")
        # All of them at once.
        certs.init(tmp_path)
        for program in tracker, board, other:
            wait_until(lambda: program.said().count("took new credentials") >= 1, 15, program.said)
        for _ in range(5):
            assert names() == ["board", "other"]
            time.sleep(0.3)
        certs.revoke([certs.init(tmp_path)["client"]], tmp_path, role="client")
        time.sleep(1.5)
        with pytest.raises(
            tc.DeviceError, match="refused: the caller's certificate of the client '.*' is revoked"
        ):
            names()
        certs.init(tmp_path)
        assert names() == ["board", "other"]
    del capsys


def test_the_end_of_a_certificate_is_said_ahead(tmp_path, capsys):
    certs.init(tmp_path)
    certs.add(["board"], tmp_path, days=10)
    with (
        Tracker("--credentials", tmp_path) as tracker,
        Agent(tracker.address, tmp_path / "devices/board") as agent,
    ):
        agent.expect("tc-agent: warning: the certificate ")
        agent.expect(
            " days; issue another with `python -m tc certs init` where the authority's key is"
        )
        text = command(capsys, "devices", "--tracker", tracker.address, "--credentials", tmp_path)
        assert re.search(
            r"warning: the certificate of 'board' ends in (9|10) days; issue another with `python -m tc certs "
            r"add board` and copy it to the board",
            text,
        )
        assert "warning" not in tracker.said()
    certs.add(["bob"], tmp_path, role="client", days=10)
    with Tracker("--credentials", tmp_path) as tracker:
        text = command(
            capsys,
            "devices",
            "--tracker",
            tracker.address,
            "--credentials",
            tmp_path / "clients/bob",
        )
        assert re.search(r"warning: the certificate .*/clients/bob/client.pem ends on 20", text)
    assert re.search(
        r"client +bob .* ends in (9|10) days",
        command(capsys, "certs", "list", "--folder", tmp_path),
    )


def test_refused_handshakes_are_said_in_few_lines(credentials, tmp_path):
    certs.init(tmp_path)
    with (
        Tracker("--credentials", credentials) as tracker,
        Agent(tracker.address, credentials / "devices/board") as agent,
    ):
        for program in tracker, agent:
            host, _, port = program.address.rpartition(":")
            for number in range(300):
                with (
                    socket.create_connection((host, int(port)), timeout=10) as stranger,
                    contextlib.suppress(ConnectionError),
                ):
                    stranger.sendall(
                        b"GET / HTTP/1.1\r\n\r\n" if number % 2 else b"\x16\x03\x01" + bytes(90)
                    )
                    while stranger.recv(
                        4096
                    ):  # one that goes before its turn is refused without a line
                        pass
            program.expect("refused a TLS connection: ")
        foreign = ssl.create_default_context(cafile=str(credentials / "ca.pem"))
        foreign.check_hostname = False
        foreign.load_cert_chain(tmp_path / "client.pem", tmp_path / "client.key")
        time.sleep(3.5)
        for program in tracker, agent:
            host, _, port = program.address.rpartition(":")
            with (
                socket.create_connection((host, int(port)), timeout=10) as plain,
                contextlib.suppress(ssl.SSLError, ConnectionError),
                foreign.wrap_socket(plain) as wrapped,
            ):
                wrapped.recv(1)
            program.expect(
                "certificate verify failed; the caller's certificate is of another authority, or out of date"
            )
            assert "lines before this were left out" in program.said()
            assert len(program.said().splitlines()) < 60
        assert [row["name"] for row in fleet.devices(tracker.address, str(credentials))] == [
            "board"
        ]


def test_the_audit_log_has_who_did_what(credentials, tmp_path):
    pytest.importorskip("onnx")
    model, audit = tmp_path / "model.onnx", tmp_path / "audit.jsonl"
    save_small_model(model)
    folder = certs.add(["eve"], credentials, role="client")[0]
    with (
        Tracker("--credentials", credentials, "--audit-log", audit) as tracker,
        Agent(tracker.address, credentials / "devices/board"),
    ):
        tc.tune(
            model,
            threads=1,
            trials=2,
            log=tmp_path / "log.db",
            tracker=tracker.address,
            credentials=folder,
            _sample_seconds=0.001,
        )

        def rows():
            return [json.loads(line) for line in audit.read_text().splitlines()]

        wait_until(lambda: any(row["event"] == "measured" for row in rows()), 10, rows)
    events = [row["event"] for row in rows()]
    assert events[0] == "announced" and "leased" in events and "released" in events
    leased = next(row for row in rows() if row["event"] == "leased")
    assert leased["device"] == "board" and leased["holder"] == "eve" and len(leased["lease"]) == 12
    assert leased["peer"].startswith("ipv4:127.0.0.1:")
    assert all(
        row["device"] == "board" and re.fullmatch(r"20\d\d-\S+Z", row["time"]) for row in rows()
    )
    assert stat.S_IMODE(audit.stat().st_mode) == 0o600


def ten_commands():
    """{number: words} of the commands in docs/tuning.md."""
    page = (
        (ROOT / "docs/tuning.md")
        .read_text()
        .partition("## From an unboxed board")[2]
        .partition("\n## ")[0]
    )
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.S)).replace("\\\n", "")
    return {
        int(number): words.split()
        for words, number in re.findall(r"^(.*?)\s*# (\d+)", blocks, re.M)
    }


def test_ten_commands_lead_from_an_unboxed_board_to_a_tuned_model(tmp_path):
    """The board's part under qemu-riscv64, HOST as 127.0.0.1 at a free port, copies within this
    machine."""
    pytest.importorskip("onnx")
    if not shutil.which("qemu-riscv64"):
        pytest.skip("there is no qemu-riscv64")
    try:
        fleet.program("agent", "riscv64")
    except tc.DeviceError:
        pytest.skip("this build has no agent for riscv64")
    commands, board = ten_commands(), tmp_path / "board"
    assert sorted(commands) == list(range(1, 11))
    board.mkdir()
    save_small_model(tmp_path / "model.onnx")
    texts = {"HOST": "127.0.0.1", "600": "60"}

    def run(number, *more):
        words = [texts.get(word, word) for word in commands[number]]
        assert words[:3] == ["python", "-m", "tc"]
        done = subprocess.run(
            [sys.executable, *words[1:], *more],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(tc.__file__).parent.parent)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(1)
    assert commands[2][-3:] == ["tracker", "--credentials", "creds"]
    with Tracker("--credentials", tmp_path / "creds") as tracker:
        texts["HOST:9190"] = tracker.address
        program = run(3).strip()
        assert commands[4] == ["scp", "PATH-OF-3", "creds/devices/board/*", "board:"]
        for path in [Path(program), *(tmp_path / "creds/devices/board").iterdir()]:
            shutil.copy(path, board)
        assert commands[5] == ["./tc-agent", "--tracker", "HOST:9190", "--credentials", "."]
        launcher = "/usr/bin/qemu-riscv64 -cpu rv64,v=true,vlen=256"
        with subprocess.Popen(
            [
                "qemu-riscv64",
                "-cpu",
                "rv64,v=true,vlen=256",
                "tc-agent",
                "--tracker",
                tracker.address,
                *commands[5][3:],
                "--launcher",
                launcher,
            ],
            cwd=board,
            stdout=subprocess.PIPE,
            text=True,
        ) as agent:
            for line in agent.stdout:
                if "announced" in line:
                    break
            assert re.search(r"^board +free +riscv64", run(6), re.M)
            run(7, "--trials", "2")
            assert "rv64gcv" in run(8)
            run(9)
            agent.kill()
    assert commands[10] == "scp model board: && ssh board ./model --help".split()
    shutil.copy(tmp_path / "model", board)
    done = subprocess.run(
        ["qemu-riscv64", "-cpu", "rv64,v=true,vlen=256", "./model", "--help"],
        cwd=board,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "usage" in (done.stdout + done.stderr).lower()


def test_the_longest_lease_is_an_option_and_the_queue_is_told(capsys, monkeypatch):
    done = subprocess.run(
        [sys.executable, "-m", "tc", "tracker", "--insecure", "--longest-lease", "0"],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and "--longest-lease" in done.stderr
    with fleet.Local(["--name", "board"], tracker=["--longest-lease", "90"]) as programs:
        (row,) = fleet.devices(programs.address, insecure=True)
        assert row["waiting"] == [] and row["lease_seconds"] == row["longest_lease_seconds"] == 0
    row |= {
        "state": "leased",
        "client": "ann",
        "lease_seconds": 30.0,
        "longest_lease_seconds": 90.0,
        "waiting": [
            {"client": "bob\x1b[2J", "seconds": 12.0, "seconds_left": 48.0},
            {"client": "", "seconds": 1.0, "seconds_left": 2.0},
        ],
    }
    monkeypatch.setattr(fleet, "devices", lambda *_: [row])
    assert main(["devices", "--tracker", "127.0.0.1:9", "--insecure"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "waiting for 'board': bob\\x1b[2J (since 12 s, at most 48 s more), someone (since 1 s, at most 2 s more); its lease of 30 s ends within 60 s"
    ]
