"""Models of PyTorch in every form: results are PyTorch's, and calls are the module's."""

import itertools
import json
import subprocess
import sys
import warnings

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional

import tc
from tc import cli
from tests import zoo
from tests.support import models_folder

from .torch_calls import assert_close, roads, saved


def compiled(model, *inputs, **options):
    return tc.compile(model, inputs=inputs or None, log=False, **options)


@pytest.mark.parametrize(
    "name",
    [
        "nsnet2_step",
        "tinybert",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("mobilenet_v2", "squeezenet1_1", "resnet50", "yolov6n", "superres")
        ),
    ],
)
def test_networks_by_every_road(name, tmp_path):
    inputs, expected = zoo.reference(name)
    examples = tuple(map(torch.from_numpy, inputs.values()))
    results = {}
    for road, model, given in roads(zoo.build(name), examples, tmp_path):
        found = tc.compile(model, inputs=given, log=False)(*examples)
        results[road] = found if isinstance(found, tuple) else (found,)
        for one, other in zip(results[road], expected.values()):
            assert zoo.agrees(one.numpy(), other), road
    assert len(results) >= 4
    first = results.pop("live")
    for road, result in results.items():
        for one, other in zip(result, first):
            assert float((one - other).abs().max()) <= 1e-6 * float(other.abs().max()), road


# --- calls ----------------------------------------------------------------------------------------


class Nested(nn.Module):
    def forward(self, pair, scale=2.0, *, offset=None):
        a, b = pair
        total = a * scale + b
        if offset is not None:
            total = total + offset["by"]
        return {"sum": total, "parts": (a, [b - a]), "none": None, "name": "nested"}


def test_structures_are_the_modules():
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    module = tc.compile(Nested(), inputs=((a, b),), log=False)
    result = module((a, b))
    expected = Nested()((a, b))
    assert (
        list(result) == ["sum", "parts", "none", "name"]
        and result["none"] is None
        and result["name"] == "nested"
    )
    assert_close(result["sum"], expected["sum"])
    assert_close(result["parts"][1][0], expected["parts"][1][0])
    # Another structure, and another number, are compiled when they come.
    assert_close(module((a, b), 3.0)["sum"], Nested()((a, b), 3.0)["sum"])
    assert_close(module((a, b), offset={"by": b})["sum"], Nested()((a, b), offset={"by": b})["sum"])


def test_numpy_gives_numpy_and_tensors_give_tensors():
    module = compiled(nn.Linear(3, 2), torch.randn(4, 3))
    x = torch.randn(4, 3)
    assert isinstance(module(x), torch.Tensor)
    result = module(x.numpy())
    assert isinstance(result, numpy.ndarray) and numpy.array_equal(result, module(x).numpy())
    assert [port.name for port in module.inputs] == ["input"] and [
        port.name for port in module.outputs
    ] == ["output"]
    assert numpy.array_equal(module(input=x).numpy(), result)


def test_results_share_memory_and_arguments_are_not_copied(monkeypatch):
    module = compiled(nn.ReLU(), torch.randn(4, 3))
    given = []
    run = module._run
    monkeypatch.setattr(module, "_run", lambda arrays: given.extend(arrays) or run(arrays))
    x = torch.randn(4, 3)
    module(x)
    assert given[0].ctypes.data == x.data_ptr()
    # A view that is not dense is copied by the run alone, which has looked at its shape before.
    view = torch.randn(3, 4).t()
    assert torch.equal(module(view), torch.relu(view))
    assert given[1].ctypes.data == view.data_ptr() and not given[1].flags["C_CONTIGUOUS"]


def test_bfloat16_and_half():
    for dtype in torch.bfloat16, torch.float16:
        x = torch.randn(4, 3).to(dtype)
        module = nn.Linear(3, 2).to(dtype)
        assert_close(compiled(module, x)(x), module(x), 2e-2)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x):
        self.count += x
        return self.count * 2


def test_buffers_are_state():
    module, reference = compiled(Counter(), torch.ones(2)), Counter()
    for _ in range(3):
        x = torch.randn(2)
        assert_close(module(x), reference(x))
    assert_close(module.state["count"], reference.count)
    module.reset_state()
    assert_close(module(torch.ones(2)), torch.full((2,), 2.0))


class Writing(nn.Module):
    def forward(self, x, y):
        x[:, 0] = y
        return x.sum()


