"""What somebody meets who tries tc for the first time: each mistake ends in one sentence that says
what to do."""

import io
import json
import re
import sys

import numpy as np
import pytest

import tc

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from .first_use import GENERATOR, command, product_model, said  # noqa: E402
from .first_use import module, path  # noqa: E402, F401  Fixtures.


# --- targets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, target",
    [
        (["--cpu", "cortex-a53"], "cortex-a53"),
        (["--target", "x86-64-v3", "--cpu", "znver4"], "x86-64-v3@znver4"),
        (["--target", "rv64gcv@sifive-x280"], "rv64gcv@sifive-x280"),
        (["--target", "znver4", "--cpu", "znver4"], "znver4"),
    ],
)
def test_a_core_is_chosen_for_every_architecture(tmp_path, given, target):
    onnx.save(product_model(), tmp_path / "m.onnx")
    code, out, err = command(
        "compile", tmp_path / "m.onnx", *given, "--threads", "1", "-o", tmp_path / "m.so", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["target"] == target


@pytest.mark.parametrize(
    "target, text",
    [
        (
            "cuda",
            "is no processor, and tc compiles for processors alone; leave the target out for this machine's",
        ),
        (
            "gpu",
            "is no processor, and tc compiles for processors alone; leave the target out for this machine's",
        ),
        (
            "sm_86",
            "is no processor, and tc compiles for processors alone; leave the target out for this machine's",
        ),
        (
            "esp32",
            "has no code generator in tc; of systems without an operating system there are RISC-V's and Arm's (docs/bare.md)",
        ),
        (
            "armv7em",
            "is given by its core: 'cortex-m0plus', 'cortex-m4', 'cortex-m7', 'cortex-m33' or 'cortex-m55'",
        ),
        ("cpu", "is no name of one; leave the target out, or give 'native', for this machine's"),
        ("arm64", "is called 'aarch64' here"),
        ("x86_64", "is given by its level: 'x86-64-v3' has AVX2, 'x86-64-v4' AVX-512"),
        ("riscv64", "is given by its vectors: 'rv64gcv' has them, 'rv64gc' has none"),
    ],
)
def test_targets_of_other_tools(path, target, text):
    assert (
        said(lambda: tc.compile(path, target), tc.TargetError)
        == f"unknown target '{target}': it {text}. The command `python -m tc targets` lists all"
    )


def test_a_target_that_is_no_text(path):
    assert (
        said(lambda: tc.compile(path, None))
        == "target is None; give a name of tc.targets(), or leave it out for this machine's processor"
    )


# --- options of calls -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, text",
    [
        (
            {"threads": "2"},
            "threads is '2'; give a whole number from 1 to 1024, or None for all cores",
        ),
        (
            {"threads": 2.0},
            "threads is 2.0; give a whole number from 1 to 1024, or None for all cores",
        ),
        (
            {"build_threads": "all"},
            "build_threads is 'all'; give a whole number from 1 to 1024, or None for all cores",
        ),
        ({"tolerance": "1e-3"}, "tolerance is '1e-3'; give a number of at least 0"),
        ({"seed": -1}, "seed is -1; give a whole number from 0 to 2^64 - 1"),
        (
            {"max_ram": "256 kilo"},
            "max_ram is '256 kilo'; give a number of bytes, alone or with a unit (256KB, 1MiB), or None for half of this machine's memory",
        ),
    ],
)
def test_options_of_the_wrong_kind(path, options, text):
    assert said(lambda: tc.compile(path, log=False, **options)) == text


def test_options_of_other_calls(path, tmp_path):
    tc.compile(path, log=False).save(tmp_path / "digits.so")
    assert (
        said(lambda: tc.load(tmp_path / "digits.so", threads="2"))
        == "threads is '2'; give a whole number from 1 to 1024, or None for all cores"
    )
    assert (
        said(lambda: tc.tune(path, log=tmp_path / "log.db", trials="9"))
        == "trials is '9'; give a whole number of at least 1"
    )
    assert (
        said(lambda: tc.tune(path, log=tmp_path / "log.db", time_limit="1h"))
        == "time_limit is '1h'; give a number of seconds above 0"
    )
    assert (
        said(lambda: tc.compile(path, shapes=[1, 4]), tc.ShapeError)
        == "shapes is [1, 4]; give a dictionary: {'batch': 1} for a symbol, {'input': (1, 3, 224, 224)} for an input"
    )


def test_sizes_with_units(path):
    whole = tc.compile(path, shapes={"n": 2}, max_ram="64KB", log=False)
    assert whole(np.ones((2, 4), np.float32)).shape == (2, 3)
    code, out, err = command("compile", path, "--max-ram", "64 furlongs")
    assert (code, out) == (2, "")
    assert err == (
        "tc: --max-ram: '64 furlongs' is not a number of bytes, alone or with a unit (256KB, 1MiB); `python -m tc compile --help` lists "
        "what it takes\n"
    )


