"""State of models of PyTorch in artefacts: inputs and outputs of one shape, calls that follow each
other as the module's do, and what has no such form."""

import subprocess
import sys

import numpy as np
import pytest

import tc

torch = pytest.importorskip("torch")

from ..support import models_folder, worst_error  # noqa: E402

LIMIT = 1e-5


class Smooth(torch.nn.Module):
    """A state of known shape, as an attribute."""

    def __init__(self):
        super().__init__()
        self.layer, self.kept = torch.nn.Linear(3, 4), torch.full((2, 4), 0.25)

    def forward(self, x):
        self.kept = self.layer(x) + 0.5 * self.kept
        return 2 * self.kept


class Lazy(torch.nn.Module):
    """A state that the first call makes of zeros, as it does whenever the rate changes."""

    def __init__(self):
        super().__init__()
        self.layer, self.kept, self.rate = torch.nn.Linear(3, 4), torch.zeros(0), 0

    def forward(self, x, rate: int):
        if self.rate != rate:
            self.kept = torch.zeros(0)
        if self.kept.numel() == 0:
            self.kept = torch.zeros(x.shape[0], 4)
        self.kept = torch.tanh(self.layer(x) + 0.5 * self.kept)
        self.rate = rate
        return 2 * self.kept


class Counted(torch.nn.Module):
    """A state of two tensors, one of integers."""

    def __init__(self):
        super().__init__()
        self.sum, self.count = torch.zeros(0), torch.zeros(1, dtype=torch.int64)

    def forward(self, x):
        if self.sum.numel() == 0:
            self.sum = torch.zeros_like(x)
        self.sum = self.sum + x
        self.count = self.count + 1
        return self.sum / self.count


