"""Rows of the table of TensorFlow Lite's operators, by what they do."""

from . import (  # noqa: F401
    convolution,
    elementwise,
    movement,
    recurrent,
    reduction,
    resampling,
    signal,
    variables,
)
from .table import TABLE, row_of

__all__ = ["TABLE", "row_of"]
