"""The error of the zoo's networks at tolerance 0 beside ONNX Runtime's, both from PyTorch's float64
outputs: roots of mean squares, as shares of the largest output.

    python -m tests.bench.rounding [NAME ...] [--deep]

--deep takes ill-conditioned networks of torchvision and timm with seeded weights instead; it needs
the packages that tests/frontend/networks.py names.
"""

import argparse
import math

import numpy
import onnx
import onnxruntime
import torch

import tc

DEEP = ("resnet101", "fcn_resnet50", "inception_v4", "convmixer_1024_20_ks9_p14")


def error_of(outputs, expected):
    """The root of the mean square of the differences of all outputs, each a share of its largest
    number."""
    squares = [
        numpy.square((outputs[name] - array) / numpy.abs(array).max()).ravel()
        for name, array in expected.items()
    ]
    return math.sqrt(numpy.concatenate(squares).mean())


def run_peer(model, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else str(model),
        options,
        providers=["CPUExecutionProvider"],
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs)))


def zoo_case(name):
    # Not beside --deep: it imports transformers, which tests/torchvision_package.py has to come
    # before.
    from tests import zoo

    return (zoo.export(name), *zoo.reference(name))


def deep_case(network):
    """(ONNX file, inputs, outputs in float64) of an entry of tests/frontend/network_list.py."""
    from tests.frontend import network_makers

    module, inputs = network_makers.network_of(network)
    with torch.no_grad():
        data = network_makers.exported(module, inputs, "script", 17)
        outputs = network_makers.tensors_of(
            module.double()(*[each.double() for each in inputs.values()])
        )
    names = [port.name for port in onnx.load_from_string(data).graph.output]
    return (
        data,
        {key: value.numpy() for key, value in inputs.items()},
        {name: each.numpy() for name, each in zip(names, outputs)},
    )


def cases(names, deep):
    """Names, each with what makes its case."""
    if not deep:
        from tests import zoo

        return [(name, lambda name=name: zoo_case(name)) for name in names or zoo.NETWORKS]
    from tests.frontend.network_list import NETWORKS

    return [
        (each.label, lambda each=each: deep_case(each))
        for each in NETWORKS
        if each.name in (names or DEEP)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="default: all")
    parser.add_argument(
        "--deep",
        action="store_true",
        help=f"names of tests/frontend/network_list.py, by default {', '.join(DEEP)}",
    )
    arguments = parser.parse_args()
    ratios = []
    for name, case in cases(arguments.names, arguments.deep):
        model, inputs, expected = case()
        module = tc.compile(
            model,
            tolerance=0,
            threads=1,
            log=False,
            shapes={key: value.shape for key, value in inputs.items()},
        )
        own, peer = (
            error_of(outputs, expected) for outputs in (module.run(inputs), run_peer(model, inputs))
        )
        ratios.append(own / peer)
        print(
            f"{name:16} tc {own:.2e}  ONNX Runtime {peer:.2e}  ratio {ratios[-1]:.2f}", flush=True
        )
    print(
        f"geometric mean of the ratios {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, largest {max(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
