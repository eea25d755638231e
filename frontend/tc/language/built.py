"""Language models that another process has compiled, and that are kept for the next time.

A process that generates text then holds the packed weights and the caches, and neither the compiler
nor the model's file."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from .. import errors
from ..digest import sha256
from ..errors import DeviceError, Error
from ..files import cache_folder, default_log, state_of, state_of_all

# Of all files in the folder together. The least recently used are removed.
MAX_BYTES = 16 << 30
_PROGRAM = "tc.language.building"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def folder():
    """Where artefacts are kept: $TC_CACHE, else the user's cache folder; None where $TC_CACHE is
    empty, and none is kept then."""
    if "TC_CACHE" in os.environ:
        return os.environ["TC_CACHE"] or None
    return os.path.join(cache_folder(), "language")


def key_of(path, options):
    """A name that is another one where the file, this tc, this machine or an option is."""
    package = {
        name: state_of(os.path.join(_PACKAGE, name))
        for name in sorted(os.listdir(_PACKAGE))
        if name.endswith(".so")
    }
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        machine = sorted({line for line in file if line.startswith(("model name", "flags"))})
    log = default_log()
    about = [
        os.path.abspath(os.fsdecode(path)),
        state_of_all(path),
        package,
        machine,
        options,
        log,
        state_of(log or ""),  # what was tuned since changes what is compiled
    ]
    return sha256(json.dumps(about).encode()).hexdigest()


def load_built(path, **options):
    """The module of tc.gguf.Language.prefill for the file, compiled by a process of its own, or
    opened where an earlier one has compiled it. The options are those of tc.gguf.language_of."""
    from ..compiling import load

    kept = _private_folder()
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="tc-") as work:
            artefact = os.path.join(work, "model.so")
            _build(path, options, artefact)
            return load(artefact, threads=options["threads"])
    artefact = os.path.join(kept, key_of(path, options) + ".so")
    with contextlib.suppress(Error):  # there is none, it is damaged, or it is being removed
        module = load(artefact, threads=options["threads"])
        with contextlib.suppress(OSError):
            os.utime(artefact)
        return module
    _build(path, options, artefact)
    _remove_old(kept, artefact)
    return load(artefact, threads=options["threads"])


def _private_folder():
    """The folder, made where there is none; None where artefacts are not to be kept, or others than
    this user may write to it: an artefact is code."""
    wanted = folder()
    if wanted is None:
        return None
    try:
        os.makedirs(wanted, mode=0o700, exist_ok=True)
        status = os.stat(wanted)
    except OSError:
        return None
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        return None
    return wanted


def _remove_old(kept, newest):
    """Removes artefacts, the least recently used first, until the others fit MAX_BYTES and leave
    the disk twice the newest one's size."""
    found = []
    for name in os.listdir(kept):
        place = os.path.join(kept, name)
        with contextlib.suppress(OSError):
            status = os.stat(place)
            if name.endswith(".so") and place != newest:
                found.append((status.st_mtime, status.st_size, place))
    size = os.stat(newest).st_size
    total = size + sum(each[1] for each in found)
    for _, bytes_of_it, place in sorted(found):
        if total <= MAX_BYTES and shutil.disk_usage(kept).free > 2 * size:
            return
        with contextlib.suppress(OSError):
            os.unlink(place)
            total -= bytes_of_it


def _build(path, options, artefact):
    """Has a process compile the model and write the artefact."""
    request = {
        "model": os.path.abspath(os.fsdecode(path)),
        "options": options,
        "artefact": artefact,
    }
    packages = os.pathsep.join(each for each in sys.path if each)
    process = subprocess.Popen(
        [sys.executable, "-m", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": packages},
    )
    try:
        answer, _ = process.communicate(json.dumps(request).encode())
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode < 0:
        name = signal.Signals(-process.returncode).name
        raise DeviceError(
            f"the process that compiles '{os.path.basename(request['model'])}' was ended by {name}"
            + ("; the machine may have too little memory" if name == "SIGKILL" else "")
        )
    try:
        failed = json.loads(answer)["error"]
    except (ValueError, KeyError, TypeError):
        raise Error(
            f"internal error: the process that compiles '{os.path.basename(request['model'])}' "
            f"ended with status {process.returncode} and no answer"
        ) from None
    if failed is not None:
        kind = getattr(errors, failed["kind"], Error)
        raise kind(failed["text"], shown=True)
