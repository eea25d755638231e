"""The entry point of the command line, for `tcompile` and `python -m tc`."""

import sys

from . import interrupts
from .errors import Error


def run():
    """Runs the command line of this process to its end, and exits."""
    try:
        from .cli import main
    except Error as error:  # the package with the runtime alone has no commands
        sys.exit(f"error: {error}")
    interrupts.run(main)