# --- arrays ---------------------------------------------------------------------------------------


def test_arrays_of_the_wrong_type(module):
    x = np.ones((2, 4))
    assert (
        said(lambda: module(x), tc.ShapeError)
        == "input 'x' of model 'digits.onnx' is float64; expected float32 [n, 4]: pass x.astype('float32')"
    )
    assert (
        said(lambda: module(x.astype(np.float16)), tc.ShapeError)
        == "input 'x' of model 'digits.onnx' is float16; expected float32 [n, 4]: pass x.astype('float32')"
    )


def test_tensors_of_the_wrong_type(module):
    torch = pytest.importorskip("torch")
    own = tc.compile(torch.nn.Linear(4, 3), inputs=(torch.ones(2, 4),), log=False)
    for dtype in "float64", "float16", "bfloat16":
        x = torch.ones(2, 4, dtype=getattr(torch, dtype))
        assert (
            said(lambda x=x: module(x), tc.ShapeError)
            == f"input 'x' of model 'digits.onnx' is {dtype}; expected float32 [n, 4]: pass x.to(torch.float32)"
        )
        assert re.fullmatch(
            r"input '\w+' of model 'Linear' is \w+; expected float32 \[2, 4\]: pass x.to\(torch.float32\)",
            said(lambda x=x: own(x), tc.ShapeError),
        )


class Copied(np.ndarray):
    """An array that tells how often it was copied."""

    copies = 0

    def __array_finalize__(self, other):
        Copied.copies += 1


def test_a_batch_too_large_is_refused_before_anything_is_copied(path):
    """The array has no memory of its own: copying it would take 3 TB."""
    column = np.lib.stride_tricks.as_strided(np.ones(4, np.float32), (200_000_000_000, 4), (0, 0))
    open_batch = tc.compile(path, log=False, specialise=0)
    text = said(lambda: open_batch(column), tc.ShapeError)
    assert (
        text.startswith("input 'x': axis 0 ('n') is 200000000000; the model takes ")
        or "working memory" in text
    ), text
    fixed = tc.compile(path, shapes={"n": 2}, log=False)
    assert (
        said(lambda: fixed(column), tc.ShapeError)
        == "input 'x': axis 0 is 200000000000; the model expects 2"
    )
    assert (
        said(lambda: fixed(np.ones((3, 8), np.float32)[:, ::2]), tc.ShapeError)
        == "input 'x': axis 0 is 3; the model expects 2"
    )


def test_a_tensor_of_a_batch_too_large_is_refused_before_it_is_copied():
    torch = pytest.importorskip("torch")
    module = tc.compile(torch.nn.Linear(4, 3), inputs=(torch.ones(2, 4),), log=False)
    assert "is 100000000000; the model expects 2" in said(
        lambda: module(torch.ones(1, 4).expand(100_000_000_000, 4)), tc.ShapeError
    )


