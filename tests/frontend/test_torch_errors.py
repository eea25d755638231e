"""What is said of models of PyTorch that are damaged, hostile or not supported: one sentence, and
nothing is run."""

import contextlib
import io
import itertools
import os
import pickle
import zipfile
from typing import Dict, List

import pytest
import torch
from torch import nn

import tc
from tc.torch import models
from tests.support import models_folder


class Own(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.unlike = (0,) * number  # modules of equal attributes would share their methods


def script_of(source, numbers=itertools.count(1)):  # noqa: B008
    """A ScriptModule with this method."""
    module = torch.jit.script(Own(next(numbers)))
    module.define(source + "\n")
    return module


def refusal(call, kind=tc.UnsupportedError):
    with pytest.raises(tc.Error) as raised:
        call()
    assert type(raised.value) is kind, raised.value
    text = str(raised.value)
    assert "\n" not in text and "internal error" not in text
    return text


def compiled(model, *inputs, **options):
    return tc.compile(model, inputs=inputs or None, log=False, **options)


# --- unsupported operators
# -------------------------------------------------------------------------------------------------


class Unsupported(nn.Module):
    def forward(self, x):
        spectrum = torch.fft.fft(x)
        y = torch.rand_like(x)
        return spectrum.prod(0).real + y + torch.linalg.eigvalsh(x)


def test_all_that_is_unsupported_is_told_at_once_with_the_line():
    text = refusal(lambda: compiled(Unsupported(), torch.randn(3, 3)))
    assert (
        "aten.prod.dim_int at test_torch_errors.py:" in text
        and "it is not supported for complex numbers" in text
    )
    assert (
        "aten.rand_like.default at test_torch_errors.py:" in text
        and "its numbers are random" in text
    )
    assert "aten._linalg_eigh.default at test_torch_errors.py:" in text
    problems = tc.check(Unsupported(), inputs=(torch.randn(3, 3),))
    assert len(problems) >= 3 and all(problem.startswith("node '") for problem in problems)
    assert tc.check(nn.ReLU(), inputs=(torch.randn(3),)) == []


class Training(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, True)


def test_training_mode_is_refused_by_name():
    assert "call .eval() on the module first" in refusal(
        lambda: compiled(Training(), torch.randn(3))
    )


class Raising(nn.Module):
    def forward(self, x):
        raise ValueError("no such thing")


def test_what_the_module_raises_is_told():
    text = refusal(lambda: compiled(Raising(), torch.randn(3)))
    assert text == "Raising cannot be exported by torch.export: ValueError: no such thing"


# --- TorchScript
# --------------------------------------------------------------------------------------------------


SCRIPTS = [
    (
        "def forward(self, x: Tensor) -> Tensor:\n  if bool(x.sum() > 0):\n    raise Exception('negative')\n  return x",
        "whether the model raises an exception depends on data: no check of data is kept, and none is left out (prim::If at ",
    ),
    (
        "def forward(self, x: Tensor) -> Tensor:\n  raise Exception('never')\n  return x",
        "the model raises Exception: never",
    ),
    (
        "def forward(self, x: Tensor) -> Tensor:\n  a = [x]\n  if bool(x.sum() > 0):\n    a.append(x)\n  return a[0]",
        "what a branch that depends on data does to values around it is not supported",
    ),
    (
        "def forward(self, x: Tensor) -> Tensor:\n  y = x\n  for i in range(int(x.sum())):\n    y = y + 1\n  return y",
        "the number of iterations of a loop depends on data",
    ),
    (
        "def forward(self, x: Tensor) -> Tensor:\n  y = 0\n  for i in range(100000):\n    y = y + 1\n  return x + y",
        "a loop of more than 65536 iterations is not unrolled",
    ),
    (
        "def forward(self, x: Optional[Tensor]) -> Tensor:\n  return torch.relu(torch.jit._unwrap_optional(x))",
        "the model raises AssertionError: unwrapping an optional that is None",
    ),
    (
        "def forward(self, x: Tensor) -> Tensor:\n  return torch.pow(float(x[0]), x)",
        "aten::pow is not supported (aten::pow at ",
    ),
]


@pytest.mark.parametrize("source,expected", SCRIPTS)
def test_refusals_of_torchscript(source, expected):
    module = script_of(source)
    given = None if "Optional" in source else torch.ones(3)
    assert expected in refusal(lambda: tc.compile(module, inputs=(given,), log=False))


class SetsInBranch(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = 0

    def forward(self, x):
        y = x
        if bool(x.sum() > 0):
            self.kept = 1
            y = x + 1
        return y


class KeepsSize(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = 0

    def forward(self, x):
        self.kept = x.size(0)
        return x


class GrowsList(nn.Module):
    items: List[int]

    def __init__(self):
        super().__init__()
        self.items = [1]

    def forward(self, x):
        self.items.append(1)
        return x + len(self.items)


class CountsInDictionary(nn.Module):
    counts: Dict[str, int]

    def __init__(self):
        super().__init__()
        self.counts = {"calls": 0}

    def forward(self, x):
        self.counts["calls"] += 1
        return x * self.counts["calls"]


class PutsBack(GrowsList):
    def forward(self, x):
        self.items.append(1)
        count = len(self.items)
        self.items.pop()
        return x + count


@torch.jit.script
class Pair:
    def __init__(self, a: torch.Tensor):
        self.a = a


class UsesClass(nn.Module):
    def forward(self, x):
        return Pair(x).a


def test_refusals_of_state_and_classes():
    assert "an attribute that is set in a branch that depends on data is not supported" in refusal(
        lambda: compiled(torch.jit.script(SetsInBranch()), torch.ones(3))
    )
    for module, change in (
        (
            GrowsList(),
            "'items' in place, which the next call would not see: assign a new list to it",
        ),
        (
            CountsInDictionary(),
            "'counts' in place, which the next call would not see: assign a new dict to it",
        ),
    ):
        assert "the model changes its attribute " + change in refusal(
            lambda: compiled(torch.jit.script(module), torch.ones(3))
        )
    assert compiled(torch.jit.script(PutsBack()), torch.ones(3))(torch.ones(3)).tolist() == [
        3,
        3,
        3,
    ]
    assert "keeps a size in the attribute 'kept'; bind the sizes with shapes=" in refusal(
        lambda: compiled(torch.jit.script(KeepsSize()), torch.ones(3), shapes={"x": ("n",)})
    )
    assert "objects of classes of TorchScript are not supported" in refusal(
        lambda: compiled(torch.jit.script(UsesClass()), torch.ones(3))
    )


def test_functions_and_other_methods_are_refused():
    function = torch.jit.trace(lambda x: x + 1, torch.ones(2))
    assert "is a function of TorchScript; put it into a module's forward" in refusal(
        lambda: compiled(function, torch.ones(2))
    )
    module = script_of("def other(self, x: Tensor) -> Tensor:\n  return x")
    assert "has no method forward; its methods are other" in refusal(
        lambda: compiled(module, torch.ones(2))
    )


# --- arguments
# --------------------------------------------------------------------------------------------------


def test_arguments_are_checked():
    linear, script = nn.Linear(3, 2), torch.jit.script(nn.Linear(3, 2))
    x = torch.ones(4, 3)
    cases = [
        (
            lambda: tc.compile(linear),
            "Linear needs example inputs: tc.compile(model, inputs=(x,)), a tuple of what the module is called "
            "with, or a dictionary by name",
        ),
        (
            lambda: tc.compile(script),
            "Linear does not say the shapes of its inputs: give example inputs (inputs=…), or "
            "shapes={'input': …} where all of them are float32 tensors",
        ),
        (lambda: compiled(script, x, x), "forward takes 1 arguments, not 2"),
        (
            lambda: tc.compile(script, inputs={"other": x}),
            "forward has no argument 'other'; it takes input",
        ),
        (lambda: tc.compile(script, inputs={}), "argument 'input' of forward is missing"),
        (
            lambda: tc.compile(script, inputs=((x,), {"input": x})),
            "argument 'input' is given twice",
        ),
        (
            lambda: compiled(linear, x, shapes={"input": ("n", 4)}),
            "shapes: 'input' has the size 4 on axis 1, and its example has 3",
        ),
        (
            lambda: compiled(linear, x, shapes={"input": ("n",)}),
            "shapes: 'input' has 1 sizes, and its example has the shape [4, 3]",
        ),
        (
            lambda: compiled(linear, x, shapes={"input": ("n", 3), "n": (5, 2)}),
            "shapes: the range of 'n' is (5, 2); give the smallest and the largest size",
        ),
        (
            lambda: compiled(linear, x, shapes={"other": (1, 2)}),
            "shapes: 'other' is no input of the model and no symbol of a shape; the inputs are input",
        ),
    ]
    for call, expected in cases:
        assert refusal(call, tc.ShapeError) == expected


def test_shapes_alone_do_where_all_inputs_are_floats():
    module = tc.compile(torch.jit.script(nn.Linear(3, 2)), shapes={"input": (4, 3)}, log=False)
    assert module.inputs[0].shape == (4, 3)


def test_an_exported_program_has_one_structure():
    class Sum(nn.Module):
        def forward(self, x, factor):
            return x * factor

    exported = torch.export.export(Sum(), (torch.ones(2), 3))
    module = tc.compile(exported, log=False)
    assert module(torch.ones(2), 3).tolist() == [3, 3]
    text = refusal(lambda: module(torch.ones(2), 4), tc.ShapeError)
    assert (
        text
        == "the model takes arguments of the structure (*, 3), not (*, 4): an exported program has one structure"
    )


# --- hostile files
# --------------------------------------------------------------------------------------------------


CANARY = []


class Calls:
    """A pickle that calls something when it is read."""

    def __reduce__(self):
        return CANARY.append, (1,)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "model.pt"
    torch.jit.script(nn.Sequential(nn.Linear(8, 8), nn.ReLU())).save(str(path))
    return path


def rewritten(archive, path, **changes):
    """The archive with other files: {name in the archive: bytes}."""
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            name = entry.filename.partition("/")[2]
            new.writestr(entry.filename, changes.pop(name, None) or old.read(entry))
        for name, data in changes.items():
            new.writestr(
                name, data, zipfile.ZIP_DEFLATED if len(data) > 1 << 20 else zipfile.ZIP_STORED
            )
    return path


def shape_of(path):
    return lambda: tc.compile(path, shapes={"input": (2, 8)}, log=False)


def test_truncated_archives(archive, tmp_path):
    data = archive.read_bytes()
    path = tmp_path / "cut.pt"
    for size in range(0, len(data) - 1, 1000 if len(data) > 20000 else 500):
        path.write_bytes(data[:size])
        assert "'cut.pt' is " in refusal(shape_of(path), tc.ModelError)


def test_changed_bytes_do_no_harm(archive, tmp_path):
    """Every 397th byte is another: compiled, or refused in one sentence."""
    data = bytearray(archive.read_bytes())
    path = tmp_path / "changed.pt"
    for place in range(0, len(data), 397):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        try:
            tc.check(path, shapes={"input": (2, 8)})
        except tc.Error as error:
            assert "internal error" not in str(error), (place, str(error))


class Shifted(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def erase_output(program):
    program.graph.erase_node(next(node for node in program.graph.nodes if node.op == "output"))


def erase_operands(program):
    next(node for node in program.graph.nodes if node.op == "call_function").args = ()


def erase_values(program):
    for node in program.graph.nodes:
        node.meta.pop("val", None)


@pytest.mark.parametrize(
    "change",
    [
        erase_output,
        erase_operands,
        erase_values,
        lambda program: program._graph_signature.input_specs.clear(),
    ],
)
def test_programs_without_sense(change, tmp_path, monkeypatch):
    program = torch.export.export(Shifted(), (torch.ones(3),))
    change(program)
    for call in lambda: tc.compile(program, log=False), lambda: tc.check(program):
        assert refusal(call, tc.ModelError).startswith("the model is no program that can be read: ")
    # The same of a file, as PyTorch's loader would give it.
    monkeypatch.setattr(models, "open_archive", lambda *_: program)
    (tmp_path / "model.pt2").write_bytes(b"PK\3\4")
    assert refusal(
        lambda: tc.check(tmp_path / "model.pt2", trust_archive=True), tc.ModelError
    ).startswith("'model.pt2' is no program that can be read: ")


def test_the_loaders_tracebacks_are_not_shown(tmp_path, capfd):
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as file:
        for name in "models/model.json", "archive_format", "data/weights/model_weights_config.json":
            file.writestr(f"m/{name}", "{}")
    assert "'model.pt2' " in refusal(lambda: tc.check(path, trust_archive=True), tc.ModelError)
    assert capfd.readouterr() == ("", "")


def test_files_that_are_no_models(archive, tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(b"\0" * 100)
    assert refusal(shape_of(path), tc.ModelError) == (
        "'x.pt' is no file of PyTorch: it begins with b'\\x00\\x00\\x00\\x00', and "
        "TorchScript archives and .pt2 files are zip archives"
    )
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/readme", "x")
    assert refusal(shape_of(path), tc.ModelError) == (
        "'x.pt' is a zip archive, but no model of PyTorch: it has neither TorchScript nor "
        "an exported program"
    )
    assert "cannot be read: No such file or directory" in refusal(
        lambda: tc.compile(tmp_path / "no.pt"), tc.ModelError
    )
    (tmp_path / "folder.pt").mkdir()
    assert "is a folder, not a model's file" in refusal(
        lambda: tc.compile(tmp_path / "folder.pt"), tc.ModelError
    )
    # The container's own errors.
    path.write_bytes(b"PK\3\4" + b"\0" * 50)
    assert "'x.pt' is a damaged archive: " in refusal(shape_of(path), tc.ModelError)
    rewritten(archive, path, **{"data.pkl": b"\x80\x02N."})
    assert "'x.pt' is a damaged TorchScript file: " in refusal(shape_of(path), tc.ModelError)


def test_pickles_are_not_run(archive, tmp_path):
    path = tmp_path / "pickled.pt"
    for zipped in True, False:
        torch.save(nn.Linear(2, 2), path, _use_new_zipfile_serialization=zipped)
        assert (
            "'pickled.pt' is a pickle that torch.save wrote (a module or its weights): reading it would run what is in it"
            in refusal(lambda: tc.compile(path))
        )
    path.write_bytes(pickle.dumps(Calls()))
    refusal(lambda: tc.compile(path))
    for name in "data.pkl", "constants.pkl":
        rewritten(archive, path, **{name: pickle.dumps(Calls(), protocol=2)})
        refusal(shape_of(path), tc.ModelError)
    assert CANARY == []


def test_exported_programs_are_read_without_running_pickles(tmp_path):
    exported = torch.export.export(nn.Linear(2, 2), (torch.ones(1, 2),))
    path = tmp_path / "model.pt2"
    torch.export.save(exported, str(path))
    with zipfile.ZipFile(path) as file:
        names = [entry.filename for entry in file.infolist()]
    for name in names:
        if name.endswith((".pt", ".pkl")) or "weights" in name or "constants" in name:
            changed = tmp_path / "changed.pt2"
            with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
                for entry in old.infolist():
                    new.writestr(
                        entry.filename,
                        pickle.dumps(Calls()) if entry.filename == name else old.read(entry),
                    )
            with contextlib.suppress(tc.Error):  # of some of these files nothing is read
                tc.compile(changed, log=False)
    assert CANARY == []


def test_bombs_and_paths(archive, tmp_path):
    path = tmp_path / "bomb.pt"
    rewritten(archive, path, **{"model/code/big.py": b" " * (300 << 20)})
    assert os.path.getsize(path) < 1 << 20
    assert refusal(shape_of(path), tc.ModelError).startswith(
        "'bomb.pt' is an archive whose compressed files unfold to 3"
    )
    rewritten(archive, path, **{"model/../../outside.py": b"x = 1"})
    assert (
        refusal(shape_of(path), tc.ModelError)
        == "'bomb.pt' is an archive with the file 'model/../../outside.py', which lies outside of it"
    )
    # Entries that share their bytes: more is stored than there is.
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("model/constants.pkl", b"x" * 1000)
        entry = file.infolist()[0]
        for number in range(5):
            copy = zipfile.ZipInfo(f"model/{number}")
            copy.header_offset, copy.CRC, copy.compress_size, copy.file_size = (
                entry.header_offset,
                entry.CRC,
                1000,
                1000,
            )
            file.filelist.append(copy)
            file.NameToInfo[copy.filename] = copy
    path.write_bytes(data.getvalue())
    assert "is a damaged archive: its files have 6000 bytes, and it has " in refusal(
        shape_of(path), tc.ModelError
    )


def test_real_archives_cut_anywhere(tmp_path):
    data = (models_folder() / "torchsharp_ts" / "linrelu.script.dat").read_bytes()
    path = tmp_path / "cut.pt"
    for size in range(0, len(data) - 1, 1000):
        path.write_bytes(data[:size])
        refusal(shape_of(path), tc.ModelError)


def test_arguments_of_complex_numbers_have_their_type():
    module = compiled(nn.Identity(), torch.zeros(2, 3, dtype=torch.complex64))
    for given, kind in (
        (torch.zeros(2, 3), "float32"),
        (torch.zeros(2, 3, dtype=torch.complex128), "complex128"),
        (1.0, "float"),
    ):
        with pytest.raises(
            tc.ShapeError,
            match=f"^input 'input' has complex numbers of type complex64; {kind} is given: convert it to that type$",
        ):
            module(given)


LINEAR = nn.Linear(8, 3)


@pytest.mark.parametrize("size", (2.5, -3, True))
def test_sizes_that_are_none(size):
    text = refusal(
        lambda: tc.compile(LINEAR, inputs=(torch.ones(2, 8),), shapes={"input": (size, 8)}),
        tc.ShapeError,
    )
    assert (
        text
        == f"shapes: 'input' has the size {size!r} on axis 0; give a number, a name of an open size, or None for one without a name"
    )


@pytest.mark.parametrize("size", (None, -1))
def test_sizes_without_a_name_stay_open(size):
    given = {"inputs": (torch.ones(2, 8),), "shapes": {"input": (size, 8)}, "log": False}
    for model in (LINEAR, torch.jit.trace(LINEAR, (torch.ones(2, 8),))):
        compiled = tc.compile(model, **given)
        assert compiled.inputs[0].shape == ("input_0", 8)
        for batch in (1, 5):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(compiled(x), LINEAR(x).detach(), rtol=1e-5, atol=1e-5)
    ranged = tc.compile(
        LINEAR, inputs=given["inputs"], shapes={"input": (size, 8), "input_0": (1, 4)}, log=False
    )
    with pytest.raises(tc.ShapeError):
        ranged(torch.ones(5, 8))


def test_a_size_of_an_exported_program_is_what_it_is():
    exported = torch.export.export(LINEAR, (torch.ones(2, 8),), strict=False)
    text = refusal(lambda: tc.compile(exported, shapes={"input": (None, 8)}), tc.ShapeError)
    assert text == (
        "shapes: axis 0 of 'input' is 2 in the model, whatever it is given: export it with "
        "dynamic_shapes={'input': {0: torch.export.Dim.DYNAMIC}}"
    )


KNOWN = (
    "target, threads, tolerance, seed, tune, trials, time_limit, log, tracker, credentials, insecure, builders, progress, build_threads, max_ram, "
    "specialise, quantised, rounding"
)


@pytest.mark.parametrize(
    "options, expected",
    [
        (
            {"treads": 2},
            "torch.compile(options={'treads': …}): backend=\"tc\" has no such option; threads is one; it takes "
            + KNOWN,
        ),
        (
            {"shapes": {}},
            "torch.compile(options={'shapes': …}): backend=\"tc\" has no such option; it takes "
            + KNOWN,
        ),
        ({"target": "vax"}, "unknown target 'vax'"),
        ({"threads": 0}, "threads is 0; give a whole number from 1 to 1024, or None for all cores"),
        (
            {"target": "rv64gcv"},
            "does not run on this machine, and graphs of torch.compile are run where they are compiled; leave the target out",
        ),
    ],
)
def test_options_of_torch_compile(options, expected):
    """They are no reason for PyTorch to run the graph."""
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised, torch.no_grad():
        torch.compile(LINEAR, backend="tc", options=options)(torch.ones(2, 8))
    assert expected in str(raised.value)


def test_modes_of_torch_compile():
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as raised, torch.no_grad():
        torch.compile(LINEAR, backend="tc", mode="max-autotune")(torch.ones(2, 8))
    assert (
        "torch.compile(mode='max-autotune') is of PyTorch's own back end; backend=\"tc\" takes options={…}: "
        + KNOWN
        in str(raised.value)
    )


class Nested(nn.Module):
    """What PyTorch's encoder does, otherwise than that does it."""

    def __init__(self, sized: bool, product: bool = False):
        super().__init__()
        self.sized, self.product = sized, product

    def forward(self, x, mask):
        nested = torch._nested_tensor_from_mask(x, mask)
        if self.product:
            return torch.relu(nested).to_padded_tensor(0.0, x.size())
        return nested.to_padded_tensor(0.0, x.size() if self.sized else None)


def test_nested_tensors():
    inputs = torch.ones(2, 3, 4), torch.tensor([[True, True, False], [True, False, False]])

    def said(model, given=inputs):
        return refusal(lambda: tc.compile(torch.jit.script(model), inputs=given, log=False))

    assert (
        "a nested tensor is padded to its longest sequence, which depends on data: give output_size"
        in said(Nested(False))
    )
    assert "aten::relu of nested tensors is not supported" in said(Nested(True, True))
    module = script_of("def forward(self, x: Tensor):\n    return x.to_padded_tensor(0.0, [2, 3])")
    text = refusal(lambda: tc.compile(module, inputs=(torch.ones(2, 3),), log=False))
    assert "tensors that are nested before they reach the model are not supported" in text
    compiled = tc.compile(torch.jit.script(Nested(True)), inputs=inputs, log=False)
    holes = torch.tensor([[True, False, True], [True, True, True]])
    assert torch.equal(compiled(*inputs)[:, :, 0], inputs[1].float())
    # A mask with holes is none that PyTorch's encoder makes nested tensors of: all stays.
    assert torch.equal(compiled(inputs[0], holes), inputs[0])


class Running(nn.Module):
    def forward(self, x):
        return x.cummax(1).values + x.mode(1, True).values + x.logcumsumexp(1)


def test_open_lengths_that_operators_run_along():
    text = refusal(
        lambda: tc.compile(Running(), inputs=(torch.ones(2, 8),), shapes={"x": (None, "length")})
    )
    for operator in ("aten.cummax.default", "aten.mode.default", "aten.logcumsumexp.default"):
        assert operator in text
    assert (
        text.count("the length of its axis is not known while compiling; bind it with shapes=") == 3
    )
    compiled = tc.compile(Running(), inputs=(torch.ones(2, 8),), shapes={"x": (None, 8)}, log=False)
    x = torch.randn(5, 8)
    torch.testing.assert_close(compiled(x), Running()(x), rtol=1e-5, atol=1e-5)
