"""The error of the zoo's networks at tolerance 0 beside ONNX Runtime's, both from PyTorch's float64 outputs: roots of
mean squares, as shares of the largest output.

    python -m tests.bench.rounding [NAME ...]
"""

import argparse
import math

import numpy
import onnxruntime

import tc
from tests import zoo


def error_of(outputs, expected):
    """The root of the mean square of the differences of all outputs, each a share of its largest number."""
    squares = [numpy.square((outputs[name] - array) / numpy.abs(array).max()).ravel() for name, array in expected.items()]
    return math.sqrt(numpy.concatenate(squares).mean())


def run_peer(path, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(zoo.NETWORKS))
    ratios = []
    for name in parser.parse_args().names:
        inputs, expected = zoo.reference(name)
        shapes = {key: value.shape for key, value in inputs.items()}
        module = tc.compile(zoo.export(name), tolerance=0, threads=1, log=False, shapes=shapes)
        own, peer = (error_of(outputs, expected) for outputs in (module.run(inputs), run_peer(zoo.export(name), inputs)))
        ratios.append(own / peer)
        print(f"{name:16} tc {own:.2e}  ONNX Runtime {peer:.2e}  ratio {ratios[-1]:.2f}", flush=True)
    print(f"geometric mean of the ratios {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, largest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
