"""Rows of the table of TensorFlow Lite's operators, by what they do."""

from . import convolution, elementwise, movement, recurrent, reduction, resampling, variables  # noqa: F401
from .table import TABLE, row_of

__all__ = ["TABLE", "row_of"]
