"""The networks of the field in plain PyTorch, with seeded weights, exported to ONNX once.

`NETWORKS` lists them; `build`, `export` and `reference` make the module, the ONNX file and the
float64 outputs that a compiled model has to reproduce.
"""

from .models import (
    agrees,
    build,
    distance,
    evaluate,
    example,
    export,
    outline,
    parameters,
    reference,
    shapes,
)
from .networks import NETWORKS, Network

__all__ = [
    "NETWORKS",
    "Network",
    "agrees",
    "build",
    "distance",
    "evaluate",
    "example",
    "export",
    "outline",
    "parameters",
    "reference",
    "shapes",
]
