"""How far a long call has come: told to a callable, shown as a line on a terminal, or not at
all."""

import sys
import time

from .native import compiler

# Seconds of work before a line is shown on a terminal, and between two updates of it.
PATIENCE = 2.0
PAUSE = 0.1
# The same of another stream, where each update is a line of its own.
PLAIN_PAUSE = 10.0


def amount(done, total):
    """ " 3 of 12 (25 %)"; empty where the total is not known."""
    return f" {done} of {total} ({100 * done / total:.0f} %)" if total else ""


def seconds_left(done, total, seconds):
    """How long the rest takes at the pace so far; None while nobody knows."""
    return seconds / done * (total - done) if 0 < done <= total and seconds >= 1 else None


class Line:
    """One line on a terminal, updated in place and removed at the end; on another stream a new line
    from time to time."""

    def __init__(self, stream, patience=None):
        self._terminal = stream.isatty()
        if patience is None:
            patience = PATIENCE if self._terminal else PLAIN_PAUSE
        self._stream, self._next, self._shown = stream, time.monotonic() + patience, False
        self._phase = None  # and when it was first told, with how much of it done

    def __call__(self, told):
        now = time.monotonic()
        if self._phase is None or self._phase[0] != told["phase"]:
            self._phase = told["phase"], now, told["done"]
        if now < self._next:
            return
        self._next, self._shown = now + (PAUSE if self._terminal else PLAIN_PAUSE), True
        _, began, before = self._phase
        left = seconds_left(told["done"] - before, told["total"] - before, now - began)
        text = f"{told['phase']}{amount(told['done'], told['total'])}, {told['seconds']:.0f} s"
        if left is not None:
            text += f", about {left:.0f} s left of it"
        self._stream.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        self._stream.flush()

    def close(self):
        if self._shown and self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


class Progress:
    """While its block runs, the progress of the compiler and of the block's own calls is told to a
    callable, as {"phase": text, "done": parts done, "total": number of parts or 0, "seconds": since
    the start}, or shown on a terminal. `wanted` is the argument progress= of the calls: a callable,
    True, False, or None, which shows a line where stderr is a terminal."""

    def __init__(self, wanted, patience=None):
        self._begin = time.monotonic()
        self._tell = wanted if callable(wanted) else None
        if (
            self._tell is None
            and wanted is not False
            and (wanted or (sys.stderr is not None and sys.stderr.isatty()))
        ):
            self._tell = Line(sys.stderr, patience)

    def _told(self, phase, done=0, total=0):
        self._tell(
            {
                "phase": phase,
                "done": done,
                "total": total,
                "seconds": time.monotonic() - self._begin,
            }
        )

    def __call__(self, phase, done=0, total=0):
        if self._tell:
            self._told(phase, done, total)

    def __enter__(self):
        self._before = compiler.set_progress(self._told) if self._tell else None
        return self

    def __exit__(self, *_):
        if self._tell:
            compiler.set_progress(self._before)
        if hasattr(self._tell, "close"):
            self._tell.close()
