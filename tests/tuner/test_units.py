"""The systemd units that `python -m tc units` prints."""

import shutil
import subprocess
import sys

import pytest

from tc import units
from tc.cli import main
from tc.errors import Error


def test_a_tracker_reads_its_credentials_and_has_a_user_of_its_own(capsys, tmp_path):
    command = ["units", "tracker", "--path", "/opt/tc-tracker", "--credentials", str(tmp_path)]
    assert main([*command, "--run=--listen 0.0.0.0:9190"]) == 0
    text = capsys.readouterr().out
    assert 'ExecStart="/opt/tc-tracker" "--listen" "0.0.0.0:9190" "--credentials" "%d"' in text
    assert f"LoadCredential=tracker.key:{tmp_path}/tracker.key" in text
    for line in ("DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict"):
        assert line in text.splitlines()
    assert "Restart=always" in text


def test_an_agent_keeps_what_confines_candidates(capsys):
    assert main(["units", "agent", "--path", "/root/tc-agent", "--run=--tracker host:9190"]) == 0
    text = capsys.readouterr().out
    assert 'ExecStart="/root/tc-agent" "--tracker" "host:9190"' in text
    # Each would take a namespace, a user or a system call from the agent, with which it confines.
    for taken in ("NoNewPrivileges", "RestrictNamespaces", "SystemCallFilter", "DynamicUser"):
        assert taken not in text


def test_names_stay_names():
    text = units.unit("agent", ['a"b', "$HOME", "100%", "back\\slash"], path="/a b/tc-agent")
    assert 'ExecStart="/a b/tc-agent" "a\\"b" "$$HOME" "100%%" "back\\\\slash"' in text
    for arguments, path in (["a\nExecStartPost=/bin/sh"], "/x"), ([], "/x\nUser=root"):
        with pytest.raises(Error, match="has a control character, which no unit can"):
            units.unit("agent", arguments, path=path)
    with pytest.raises(Error, match="--path tc-agent is not absolute, which systemd asks for"):
        units.unit("agent", [], path="tc-agent")
    with pytest.raises(Error, match="has a character that no unit can name"):
        units.unit("tracker", [], path="/x", credentials="/a\nUser=root")


def test_a_quote_without_an_end_is_refused(capsys):
    assert main(["units", "agent", "--path", "/x", "--run=--name 'a"]) == 1
    assert (
        "--run --name 'a: no closing quotation; quote it as for a shell" in capsys.readouterr().err
    )


def test_the_programs_of_this_package_are_named():
    assert 'bin/tc-tracker"' in units.unit("tracker", [])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("name", ["tracker", "agent"])
def test_systemd_reads_them(name, tmp_path):
    text = units.unit(name, ["--$x", "a%b"], path=sys.executable, credentials=str(tmp_path))
    file = tmp_path / f"tc-{name}.service"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if file.name in line] == []
