"""The command line's process: what `tcompile` and `python -m tc` begin with."""

import sys

from . import interrupts
from .errors import Error


def run():
    """Runs the command line of this process to its end, and exits."""
    try:
        from .cli import main
    except Error as error:     # the runtime alone has no commands
        sys.exit(f"error: {error}")
    interrupts.run(main)
