"""The comparison on quantised files: the quantiser's file compiles, and steps that stand alone are
told."""

import onnx
from tc.native import compiler

from tests.bench import quantised


def test_a_quantised_network(capsys, monkeypatch):
    model = quantised.export("squeezenet1_1")
    kinds = {node.op_type for node in onnx.load(model).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds and model.with_suffix(
        ".ref.npz"
    ).exists()
    monkeypatch.setattr("sys.argv", ["quantised", "squeezenet1_1", "--standing"])
    assert quantised.main() == 0
    lines = capsys.readouterr().out.splitlines()
    # The image becomes integers in the order of the file, and the scores floats. Where 1,000 scores
    # are no whole blocks of channels, of 16 but with AVX2, they are reordered.
    steps = [
        "image_QuantizeLinear",
        "/0/0.0/Conv (reorder)",
        "/14/Flatten (reorder)",
        "scores_DequantizeLinear",
    ]
    if compiler.resolve_target("native")[0] == "x86-64-v3":
        steps.remove("/14/Flatten (reorder)")
    assert lines == [
        f"squeezenet1_1: {len(steps)} steps stand alone",
        *(f"  {step}" for step in steps),
    ]
