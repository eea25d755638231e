"""The command `python -m tc quantize`."""

import json
import os

import numpy as np

from .errors import ModelError, printable
from .given_files import begin_of, read_array, read_arrays

METHODS = ("minmax", "percentile", "entropy")  # as in ranges.py, which needs the package onnx


def _array(path):
    """The array of a .npy file, or {name: array} of a .npz file."""
    return read_arrays(path) if begin_of(path, 4) == b"PK\x03\x04" else read_array(path)


def _data(path):
    """Samples from a .npy file (an array whose first axis is the samples), a .npz file (one such
    array for each input), or a folder of such files, one for each sample."""
    if os.path.isdir(path):
        files = sorted(
            os.path.join(path, name) for name in os.listdir(path) if name.endswith((".npy", ".npz"))
        )
        return [_array(path) for path in files]
    found = _array(path)
    if isinstance(found, np.ndarray):
        return found
    counts = {len(array) for array in found.values() if array.ndim}
    if len(counts) != 1:
        raise ModelError(
            f"{path} has arrays of {', '.join(map(str, sorted(counts))) or 'no'} samples; all need as many"
        )
    return [
        {name: array[at : at + 1] for name, array in found.items()} for at in range(counts.pop())
    ]


def _quantize(arguments):
    from .quantising import quantize

    output = (
        arguments.output or os.path.splitext(os.path.basename(arguments.model))[0] + ".int8.onnx"
    )
    result = quantize(
        arguments.model,
        _data(arguments.data),
        method=arguments.method,
        percentile=arguments.percentile,
        per_channel=not arguments.per_tensor,
        equalise=not arguments.no_equalisation,
        correct_bias=not arguments.no_bias_correction,
        most_error=arguments.most_error,
        floats=arguments.float_node,
        sensitivity=arguments.sensitivity or None,
        target=arguments.target,
        threads=arguments.threads,
        progress=not arguments.json,
    )
    result.save(output)
    row = json.loads(json.dumps(result.to_dict())) | {"file": output, "bytes": len(result.model)}
    return row, f"{result}\nwrote {printable(output)} ({len(result.model) / 1e6:.3f} MB)"


def add_command(command):
    added = command(
        "quantize",
        _quantize,
        "Make a network of floats one of 8-bit integers, with ranges of some of its inputs.",
        "an .onnx file",
    )
    added.add_argument(
        "--data",
        required=True,
        metavar="FILE",
        help="samples: a .npy or .npz file, or a folder with one for each sample",
    )
    added.add_argument("--output", "-o", help="default: NAME.int8.onnx in this folder")
    added.add_argument(
        "--method",
        choices=METHODS,
        default="percentile",
        help="how ranges follow from numbers (default percentile)",
    )
    added.add_argument(
        "--percentile",
        type=float,
        default=99.99,
        help="share of the numbers inside, in percent (default 99.99)",
    )
    added.add_argument(
        "--per-tensor", action="store_true", help="one scale for all channels of weights"
    )
    added.add_argument(
        "--no-equalisation",
        action="store_true",
        help="leave the weights of neighbouring layers as they are",
    )
    added.add_argument(
        "--no-bias-correction", action="store_true", help="leave the biases as they are"
    )
    added.add_argument(
        "--most-error",
        type=float,
        metavar="SHARE",
        help="keep as few layers in floats as bring the outputs' error below",
    )
    added.add_argument(
        "--float-node", action="append", default=[], metavar="NAME", help="a node that stays floats"
    )
    added.add_argument(
        "--sensitivity", action="store_true", help="measure and rank each layer's error alone"
    )
    added.add_argument(
        "--target",
        default="native",
        help="for which the network is compiled to measure; default: native",
    )
    added.add_argument("--threads", type=int, help="threads of a run; default: all cores")