def test_arguments_that_the_call_changes_are_changed():
    module = compiled(Writing(), torch.zeros(3, 2), torch.ones(3))
    for kind in torch.from_numpy, lambda array: array:
        x, y = numpy.zeros((3, 2), numpy.float32), numpy.arange(3, dtype=numpy.float32)
        assert float(module(kind(x), kind(y))) == 3
        assert x[:, 0].tolist() == [0, 1, 2]


def test_arguments_that_share_memory_with_what_is_written_are_refused():
    module = compiled(Writing(), torch.zeros(3, 2), torch.ones(3))
    memory = torch.zeros(9)
    with pytest.raises(tc.UnsupportedError) as error:
        module(memory[:6].view(3, 2), memory[4:7])
    assert str(error.value) == (
        "the model writes into its input 'x', and 'y' is given with the same memory: pass a copy of one of them"
    )
    with pytest.raises(tc.UnsupportedError, match="'y' is given with the same memory"):
        module(memory[:6].view(3, 2).numpy(), memory[4:7].numpy())
    module(memory[:6].view(3, 2), memory[6:])  # beside each other
    strided = torch.zeros(3, 3)
    module(strided[:, :2], strided[:, 2] + 1)
    module(strided[:, :2], strided[:, 2])  # between each other
    assert strided.tolist() == [[0, 0, 0]] * 3


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, x, y):
        return x - 2 * y + self.weight


def test_an_example_may_stand_for_two_arguments():
    both = Both()
    x, y = torch.randn(2), torch.randn(2)
    memory = torch.randn(3)
    for one, other in ((x, x), (memory[:2], memory[1:]), (both.weight, x)):
        assert_close(compiled(both, one, other)(x, y), both(x, y).detach())


class NamedAlike(nn.Module):
    def forward(self, x, parts):
        x.add_(1)
        parts[1].mul_(2)
        return {"x": x * parts[0], "parts_1": parts[1][0]}


def test_outputs_called_as_the_inputs_that_are_written():
    x, parts = torch.ones(2), [torch.full((2,), 3.0), torch.ones(2)]
    for model in (
        NamedAlike(),
        torch.export.export(
            NamedAlike(), (x.clone(), [part.clone() for part in parts]), strict=False
        ),
    ):
        module = tc.compile(
            model,
            inputs=None
            if isinstance(model, torch.export.ExportedProgram)
            else (x.clone(), [part.clone() for part in parts]),
            log=False,
        )
        given = x.clone(), [part.clone() for part in parts]
        result = module(*given)
        assert result["x"].tolist() == [6, 6] and float(result["parts_1"]) == 2
        assert given[0].tolist() == [2, 2] and given[1][1].tolist() == [2, 2]


class Scaled(nn.Module):
    def forward(self, x, by=1.0):
        return x * by


def test_numbers_that_look_alike_are_other_versions():
    module = compiled(Scaled(), torch.ones(2))
    for by in 0.0, -0.0, float("nan"), float("nan"), 1, True:
        assert_close(module(torch.ones(2), by), torch.ones(2) * by)
        assert torch.equal(
            torch.signbit(module(torch.ones(2), by)), torch.signbit(torch.ones(2) * by)
        )
    assert len(module._versions_of_calls) == 6  # the two NaNs are one


# --- what reading costs ---------------------------------------------------------------------------

COST = """
import re, sys, time, torch, tc.torch
# Not ru_maxrss: that begins with the size of the process that started this one.
peak = lambda: int(re.search("VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) << 10
loaded = torch.jit.load(sys.argv[1])
tc.torch.read(sys.argv[2], (torch.randn(2, 3),))     # what PyTorch imports when it first exports is no part of a model
before, start = peak(), time.process_time()
source = tc.torch.read(sys.argv[1], (torch.randn(1, 3, 224, 224),)).source
seconds, more = time.process_time() - start, peak() - before
start = time.process_time()
torch.jit.load(sys.argv[1])
print(seconds - (time.process_time() - start), more)
"""


