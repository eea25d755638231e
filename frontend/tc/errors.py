"""Errors: each names the file, the node and what to do."""


class Error(Exception):
    """Any failure of tc. One of the classes below, unless it is a bug in tc itself."""


class ModelError(Error):
    """The model's or artefact's file is missing, damaged or not of a known form."""


class UnsupportedError(Error):
    """The model uses something that tc cannot compile; the text lists all of it with node names.

    inputs  of the model, whose values would decide what a run computes; empty for other reasons
    """

    inputs = ()


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
