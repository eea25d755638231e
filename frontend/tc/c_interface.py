"""Options of a C compiler for programs that use artefacts: `python -m tc cflags`."""

import os
import platform

from .errors import TargetError
from .native import LIBRARY_FOLDER

# The system's libraries that the runtime needs.
_SYSTEM_LIBRARIES = ("-lpthread", "-ldl", "-lm")
_MACHINES = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64", "riscv64": "riscv64"}


def c_flags():
    """Options for compiling a program that includes tc_runtime.h or an artefact's header."""
    return [f"-I{os.path.join(os.path.dirname(LIBRARY_FOLDER), 'include')}"]


def c_libraries(machine=None):
    """What to link a program that opens artefacts with, after its own objects, on `machine`
    ("aarch64") or this one. A static artefact contains the runtime and needs only the system's
    libraries, which are the last three."""
    machine = machine or platform.machine()
    library = os.path.join(LIBRARY_FOLDER, _MACHINES.get(machine, machine), "libtc_runtime.a")
    if not os.path.isfile(library):
        have = ", ".join(
            name
            for name in ("x86_64", "aarch64", "riscv64")
            if os.path.isfile(os.path.join(LIBRARY_FOLDER, name, "libtc_runtime.a"))
        )
        raise TargetError(
            f"there is no runtime to link programs for '{machine}' with; this installation has {have or 'none: install the whole package'}"
        )
    return [library, *_SYSTEM_LIBRARIES]


def _cflags(arguments):
    words = c_libraries(arguments.machine) if arguments.libs else c_flags()
    return {"libs" if arguments.libs else "cflags": words}, " ".join(words)


def add_command(command):
    added = command(
        "cflags",
        _cflags,
        "Tell a C compiler's options for programs that use artefacts (docs/c.md).",
    )
    added.add_argument(
        "--libs", action="store_true", help="what the program is linked with, instead"
    )
    added.add_argument(
        "--machine",
        metavar="NAME",
        help="with --libs: x86_64, aarch64 or riscv64; default: this one",
    )
