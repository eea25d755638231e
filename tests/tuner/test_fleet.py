"""The commands tracker and devices, with the native programs as a user starts them."""

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
import time
from pathlib import Path

import pytest

import tc
from tc import certs, fleet
from tc.cli import main

from ..support import ROOT
from .fleet_programs import Agent, Tracker
from .fleet_programs import credentials  # noqa: F401  A fixture.
from .tuning import save_small_model, wait_until


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
                    # One that goes before its turn is refused without a line.
                    while stranger.recv(4096):
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
            {"client": "bob\x1b[2J", "seconds": 12.0, "seconds_left": 48.0, "priority": 3},
            {"client": "", "seconds": 1.0, "seconds_left": 2.0, "priority": 0},
        ],
        "waiting_count": 5,
    }
    monkeypatch.setattr(fleet, "devices", lambda *_: [row])
    assert main(["devices", "--tracker", "127.0.0.1:9", "--insecure"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "waiting for 'board': bob\\x1b[2J (since 12 s, at most 48 s more, priority 3), someone (since 1 s, at "
        "most 2 s more) and 3 more; its lease of 30 s ends within 60 s"
    ]
