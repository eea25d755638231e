"""The command certs: keys and certificates of a fleet, their names, their renewal, their end and
their revocation."""

import json
import os
import re
import stat
import subprocess
import tempfile
import time

import pytest

import tc
from tc import certs, fleet
from tc.cli import main

from .fleet_programs import Agent, Tracker, command
from .fleet_programs import credentials  # noqa: F401  A fixture.
from .tuning import wait_until


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