class Registered(torch.nn.Module):
    """A buffer, which torch.export follows."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.ones(2, 3))

    def forward(self, x):
        self.kept = 0.5 * self.kept + x
        return self.kept.sum(1)


class Window(torch.nn.Module):
    """The last two rows: a state whose size stays, made of parts of another size."""

    def __init__(self):
        super().__init__()
        self.rows = torch.zeros(2, 3)

    def forward(self, x):
        self.rows = torch.cat([self.rows, x])[-2:]
        return self.rows.mean(0)


def chained(path, arrays, begin=()):
    """The first output of each run of an artefact, which is given the state that the run before
    left: at first zeros, but for `begin`."""
    module = tc.load(path, threads=1)
    state = {
        port.name: np.zeros(port.shape, port.dtype)
        for port in module.inputs
        if port.name.startswith("state.") or port.name in dict(begin)
    }
    state.update(begin)
    names = [port.name for port in module.inputs if port.name not in state]
    results = []
    for array in arrays:
        found = module.run({**state, **dict(zip(names, [array]))})
        results.append(
            found[next(port.name for port in module.outputs if port.name.startswith("output"))]
        )
        state = {
            name: found[name.replace("state.", "next.") if name.startswith("state.") else "kept"]
            for name in state
        }
        for name, array in state.items():
            assert array.shape == next(port.shape for port in module.inputs if port.name == name)
    return results


def check_chain(model, arrays, path, arguments=(), begin=(), script=True):
    """An artefact's runs against the module's own calls, and the compiled module's, whose state an
    export leaves alone."""
    source = torch.jit.script(model) if script else model
    module = tc.compile(source, inputs=(torch.from_numpy(arrays[0]), *arguments), threads=1)
    expected = [source(torch.from_numpy(array), *arguments).detach().numpy() for array in arrays]
    module(torch.from_numpy(arrays[0]), *arguments)
    module.export(path)
    module(torch.from_numpy(arrays[1]), *arguments)
    found = module(torch.from_numpy(arrays[2]), *arguments)
    assert worst_error(found.numpy(), expected[2]) <= LIMIT
    assert max(map(worst_error, chained(path, arrays, begin), expected)) <= LIMIT


def rows(*shape, count=4):
    return list(np.random.default_rng(1).standard_normal((count, *shape)).astype(np.float32))


def test_a_state_of_known_shape_begins_with_the_models(tmp_path):
    check_chain(
        Smooth(),
        rows(2, 3),
        tmp_path / "m.so",
        begin=[("state.kept", np.full((2, 4), 0.25, np.float32))],
    )


def test_a_state_that_the_first_call_makes(tmp_path):
    check_chain(Lazy(), rows(5, 3), tmp_path / "m.so", arguments=(16000,))


def test_a_state_of_several_tensors(tmp_path):
    check_chain(Counted(), rows(7), tmp_path / "m.so")


def test_a_buffer(tmp_path):
    check_chain(
        Registered(),
        rows(2, 3),
        tmp_path / "m.so",
        begin=[("b_kept", np.ones((2, 3), np.float32))],
        script=False,
    )


def test_a_state_made_of_parts(tmp_path):
    check_chain(Window(), rows(1, 3), tmp_path / "m.so")


def test_a_network_for_voice_activity(tmp_path):
    path = models_folder() / "silero_vad/silero_vad.jit"
    speech = rows(1, 512, count=50)
    model = torch.jit.load(path)
    expected = [model(torch.from_numpy(array), 16000).detach().numpy() for array in speech]
    module = tc.compile(path, inputs=(torch.from_numpy(speech[0]), 16000), threads=1)
    module.export(tmp_path / "m.so")
    shapes = {port.name: port.shape for port in tc.load(tmp_path / "m.so").inputs}
    assert shapes == {"state._context": (1, 64), "state._state": (2, 1, 128), "x": (1, 512)}
    assert max(map(worst_error, chained(tmp_path / "m.so", speech), expected)) <= 1e-4


class Growing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.past = torch.zeros(0, 3)

    def forward(self, x):
        self.past = torch.cat([self.past, x])
        return self.past.sum(0)


class GrowingBuffer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("past", torch.zeros(0, 3))

    def forward(self, x):
        self.past = torch.cat([self.past, x])
        return self.past.sum(0)


class Ticking(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tick = 0

    def forward(self, x):
        self.tick = self.tick + 1
        return x * self.tick


class FirstOne(torch.nn.Module):
    """Its first call begins with what it is given, not with zeros."""

    def __init__(self):
        super().__init__()
        self.kept = torch.zeros(0)

    def forward(self, x):
        if self.kept.numel() == 0:
            self.kept = x
        self.kept = 0.9 * self.kept + 0.1 * x
        return self.kept


class Narrowing(torch.nn.Module):
    """The type of its state changes once, and its shape with every call."""

    def __init__(self):
        super().__init__()
        self.kept = torch.zeros(8)

    def forward(self, x):
        self.kept = self.kept[1:] + x
        return self.kept.sum()


REMEDY = (
    "; an artefact takes its state as inputs and returns it in the same shapes: keep what grows in a tensor of the largest size, with the number of what is in it, "
    "or call the compiled module, which follows its state"
)


@pytest.mark.parametrize(
    "model, shape, text",
    [
        (
            Growing,
            (1, 3),
            "Growing keeps 'past', which is of shape (1, 3) after one call and of shape (2, 3) after two"
            + REMEDY,
        ),
        (Ticking, (2,), "Ticking keeps 'tick', which is 1 after one call and 2 after two" + REMEDY),
        (
            Narrowing,
            (1,),
            "Narrowing keeps 'kept', which is of shape (7,) after one call and of shape (6,) after two"
            + REMEDY,
        ),
        (
            FirstOne,
            (2, 3),
            "FirstOne makes its state 'kept' in the first call of what no call behind it makes it, so that calls of an artefact could not begin: make the state "
            "in __init__, in the shape that calls leave it in",
        ),
    ],
)
def test_states_without_one_shape_are_refused_at_export(model, shape, text, tmp_path):
    source = torch.jit.script(model())
    arrays = [torch.from_numpy(array) for array in rows(*shape)]
    module = tc.compile(source, inputs=(arrays[0],), threads=1)
    with pytest.raises(tc.UnsupportedError) as raised:
        module.export(tmp_path / "m.so")
    assert str(raised.value) == text
    assert not list(tmp_path.iterdir())
    for array in arrays[:3]:  # calls follow the state as before
        assert worst_error(module(array).numpy(), source(array).numpy()) <= LIMIT


def test_a_buffer_that_grows_is_refused_at_export(tmp_path):
    module = tc.compile(GrowingBuffer(), inputs=(torch.ones(1, 3),), threads=1)
    with pytest.raises(tc.UnsupportedError) as raised:
        module.save(tmp_path / "m.so")
    assert (
        str(raised.value)
        == "GrowingBuffer keeps 'past', which a call takes in the shape (0, 3) and leaves in the shape (1, 3)"
        + REMEDY
    )


class Inspected(torch.nn.Module):
    """It shows what it computed, and never reads it."""

    def __init__(self):
        super().__init__()
        self.layer, self.shown, self.parts = torch.nn.Linear(3, 4), None, {}

    def forward(self, x):
        self.shown = self.layer(x)
        self.parts["sum"] = self.shown.sum()
        return torch.relu(self.shown)


@pytest.mark.parametrize("model, count", [(Smooth, 2), (Window, 1)])
def test_attributes_that_torch_export_freezes_are_refused(model, count):
    """torch.export would take the attribute as it was in the first call, for every one."""
    made, x = model(), torch.from_numpy(rows(count, 3)[0])
    before = {
        name: tensor.clone()
        for name, tensor in vars(made).items()
        if isinstance(tensor, torch.Tensor)
    }
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(made, inputs=(x,))
    ((name, value),) = before.items()
    assert str(raised.value) == (
        f"{model.__name__} sets self.{name} in a call and reads it in the next one, and it is no buffer, so that torch.export does not follow it: "
        "register it with self.register_buffer(name, tensor) in __init__, or compile torch.jit.script(module)"
    )
    assert torch.equal(getattr(made, name), value)  # the module is what it was


def test_attributes_that_nothing_reads_are_no_matter():
    model, (x, y, *_) = Inspected(), map(torch.from_numpy, rows(2, 3))
    module = tc.compile(model, inputs=(x,), threads=1)
    assert model.shown is None and not isinstance(
        model.parts.get("sum"), torch._subclasses.FakeTensor
    )
    assert worst_error(module(y).numpy(), model(y).detach().numpy()) <= LIMIT


def test_inputs_of_state_have_one_order(tmp_path):
    """Whatever the seed of Python's hashes."""
    script = (
        "import sys, torch\nfrom tc.torch.scripted import initial_state\n"
        "class M(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.b, self.a, self.c = torch.zeros(1), torch.zeros(1), torch.zeros(1)\n"
        "    def forward(self, x):\n        self.c = x\n        self.a = x\n        self.b = x\n        return self.a\n"
        "print(list(initial_state(torch.jit.script(M()))))"
    )
    (tmp_path / "m.py").write_text(script)
    said = {
        subprocess.run(
            [sys.executable, tmp_path / "m.py"],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert said == {"['a', 'b', 'c']\n"}
