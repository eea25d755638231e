"""Where a report comes from: versions, options, the model's file, and the command that makes it
again."""

import os
import platform
import re
import shlex
import time

from ..digest import sha256
from ..errors import Error
from ..files import state_of
from ..native import compiler, runtime
from ..version import VERSION

# Passwords in URLs: before the host, and as a parameter.
_PASSWORD = re.compile(r"(://[^/@\s:]*:)[^\s/]*(?=@)|([?&](?:ssl)?password=)[^&\s]*")


def without_password(text):
    """A URL, or a text with URLs in it, with the passwords replaced by ***."""
    return _PASSWORD.sub(lambda match: (match[1] or match[2]) + "***", str(text))


def provenance(module, command):
    return _machine() | {
        "target": module.target,
        "options": module.provenance,
        "file": file_facts(module),
        "command": without_password(command),
    }


def session_provenance(result):
    command = [
        *("python", "-m", "tc", "tune", result.model, "--target", result.target),
        *("--threads", str(result.threads), "--log", without_password(result.log)),
    ]
    return _machine() | {
        "target": result.target,
        "options": None,
        "file": None,
        "command": shlex.join(command),
    }


def _machine():
    return {
        "tc": VERSION,
        "build": _build(),
        "runtime": runtime.runtime_version(),
        "python": platform.python_version(),
        "processor": processor(),
        "cores": runtime.core_count(),
        "made": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }


def _build():
    from ..log import build_id

    try:
        compiler.__file__
    except Error:  # the runtime alone
        return None
    return build_id()


def processor():
    """The processor's name as the system tells it; empty where it does not."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(("model name", "uarch", "isa")):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""


def file_facts(module):
    """Name, bytes and SHA-256 of the file from which the module was made; None where it was not
    made from one, and a reason instead of the hash where the file is another by now."""
    if module.origin is None:
        return None
    path, state = module.origin
    facts = {
        "name": os.path.basename(os.fsdecode(path)).encode("utf-8", "replace").decode(),
        "bytes": None,
        "sha256": None,
        "why_not": "",
    }
    if state is None or state_of(path) != state:
        return facts | {"why_not": "the file has changed since the model was read"}
    digest = sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        return facts | {"why_not": f"the file cannot be read: {error.strerror}"}
    return facts | {"bytes": state[1], "sha256": digest.hexdigest()}