@pytest.mark.full
def test_reading_torchscript_takes_little_time_and_memory(tmp_path):
    module = zoo.build("resnet50")
    weights = sum(4 * tensor.numel() for tensor in module.state_dict().values())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = saved(tmp_path, torch.jit.trace(module, torch.randn(1, 3, 224, 224)))
        small = saved(tmp_path, torch.jit.script(nn.Linear(3, 2)), "small.pt")
    done = subprocess.run(
        [sys.executable, "-c", COST, str(path), str(small)],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds, more = map(float, done.stdout.split())
    # Beside PyTorch's own load, which takes the weights once.
    assert seconds <= 2.0 and more - weights <= 1.5 * weights, (seconds, more / weights)


# --- open sizes -----------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.project(x).reshape(batch, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return (
            functional.scaled_dot_product_attention(q, k, v)
            .transpose(1, 2)
            .reshape(batch, length, 8)
        )


@pytest.mark.parametrize("form", ["live", "script", "exported"])
def test_sizes_stay_open(form):
    module = Attention().eval()
    example = torch.randn(2, 5, 8)
    if form == "exported":
        batch, length = torch.export.Dim("batch", max=16), torch.export.Dim("length", max=64)
        model = torch.export.export(
            module, (example,), dynamic_shapes={"x": {0: batch, 1: length}}, strict=False
        )
        compiled_module = tc.compile(model, log=False)
    else:
        model = torch.jit.script(module) if form == "script" else module
        shapes = {"x": ("batch", "length", 8), "batch": (1, 16), "length": (1, 64)}
        compiled_module = tc.compile(model, inputs=(example,), shapes=shapes, log=False)
        assert compiled_module.symbols == {"batch": (1, 16), "length": (1, 64)}
    for batch, length in itertools.product((1, 2, 3, 7, 16), (1, 2, 7, 33, 64)):
        x = torch.randn(batch, length, 8)
        assert_close(compiled_module(x), module(x))
    with pytest.raises(tc.ShapeError):
        compiled_module(torch.randn(17, 4, 8))


# --- TorchScript ----------------------------------------------------------------------------------


def test_voice_activity_keeps_its_state():
    """Silero's detector sets attributes in its calls: tensors, and numbers that decide what a call
    does."""
    path = models_folder() / "silero_vad" / "silero_vad.jit"
    reference = torch.jit.load(str(path))
    module = tc.compile(path, inputs=(torch.zeros(1, 512), 16000), log=False)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for _ in range(50):
            frame = torch.randn(1, 512, generator=generator) * 0.3
            assert_close(module(frame, 16000), reference(frame, 16000), 1e-6)
    assert module.state["_last_sr"] == 16000 and module.state["_state"].shape == (2, 1, 128)
    module.reset_state()
    reference = torch.jit.load(str(path))
    frame = torch.randn(1, 256, generator=generator)
    with torch.no_grad():  # the other rate is another structure
        assert_close(module(frame, 8000), reference(frame, 8000), 1e-6)


@pytest.mark.parametrize(
    "file,shapes",
    [
        ("func.script.dat", [(3, 4), (3, 4)]),
        ("l1000_100_10.script.dat", [(2, 1000)]),
        ("linrelu.script.dat", [(2, 10)]),
        ("scripted.script.dat", [(6,)]),
        ("list_out.dat", [(3, 4), (3, 4)]),
        ("tuple_out.dat", [(3, 4), (3, 4)]),
    ],
)
def test_archives_of_torchsharp(file, shapes):
    path = models_folder() / "torchsharp_ts" / file
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(shape, generator=generator) for shape in shapes]
    expected = torch.jit.load(str(path))(*inputs)
    actual = tc.compile(path, inputs=inputs, log=False)(*inputs)
    assert type(actual) is type(expected)
    for one, other in zip(
        *[each if isinstance(each, (list, tuple)) else [each] for each in (actual, expected)]
    ):
        assert_close(one, other)


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            y = x * 2
        else:
            y = x - 1
        return y, y.abs().sum()


def test_control_flow_that_depends_on_data_is_kept():
    module = torch.jit.script(Branch())
    fast = compiled(module, torch.ones(3))
    for x in torch.ones(3), -torch.ones(3), torch.full((3,), 9.0):
        for one, other in zip(fast(x), module(x)):
            assert_close(one, other)


class WhileLoop(nn.Module):
    def forward(self, x):
        total = torch.zeros(())
        while bool(total < 10):
            total = total + x.abs().sum() + 1
        return total


