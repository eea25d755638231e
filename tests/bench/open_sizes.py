"""ONNX networks whose sizes stay open, at ten sizes each: right, and how fast beside the same file
compiled for each size.

    python -m tests.bench.open_sizes [NAME ...] [--rounds 9]

Three modules run by turns in one process, each one thread, and the fastest of its runs counts, as
the thread's time on the processor: the open one, the one of `tc.compile` as it is after its second
run at the size, and the one bound to the size. Errors are relative to the largest number of a
float64 evaluation by PyTorch; the detector's boxes have to be those that ONNX Runtime chooses of
the same cells.
"""

import argparse
import copy
import io
import json
import math
import time

import numpy
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper
from torch import nn

import tc
from tests import zoo
from tests.torch.open_sizes import fastest
from tests.zoo.models import NETWORKS


class Decoder(nn.Module):
    """A decoder of text with rotary positions and, for each layer, caches of keys and values:
    [batch, heads, past, width of a head]."""

    LAYERS, HEADS, HEAD, VOCABULARY = 4, 8, 64, 2000

    def __init__(self):
        super().__init__()
        width = self.HEADS * self.HEAD
        self.embedding = nn.Embedding(self.VOCABULARY, width)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "first": nn.LayerNorm(width),
                    "attention": nn.Linear(width, 3 * width),
                    "mixed": nn.Linear(width, width),
                    "second": nn.LayerNorm(width),
                    "wide": nn.Linear(width, 4 * width),
                    "narrow": nn.Linear(4 * width, width),
                }
            )
            for _ in range(self.LAYERS)
        )
        self.scores = nn.Linear(width, self.VOCABULARY)

    def turned(self, x, positions):
        """Each half of a head's numbers turned by its position (arXiv:2104.09864)."""
        half = self.HEAD // 2
        speeds = torch.exp(torch.arange(half).to(x.dtype) * (-math.log(10000.0) / half))
        angles = positions.to(x.dtype)[:, None] * speeds
        one, other = x[..., :half], x[..., half:]
        return torch.cat(
            [one * angles.cos() - other * angles.sin(), one * angles.sin() + other * angles.cos()],
            -1,
        )

    def forward(self, tokens, *caches):
        batch, new = tokens.shape
        past = caches[0].shape[2]
        positions = torch.arange(past + new)
        hidden = positions[None, :] > positions[past:, None]
        x, kept = self.embedding(tokens), []
        for layer, old_keys, old_values in zip(self.layers, caches[::2], caches[1::2]):
            heads = (
                layer["attention"](layer["first"](x))
                .view(batch, new, 3, self.HEADS, self.HEAD)
                .permute(2, 0, 3, 1, 4)
            )
            keys = torch.cat([old_keys, self.turned(heads[1], positions[past:])], 2)
            values = torch.cat([old_values, heads[2]], 2)
            kept += [keys, values]
            scores = (
                self.turned(heads[0], positions[past:])
                @ keys.transpose(2, 3)
                / math.sqrt(self.HEAD)
            )
            mixed = scores.masked_fill(hidden, -1e9).softmax(-1) @ values
            x = x + layer["mixed"](
                mixed.transpose(1, 2).reshape(batch, new, self.HEADS * self.HEAD)
            )
            x = x + layer["narrow"](nn.functional.gelu(layer["wide"](layer["second"](x))))
        return self.scores(x), *kept


def pictures(name, channels=3):
    def draw(random, batch, height, width):
        return {
            name: random.standard_normal((batch, channels, height, width)).astype(numpy.float32)
        }

    return draw


def texts(random, batch, length):
    return {
        "input_ids": random.integers(1000, 30522, (batch, length)),
        "attention_mask": numpy.ones((batch, length), numpy.int64),
    }


def spectra(random, frames):
    return {"input": random.standard_normal((1, frames, 161)).astype(numpy.float32)}


