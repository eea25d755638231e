"""A quantiser: turns a float network and some of its inputs into a network of 8-bit integers
between QuantizeLinear and DequantizeLinear. Imported when it is first asked for; it needs the
package onnx (`pip install 'tc-compiler[quantize]'`)."""

from ..errors import Error

try:
    import onnx  # noqa: F401
except ImportError:
    raise Error(
        "quantising writes ONNX by the package onnx, which is not installed here: pip install 'tc-compiler[quantize]'"
    ) from None

from .quantiser import Options, Quantised, quantize

__all__ = ["Options", "Quantised", "quantize"]
