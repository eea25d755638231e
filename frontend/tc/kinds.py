"""Kinds of artefacts: the rows of the compiler's back ends."""

from .errors import TargetError
from .native import compiler


def kind_row(name):
    """The row of a kind, a dict with name, suffix, doc, one_thread, constants_in_flash and
    backend."""
    rows = {row["name"]: row for row in compiler.kinds()}
    if name not in rows:
        raise TargetError(f"unknown kind of artefact '{name}'; the kinds are {', '.join(rows)}")
    return rows[name]


def runnable_kind(target):
    """The best kind of artefact to run a model on a foreign target: a program where the target has
    that kind."""
    names = [row["name"] for row in compiler.kinds_for(target)]
    return "executable" if "executable" in names else names[0]


class KindNames:
    """The names as argparse's choices. They are looked up only when the argument is given, so that
    other commands do not load the compiler."""

    def __iter__(self):
        return iter([row["name"] for row in compiler.kinds()])

    def __contains__(self, name):
        return name in list(self)
