"""Commands of a fleet of devices: tracker, agent, devices, certs."""

import os
import subprocess
import sys
import time

from . import certs, interrupts
from .errors import DeviceError, lines_text, printable
from .native import compiler

PROGRAMS = {
    "tracker": "Start a tracker, which lends devices to tuners (options: tracker --help).",
    "agent": "Offer this machine to a tracker (options: agent --help); agent --program riscv64 "
    "prints the path of the one for boards.",
}

_NO_TRACKER = "localhost:9190"


def program(name, architecture=""):
    """The path of this package's native program tc-NAME, for this machine or for boards of
    `architecture` ("riscv64", for which only the agent exists)."""
    path = os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "bin", architecture, "tc-" + name
    )
    if not os.access(path, os.X_OK):
        if architecture == "riscv64" and name == "agent":
            raise DeviceError(
                "this build of tc has no agent for riscv64 boards: Debian's riscv64 packages, which "
                "it is linked with, could not be fetched; run ./quickstart again where the mirror "
                "has them, or name a folder that has them laid out in TC_SYSROOT_RISCV64"
            )
        raise DeviceError(f"this package has no program tc-{name} ({path}); install tc anew")
    return path


def counting_plugin(counts):
    """The value of qemu-riscv64's option -plugin that counts executed instructions by class and
    writes them to the file `counts`, as one JSON object."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "libcount_plugin.so")
    # A comma separates the arguments; one inside of a value is written twice.
    return ",".join(part.replace(",", ",,") for part in (path, f"out={counts}"))


def start(name, arguments):
    """Replaces this process by the native program; `agent --program ARCHITECTURE` prints the path
    of the program for such boards instead."""
    if name == "agent" and arguments[:1] == ["--program"]:
        print(program(name, *arguments[1:2]))
        return
    path = program(name)
    sys.stdout.flush()
    interrupts.hand_over()
    os.execv(path, [path, *arguments])


class Local:
    """A tracker and agents on loopback, without encryption, ended with the block. Each agent is a
    list of its options; `tracker` is the list of the tracker's options."""

    def __init__(self, *agents, tracker=()):
        self.processes = []
        self.address = "127.0.0.1:0"
        try:
            self.address = self.start_tracker(*tracker)
            for options in agents:
                self.add_agent(*options)
        except BaseException:
            self.__exit__()
            raise

    def start_tracker(self, *options):
        """Starts a tracker at this fleet's address; returns the address at which it listens."""
        return self._start("tracker", "--listen", self.address, *options, until="listens").split()[
            4
        ]

    def add_agent(self, *options):
        """Starts an agent, waits until the tracker knows it, and returns its process."""
        self._start("agent", "--tracker", self.address, *options, until="announced")
        return self.processes[-1]

    def _start(self, name, *arguments, until):
        process = subprocess.Popen(
            [program(name), "--insecure", *arguments], stdout=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        for line in process.stdout:
            if until in line:
                return line
        raise DeviceError(f"tc-{name} ended with {process.wait()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
            process.stdout.close()


def tracker_address(address=None, insecure=False):
    """The tracker's address as native code takes it: the given one, else $TC_TRACKER, else this
    machine."""
    address = address or os.environ.get("TC_TRACKER") or _NO_TRACKER
    return address if not insecure or "://" in address else "insecure://" + address


def devices(tracker=None, credentials=None, insecure=False):
    """The devices of a tracker, a dict each, sorted by name."""
    return state(tracker, credentials, insecure)["devices"]


def state(tracker=None, credentials=None, insecure=False):
    """What a tracker knows: {"devices": a dict each, sorted by name, "counters": what has happened
    since it was started}."""
    return compiler.tracker_state(tracker_address(tracker, insecure), credentials or "")


def _warnings(rows, arguments):
    """A line for each certificate that expires within a month: the devices' and the user's own."""
    now = time.time()
    lines = []
    for row in rows:
        days = int((row["certificate_ends"] - now) // 86400)
        if row["certificate_ends"] and days <= certs.WARN_DAYS:
            lines.append(
                f"warning: the certificate of '{row['name']}' ends in {days} days; issue another with "
                f"`python -m tc certs add {row['name']}` and copy it to the board"
            )
    own = compiler.credentials_warning(
        tracker_address(arguments.tracker, arguments.insecure), arguments.credentials or ""
    )
    return lines + ([f"warning: {own}"] if own else [])


def _size(count):
    for unit, scale in ("MiB", 1 << 20), ("KiB", 1 << 10):
        if count >= scale:
            return f"{count / scale:.4g} {unit}"
    return "-" if not count else f"{count} B"


def _queue(row):
    """Lines on who waits for the device, and when its lease ends because of that; none where nobody
    waits."""
    if not row["waiting"]:
        return []
    waiting = ", ".join(
        f"{printable(client['client']) or 'someone'} (since {client['seconds']:.0f} s, at most "
        f"{client['seconds_left']:.0f} s more"
        + (f", priority {client['priority']}" if client["priority"] else "")
        + ")"
        for client in row["waiting"]
    )
    if (others := row["waiting_count"] - len(row["waiting"])) > 0:
        waiting += f" and {others} more"
    left = max(0, row["longest_lease_seconds"] - row["lease_seconds"])
    until = (
        f"; its lease of {row['lease_seconds']:.0f} s ends within {left:.0f} s"
        if row["state"] == "leased"
        else ""
    )
    return [f"waiting for '{row['name']}': {waiting}{until}"]


def _run_devices(arguments):
    rows = devices(arguments.tracker, arguments.credentials, arguments.insecure)
    warnings = _warnings(rows, arguments)
    if not rows:
        return {"devices": [], "warnings": warnings}, lines_text(
            ["no agent has joined this tracker; start one with `python -m tc agent`", *warnings]
        )
    header = [
        "name",
        "state",
        "architecture",
        "processor",
        "cores",
        "vector",
        "clock",
        "L1 / L2 / L3",
        "runner",
        "unit",
        "measured",
        "client",
    ]
    table = [header]
    for row in rows:
        table.append(
            [
                printable(cell)
                for cell in (
                    row["name"],
                    row["state"],
                    row["architecture"],
                    row["processor"] or "-",
                    row["cores"],
                    f"{row['vector_bits']} bit" if row["vector_bits"] else "-",
                    f"{row['clock_ghz']:.4g} GHz" if row["clock_ghz"] else "-",
                    " / ".join(_size(row[f"l{level}_bytes"]) for level in (1, 2, 3)),
                    row["runner"],
                    row["unit"],
                    row["measured"],
                    row["client"] or "-",
                )
            ]
        )
    widths = [max(len(line[column]) for line in table) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in table
    ]
    queues = [line for row in rows for line in _queue(row)]
    return {"devices": rows, "warnings": warnings}, lines_text([*lines, *queues, *warnings])


def add_credentials(added):
    """The options by which a command shows a tracker who asks."""
    added.add_argument(
        "--credentials", metavar="FOLDER", help="default: $TC_CREDENTIALS, else ~/.config/tc"
    )
    added.add_argument(
        "--insecure",
        action="store_true",
        help="plain text, to a tracker of this machine started so",
    )


def add_commands(command):
    """Adds the commands; `command(name, function, text)` gives the parser of one."""
    for name, text in PROGRAMS.items():
        command(name, None, text)
    added = command("devices", _run_devices, "List the devices of a tracker.")
    added.add_argument(
        "--tracker", metavar="HOST:PORT", help=f"default: $TC_TRACKER, else {_NO_TRACKER}"
    )
    add_credentials(added)
    added = command(
        "certs", certs.run, "Make, list and revoke credentials of trackers, agents and clients."
    )
    certs.add_arguments(added)