CACHES = [f"{kind}_{layer}" for layer in range(Decoder.LAYERS) for kind in ("keys", "values")]


def steps(random, batch, new, past):
    shape = batch, Decoder.HEADS, past, Decoder.HEAD
    return {
        "tokens": random.integers(0, Decoder.VOCABULARY, (batch, new)),
        **{name: random.standard_normal(shape).astype(numpy.float32) for name in CACHES},
    }


OF_PICTURES = {0: "batch", 2: "height", 3: "width"}
OF_TEXTS = {0: "batch", 1: "length"}
# How to draw the inputs, which axes are open, and the ten sizes.
NETWORKS_HERE = {
    "resnet50": (
        pictures("image"),
        {"image": OF_PICTURES},
        [
            (1, 224, 224),
            (1, 64, 64),
            (1, 160, 160),
            (1, 192, 256),
            (1, 223, 225),
            (2, 128, 128),
            (3, 97, 65),
            (4, 96, 96),
            (1, 320, 240),
            (2, 224, 224),
        ],
    ),
    "unet": (
        pictures("image"),
        {"image": OF_PICTURES},
        [
            (1, 64, 64),
            (1, 16, 16),
            (1, 32, 48),
            (1, 80, 80),
            (1, 96, 64),
            (1, 112, 112),
            (2, 64, 64),
            (3, 32, 32),
            (1, 128, 128),
            (1, 48, 144),
        ],
    ),
    "bert_base": (
        texts,
        {"input_ids": OF_TEXTS, "attention_mask": OF_TEXTS},
        [(1, 128), (1, 1), (1, 8), (1, 17), (1, 32), (1, 61), (1, 100), (2, 32), (2, 50), (4, 16)],
    ),
    "nsnet2": (
        spectra,
        {"input": {1: "frames"}},
        [(1,), (2,), (7,), (16,), (50,), (99,), (100,), (128,), (200,), (333,)],
    ),
    "detector": (
        pictures("image"),
        {"image": OF_PICTURES},
        [
            (1, 320, 320),
            (1, 64, 64),
            (1, 96, 160),
            (1, 128, 128),
            (1, 192, 256),
            (1, 256, 256),
            (2, 128, 128),
            (3, 64, 96),
            (1, 416, 416),
            (2, 224, 320),
        ],
    ),
    "decoder": (
        steps,
        {"tokens": OF_TEXTS, **{name: {0: "batch", 2: "past"} for name in CACHES}},
        [
            (1, 8, 0),
            (1, 1, 8),
            (1, 1, 9),
            (1, 1, 10),
            (1, 1, 64),
            (1, 1, 127),
            (1, 16, 16),
            (2, 1, 33),
            (2, 5, 0),
            (1, 1, 500),
        ],
    ),
}


def exported(module, inputs, outputs, axes):
    file = io.BytesIO()
    torch.onnx.export(
        module,
        tuple(map(torch.from_numpy, inputs.values())),
        file,
        dynamo=False,
        opset_version=zoo.models.OPSET,
        input_names=list(inputs),
        output_names=list(outputs),
        dynamic_axes=axes,
    )
    return onnx.load_from_string(file.getvalue())


def with_suppression(model):
    """The detector's cells, [batch, cells, box and scores], and what NonMaxSuppression chooses of
    them."""
    graph = model.graph
    constants = {"first": [0], "fourth": [4], "last": [2**31], "axis": [2], "most": [20]}
    graph.initializer.extend(
        helper.make_tensor(name, TensorProto.INT64, [1], value) for name, value in constants.items()
    )
    graph.initializer.append(helper.make_tensor("overlap", TensorProto.FLOAT, [1], [0.5]))
    graph.initializer.append(helper.make_tensor("least", TensorProto.FLOAT, [1], [0.6]))
    graph.node.extend(
        [
            helper.make_node("Slice", ["cells", "first", "fourth", "axis"], ["boxes"]),
            helper.make_node("Slice", ["cells", "fourth", "last", "axis"], ["by_cell"]),
            helper.make_node("Transpose", ["by_cell"], ["by_class"], perm=[0, 2, 1]),
            helper.make_node(
                "NonMaxSuppression",
                ["boxes", "by_class", "most", "overlap", "least"],
                ["chosen"],
                center_point_box=1,
            ),
        ]
    )
    graph.output.append(
        helper.make_tensor_value_info("chosen", TensorProto.INT64, ["boxes_chosen", 3])
    )
    return model


