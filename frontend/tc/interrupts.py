"""Ctrl-C on the command line: whatever a command is doing, it ends within a second, with one line,
the exit status 130 and no temporary file left. Calls of the Python package raise a
KeyboardInterrupt instead."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading

STATUS = 130  # as shells report it
GRACE = 0.5  # seconds in which a command has to end by itself

_temporaries = set()  # paths to remove where a command does not end by itself
_before = []  # the old $TMPDIR, where it was changed
_said = threading.Lock()
_kept = [""]  # what the one line says of results that are kept


def is_command():
    """Whether this process runs tc's own command line; works while the package is still being
    imported."""
    asked = sys.orig_argv[1:]
    by_module = (
        sys.argv[:1] == ["-m"] and "-m" in asked and asked[asked.index("-m") + 1 :][:1] == ["tc"]
    )
    return by_module or os.path.basename(sys.argv[0] if sys.argv else "") == "tcompile"


def keep(text):
    """From now on the one line says this of what the command has done so far."""
    _kept[0] = text


def say():
    """Prints the one line, only once."""
    if _said.acquire(blocking=False):
        # A progress display may have left the cursor hidden and in the middle of a line.
        begin = "\r\x1b[K\x1b[?25h" if sys.stderr is not None and sys.stderr.isatty() else ""
        with contextlib.suppress(OSError):
            kept = f"; {_kept[0]}" if _kept[0] else ""
            os.write(2, f"{begin}tc: interrupted{kept}\n".encode())


def _leave(*_):
    """Ends the process immediately."""
    say()
    for path in list(_temporaries):
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.remove(path)
    os._exit(STATUS)


def hand_over():
    """Called before the process becomes another program: removes the command's temporary folder and
    restores $TMPDIR."""
    if _before:
        shutil.rmtree(os.environ.pop("TMPDIR"), ignore_errors=True)
        if (before := _before.pop()) is not None:
            os.environ["TMPDIR"] = before


def _is_ours():
    """Whether Ctrl-C concerns this code: it does not in background processes of a script, nor in
    other threads than the main one."""
    return threading.current_thread() is threading.main_thread() and signal.getsignal(
        signal.SIGINT
    ) not in (signal.SIG_IGN, None)


def begin():
    """While the package is being imported there is nothing to remove, so Ctrl-C simply ends the
    process."""
    if _is_ours():
        signal.signal(signal.SIGINT, _leave)


class temporary:
    """Registers a path for the duration of the block: it is removed if the command is ended
    meanwhile."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        _temporaries.add(self.path)
        return self.path

    def __exit__(self, *_):
        _temporaries.discard(self.path)


class Watch:
    """Context around a command. Ctrl-C raises a KeyboardInterrupt; the process is ended if the
    command still runs after GRACE seconds, or at the second Ctrl-C. Temporary files of native code
    go to a separate folder of the command."""

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
        # Python writes the signal's number to a pipe even while the main thread is in native code;
        # another thread reads it.
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        threading.Thread(target=self._wait, args=(read,), daemon=True, name="tc-interrupts").start()
        signal.signal(signal.SIGINT, self._raise)
        return self

    def _make_folder(self):
        # In the folder that native code would use for temporary files.
        try:
            self._folder = tempfile.mkdtemp(
                prefix="tc-command-", dir=os.environ.get("TMPDIR") or "/tmp"
            )
        except OSError:
            return  # code that needs a temporary folder will report that
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
        # Messages of interrupted libraries about their own state are of no use to users.
        sys.unraisablehook = threading.excepthook = lambda *_: None
        raise KeyboardInterrupt

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Called when the work is done or was interrupted: Ctrl-C is ignored from now on."""
        if self._watches:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._ended.set()


def run(main):
    """Runs a command and exits with the status that main() returns."""
    watch = Watch()
    try:
        with watch:
            status = main()
    except KeyboardInterrupt:
        watch.close()  # where Ctrl-C arrived while the watch was being closed
    if watch.interrupted:
        say()
        _flush()
        os._exit(STATUS)  # does not wait for threads that still work
    sys.exit(status)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
