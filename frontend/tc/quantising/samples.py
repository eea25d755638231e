"""The samples on which ranges are measured: inputs of the network, checked before anything is
measured."""

import numpy as np

from ..errors import ModelError, ShapeError

LEAST = 2
MUCH = "give some hundred of the inputs that the network will see"


def _declared(value):
    return [
        dim.dim_value if dim.HasField("dim_value") else None
        for dim in value.type.tensor_type.shape.dim
    ]


def _divided(array, batch):
    """Divides an array of many samples into batches of the size that the network takes."""
    count = batch or 1
    return [array[at : at + count] for at in range(0, len(array) - count + 1, count)]


def samples_of(network, data):
    """A list of {input: array}, all of them finite and of the network's types."""
    from onnx import helper

    inputs = {each.name: each for each in network.inputs}
    if data is None or isinstance(data, (str, bytes)) or not hasattr(data, "__iter__"):
        raise ShapeError(
            f"data is {type(data).__name__}; quantize takes an array of samples, or a list of arrays, tuples or dicts {{input: array}}"
        )
    if isinstance(data, dict):
        data = [data]
    if isinstance(data, np.ndarray):
        if len(inputs) != 1:
            raise ShapeError(
                f"data is one array, but {network.name} has {len(inputs)} inputs ({', '.join(inputs)}); give dicts {{input: array}}"
            )
        first = _declared(network.inputs[0])
        data = (
            _divided(data, first[0])
            if data.ndim == len(first) and data.size
            else list(data)
            if data.size
            else []
        )
    samples = []
    for number, each in enumerate(data):
        if not isinstance(each, dict):
            arrays = each if isinstance(each, (list, tuple)) else [each]
            if len(arrays) != len(inputs):
                raise ShapeError(
                    f"sample {number} has {len(arrays)} arrays; {network.name} takes {len(inputs)}: {', '.join(inputs)}"
                )
            each = dict(zip(inputs, arrays))
        sample = {}
        for name, value in inputs.items():
            if name not in each:
                raise ShapeError(f"sample {number} lacks input '{name}' of {network.name}")
            wanted = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            array = np.asarray(each[name])
            if array.dtype.kind not in "biuf" or array.dtype.kind == "f" and wanted.kind != "f":
                raise ShapeError(
                    f"sample {number}: input '{name}' is {array.dtype}; {network.name} takes {wanted}"
                )
            if array.dtype.kind != "f" and wanted.kind == "f":
                raise ShapeError(
                    f"sample {number}: input '{name}' is {array.dtype}; {network.name} takes {wanted}: give what the network is run on "
                    "(bytes of images scaled and shifted as before a run), since ranges are measured on the numbers as they are"
                )
            sizes = _declared(value)
            if array.ndim != len(sizes) or any(
                size not in (None, have) for size, have in zip(sizes, array.shape)
            ):
                shape = ", ".join("?" if size is None else str(size) for size in sizes)
                raise ShapeError(
                    f"sample {number}: input '{name}' has shape {list(array.shape)}; {network.name} takes [{shape}]"
                )
            sample[name] = np.ascontiguousarray(array, wanted)
            bad = ~np.isfinite(sample[name]) if wanted.kind == "f" else np.zeros(1, bool)
            if bad.any():
                raise ModelError(
                    f"sample {number}: input '{name}' holds NaN or infinite numbers, {int(bad.sum())} of {array.size}; "
                    "ranges cannot be measured on it: leave the sample out"
                )
        samples.append(sample)
    _check_enough(network, samples)
    return samples


def _check_enough(network, samples):
    if not samples:
        raise ModelError(f"data holds no samples; {MUCH}")
    counted = sum(
        max((array.shape[0] for array in sample.values() if array.ndim), default=1)
        for sample in samples
    )
    if counted < LEAST:
        raise ModelError(f"data holds one sample, from which no ranges follow; {MUCH}")
    for name, first in samples[0].items():
        if first.dtype.kind != "f" or first.size == 0:
            continue
        number = first.reshape(-1)[0]
        if all((sample[name] == number).all() for sample in samples):
            raise ModelError(
                f"input '{name}' of {network.name} is {number:g} everywhere in all samples, from which no ranges follow; {MUCH}"
            )