def test_a_loop_that_ends_by_data():
    script = torch.jit.script(WhileLoop())
    for start in (torch.ones(3), torch.full((3,), 0.01), torch.full((3,), 100.0)):
        found = compiled(script, torch.ones(3))(start)
        assert torch.allclose(found, script(start), rtol=1e-5)


# --- without PyTorch ------------------------------------------------------------------------------


def test_tc_alone_imports_no_torch():
    script = "import sys, tc; tc.targets(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_without_torch_a_sentence_says_how_to_install_it(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"PK\3\4")
    script = (
        "import sys; sys.modules['torch'] = None\nimport tc\n"
        "try: tc.compile(sys.argv[1])\nexcept tc.Error as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "model.pt")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == (
        "models of PyTorch are read by PyTorch itself, which is not installed here: "
        "pip install 'tc-compiler[torch]'"
    )


class Cached(nn.Module):
    def forward(self, x, past):
        keys = torch.cat([past, x * 2], 1)
        return functional.scaled_dot_product_attention(x, keys, keys), keys


class Summed(nn.Module):
    def forward(self, x):
        return x.exp(), x.sum(0)


def test_open_sizes_may_begin_at_nothing():
    x, past = torch.randn(1, 1, 8), torch.randn(1, 3, 8)
    # What a node joins with something else is a cache, which begins empty; other sizes do where the
    # range says so.
    cached = tc.compile(Cached(), inputs=(x, past), shapes={"past": (1, "length", 8)}, log=False)
    past = expected_past = torch.zeros(1, 0, 8)
    for _ in range(3):
        expected, expected_past = Cached()(x, expected_past)
        result, past = cached(x, past)
        torch.testing.assert_close((result, past), (expected, expected_past))
    for bounds, first in (((0, 9), 0), ((1, 9), 1)):
        summed = tc.compile(
            Summed(), inputs=(torch.randn(3, 2),), shapes={"x": ("n", 2), "n": bounds}, log=False
        )
        for n in range(first, 4):
            x = torch.randn(n, 2)
            torch.testing.assert_close(summed(x), Summed()(x))
    with pytest.raises(tc.ShapeError, match="axis 0 .'n'. is 0; the model takes 1 to 9"):
        summed(torch.zeros(0, 2))


def test_command_line(tmp_path, capsys):
    path = saved(tmp_path, torch.jit.script(nn.Linear(3, 2)))
    assert cli.main(["check", str(path), "--input", "input=4,3:f32"]) == 0
    assert (
        cli.main(
            ["compile", str(path), "--shape", "input=4,3", "--output", str(tmp_path / "model.so")]
        )
        == 0
    )
    assert tc.load(tmp_path / "model.so").inputs[0].shape == (4, 3)
    numpy.save(tmp_path / "x.npy", numpy.ones((4, 3), numpy.float32))
    assert cli.main(["run", str(path), "--input", f"input={tmp_path / 'x.npy'}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["outputs"][0]["shape"] == [4, 2]
    assert cli.main(["check", str(path), "--input", "input=wide:f32"]) == 1
    assert capsys.readouterr().err == (
        "tc: --input takes NAME=1,3,224,224:f32, NAME=FILE.npy or NAME=3 of a model of PyTorch, not "
        "'input=wide:f32'\n"
    )


@pytest.mark.parametrize("kind", ["GRU", "LSTM", "RNN"])
def test_steps_of_recurrent_layers_are_not_traced(kind, monkeypatch):
    """PyTorch's own description of a layer runs all its steps: 30 ms each, twice for each layer."""

    def told(*_, **__):
        raise AssertionError("PyTorch ran the steps of a layer")

    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = getattr(torch.nn, kind)(4, 6, num_layers=2, bidirectional=True)

        def forward(self, x):
            # Something that is decomposed, so that the graph is traced again.
            return self.layers(torch.nn.functional.softsign(x))

    module, x = Layers().eval().requires_grad_(False), torch.randn(7, 2, 4)
    expected = torch.utils._pytree.tree_leaves(module(x))
    monkeypatch.setattr(torch._decomp.decompositions, "_rnn_helper", told)
    compiled = tc.compile(module, inputs=(x,), log=False)
    for found, wanted in zip(torch.utils._pytree.tree_leaves(compiled(x)), expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(AssertionError, match="ran the steps"):
        torch.export.export(module, (x,), strict=False)  # PyTorch's own description is back
