"""The table of PyTorch's operators, by family."""

from . import (
    activation,
    arithmetic,
    attention,
    bags,
    bits,
    complex,  # noqa: F401
    convolution,
    creation,
    factorization,
    fake_quantisation,
    found,  # noqa: F401
    fourier,
    indexing,
    linear,
    normalization,
    pointwise,
    pooling,
    recurrent,
    reduction,
    resampling,
    running,
    shape,
    special,
    statistics,
    vision,
)
from .complex_parts import COMPLEX
from .table import TABLE, Row, key_of, row_of

__all__ = ["COMPLEX", "TABLE", "Row", "key_of", "row_of"]
