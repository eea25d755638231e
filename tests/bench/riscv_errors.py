"""How far riscv64 executables are from float64 at each length of vectors: `python -m
tests.bench.riscv_errors [--full] [NAME ...]`.

Each network of the zoo and each file of the folder of models becomes static executables, which run
under qemu on cores with vectors of 128, 256, 512 and 1024 bits. Printed is the largest error of an
output relative to its largest magnitude:

    128, 256, 512, 1024    compiled for that length (rv64gcv, whose vectors have at least 128)
    any                    compiled for rv64gcv, whose code asks for no length: the largest at 256,
                           512 and 1024
    +lengths               one executable that has versions for the lengths: the largest of all four

A row of LARGE names takes five runs in the place of eleven: the lengths' columns are those of the
one executable with versions, and `any` is at 512 bits alone.

The reference of the zoo is PyTorch in float64, of an ONNX file the interpreter in float64 (`tc
verify` has the same; PyTorch for candy, where the interpreter takes hours), of a TorchScript
archive PyTorch, in float64 if it can be made so, and of a file of TensorFlow Lite its reference
kernels, from which integers may differ by no step. Where ONNX Runtime, in float32 like tc, is
itself farther than half of the limit from float64, a model loses digits whatever runs it, and how
many is another number for each input: errors are then the largest of four inputs, and the limit is
twice the largest of ONNX Runtime's, at most 1e-3. Candy has one input, on which ONNX Runtime errs
by 1.05e-3.

Exit status 1: an error is above its limit. Networks that take more than some minutes of emulation
have to be named, or all are asked for by --full.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy

import tc
from tc.comparing import tc_type
from tc.native import compiler
from tc.onnx_file import OnnxFile
from tc.sources import source_of
from tc.verifying_pipeline import Peer, Pipeline, evaluate
from tests import zoo
from tests.frontend.test_models import LOSES_DIGITS
from tests.support import count_under_qemu, models_folder, output_file, verdict, worst_error

LENGTHS = (128, 256, 512, 1024)
TARGETS = {
    "128": ("rv64gcv", LENGTHS[:1]),
    "256": ("rv64gcv_zvl256b", (256,)),
    "512": ("rv64gcv_zvl512b", (512,)),
    "1024": ("rv64gcv_zvl1024b", (1024,)),
    "any": ("rv64gcv", LENGTHS[1:]),
    "+lengths": ("rv64gcv+lengths", LENGTHS),
}
ZOO = (
    "nsnet2_step",
    "nsnet2",
    "mobilenet_v2",
    "squeezenet1_1",
    "mobilenet_v1",
    "tinybert",
    "alexnet",
    "caffenet",
    "squeezenet1_0",
    "nin",
    "googlenet",
)
# Minutes of emulation and more.
LARGE = (
    "superres",
    "resnet50",
    "yolov6n",
    "yolov7_tiny",
    "resnet101",
    "unet",
    "bert_base",
    "roberta_base",
    "fast_neural_style/candy.onnx",
    "onnx_light/light_vgg19.onnx",
    "onnx_light/light_resnet50.onnx",
    "onnx_light/light_densenet121.onnx",
    "onnx_light/light_inception_v1.onnx",
    "onnx_light/light_inception_v2.onnx",
    "onnx_light/light_zfnet512.onnx",
    "super_resolution_10/model.onnx",
    "super_resolution_tutorial/super_resolution.onnx",
)
# Shapes of the inputs of TorchScript archives, which do not say them.
ARCHIVES = {
    "func.script.dat": [(3, 4), (3, 4)],
    "l1000_100_10.script.dat": [(2, 1000)],
    "linrelu.script.dat": [(2, 10)],
    "scripted.script.dat": [(6,)],
    "list_out.dat": [(3, 4), (3, 4)],
    "tuple_out.dat": [(3, 4), (3, 4)],
}
# Errors relative to the largest output.
LIMIT = 1e-4
# What float32 may lose whatever runs it: ONNX Runtime's functions err by more in some models (its
# sigmoids in YuNet by 1e-2), which allows tc nothing.
MOST = 1e-3
# Inputs that are drawn beside the first one for a model that loses digits whatever runs it.
DRAWN = 3
# No integer may differ, but where convolutions quantise floats while they run: there another
# order of sums before it is another integer.
HYBRID = {"mlperf_tiny/kws_ref_model_float32.tflite": 1e-2}
# Float16 is rounded at each value that is stored.
FLOAT16 = {"squeezenet1_fp16/SqueezeNet_fp16.onnx": 1e-2}


@dataclass
class Case:
    """A model, what tc.compile needs beside it, inputs by name, and the right outputs by name or,
    where files name none, in order."""

    model: object
    options: dict
    inputs: dict | None
    expected: dict | list
    limit: float = LIMIT
    arrays: list | None = None  # in order, in the place of `inputs`
    # (inputs by name, right outputs by name) beside the first.
    others: list = field(default_factory=list)

    def runs(self, ports):
        """(inputs by name, right outputs) of each run, for a module whose inputs are these."""
        first = dict(zip(ports, self.arrays)) if self.inputs is None else self.inputs
        return [(first, self.expected), *self.others]


def onnx_case(name):
    path = models_folder() / name
    options = {}
    saved = path.with_name(path.stem + ".ref_ort_seed0.npz")
    peer = {}
    if saved.exists():
        with numpy.load(saved) as file:
            inputs = {key[len("in__") :]: file[key] for key in file if key.startswith("in__")}
            peer = {key.split("__", 1)[1]: file[key] for key in file if key.startswith("out")}
    else:
        port = tc.compile(str(path), log=False).inputs[0]
        count = int(numpy.prod(port.shape))
        inputs = {
            port.name: (numpy.arange(count).reshape(port.shape) / count).astype(numpy.float32)
        }
    options["shapes"] = {key: array.shape for key, array in inputs.items()}
    if name == LOSES_DIGITS:
        from tests.frontend.style_in_float64 import outputs_in_float64

        return Case(str(path), options, inputs, outputs_in_float64(path, inputs), MOST)
    file = OnnxFile(compiler.onnx_of(source_of(str(path))), path.name, str(path.parent))
    data = file.data(inputs={key: (tc_type(array), array.shape) for key, array in inputs.items()})
    graph = Pipeline().imported(data)
    expected, wide = evaluate(graph, typed(inputs), file.outputs)
    case = Case(
        str(path),
        options,
        inputs,
        {key: expected[key] for key in file.outputs},
        FLOAT16.get(name, LIMIT),
    )
    if wide and peer and 2 * peer_error(peer, expected) > case.limit:
        add_drawn(case, data, graph, peer_error(peer, expected))
    return case


def typed(inputs):
    """Arrays by name as the interpreter and ONNX Runtime take them."""
    return {key: (tc_type(array), array) for key, array in inputs.items()}


def peer_error(outputs, expected):
    return max(worst_error(array, expected[key]) for key, array in outputs.items())


def add_drawn(case, data, graph, error):
    """Further inputs, uniform between the ends of the first one's, of a model whose error is
    another one for each input; ONNX Runtime's is `error` for the first one. Sets the limit."""
    for seed in range(1, DRAWN + 1):
        random = numpy.random.default_rng(seed)
        inputs = {
            key: random.uniform(array.min(), array.max(), array.shape).astype(array.dtype)
            for key, array in case.inputs.items()
        }
        expected, _ = evaluate(graph, typed(inputs), list(case.expected))
        peer = Peer().run(data, typed(inputs), list(case.expected))
        case.others.append((inputs, expected))
        error = max(error, peer_error(peer, expected))
    case.limit = max(case.limit, min(2 * error, MOST))


