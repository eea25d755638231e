"""Programs for Arm's microcontrollers on emulated boards, which qemu-system-arm runs."""

import shutil
import subprocess

import pytest

from .bare_models import BARE, link

EMULATOR = "qemu-system-arm"
# The board of each target. Code for a smaller core runs on a larger one's board as well; qemu has
# none of a Cortex-M0+, and the one of a Cortex-M33 starts elsewhere.
BOARDS = {
    "cortex-m0plus": "mps2-an386",
    "cortex-m4": "mps2-an386",
    "cortex-m7": "mps2-an500",
    "cortex-m33": "mps3-an547",
    "cortex-m55": "mps3-an547",
}


def link_for_board(folder, target, sources, *options, script=BARE / "mps2.ld"):
    """A program of these sources, the start-up code and model.o of the folder."""
    return link(folder, target, [BARE / "cortex_m.c", *sources], "-T", script, *options)


def boot(program, target, *options):
    """The emulator's exit code, which the program decides, and what it wrote; skips where there is
    no emulator."""
    if shutil.which(EMULATOR) is None:
        pytest.skip(f"{EMULATOR} is not installed: apt install qemu-system-arm")
    done = subprocess.run(
        [
            EMULATOR,
            *("-machine", BOARDS[target]),
            *("-display", "none", "-monitor", "none", "-serial", "null"),
            *("-chardev", "stdio,id=console"),
            *("-semihosting-config", "enable=on,target=native,chardev=console"),
            *options,
            *("-kernel", str(program)),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
