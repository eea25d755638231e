"""tc.quantize: a network trained here for some seconds keeps its accuracy in integers, and data
that no range follows from ends in a sentence."""

import json
import subprocess
import sys

import numpy
import onnx
import onnx.parser
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import tc
from tc.cli import main
from tc.quantising import prepare
from tc.quantising.network import Network
from tc.quantising.ranges import Range, numbers_of

CLASSES, SIZE = 10, 12


def pictures(count, seed):
    """Classes are patterns; pictures have them moved, scaled and under noise."""
    patterns = numpy.random.default_rng(1).standard_normal((CLASSES, 1, SIZE, SIZE))
    random = numpy.random.default_rng(seed)
    labels = random.integers(0, CLASSES, count)
    moved = numpy.stack(
        [numpy.roll(patterns[label], tuple(random.integers(-1, 2, 2)), (1, 2)) for label in labels]
    )
    noisy = (
        moved * random.uniform(0.5, 1.5, (count, 1, 1, 1))
        + random.standard_normal((count, 1, SIZE, SIZE)) * 0.6
    )
    return noisy.astype(numpy.float32), labels


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layer = torch.nn.Conv2d
        self.first, self.norm = layer(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16)
        self.deep, self.point = layer(16, 16, 3, padding=1, groups=16), layer(16, 32, 1)
        self.inner, self.residual = layer(32, 32, 3, padding=1), torch.nn.BatchNorm2d(32)
        self.last = torch.nn.Linear(32 * 9, CLASSES)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.point(torch.relu(self.deep(x))))
        x = torch.nn.functional.max_pool2d(x, 2)
        x = torch.relu(self.residual(self.inner(x)) + x)
        return self.last(torch.nn.functional.max_pool2d(x, 2).flatten(1))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(the file of the trained network, pictures and labels that it has not seen)."""
    torch.manual_seed(3)
    torch.set_num_threads(1)
    network = Classifier()
    x, labels = pictures(3000, 5)
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    for _ in range(5):
        for at in range(0, len(x), 100):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(
                network(torch.from_numpy(x[at : at + 100])), torch.from_numpy(labels[at : at + 100])
            )
            loss.backward()
            optimizer.step()
    # Channels whose ranges are far apart, as trained networks for phones have them; the next
    # layer's weights undo it.
    with torch.no_grad():
        factor = torch.from_numpy(numpy.geomspace(0.05, 20, 16).astype(numpy.float32))
        network.deep.weight *= factor[:, None, None, None]
        network.deep.bias *= factor
        network.point.weight /= factor[None, :, None, None]
    path = tmp_path_factory.mktemp("trained") / "classifier.onnx"
    network.eval()
    torch.onnx.export(
        network,
        (torch.zeros(50, 1, SIZE, SIZE),),
        str(path),
        input_names=["x"],
        output_names=["y"],
        opset_version=17,
        dynamo=False,
    )
    return path, *pictures(2000, 7)


def accuracy(model, x, labels):
    module = tc.compile(model, threads=1)
    return numpy.mean(
        numpy.concatenate([module(x[at : at + 50]) for at in range(0, len(x), 50)]).argmax(1)
        == labels
    )


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
def test_accuracy_of_integers(trained, method):
    path, x, labels = trained
    floats = accuracy(str(path), x, labels)
    assert floats >= 0.95
    found = tc.quantize(str(path), pictures(500, 9)[0], method=method, progress=False)
    onnx.checker.check_model(onnx.load_model_from_string(found.model))
    assert all(layer.integers for layer in found.layers) and len(found.layers) == 5
    assert accuracy(found.model, x, labels) >= floats - 0.01
    assert found.agreement > 0.98 and found.cosine > 0.9


def test_mixed_precision(trained):
    path, x, labels = trained
    floats, data = accuracy(str(path), x, labels), pictures(500, 9)[0]
    told = []
    found = tc.quantize(str(path), data, most_error=0.01, progress=told.append)
    assert (
        found.error <= 0.01
        and any(layer.integers for layer in found.layers)
        and not all(layer.integers for layer in found.layers)
    )
    assert accuracy(found.model, x, labels) >= floats - 0.003
    # The most sensitive come first, and are those that stay floats.
    errors = [layer.error for layer in found.layers]
    assert errors == sorted(errors, reverse=True)
    stay = [not layer.integers for layer in found.layers]
    assert stay == sorted(stay, reverse=True)
    assert [layer.why for layer in found.layers if not layer.integers] == [
        "the error would be over 0.01"
    ] * sum(stay)
    last = {"phase": "layers", "done": 5, "total": 5}
    assert any(last.items() <= each.items() and each["seconds"] >= 0 for each in told)
    one = tc.quantize(str(path), data, floats=[found.layers[0].node], progress=False)
    assert [layer.why for layer in one.layers if not layer.integers] == ["as asked for"]
    assert f"4 of 5 layers are integers; on {one.samples} samples the error is" in str(one)


def test_equalisation_and_corrected_biases_help_one_scale_for_all_channels(trained):
    path, _, _ = trained
    data = pictures(500, 9)[0]
    plain, better = (
        tc.quantize(
            str(path), data, per_channel=False, equalise=on, correct_bias=on, progress=False
        ).error
        for on in (False, True)
    )
    assert better < plain


def test_equalisation_leaves_the_function(trained):
    path, x, _ = trained
    network = Network(str(path))
    prepare.fold_normalisations(network)
    assert not any(node.op_type == "BatchNormalization" for node in network.nodes)
    assert prepare.equalise(network) >= 2
    y, expected = (
        tc.compile(network.data(), threads=1)(x[:50]),
        tc.compile(str(path), threads=1)(x[:50]),
    )
    assert numpy.abs(y - expected).max() < 1e-4 * numpy.abs(expected).max()


def test_the_command(trained, tmp_path, capsys):
    path, _, _ = trained
    numpy.save(tmp_path / "data.npy", pictures(100, 9)[0])
    output = tmp_path / "made.onnx"
    assert (
        main(
            [
                "quantize",
                str(path),
                "--data",
                str(tmp_path / "data.npy"),
                "-o",
                str(output),
                "--sensitivity",
                "--json",
            ]
        )
        == 0
    )
    row = json.loads(capsys.readouterr().out)
    assert (
        row["file"] == str(output)
        and row["bytes"] == output.stat().st_size
        and len(row["layers"]) == 5
    )
    numpy.savez(tmp_path / "data.npz", x=pictures(100, 9)[0])
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(2):
        numpy.save(folder / f"{number}.npy", pictures(50, number)[0])
    assert main(["quantize", str(path), "--data", str(folder), "-o", str(output)]) == 0
    assert f"wrote {output}" in capsys.readouterr().out
    numpy.savez(tmp_path / "uneven.npz", x=numpy.zeros(3), y=numpy.zeros(2))
    for name, said in (
        ("uneven.npz", "has arrays of 2, 3 samples; all need as many"),
        ("none.npy", "cannot be read: "),
    ):
        assert main(["quantize", str(path), "--data", str(tmp_path / name)]) == 1
        assert said in capsys.readouterr().err


# --- what ends in a sentence ---


def small(opset=17, body="y = Gemm(x, w)", types="float[N,3] x"):
    w = numpy_helper.from_array(numpy.arange(12, dtype=numpy.float32).reshape(3, 4), "w")
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g ({types}) => (float[N,4] y) {{ {body} }}'
    )
    model.graph.initializer.append(w)
    return model


GOOD = numpy.random.default_rng(1).standard_normal((8, 3)).astype(numpy.float32)
MUCH = "give some hundred of the inputs that the network will see"
BAD = GOOD.copy()
BAD[5, 1] = numpy.nan
REFUSED = {
    "NaN": (
        BAD,
        {},
        "sample 5: input 'x' holds NaN or infinite numbers, 1 of 3; ranges cannot be measured on it: leave the sample out",
    ),
    "infinite": (
        [GOOD, numpy.full((2, 3), numpy.inf)],
        {},
        "sample 1: input 'x' holds NaN or infinite numbers, 6 of 6; ranges cannot be "
        "measured on it: leave the sample out",
    ),
    "constant": (
        numpy.full((8, 3), 0.5, numpy.float32),
        {},
        f"input 'x' of model.onnx is 0.5 everywhere in all samples, from which no ranges follow; {MUCH}",
    ),
    "empty": ([], {}, f"data holds no samples; {MUCH}"),
    "an empty array": (numpy.zeros((0, 3), numpy.float32), {}, f"data holds no samples; {MUCH}"),
    "one sample": (GOOD[:1], {}, f"data holds one sample, from which no ranges follow; {MUCH}"),
    "no data": (
        None,
        {},
        "data is NoneType; quantize takes an array of samples, or a list of arrays, tuples or dicts {input: array}",
    ),
    "arrays": ([(GOOD, GOOD)], {}, "sample 0 has 2 arrays; model.onnx takes 1: x"),
    "another input": ([{"z": GOOD}], {}, "sample 0 lacks input 'x' of model.onnx"),
    **{
        kind: (
            GOOD.astype(kind),
            {},
            f"sample 0: input 'x' is {kind}; model.onnx takes float32: give what the network is run on (bytes of images "
            "scaled and shifted as before a run), since ranges are measured on the numbers as they are",
        )
        for kind in ("uint8", "int64", "bool")
    },
    "another type": (
        [numpy.zeros((2, 3), "U1")],
        {},
        "sample 0: input 'x' is <U1; model.onnx takes float32",
    ),
    "another shape": (
        [numpy.zeros((2, 4))],
        {},
        "sample 0: input 'x' has shape [2, 4]; model.onnx takes [?, 3]",
    ),
    "method": (
        GOOD,
        {"method": "guess"},
        "method is 'guess'; the methods are minmax, percentile, entropy",
    ),
    "percentile": (GOOD, {"percentile": 7}, "percentile is 7; give a number over 50, at most 100"),
    "error": (
        GOOD,
        {"most_error": 0},
        "most_error is 0; give a number over 0, as 0.01 for one hundredth of the outputs",
    ),
    "floats": (
        GOOD,
        {"floats": ["q"]},
        "floats: 'q' is no Conv, ConvTranspose, Gemm or MatMul by constants of model.onnx",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_damaged_data(case):
    data, options, said = REFUSED[case]
    with pytest.raises(tc.Error) as caught:
        tc.quantize(small(), data, progress=False, **options)
    assert str(caught.value) == said


def test_models_that_are_not_quantised(tmp_path):
    def refused(model, data=GOOD):
        with pytest.raises(tc.Error) as caught:
            tc.quantize(model, data, progress=False)
        return str(caught.value)

    assert (
        refused(7)
        == "quantize takes the path of an ONNX file, its bytes or an onnx.ModelProto, not a int"
    )
    assert refused(str(tmp_path / "none.onnx")).endswith(
        "none.onnx cannot be read: No such file or directory"
    )
    assert "the model cannot be read as ONNX (" in refused(b"no model" * 9)
    assert (
        "model.onnx has no Conv, ConvTranspose, Gemm or MatMul by constants in float32: nothing would become integers (MatMul 'MatMul_0': its "
        "second operand is computed by the network, and only constant weights become integers)"
    ) == refused(
        small(body="y = MatMul(x, z)", types="float[N,3] x, float[3,4] z"),
        [(GOOD, GOOD.reshape(-1)[:12].reshape(3, 4))],
    )
    assert (
        refused(small(types="float[N,3] x, float[N,3] z"), GOOD)
        == "data is one array, but model.onnx has 2 inputs (x, z); give dicts {input: array}"
    )
    once = tc.quantize(small(), GOOD, progress=False).model
    assert (
        refused(once)
        == "model.onnx is quantised already: node 'x_QuantizeLinear'; give the network in floats"
    )
    branch = small(
        body="y = If<then_branch = t () => (float[N,4] a) { a = Gemm(x, w) }, else_branch = e () => (float[N,4] b) { b = Gemm(x, w) }>(c)",
        types="float[N,3] x, bool c",
    )
    assert (
        refused(branch)
        == "model.onnx has subgraphs (If, Loop, Scan), whose values are not measured; quantise a model without"
    )
    assert (
        "value 'a' of model.onnx becomes NaN or infinite on the samples: no range follows"
        in refused(small(body="a = Log(x) y = Gemm(a, w)"))
    )
    old = small(body="y = Gemm(x, w)", opset=7)
    assert tc.quantize(old, GOOD, progress=False).cosine > 0.99
    old.graph.node[0].op_type = "Unheard"
    assert (
        "model.onnx has opset 7, quantising needs 13 or later, and the package onnx cannot convert it ("
        in refused(old)
    )
    with pytest.raises(tc.DeviceError, match="cannot be written: No such file or directory"):
        tc.quantize(small(), GOOD, progress=False).save(str(tmp_path / "no" / "file"))


def test_without_the_package_onnx():
    code = "import sys; sys.modules['onnx'] = None; import tc; tc.quantize"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    ).stderr
    assert said.endswith(
        "quantising writes ONNX by the package onnx, which is not installed here: pip install 'tc-compiler[quantize]'\n"
    )


# --- parts ---


def test_ranges():
    random = numpy.random.default_rng(4)
    seen, array = Range(), random.standard_normal((4, 3, 50, 50)).astype(numpy.float32)
    array[0, 0, 0, 0] = 60.0  # one number far away
    seen.see_ends(array)
    seen.see_numbers(array, 1)
    assert seen.ends("minmax", 0) == (float(array.min()), 60.0)
    assert seen.ends("percentile", 99.9)[1] < 6 and seen.ends("entropy", 0)[1] < 20
    assert numpy.allclose(seen.means(), array.mean((0, 2, 3), dtype=numpy.float64))
    assert numbers_of(0.0, 0.0) == (1, 0)
    scale, zero = numbers_of(-1.0, 3.0)
    assert numpy.isclose(scale, 4 / 255) and zero == 64


def test_chains_of_what_only_moves_keep_one_scale():
    w = numpy.random.default_rng(2).standard_normal((4, 1, 3, 3)).astype(numpy.float32)
    v = numpy.random.default_rng(3).standard_normal((36, 5)).astype(numpy.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["a"]),
            helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Flatten", ["b"], ["c"]),
            helper.make_node("Gemm", ["c", "v"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(v, "v")],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    data = numpy.random.default_rng(5).standard_normal((20, 1, 8, 8)).astype(numpy.float32)
    found = tc.quantize(model, data, progress=False)
    scales = {
        each.name: numpy_helper.to_array(each)
        for each in onnx.load_model_from_string(found.model).graph.initializer
    }
    assert scales["a_scale"] == scales["b_scale"] == scales["c_scale"]
    assert found.error < 0.05


def test_an_unknown_option():
    with pytest.raises(TypeError) as caught:
        tc.quantize(small(), GOOD, bits=4)
    assert str(caught.value).startswith(
        "quantize() got an unexpected option 'bits'; the options are method, percentile, per_channel"
    )
