"""Artefacts of every kind for aarch64 on emulated cores: what they compute, and what they ask of a
core."""

import pathlib
import subprocess

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc

from .. import zoo
from ..support import ROOT, emulate_aarch64, output_file, run_on_aarch64, worst_error

CLANG = [
    "/usr/lib/llvm-19/bin/clang",
    "--target=aarch64-linux-gnu",
    "-fuse-ld=/usr/lib/llvm-19/bin/ld.lld",
    f"-I{ROOT}",
]
LIBRARIES = "/usr/aarch64-linux-gnu"
FEATURES, CHANNELS = 1200, 400

LINKED = """
#include <stdio.h>
#include "runtime/tc_runtime.h"
#include "layer.h"
int main(void) {
  tc_model* model;
  if (tc_model_open_linked(&layer_descriptor, &model) != TC_OK) return fprintf(stderr, "%s", tc_last_error()), 1;
  printf("%d input, %d output\\n", (int)tc_model_input_count(model), (int)tc_model_output_count(model));
  return 0;
}
"""


def layer(folder):
    """A model of one layer, Y = relu(X W + B), and what it computes of seeded X."""
    random = numpy.random.default_rng(1)
    weights = random.standard_normal((CHANNELS, FEATURES)).astype(numpy.float32)
    bias = random.standard_normal(FEATURES).astype(numpy.float32)
    nodes = [
        helper.make_node("Gemm", ["X", "W", "B"], ["S"]),
        helper.make_node("Relu", ["S"], ["Y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, ["rows", CHANNELS])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["rows", FEATURES])],
        [numpy_helper.from_array(weights, "W"), numpy_helper.from_array(bias, "B")],
    )
    path = folder / "layer.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )

    def expected(inputs):
        return numpy.maximum(inputs.astype(numpy.float64) @ weights + bias, 0)

    return path, expected


# Target, core, rows, tolerance, and what the tolerance makes of the products.
@pytest.mark.parametrize(
    "target, core, rows, tolerance, algorithm",
    [
        ("aarch64", "cortex-a57", 1, 1e-4, ""),
        ("aarch64+dotprod", "neoverse-n1", 1, 1e-4, "int8x6"),
        ("cortex-a53", "cortex-a53", 64, 1e-4, ""),
        ("aarch64@cortex-a55", "cortex-a57", 64, 1e-4, ""),
        ("cortex-a55", "neoverse-n1", 1, 1e-4, "int8x6"),
        ("neoverse-n1", "neoverse-n1", 1, 1e-4, "int8x6"),
        ("aarch64+i8mm", "max", 1, 1e-4, "int8x6"),
        ("aarch64+i8mm", "max", 64, 1e-2, "int8x3"),
        ("aarch64+bf16,+i8mm", "max", 64, 0.2, "bf16"),
    ],
)
def test_layers_by_instructions(target, core, rows, tolerance, algorithm, tmp_path):
    path, expected = layer(tmp_path)
    inputs = numpy.random.default_rng(2).standard_normal((rows, CHANNELS)).astype(numpy.float32)
    module = tc.compile(str(path), target=target, tolerance=tolerance, shapes={"X": inputs.shape})
    used = [
        line.split()[2]
        for report in module.kernels
        for line in report["trace"]
        if line.startswith("algorithm ")
    ]
    assert used == ([algorithm] if algorithm else [])
    executable = tmp_path / "layer"
    module.export(str(executable), kind="executable")
    outputs = run_on_aarch64(executable, {"X": inputs}, tmp_path, core)
    assert worst_error(outputs[output_file("Y")], expected(inputs)) <= tolerance / 2


def test_says_what_a_core_lacks(tmp_path):
    path, _ = layer(tmp_path)
    executable = tmp_path / "layer"
    tc.compile(str(path), target="aarch64+dotprod", shapes={"X": (1, CHANNELS)}).export(
        str(executable), kind="executable"
    )
    numpy.save(tmp_path / "x.npy", numpy.zeros((1, CHANNELS), numpy.float32))
    arguments = ["--input", f"X={tmp_path / 'x.npy'}", "--output-dir", tmp_path]
    assert emulate_aarch64(executable, arguments, "neoverse-n1").returncode == 0
    done = emulate_aarch64(executable, arguments, "cortex-a57")
    assert done.returncode == 3
    assert "dotprod" in done.stderr.decode() and "lacks" in done.stderr.decode()


def test_static_and_shared_libraries(tmp_path):
    """A C program for aarch64 opens a shared artefact, and another is linked with a static one."""
    path, _ = layer(tmp_path)
    module = tc.compile(str(path), target="aarch64", shapes={"X": (2, CHANNELS)})
    module.export(str(tmp_path / "layer.so"))
    module.export(str(tmp_path / "layer.a"), kind="static")
    runtime = pathlib.Path(tc.__file__).parent / "lib" / "aarch64" / "libtc_runtime.a"
    source = ROOT / "tests" / "runtime" / "run_model.c"
    subprocess.run(
        [*CLANG, source, runtime, "-lpthread", "-ldl", "-lm", "-o", tmp_path / "dynamic"],
        check=True,
    )
    done = emulate_aarch64(
        tmp_path / "dynamic", [tmp_path / "layer.so", "--repeat", "1"], libraries=LIBRARIES
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"{")
    (tmp_path / "main.c").write_text(LINKED)
    subprocess.run(
        [
            *CLANG,
            "-static",
            f"-I{ROOT}/runtime",
            tmp_path / "main.c",
            tmp_path / "layer.a",
            "-lpthread",
            "-lm",
            "-o",
            tmp_path / "linked",
        ],
        check=True,
    )
    done = emulate_aarch64(tmp_path / "linked", [], "cortex-a57")
    assert (done.returncode, done.stdout) == (0, b"1 input, 1 output\n"), done.stderr.decode()


@pytest.mark.parametrize(
    "name",
    [
        "squeezenet1_1",
        pytest.param("mobilenet_v2", marks=pytest.mark.full),
        pytest.param("tinybert", marks=pytest.mark.full),
    ],
)
def test_networks(name, tmp_path):
    inputs, expected = zoo.reference(name)
    executable = tmp_path / name
    tc.compile(
        str(zoo.export(name)),
        target="aarch64",
        shapes={key: array.shape for key, array in inputs.items()},
    ).export(str(executable), kind="executable")
    outputs = run_on_aarch64(executable, inputs, tmp_path, "cortex-a57")
    for key, array in expected.items():
        assert worst_error(outputs[output_file(key)], array) <= 1e-4
