"""The table of PyTorch's operators, by family."""

from . import (activation, attention, convolution, creation, found, indexing, linear, normalization, pointwise, pooling,  # noqa: F401
               recurrent, reduction, resampling, shape, statistics, vision)
from .complex import COMPLEX
from .table import TABLE, Row, key_of, row_of

__all__ = ["COMPLEX", "TABLE", "Row", "key_of", "row_of"]
