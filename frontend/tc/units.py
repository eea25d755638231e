"""The command `python -m tc units`: units of systemd that keep a tracker or an agent running."""

import os
import shlex

from . import fleet
from .errors import Error, printable

# What a tracker needs: the network, its credentials to read, and a place for its audit log.
_TRACKER = """\
DynamicUser=yes
StateDirectory=tc-tracker
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
SystemCallFilter=@system-service
"""
# An agent that is root gives each candidate a user, a root folder and namespaces of its own, so the
# unit takes none of these away; it keeps the agent's own files from being changed.
_AGENT = """\
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
ProtectClock=yes
ProtectKernelModules=yes
"""
_TEXTS = {"tracker": "tc's tracker, which lends devices to tuners", "agent": "tc's agent"}


def _word(text):
    """An argument as systemd reads it in ExecStart."""
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise Error(f"the argument '{printable(text)}' has a control character, which no unit can")
    for character, written in ("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$"):
        text = text.replace(character, written)
    return f'"{text}"'


def unit(name, arguments, path=None, credentials=None):
    """The text of a unit that runs the tracker or the agent with these arguments. `path` is the
    program's on the machine that runs it; by default this package's, on this machine. `credentials`
    is a folder, which a tracker gets although its user may read no other file of it."""
    path = path or fleet.program(name)
    if not os.path.isabs(path):
        raise Error(f"--path {printable(path)} is not absolute, which systemd asks for")
    words = [_word(path), *map(_word, arguments)]
    more = _TRACKER if name == "tracker" else _AGENT
    if credentials:
        folder = os.path.abspath(credentials)
        if name == "tracker":
            # systemd reads them as root and gives them to the tracker's own user.
            more += "".join(
                f"LoadCredential={file}:{_path(os.path.join(folder, file))}\n"
                for file in ("ca.pem", "tracker.pem", "tracker.key")
            )
            # The specifier must not be escaped.
            words += ['"--credentials"', '"%d"']
        else:
            words += ['"--credentials"', _word(folder)]
    return (
        f"[Unit]\nDescription={_TEXTS[name]}\nWants=network-online.target\n"
        "After=network-online.target\nStartLimitIntervalSec=0\n\n"
        f"[Service]\nExecStart={' '.join(words)}\nRestart=always\nRestartSec=2\n{more}\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def _path(text):
    if any(character in text for character in ":\n\r\0"):
        raise Error(f"the folder '{printable(text)}' has a character that no unit can name")
    return text.replace("%", "%%")


def _units(arguments):
    try:
        options = shlex.split(arguments.run)
    except ValueError as error:
        raise Error(
            f"--run {printable(arguments.run)}: {str(error).lower()}; quote it as for a shell"
        ) from None
    text = unit(arguments.program, options, arguments.path, arguments.credentials)
    return {"unit": text}, text.rstrip("\n")


def add_command(command):
    added = command(
        "units",
        _units,
        "Print a systemd unit that keeps a tracker or an agent running: write it to "
        "/etc/systemd/system/tc-tracker.service or tc-agent.service.",
    )
    added.add_argument("program", choices=sorted(_TEXTS))
    added.add_argument(
        "--path",
        metavar="PROGRAM",
        help="the program's path on the machine that runs it; default: that of this package, on this machine",
    )
    added.add_argument(
        "--credentials", metavar="FOLDER", help="its folder of credentials on that machine"
    )
    added.add_argument(
        "--run",
        default="",
        metavar="OPTIONS",
        help="options of the program, quoted as for a shell: --run='--listen 0.0.0.0:9190'",
    )