def suppression_alone():
    """The detector's last part, of cells that are given."""
    cells = helper.make_tensor_value_info("cells", TensorProto.FLOAT, ["batch", "count", 84])
    graph = helper.make_graph([], "suppression", [cells], [])
    return with_suppression(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", zoo.models.OPSET)], ir_version=8
        )
    )


def made(name):
    """(module, model, names of the outputs) with seeded weights."""
    draw, axes, sizes = NETWORKS_HERE[name]
    example = draw(numpy.random.default_rng(1), *sizes[-1])
    if name == "decoder":
        torch.manual_seed(0)
        module, outputs = Decoder().eval(), ("scores", *(f"new_{name}" for name in CACHES))
    elif name == "detector":
        module, outputs = zoo.build("yolov6n"), ("cells",)
    else:
        module, outputs = zoo.build(name), NETWORKS[name].outputs
    model = exported(module, example, outputs, axes)
    return module, with_suppression(model) if name == "detector" else model, outputs


def reference(module, inputs):
    """Arrays in float64."""
    with torch.no_grad():
        results = module(
            *[
                each.double() if each.is_floating_point() else each
                for each in map(torch.from_numpy, inputs.values())
            ]
        )
    return [each.numpy() for each in (results if isinstance(results, tuple) else (results,))]


def rows(name, rounds):
    module, model, outputs = made(name)
    double = copy.deepcopy(module).double()
    session = None
    if name == "detector":
        session = onnxruntime.InferenceSession(
            suppression_alone().SerializeToString(), providers=["CPUExecutionProvider"]
        )
    draw, _, sizes = NETWORKS_HERE[name]
    opened = tc.compile(model, threads=1, log=False, specialise=0)
    versions = tc.compile(model, threads=1, log=False)
    for size in sizes:
        inputs = draw(numpy.random.default_rng([7, *size]), *size)
        bound = tc.compile(
            model, shapes={key: value.shape for key, value in inputs.items()}, threads=1, log=False
        )
        versions.run(inputs)
        expected, error = dict(zip(outputs, reference(double, inputs))), 0.0
        for each in (opened, versions, bound):
            found = each.run(inputs)
            error = max(
                [error]
                + [zoo.distance(found[key], value) for key, value in expected.items() if value.size]
            )
        row = {"network": name, "size": size, "error": float(f"{error:.2g}")}
        if session:
            row["same boxes"] = bool(
                numpy.array_equal(
                    found["chosen"], session.run(["chosen"], {"cells": found["cells"]})[0]
                )
            )
            row["boxes"] = len(found["chosen"])
        times = fastest(
            [(module.run, inputs) for module in (opened, versions, bound)], rounds, time.thread_time
        )
        row |= {
            "bound ms": round(1e3 * times[2], 3),
            "open / bound": round(times[0] / times[2], 3),
            "specialised / bound": round(times[1] / times[2], 3),
        }
        yield row


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", choices=[*NETWORKS_HERE, []], help="default: all")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for name in arguments.names or NETWORKS_HERE:
        for row in rows(name, arguments.rounds):
            print(json.dumps(row), flush=True)
            found.append(row)
    print(
        json.dumps(
            {
                "rows": len(found),
                "worst error": max(row["error"] for row in found),
                "worst open / bound": max(row["open / bound"] for row in found),
                "worst specialised / bound": max(row["specialised / bound"] for row in found),
            }
        )
    )


if __name__ == "__main__":
    main()