def zoo_case(name):
    inputs, expected = zoo.reference(name)
    return Case(
        str(zoo.export(name)),
        {"shapes": {key: array.shape for key, array in inputs.items()}},
        inputs,
        expected,
    )


def archive_case(name):
    import torch

    path = models_folder() / name
    generator = torch.Generator().manual_seed(0)
    if name.endswith(".jit"):  # Silero's detector
        examples = (torch.randn((1, 512), generator=generator) * 0.3, 16000)
    else:
        examples = tuple(
            torch.randn(shape, generator=generator) for shape in ARCHIVES[Path(name).name]
        )
    module = torch.jit.load(str(path))
    try:
        with torch.no_grad():
            found = module.double()(
                *[each.double() if isinstance(each, torch.Tensor) else each for each in examples]
            )
    except RuntimeError:  # it makes float32 of something itself
        with torch.no_grad():
            found = torch.jit.load(str(path))(*examples)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    return Case(
        str(path),
        {"inputs": examples},
        None,
        [each.numpy() for each in found],
        LIMIT,
        [each.numpy() for each in examples if isinstance(each, torch.Tensor)],
    )


def tflite_case(name):
    from tests.frontend.tflite_models import reference, seeded

    path = models_folder() / name
    arrays = seeded(tc.compile(path, threads=1, log=False).inputs, 5)
    expected = reference(path, arrays)
    exact = all(array.dtype.kind == "i" for array in expected)
    return Case(path, {}, None, expected, HYBRID.get(name, 0.0 if exact else LIMIT), arrays)


