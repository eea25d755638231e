"""What the compiler says of models that it cannot take, in full: tests/golden/model_errors.txt
lists the cases below with their error; TC_UPDATE rewrites it."""

import json
import os
import re

import numpy
import onnx
import onnx.parser
import pytest

import tc
from tc.arguments import Options, options_of
from tc.cli import main
from tc.native import compiler
from tc.sources import source_of
from tc.versions import VersionedModule

from ..support import ROOT
from .model_error_cases import EXTERNAL, EXTERNAL_FILES, FILES, MODELS, text_model, with_tensor

GOLDEN = "tests/golden/model_errors.txt"


def refusal(model, shapes=None):
    """What the compiler says; of models whose structure depends on values, without a version for
    any."""
    try:
        module = tc.compile(model, shapes=shapes)
        if isinstance(module, VersionedModule):
            compiler.compile(source_of(model), options_of(Options(shapes=shapes)))
    except tc.Error as error:
        return f"{type(error).__name__}: {error}"
    return "ACCEPTED"


def external_errors(folder):
    inside = folder / "model"
    (inside / "inside").mkdir(parents=True)
    (folder / "secret.bin").write_bytes(bytes(8))
    (inside / "short.bin").write_bytes(bytes(6))
    os.symlink(folder / "secret.bin", inside / "link.bin")
    os.link(folder / "secret.bin", inside / "hard.bin")
    for name, location in EXTERNAL_FILES.items():
        path = inside / "external.onnx"
        path.write_bytes(
            with_tensor(data_type=1, dims=[2], external={**EXTERNAL, "location": location})
        )
        yield name, refusal(str(path))


def test_every_error_is_as_written(tmp_path):
    lines = []
    for signature, body, *rest in MODELS:
        constants, opset, shapes = (*rest, *("", 17, None)[len(rest) :])
        name = (
            f"({signature}) {body}"
            + (f" where {constants}" if constants else "")
            + (f" opset {opset}" if opset != 17 else "")
            + (f" shapes {shapes}" if shapes else "")
        )
        try:
            model = text_model(signature, body, constants, opset)
        except Exception as error:
            pytest.fail(f"{name}: {error}")
        lines.append(f"{name}\n  {refusal(model, shapes)}")
    for name, data in FILES.items():
        lines.append(f"{name}\n  {refusal(data)}")
    for name, error in external_errors(tmp_path):
        lines.append(f"external data: {name}\n  {error}")
    text = "\n".join(lines) + "\n"
    if "TC_UPDATE" in os.environ:
        (ROOT / GOLDEN).write_text(text)
    assert "ACCEPTED" not in text
    assert (ROOT / GOLDEN).read_text() == text


def test_tensors_that_no_machine_holds():
    def refused(signature, body, constants=""):
        with pytest.raises(tc.UnsupportedError) as caught:
            tc.compile(text_model(signature, body, constants))
        return str(caught.value)

    told = (
        r", but a model may use \d+ at most; check the sizes that the model is given, or give it more by max_ram "
        r"\(default: half of this machine's memory\)$"
    )
    assert re.search(
        r"^node 'y' \(Expand, opset 17\) of model.onnx: tensor 'y' of shape \[137438953472\] takes 549755813888 bytes"
        + told,
        refused("float[1] x", "y = Expand(x, s)", "int64[1] s = {137438953472}"),
    )
    assert re.search(
        r"^node 'y' \(Pad, opset 17\) of model.onnx: tensor 'y' of shape \[1, 274877906947\] takes 1099511627788 bytes"
        + told,
        refused("float[1,3] x", "y = Pad(x, p)", "int64[4] p = {0, 274877906944, 0, 0}"),
    )
    assert re.search(
        r"^input 'x': tensor 'x' of shape \[137438953472\] takes 549755813888 bytes" + told,
        refused("float[137438953472] x", "y = Relu(x)"),
    )


@pytest.mark.parametrize(
    "bad", [b"\xff\xfeQ\x80", b"Q\xc0\x80Q", b"\xed\xa0\x80Q", b"\xf5QQQ", b"QQQ\xc3"]
)
@pytest.mark.parametrize(
    "signature, body",
    [
        ("float[2] QQQQ", "y = Relu(QQQQ)"),
        ("float[2] x", "QQQQ = Relu(x) y = Relu(QQQQ)"),
        ("float[2] x", "y = Add(x, QQQQ)"),
        ("float[2] x", "[QQQQ] y = Relu(x)"),
    ],
)
def test_names_that_are_not_utf8(signature, body, bad):
    model = text_model(signature, body, "float[2] QQQQ = {1, 2}" if "Add" in body else "")
    with pytest.raises(
        tc.ModelError,
        match="^'model.onnx' has the name '.*', which is not UTF-8; rename it, or export the model again$",
    ):
        tc.compile(model.replace(b"QQQQ", bad))
    tc.compile(model.replace(b"QQQQ", "Qéß"[:2].encode() + b"Q"), target="x86-64-v3")


