"""The table of PyTorch's operators, by family."""

from . import (activation, attention, convolution, creation, found, indexing, linear, normalization, pointwise, pooling,  # noqa: F401
               recurrent, reduction, resampling, shape, statistics, vision)
from .table import TABLE, Row, key_of, row_of

__all__ = ["TABLE", "Row", "key_of", "row_of"]