def test_a_branch_that_depends_on_data(capfd):
    torch = pytest.importorskip("torch")

    class Branching(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x * 2
            return x

    class Counting(torch.nn.Module):
        def forward(self, x):
            return x[: int(x.max())]

    for model, line in (Branching(), "if x.sum() > 0:"), (Counting(), "return x[: int(x.max())]"):
        text = said(
            lambda model=model: tc.compile(model, inputs=(torch.ones(3),)), tc.UnsupportedError
        )
        assert text.startswith(
            f"{type(model).__name__} cannot be exported by torch.export: test_new_user.py:"
        )
        assert text.endswith(
            f" `{line}` decides by numbers that only a run knows (a branch, a loop, or a size), and torch.export follows one path. "
            "Choose by torch.where or torch.cond, or give torch.jit.script(module), whose branches stay branches"
        ), text
    assert capfd.readouterr().err == ""
    # What the sentence advises.
    scripted = tc.compile(torch.jit.script(Branching()), inputs=(torch.ones(3),), log=False)
    assert scripted(torch.ones(3)).tolist() == [2, 2, 2] and scripted(-torch.ones(3)).tolist() == [
        -1,
        -1,
        -1,
    ]


# --- the command line -----------------------------------------------------------------------------


def usage(name, text):
    return 2, "", f"tc: {text}; `python -m tc{name and ' '}{name} --help` lists what it takes\n"


@pytest.mark.parametrize(
    "arguments, name, text",
    [
        (["fly"], "", "'fly' is no command; known are "),
        (["complie", "m.onnx"], "", "'complie' is no command; did you mean compile; known are "),
        (
            ["compile", "m.onnx", "--tolerence", "1"],
            "compile",
            "there is no option --tolerence; did you mean --tolerance",
        ),
        (["compile", "m.onnx", "--gpu"], "compile", "there is no option --gpu"),
        (["compile", "m.onnx", "more.onnx"], "compile", "'more.onnx' is one argument too many"),
        (["compile"], "compile", "MODEL is missing"),
        (
            ["compile", "m.onnx", "--kind", "dll"],
            "compile",
            "'dll' is no value of --kind; known are ",
        ),
        (["compile", "m.onnx", "--target"], "compile", "--target needs a value"),
        (
            ["compile", "m.onnx", "--threads", "two"],
            "compile",
            "--threads: 'two' is not a whole number of at least 1",
        ),
        (["log", "export", "a.db"], "log", "log export takes two files: log export LOG FILE"),
        (["log", "import"], "log", "log import takes two files: log import LOG FILE"),
        (["log", "merge", "a.db"], "log", "log merge takes two files: log merge LOG FILE"),
    ],
)
def test_wrong_usage(arguments, name, text):
    code, out, err = command(*arguments)
    _, _, whole = usage(name, text)
    begin, end = whole.split("; `python -m tc")
    assert (code, out) == (2, "") and len(err.splitlines()) == 1
    assert err.startswith(begin) and err.endswith("; `python -m tc" + end), err


def test_version():
    code, out, err = command("--version")
    assert (code, err) == (0, "") and re.fullmatch(
        r"tc \d+\.\d+\.\d+ \(runtime .*, \d+ cores\)\n", out
    )
    assert command("version")[1] == out


def test_an_empty_log_says_so(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    log = tmp_path / "log.db"
    tc.Log.import_into(log, tmp_path / "empty.jsonl")
    assert command("log", "best", log) == (
        0,
        f"{log} has no verified record; `python -m tc tune MODEL` makes some\n",
        "",
    )
    assert command("log", "list", log) == (
        0,
        f"{log} has no record; `python -m tc tune MODEL` makes some\n",
        "",
    )
    assert (
        command("log", "best", log, "--target", "rv64gcv")[1]
        == f"{log} has no verified record of target rv64gcv; `python -m tc tune MODEL` makes some\n"
    )


def test_representations_have_no_bytes(path, module, tmp_path):
    made = [
        module,
        tc.verify(path, shapes={"n": 2}),
        tc.quantize(
            product_model((2, 4)), [np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)]
        ),
    ]
    for each in made:
        assert len(repr(each)) < 300 and "\\x" not in repr(each), repr(each)[:300]
    html = module._repr_html_()
    assert f"<b>digits.onnx for {module.target}</b>" in html and "float32 [n, 4]" in html
    assert "\\x" not in html
    assert repr(made[1]) == f"<tc.Verification of digits.onnx for {module.target}: right>"
    assert re.fullmatch(r"<tc.Quantised of 0\.\d+ MB, error \S+ on 2 samples>", repr(made[2]))


# --- progress -------------------------------------------------------------------------------------


def test_progress_of_compiling_and_verifying(tmp_path):
    weights = [
        numpy_helper.from_array(
            GENERATOR.standard_normal((8 + i + 1, 8 + i, 3, 3)).astype(np.float32), f"w{i}"
        )
        for i in range(6)
    ]
    nodes = [
        helper.make_node("Conv", [f"v{i}", f"w{i}"], [f"v{i + 1}"], f"conv{i}", pads=[1, 1, 1, 1])
        for i in range(6)
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [1, 8, 24, 24])],
        [helper.make_tensor_value_info("v6", TensorProto.FLOAT, [1, 14, 24, 24])],
        weights,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "convs.onnx",
    )
    told = []
    tc.compile(tmp_path / "convs.onnx", log=False, progress=told.append)
    assert {each["phase"] for each in told} <= {
        "reading",
        "simplifying",
        "scheduling",
        "generating code",
    } and told
    assert all(
        0 <= each["done"] <= max(each["total"], each["done"]) and each["seconds"] >= 0
        for each in told
    )
    told.clear()
    tc.verify(tmp_path / "convs.onnx", progress=told.append)
    assert "evaluating" in {each["phase"] for each in told} and {
        "phase",
        "done",
        "total",
        "seconds",
    } == set(told[-1])

    def stop(_):
        raise RuntimeError("my own")

    with pytest.raises(RuntimeError, match="my own"):
        tc.compile(tmp_path / "convs.onnx", log=False, progress=stop)
    # stderr is no terminal.
    code, _, err = command("compile", tmp_path / "convs.onnx", "-o", tmp_path / "convs.so")
    assert (code, err) == (0, "")


