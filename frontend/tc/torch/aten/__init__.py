"""The table of PyTorch's operators, by family."""

from . import (activation, attention, convolution, creation, factorization, found, fourier, indexing, linear, normalization,  # noqa: F401
               pointwise, pooling, recurrent, reduction, resampling, shape, statistics, vision)
from .complex import COMPLEX
from .table import TABLE, Row, key_of, row_of

__all__ = ["COMPLEX", "TABLE", "Row", "key_of", "row_of"]