def test_files_that_are_no_models_or_artefacts(tmp_path):
    large = tmp_path / "large.onnx"
    large.touch()
    os.truncate(large, 1 << 34)
    with pytest.raises(
        tc.ModelError, match=r"a model file has at most \d+ \(keep weights in external data files\)"
    ):
        tc.compile(str(large))
    big_endian = tmp_path / "big.so"
    big_endian.write_bytes(b"\x7fELF\x02\x02\x01" + bytes(57))
    with pytest.raises(tc.Error, match="built for a big-endian machine; this machine is"):
        tc.load(str(big_endian))
    other = tc.compile(text_model("float[2] x", "y = Relu(x)"), target="rv64gcv")
    with pytest.raises(tc.TargetError, match=r"\) and run it on a machine of that target"):
        other(numpy.zeros(2, numpy.float32))


def test_kernels_that_inspect_cannot_show(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(
        text_model(
            "float[1,2,8,8] x, float[2,2,3,3] w, float[4,2,1,1] v",
            "conv_a = Conv(x, w) conv_b = Conv(conv_a, v) y = Neg(conv_b)",
        )
    )

    def answer(*arguments):
        assert main(["inspect", str(path), "--target=x86-64-v3", *arguments]) == 1
        return capsys.readouterr().err

    assert "no kernel is called 'gemm'; the kernels are " in answer("--kernel=gemm")
    assert "several kernels fit 'conv': " in answer("--kernel=conv")
    said = answer("--kernel=0", "--dump=poem")
    assert "--dump=poem: a kernel's texts are statements, default, trace, " in said
    assert (
        ", or all; and its code behind a pass: lower_maximum_chains, expand_rounding, sink_extensions, "
        in said
    )


def test_inspect_heeds_the_tolerance(tmp_path, capsys):
    weights = numpy.random.default_rng(1).standard_normal((64, 64, 3, 3)).astype(numpy.float32)
    graph = onnx.parser.parse_graph(
        "g (float[1,64,28,28] x) => (float[1,64,28,28] y) { a = Conv<pads=[1,1,1,1]>(x, w) y = Conv<pads=[1,1,1,1]>(a, w) }"
    )
    graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    algorithms = []
    for tolerance in ("0", "1e-4"):
        assert (
            main(
                [
                    "inspect",
                    str(path),
                    "--target=x86-64-v4",
                    "--threads=1",
                    "--kernel=1",
                    "--dump=trace",
                    "--no-time",
                    f"--tolerance={tolerance}",
                ]
            )
            == 0
        )
        algorithms.append("algorithm macc winograd" in capsys.readouterr().out)
    assert algorithms == [False, True]


def test_inspect_shows_why_the_default_took_a_strategy(tmp_path, capsys):
    weights = numpy.random.default_rng(1).standard_normal((64, 64, 3, 3)).astype(numpy.float32)
    graph = onnx.parser.parse_graph(
        "g (float[1,64,28,28] x) => (float[1,64,28,28] y) { a = Conv<pads=[1,1,1,1]>(x, w) y = Conv<pads=[1,1,1,1]>(a, w) }"
    )
    graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.helper.make_model(graph).SerializeToString())
    for tolerance, taken, refusal in (
        ("0", "direct convolution", "Winograd: a tolerance of 0 allows no other algorithm"),
        ("1e-4", "Winograd", "direct convolution: Winograd gains"),
    ):
        assert (
            main(
                [
                    "inspect",
                    str(path),
                    "--target=x86-64-v3",
                    "--threads=1",
                    "--kernel=1",
                    "--dump=default",
                    f"--tolerance={tolerance}",
                ]
            )
            == 0
        )
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].endswith(f" for x86-64-v3, 1 thread, tolerance {float(tolerance):g}")
        assert (
            lines[2]
            == "-- default (the strategies that scheduler/default/strategy.cc weighs, with predicted cycles)"
        )
        assert [line[2:].startswith(taken) for line in lines if line.startswith("* ")] == [True]
        name, reason = refusal.split(": ")
        assert [reason in line for line in lines if line.startswith("  " + name)] == [True]
        assert sum("no: " in line for line in lines) == len(lines) - 4
    assert (
        main(["inspect", "--json", str(path), "--target=x86-64-v3", "--kernel=1", "--dump=default"])
        == 0
    )
    rows = json.loads(capsys.readouterr().out)["strategies"]
    assert [row["strategy"] for row in rows if row["taken"]] == ["Winograd"]