def test_a_line_on_a_terminal(monkeypatch):
    from tc.progress import Progress

    class Terminal:
        text = ""

        def isatty(self):
            return True

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    with Progress(None, patience=0) as progress:
        progress("scheduling", 3, 9)
        progress("scheduling", 4, 9)  # too soon for another
    assert shown.text == "\r\x1b[Kscheduling 3 of 9 (33 %), 0 s\r\x1b[K"
    shown.text = ""
    with Progress(None) as progress:  # quick work shows nothing
        progress("scheduling", 3, 9)
    with Progress(False, patience=0) as progress:
        progress("scheduling", 3, 9)
    assert shown.text == ""


def test_lines_in_a_pipe(monkeypatch):
    """One after the other, with what is left by the pace of the phase."""
    from tc import progress

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    clock, pipe = Clock(), io.StringIO()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress.Progress(True) as tell:
        for second in range(0, 33, 3):
            clock.now = float(second)
            tell("evaluating" if second < 18 else "comparing values", second % 18, 18)
    assert pipe.getvalue().splitlines() == [
        "evaluating 12 of 18 (67 %), 12 s, about 6 s left of it",
        "comparing values 6 of 18 (33 %), 24 s, about 12 s left of it",
    ]
    pipe.truncate(0)
    with progress.Progress(None) as tell:  # a call from Python tells nothing unless it is asked to
        clock.now += 60
        tell("evaluating", 1, 18)
    assert pipe.getvalue() == ""


# --- what quantising leaves in floats -------------------------------------------------------------


def test_quantise_names_every_layer_that_stays_float():
    normal = GENERATOR.standard_normal
    weights = [
        numpy_helper.from_array(np.float32(normal((8, 8))), "w"),
        numpy_helper.from_array(np.float32(normal((2, 8, 8))), "stack"),
        numpy_helper.from_array(np.float32(np.full((8, 8), np.nan)), "bad"),
        numpy_helper.from_array(np.float32(normal(8)), "scale"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "plain"),
        helper.make_node("MatMul", ["a", "a"], ["b"], "both"),
        helper.make_node("Softmax", ["b"], ["c"], "soft"),
        helper.make_node("MatMul", ["c", "stack"], ["d"], "stacked"),
        helper.make_node("Gemm", ["c", "w"], ["e"], "scaled", alpha=0.5),
        helper.make_node("Tanh", ["e"], ["f"], "squash"),
        helper.make_node("Einsum", ["f", "w"], ["g"], "named", equation="ij,jk->ik"),
        helper.make_node("Softmax", ["g"], ["y"], "last"),
        helper.make_node("Relu", ["d"], ["z"], "rest"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 8])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 8]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 8, 8]),
        ],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = tc.quantize(model, [np.float32(normal((8, 8))) for _ in range(4)], progress=False)
    assert [layer.node for layer in found.layers] == ["plain"]
    assert {layer.node: layer.why for layer in found.floats} == {
        "both": "its second operand is computed by the network, and only constant weights become integers",
        "soft": "it adds up no products by constants",
        "last": "it adds up no products by constants",
        "squash": "it adds up no products by constants",
        "stacked": "its weights have 3 axes, and only matrices become integers",
        "scaled": "it has alpha, beta or transA, which sums of integers have not",
        "named": "Einsum has no form in integers; Conv, ConvTranspose, Gemm and MatMul by constants have",
    }
    text = str(found)
    assert "  floats    Softmax 'soft', 'last'  (it adds up no products by constants)" in text
    assert (
        "  floats    MatMul 'both'  (its second operand is computed by the network, and only constant weights become integers)"
        in text
    )
    assert json.loads(json.dumps(found.to_dict()))["floats"][0]["node"] == "both"


@pytest.mark.parametrize(
    "weights, first, text",
    [
        (np.full((4, 4), np.inf, np.float32), "x", "its weights hold NaN or infinite numbers"),
        (np.zeros((4, 0), np.float32), "x", "its weights are empty"),
        (np.ones((4, 4), np.float32), "w", "it reads a constant alone"),
        (
            np.ones((4, 4), np.float64),
            "x",
            "its weights are float64, and only those of float32 become integers",
        ),
    ],
)
def test_why_a_sum_stays_float(weights, first, text):
    from tc.quantising.floating import why_sum_stays
    from tc.quantising.network import Network

    kind = helper.np_dtype_to_tensor_dtype(weights.dtype)
    graph = helper.make_graph(
        [helper.make_node("MatMul", [first, "w"], ["y"], "product")],
        "g",
        [helper.make_tensor_value_info("x", kind, [4, 4])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    network = Network(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    )
    assert why_sum_stays(network, network.nodes[0]) == text
