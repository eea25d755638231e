"""python -m tc."""

from .command import run

run()
