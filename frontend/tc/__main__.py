"""python -m tc."""

import sys

from .errors import Error

try:
    from .cli import main
except Error as error:   # the runtime alone has no commands
    sys.exit(f"error: {error}")

sys.exit(main())
