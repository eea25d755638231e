"""Builds the zoo's modules, writes their ONNX files and float64 references, and compares."""

import contextlib
import copy
import functools
import hashlib
import io
import logging
import os
import tempfile
import warnings
import zlib
from pathlib import Path

import numpy
import onnx
import torch

from . import weights
from .networks import NETWORKS

OPSET = 17


def example(name: str, seed: int = 0) -> dict[str, numpy.ndarray]:
    """Draws the network's example input number `seed`; number 0 is the reference's."""
    return NETWORKS[name].inputs(numpy.random.default_rng([zlib.crc32(name.encode()), seed]))


def shapes(name: str) -> dict[str, tuple[int, ...]]:
    """The shapes of the network's example inputs, as `tc.compile` and `tc.tune` take them."""
    return {key: value.shape for key, value in example(name).items()}


def build(name: str) -> torch.nn.Module:
    """Makes the network with its seeded weights, in eval mode."""
    network = NETWORKS[name]
    if network.base:
        return network.make(build(network.base)).eval()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(zlib.crc32(name.encode()))
        module = network.make().eval()
        weights.initialise(module)
        draws = [example(name, 1 + number) for number in range(2 if network.large else 6)]
        batch = [
            torch.from_numpy(numpy.concatenate([draw[key] for draw in draws])) for key in draws[0]
        ]
        weights.settle(module, batch)
    return module


def export(name: str, folder: str | os.PathLike | None = None) -> Path:
    """Writes `folder`/NAME.onnx and, beside it, NAME.ref.npz, unless they are there already.

    The default folder is the cache: $TC_ZOO_CACHE, or build/zoo in the repository, and in it one
    folder for each state of the zoo's sources and version of torch.
    """
    folder = cache_folder() if folder is None else Path(folder)
    model, outputs = folder / f"{name}.onnx", folder / f"{name}.ref.npz"
    if not (model.exists() and outputs.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        module = build(name)
        _write(model, functools.partial(_export_onnx, name, module))
        _write(outputs, functools.partial(_save_reference, name, module))
    return model


def reference(name: str, folder: str | os.PathLike | None = None) -> tuple[dict, dict]:
    """The example inputs and PyTorch's float64 outputs, each a dictionary of arrays by name."""
    with numpy.load(export(name, folder).with_suffix(".ref.npz")) as file:
        inputs = {key[4:]: file[key] for key in file if key.startswith("in__")}
        outputs = {key[5:]: file[key] for key in file if key.startswith("out__")}
    return inputs, outputs


def evaluate(module: torch.nn.Module, name: str, inputs: dict) -> dict[str, numpy.ndarray]:
    """Runs the module, in float64, on arrays by name."""
    double = copy.deepcopy(module).double()
    tensors = [torch.from_numpy(numpy.asarray(array)) for array in inputs.values()]
    with torch.no_grad():
        results = double(*[t.double() if t.is_floating_point() else t for t in tensors])
    results = results if isinstance(results, tuple) else (results,)
    return {key: result.numpy() for key, result in zip(NETWORKS[name].outputs, results)}


def outline(name: str) -> onnx.ModelProto:
    """The exported graph without weights, quick to make: for counting, not for running."""
    file = io.BytesIO()
    _export_onnx(name, _raw(name).eval(), file, export_params=False)
    return onnx.load_from_string(file.getvalue())


def parameters(name: str) -> int:
    """How many trainable numbers the network has; buffers are not counted."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in _raw(name).parameters())


def distance(actual: numpy.ndarray, expected: numpy.ndarray) -> float:
    """The worst error as a share of the largest expected magnitude; infinite for a NaN."""
    worst = numpy.abs(numpy.asarray(actual, numpy.float64) - expected).max()
    return float(worst / numpy.abs(expected).max()) if numpy.isfinite(worst) else float("inf")


def agrees(actual: numpy.ndarray, expected: numpy.ndarray) -> bool:
    """Whether an output passes for the reference: both of the project's bounds hold."""
    largest = numpy.abs(expected).max()
    return (
        actual.shape == expected.shape
        and distance(actual, expected) <= 1e-4
        and bool(numpy.allclose(actual, expected, rtol=1e-3, atol=1e-3 * largest))
    )


@functools.cache
def cache_folder() -> Path:
    """The cache's folder for this state of the zoo's sources and this version of torch."""
    here = Path(__file__).parent
    digest = hashlib.sha256(torch.__version__.encode())
    for source in sorted(here.glob("*.py")):
        if not source.name.startswith(("test_", "__main__")):
            digest.update(source.name.encode() + source.read_bytes())
    root = os.environ.get("TC_ZOO_CACHE") or here.parents[1] / "build" / "zoo"
    return Path(root) / digest.hexdigest()[:16]


def _raw(name: str) -> torch.nn.Module:
    network = NETWORKS[name]
    return network.make(_raw(network.base)) if network.base else network.make()


def _write(path: Path, save) -> None:
    """Lets `save` fill a file beside `path`, then renames it: no half-written file is ever seen."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    os.close(handle)
    try:
        with open(temporary, "wb") as file:
            save(file)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _save_reference(name: str, module: torch.nn.Module, file) -> None:
    inputs = example(name)
    outputs = evaluate(module, name, inputs)
    numpy.savez(
        file,
        **{f"in__{key}": array for key, array in inputs.items()},
        **{f"out__{key}": array for key, array in outputs.items()},
    )


def _export_onnx(name: str, module: torch.nn.Module, file, export_params: bool = True) -> None:
    network = NETWORKS[name]
    inputs = example(name)
    keep = network.keep_batch_norm
    mode = torch.onnx.TrainingMode.PRESERVE if keep else torch.onnx.TrainingMode.EVAL
    with warnings.catch_warnings(), _quiet():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            tuple(map(torch.from_numpy, inputs.values())),
            file,
            dynamo=False,
            opset_version=OPSET,
            training=mode,
            do_constant_folding=True,
            export_params=export_params,
            input_names=list(inputs),
            output_names=list(network.outputs),
            dynamic_axes=network.symbolic,
        )


@contextlib.contextmanager
def _quiet():
    """Keeps the exporter's remarks on the deprecated path out of the output."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
