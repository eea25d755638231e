"""What the HTTP servers of tc share: the token, the socket that they listen at, the names by which
they may be called, and the rate of their log lines."""

import contextlib
import ipaddress
import os
import re
import secrets
import socket
import time

from .errors import DeviceError, Error, ModelError
from .given_files import open_regular

_LONGEST_TOKEN = 1000
_TOKEN = re.compile(r"[!-~]{16,1000}")
# Log lines about refused requests: at most so many in a burst, then one in so many seconds.
_LINES, _LINE_SECONDS = 20, 3.0


def token_of(options, variable):
    """(token or None, whether it was drawn): from --token-file, else from the environment's
    `variable`, else drawn at random."""
    if options.no_token:
        return None, False
    if options.token_file is not None:
        source, text = f"'{options.token_file}'", _begin_of(options.token_file)
    elif os.environ.get(variable):
        source, text = f"${variable}", os.environ[variable]
    else:
        return secrets.token_urlsafe(32), True
    if not _TOKEN.fullmatch(text):
        raise Error(
            f"{source} has no token: give 16 to {_LONGEST_TOKEN} printable letters of "
            "ASCII without spaces in one line"
        )
    return text, False


def _begin_of(path):
    try:
        with open_regular(path) as file:
            return file.read(_LONGEST_TOKEN + 8).decode("latin-1").strip()
    except ModelError as error:
        raise Error(f"--token-file '{path}' cannot be read: {error}") from None


def listener(host, port):
    """(a listening socket, whether it can be reached only from this machine)"""
    if port > 65535:
        raise Error(f"--port is {port}; give a number from 0 to 65535")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.create_server(address[:2], family=family)
    except (OSError, ValueError) as error:  # ValueError: not a valid host name
        reason = getattr(error, "strerror", None) or "it is no name of a host"
        if isinstance(error, OSError) and not isinstance(error, socket.gaierror):
            reason = os.strerror(error.errno)  # error.strerror would contain the address
        raise DeviceError(
            f"'{host}' port {port} cannot be listened at: {reason}; give another --host or --port"
        ) from None
    return made, ipaddress.ip_address(address[0].partition("%")[0]).is_loopback


class Lines:
    """Limits the rate of log lines that clients can cause."""

    def __init__(self, clock=time.monotonic):
        self._clock, self._left, self._at, self._skipped = clock, float(_LINES), clock(), 0

    def add(self, line):
        """The line to be written, or None where it is suppressed."""
        now = self._clock()
        self._left = min(_LINES, self._left + (now - self._at) / _LINE_SECONDS)
        self._at = now
        if self._left < 1:
            self._skipped += 1
            return None
        self._left -= 1
        skipped, self._skipped = self._skipped, 0
        return f"{line} ({skipped} lines of refused requests left out before)" if skipped else line


def is_allowed(host, names):
    """Whether a Host header names this server: by an address, as localhost, or by one of the names
    that it was started with. (Other names could belong to anybody and point to this server.)"""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.removeprefix("[").removesuffix("]").removesuffix(".").lower()
    if name == "localhost" or name in names:
        return True
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(name)
        return True
    return False
