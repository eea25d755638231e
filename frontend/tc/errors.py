"""Errors: each names the file, the node and what to do."""

import functools


class Error(Exception):
    """Any failure of tc. One of the classes below, unless it is a bug in tc itself."""


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
    """What an exception is to users, whatever raised it: an Error as it is, a machine that has no room or
    refuses something, or a bug."""
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
    """The error with the name that users know a model by, in the place of the one that its graph has."""
    if not own or own == name or f"model '{own}'" not in str(error):
        return error
    result = type(error)(str(error).replace(f"model '{own}'", f"model '{name}'"))
    result.__dict__.update(error.__dict__)
    return result


def bounded(function):
    """A function of the library's surface: what the machine refuses while it runs leaves it as an Error. What
    a caller's own function raises goes through."""
    @functools.wraps(function)
    def call(*arguments, **named):
        try:
            return function(*arguments, **named)
        except (MemoryError, UnicodeError, OSError) as exception:
            raise error_of(exception) from exception
    return call
