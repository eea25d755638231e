"""Errors: each names the file, the node and what to do."""

import functools
import re

# The most characters that are shown of a name, and of a line of other text; runtime/foreign_text.h
# has the same numbers for native code.
MAX_OF_NAME = 200
MAX_OF_LINE = 4000
_MAX_OF_MESSAGE = 16_000
_LONGEST_SHOWN = 10 * MAX_OF_NAME + 40  # characters of a shown name: an escape has at most ten


# Characters that take up space but are invisible, and variation selectors.
_UNSEEN = re.compile("[\u115f\u1160\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def _escaped(match):
    character = match[0]
    if character.isprintable() and not _UNSEEN.match(character):
        return character
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8, as os.fsdecode returns it
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


def _line(text, most):
    if len(text) > most:
        text = f"{text[: most // 2]}...{len(text) - most} characters left out...{text[len(text) - most + most // 2 :]}"
    return re.sub(r"[^ -~]", _escaped, text)


def printable(text, most=MAX_OF_NAME):
    """Foreign text made fit to be shown: one line, with invisible characters as escapes (\\n,
    \\x1b, \\u202e), and without its middle where it has more than `most` characters."""
    return _line(str(text), most)


def printable_lines(text):
    """The same for a text of several lines: tabs and line ends stay, and lines have at most
    MAX_OF_LINE characters."""
    return "\n".join(
        "\t".join(_line(part, MAX_OF_LINE) for part in _line_parts(line))
        for line in str(text).split("\n")
    )


def lines_text(lines):
    """The lines of a report as one text. Each stays one line, whatever names are in it."""
    return "\n".join(printable(line, MAX_OF_LINE) for line in lines)


def _line_parts(line):
    return line.split("\t") if len(line) <= MAX_OF_LINE else [line]


def _name(text):
    """A quoted name, made printable unless `printable` has done so already."""
    return (
        text
        if len(text) <= _LONGEST_SHOWN and printable(text, _LONGEST_SHOWN) == text
        else printable(text)
    )


def message(text):
    """A message made fit to be shown, as one line. What is between single quotes is taken for a
    name, which anybody may have chosen."""
    text, pieces, start, done = str(text), [], None, 0
    for quote in re.finditer("'", text):
        at = quote.start()
        if start is None and not text[max(at - 1, 0) : at].isalnum():
            start = at + 1
        elif start is not None and not text[at + 1 : at + 2].isalnum():
            pieces += [text[done:start], _name(text[start:at])]
            start, done = None, at
    return printable("".join([*pieces, text[done:]]), _MAX_OF_MESSAGE)


class Error(Exception):
    """Any failure of tc. One of the classes below, unless it is a bug in tc itself. `shown`: the
    text is fit to be shown already, as texts from native code are."""

    def __init__(self, text="", shown=False):
        super().__init__(printable(text, _MAX_OF_MESSAGE) if shown else message(text))


class ModelError(Error):
    """The model's or artefact's file is missing, damaged or not of a known form."""


class UnsupportedError(Error):
    """The model uses something that tc cannot compile; the text lists all of it with node names.

    inputs    of the model, whose values would decide what a run computes; empty for other reasons
    problems  a sentence for each node, where the text is made of several; empty otherwise
    strings   whether the reason is that the model works on strings
    """

    inputs = ()
    problems = ()
    strings = False


class ShapeError(Error):
    """Shapes or element types do not fit together."""


class TargetError(Error):
    """The target is unknown, or this machine cannot run code for it."""


class ScheduleError(Error):
    """A request to a schedule is illegal; the schedule is as it was."""


class DeviceError(Error):
    """A device or folder cannot be used."""


class LogError(Error):
    """A log of tuning records cannot be used."""


def error_of(exception):
    """The Error that users get for an exception: the Error itself, one that tells what the machine
    lacks or refuses, or one that reports a bug."""
    if isinstance(exception, Error):
        return exception
    if isinstance(exception, MemoryError):
        return UnsupportedError("memory ran out; use smaller sizes, or a machine that has more")
    if isinstance(exception, UnicodeError):
        return ModelError(f"a name is not UTF-8: {exception}")
    if isinstance(exception, OSError):
        return DeviceError(f"the system refused something: {exception}")
    return Error(f"internal error: {type(exception).__name__}: {exception}")


def renamed(error, own, name):
    """The error with the user's name for the model instead of the name that its graph has."""
    before, after = (f"model '{printable(each)}'" for each in (own, name))
    if not own or own == name or before not in str(error):
        return error
    result = type(error)(str(error).replace(before, after), shown=True)
    result.__dict__.update(error.__dict__)
    return result


def bounded(function):
    """Decorates a public function: what the machine refuses while it runs is raised as an Error.
    Exceptions of a caller's own function pass through."""

    @functools.wraps(function)
    def call(*arguments, **named):
        try:
            return function(*arguments, **named)
        except (MemoryError, UnicodeError, OSError) as exception:
            raise error_of(exception) from exception

    return call
