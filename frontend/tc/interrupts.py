"""Ctrl-C on the command line: one line, the exit status 130, within a second, whatever the command is doing, and no temporary
file left. Python's own calls raise a KeyboardInterrupt instead."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading

STATUS = 130      # as shells have it
GRACE = 0.5       # seconds that a command has to leave by itself

_temporaries = set()     # paths to remove where a command cannot leave by itself
_before = []             # $TMPDIR as it was, where it is changed
_said = threading.Lock()


def is_command():
    """Whether this process runs tc's own command line, asked while the package is being imported."""
    asked = sys.orig_argv[1:]
    by_module = sys.argv[:1] == ["-m"] and "-m" in asked and asked[asked.index("-m") + 1:][:1] == ["tc"]
    return by_module or os.path.basename(sys.argv[0] if sys.argv else "") == "tcompile"


def say():
    """The one line, once."""
    if _said.acquire(blocking=False):
        # A display may have left the cursor hidden, in the midst of a line.
        begin = "\r\x1b[K\x1b[?25h" if sys.stderr is not None and sys.stderr.isatty() else ""
        with contextlib.suppress(OSError):
            os.write(2, f"{begin}tc: interrupted\n".encode())


def _leave(*_):
    """Ends the process here and now."""
    say()
    for path in list(_temporaries):
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.remove(path)
    os._exit(STATUS)


def hand_over():
    """Before the process becomes another program: what is the command's own is put away."""
    if _before:
        shutil.rmtree(os.environ.pop("TMPDIR"), ignore_errors=True)
        if (before := _before.pop()) is not None:
            os.environ["TMPDIR"] = before


def _is_ours():
    """Whether Ctrl-C is for this process: not for one that runs in the background of a script, nor in a thread."""
    return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None)


def begin():
    """While the package is imported nothing is to be removed: Ctrl-C ends the process."""
    if _is_ours():
        signal.signal(signal.SIGINT, _leave)


class temporary:
    """Registers a path for as long as the block lasts: a command that is ended removes it."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        _temporaries.add(self.path)
        return self.path

    def __exit__(self, *_):
        _temporaries.discard(self.path)


class Watch:
    """Around a command: Ctrl-C raises a KeyboardInterrupt, and ends the process where that has not ended the command after GRACE
    seconds, or at the second Ctrl-C. Native code's temporary files go to a folder of the command's own."""

    def __init__(self):
        self._ended = threading.Event()
        self._folder = None
        self._watches = False
        self.interrupted = False

    def __enter__(self):
        if not _is_ours():
            return self
        self._watches = True
        self._make_folder()
        # The signal is written to a pipe wherever the main thread is; another thread reads it there.
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        threading.Thread(target=self._wait, args=(read,), daemon=True, name="tc-interrupts").start()
        signal.signal(signal.SIGINT, self._raise)
        return self

    def _make_folder(self):
        # Where native code would put them.
        try:
            self._folder = tempfile.mkdtemp(prefix="tc-command-", dir=os.environ.get("TMPDIR") or "/tmp")
        except OSError:
            return      # what needs one says so
        _temporaries.add(self._folder)
        _before.append(os.environ.get("TMPDIR"))
        os.environ["TMPDIR"] = self._folder

    def _wait(self, read):
        while signal.SIGINT not in os.read(read, 64):
            pass
        if not self._ended.wait(GRACE):
            _leave()

    def _raise(self, *_):
        if self.interrupted:
            _leave()
        self.interrupted = True
        # What an interrupted library says of its own state is of no use to people.
        sys.unraisablehook = threading.excepthook = lambda *_: None
        raise KeyboardInterrupt

    def __exit__(self, *_):
        self.close()

    def close(self):
        """The work is done, or left: nothing is to be interrupted any more."""
        if self._watches:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._ended.set()


def run(main):
    """The process of a command, to its end: exits with what main() returns."""
    watch = Watch()
    try:
        with watch:
            status = main()
    except KeyboardInterrupt:
        watch.close()     # where that came in the midst of its own end
    if watch.interrupted:
        say()
        _flush()
        os._exit(STATUS)       # threads that still work are not waited for
    sys.exit(status)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
