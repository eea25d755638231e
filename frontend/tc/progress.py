"""How far a long call has come: told to a callable, shown as a line on a terminal, or not at
all."""

import sys
import time

from .native import compiler

# Seconds of work before a line is shown, and between two updates of it.
PATIENCE = 2.0
PAUSE = 0.1


class _Line:
    """One line on a terminal, updated in place and removed at the end; on another stream a new line
    from time to time."""

    def __init__(self, stream, patience):
        self._stream, self._next, self._shown = stream, time.monotonic() + patience, False
        self._terminal = stream.isatty()

    def __call__(self, told):
        now = time.monotonic()
        if now < self._next:
            return
        self._next, self._shown = now + (PAUSE if self._terminal else 10), True
        count = f" {told['done']} of {told['total']}" if told["total"] else ""
        text = f"{told['phase']}{count}, {told['seconds']:.0f} s"
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

    def __init__(self, wanted, patience=PATIENCE):
        self._begin = time.monotonic()
        self._tell = wanted if callable(wanted) else None
        if (
            self._tell is None
            and wanted is not False
            and (wanted or (sys.stderr is not None and sys.stderr.isatty()))
        ):
            self._tell = _Line(sys.stderr, patience)

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
