"""The parser of the command line, which says in sentences which arguments are wrong."""

import argparse
import difflib
import re
import sys

from .errors import message as shown

# argparse's name of an argument, and the name by which users know it.
_NAMES = {"COMMAND": "the command"}
# Of a compilation for which none is given. Here, since processes without a compiler need it too.
TOLERANCE = 1e-4


def number(kind, minimum, what):
    """A function for argparse's `type=` that turns a text into a number of at least `minimum`."""

    def parse(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not value >= minimum:
            raise argparse.ArgumentTypeError(f"'{text}' is not {what} of at least {minimum}")
        return value

    return parse


def add_running(added, tolerance):
    """The options of commands that compile a model and run it: `--threads`, and `--tolerance` with
    this help."""
    added.add_argument(
        "--threads",
        type=number(int, 1, "a whole number"),
        help="threads of a run; default: all cores",
    )
    added.add_argument(
        "--tolerance", type=number(float, 0, "a number"), default=TOLERANCE, help=tolerance
    )


# The help of --tolerance of commands that run a language model.
LANGUAGE_TOLERANCE = (
    "largest error of the logits; with 0.12 packed weights are multiplied by numbers of 8 bits"
)


def nearest(text, known):
    """ "; did you mean X" where one of the known names is near, else nothing."""
    found = difflib.get_close_matches(text, known, 1, 0.5)
    return f"; did you mean {found[0]}" if found else ""


class Parser(argparse.ArgumentParser):
    """A parser that refuses arguments in one sentence: what is wrong, and what to give instead."""

    def parse_args(self, args=None, namespace=None):
        given = sys.argv[1:] if args is None else args
        result, rest = self.parse_known_args(given, namespace)
        if rest:
            command = self._commands().get(getattr(result, "command", None), self)
            command.refuse_rest(rest, given)
        return result

    def _commands(self):
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                return action.choices
        return {}

    def options(self):
        return [
            name
            for action in self._actions
            for name in action.option_strings
            if name.startswith("--")
        ]

    def refuse_rest(self, rest, given=()):
        """Refuses with a sentence that names the argument that is one too many, or that is no
        option of this command."""
        wrong = next((each for each in rest if each.startswith("-")), rest[0])
        if wrong.startswith("-"):
            name = wrong.partition("=")[0]
            self.error(f"there is no option {name}{nearest(name, self.options())}")
        self.error(f"'{wrong}' is one argument too many")

    def error(self, message):
        """Ends with the status 2."""
        self.exit(2, f"tc: {shown(_sentence(message))}; `{self.prog} --help` lists what it takes\n")


def _sentence(message):
    """One of argparse's messages, reworded."""
    if found := re.fullmatch(
        r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)", message, re.DOTALL
    ):
        name, given, choices = found.groups()
        choices = [each.strip("' ") for each in choices.split(",")]
        known = f"'{given}' is no {'command' if name == 'COMMAND' else f'value of {name}'}"
        return f"{known}{nearest(given, choices)}; known are {', '.join(choices)}"
    if found := re.fullmatch(r"the following arguments are required: (.*)", message):
        return f"{' and '.join(_NAMES.get(each, each.upper() if each.isalpha() else each) for each in found[1].split(', '))} is missing"
    if found := re.fullmatch(r"argument (\S+): expected .* arguments?", message):
        return f"{found[1].partition('/')[0]} needs a value"
    if found := re.fullmatch(r"ambiguous option: (\S+) could match (.*)", message):
        return f"{found[1]} may be {found[2].replace(', ', ' or ')}"
    if found := re.fullmatch(r"argument (\S+): (.*)", message, re.DOTALL):
        return f"{found[1]}: {found[2]}"
    return message


def add_listener(added, port):
    """The options that say where a command's server listens."""
    added.add_argument(
        "--port",
        type=number(int, 0, "a whole number"),
        default=port,
        help=f"default {port}; 0 takes a free one",
    )
    added.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="default 127.0.0.1, which this machine alone can reach",
    )
    added.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name that requests may have in their Host header, beside localhost "
        "and addresses; may be given several times",
    )