def case_of(name):
    if name in zoo.NETWORKS:
        return zoo_case(name)
    if name.endswith(".onnx"):
        return onnx_case(name)
    return tflite_case(name) if name.endswith(".tflite") else archive_case(name)


def error_of(case, module, executable, folder, length):
    """Largest error of the outputs of all runs at one length."""
    ports = [port.name for port in module.inputs if not port.name.startswith("state.")]
    # What a module of PyTorch keeps, as it begins; numbers are part of the code.
    state = {
        f"state.{key}": numpy.asarray(value)
        for key, value in getattr(module, "state", {}).items()
        if hasattr(value, "shape")
    }
    result = 0.0
    for given, expected in case.runs(ports):
        inputs = {key: array for key, array in given.items() if key in ports} | state
        outputs, _ = count_under_qemu(
            executable, inputs, folder, vlen=length, arguments=["--threads", "1"]
        )
        if not isinstance(expected, dict):
            expected = dict(zip([port.name for port in module.outputs], expected))
        result = max(
            result,
            *(worst_error(outputs[output_file(key)], array) for key, array in expected.items()),
        )
    return result


def executable_of(case, target, folder):
    executable = Path(folder) / target
    module = tc.compile(case.model, target, threads=1, log=False, **case.options)
    module.export(str(executable), kind="executable")
    return module, executable


def errors(case):
    """Largest errors, column by column of the table."""
    with tempfile.TemporaryDirectory(prefix="tc-errors-") as folder:
        for target, lengths in TARGETS.values():
            built = executable_of(case, target, folder)
            yield max(error_of(case, *built, folder, length) for length in lengths)


def errors_of_large(case):
    """Those columns from five runs, as the text above says: of the lengths one executable's that
    has versions for all, whose largest is the last column."""
    with tempfile.TemporaryDirectory(prefix="tc-errors-") as folder:
        built = executable_of(case, "rv64gcv+lengths", folder)
        found = []
        for length in LENGTHS:
            found.append(error_of(case, *built, folder, length))
            yield found[-1]
        yield error_of(case, *executable_of(case, "rv64gcv", folder), folder, 512)
        yield max(found)


def files():
    """The folder's models by name, as paths in it."""
    folder = models_folder()
    return sorted(
        str(path.relative_to(folder))
        for pattern in ("*.onnx", "*.tflite", "*.jit", "*.dat")
        for path in folder.glob(f"*/{pattern}")
    )


def names_of(options):
    every = [*ZOO, *(name for name in zoo.NETWORKS if name not in ZOO), *files()]
    if not options.names:
        return [name for name in every if options.full or name not in LARGE]
    wrong = [name for name in options.names if name not in every]
    if wrong:
        sys.exit(
            f"'{wrong[0]}' is neither a network of the zoo nor a file of {models_folder()}; those are: {', '.join(every)}"
        )
    return options.names


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.riscv_errors", description=__doc__.split("\n\n", maxsplit=1)[0]
    )
    parser.add_argument(
        "names", nargs="*", help="networks of the zoo, and files as paths in the folder of models"
    )
    parser.add_argument(
        "--full", action="store_true", help="those that take many minutes of emulation too"
    )
    options = parser.parse_args()
    print(
        "| network | " + " | ".join(TARGETS) + " | limit |\n|---|" + "--:|" * (len(TARGETS) + 1),
        flush=True,
    )
    failed = []
    for name in names_of(options):
        # Each cell as soon as it is known: of a network that takes too long, those are left that
        # were measured.
        print(f"| {name} |", end="", flush=True)
        right = True
        try:
            case = case_of(name)
            for error in (errors_of_large if name in LARGE else errors)(case):
                print(f" {error:.1e} |", end="", flush=True)
                right = right and error <= case.limit
            print(f" {case.limit:.0e} |", flush=True)
        except tc.UnsupportedError as error:
            print(f" no executable: {error} |", flush=True)
            right = False
        if not right:
            failed.append(name)
    return verdict(failed)


if __name__ == "__main__":
    sys.exit(main())
