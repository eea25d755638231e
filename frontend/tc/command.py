"""The entry point of the command line, for `tcompile` and `python -m tc`."""

import sys

from . import interrupts
from .errors import Error
from .native import need_compiler


def run():
    """Runs the command line of this process to its end, and exits."""
    try:
        need_compiler()  # the package with the runtime alone has no commands
    except Error as error:
        sys.exit(f"error: {error}")
    from .cli import main

    interrupts.run(main)
