"""Modules with versions by size (tc.compile(size_versions=...)): each run gives what the module
that is compiled for its sizes alone gives, artefacts have them, constants are there once."""

import subprocess

import numpy as np
import pytest
from onnx import helper, numpy_helper

import tc

from .. import memory
from ..support import worst_error
from .plan_text import Plan, check_disjoint, live_pieces
from .data_sizes import FLOAT, model, non_zero
from .test_memory import dumped_plan

WIDTH = 32


def layers(seed):
    """A random chain of layers on x [batch, frames, WIDTH] and `past` [batch, old, WIDTH], which is
    joined with it."""
    random = np.random.default_rng(seed)
    nodes, constants, last = [helper.make_node("Concat", ["past", "x"], ["all"], axis=1)], {}, "x"

    def constant(*shape):
        name = f"c{len(constants)}"
        constants[name] = (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        return name

    def add(kind, *inputs, **attributes):
        nonlocal last
        last = f"v{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [last], **attributes))

    for _ in range(random.integers(3, 7)):
        before = last
        match random.integers(6):
            case 0:
                add("MatMul", last, constant(WIDTH, 48))
                add("Relu", last)
                add("MatMul", last, constant(48, WIDTH))
            case 1:
                add("LayerNormalization", last, constant(WIDTH))
            case 2:
                add("Transpose", "all", perm=[0, 2, 1])
                add("MatMul", before, last)
                add("Softmax", last, axis=-1)
                add("MatMul", last, "all")
            case 3:
                add("Mul", last, constant(WIDTH))
                add("Tanh", last)
            case 4:
                add("ReduceMean", last, axes=[1], keepdims=1)
                add("Sub", before, last)
            case 5:
                constants["flat"] = np.array([-1, WIDTH])
                add("Shape", before)
                shape = last
                add("Reshape", before, "flat")
                add("Gemm", last, constant(WIDTH, WIDTH), constant(WIDTH))
                add("Reshape", last, shape)
        add("Add", before, last)
    nodes += [
        helper.make_node("Identity", [last], ["y"]),
        helper.make_node("Identity", ["all"], ["joined"]),
    ]
    return model(
        nodes,
        [("x", FLOAT, ["batch", "frames", WIDTH]), ("past", FLOAT, ["batch", "old", WIDTH])],
        [("y", FLOAT, ["batch", "frames", WIDTH]), ("joined", FLOAT, ["batch", None, WIDTH])],
        constants,
        opset=17,
    )


def data(batch, frames, old=3):
    random = np.random.default_rng(batch + 10 * frames + 100 * old)
    return {
        name: random.standard_normal((batch, size, WIDTH)).astype(np.float32)
        for name, size in (("x", frames), ("past", old))
    }


def compiled(source, **options):
    return tc.compile(source, log=False, specialise=0, **options)


def expect_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


VERSIONS = [{"batch": 1, "frames": 1}, {"frames": 1}, {"frames": 16, "batch": 2}]


def test_each_run_is_that_of_a_module_for_its_sizes(request):
    for seed in range(8 if request.config.getoption("--full") else 3):
        source, options = layers(seed), {"threads": 1 + seed % 2}
        module = compiled(source, size_versions=VERSIONS, **options)
        alone = [compiled(source, shapes=sizes, **options) for sizes in VERSIONS]
        otherwise = compiled(source, **options)
        assert module.symbols == otherwise.symbols
        for batch in (1, 2, 3):
            for frames in (1, 2, 15, 16, 17):
                for old in (0, 5):
                    inputs, sizes = data(batch, frames, old), {"batch": batch, "frames": frames}
                    which = next(
                        (
                            place
                            for place, each in enumerate(VERSIONS)
                            if each.items() <= sizes.items()
                        ),
                        None,
                    )
                    expected = otherwise if which is None else alone[which]
                    expect_equal(module.run(inputs), expected.run(inputs))


def test_artefacts_have_them(tmp_path):
    source, sizes = layers(1), [(1, 1), (2, 1), (2, 5)]
    module = compiled(source, size_versions={"frames": [1]}, threads=2)
    module.save(tmp_path / "model.so")
    module.export(tmp_path / "model", kind="executable")
    loaded = tc.load(tmp_path / "model.so")
    for batch, frames in sizes:
        inputs = data(batch, frames)
        expected = module.run(inputs)
        expect_equal(loaded.run(inputs), expected)
        for name, array in inputs.items():
            np.save(tmp_path / f"{name}.npy", array)
        subprocess.run(
            [
                tmp_path / "model",
                *(f"--input={name}={tmp_path}/{name}.npy" for name in inputs),
                "--output-dir",
                tmp_path,
            ],
            check=True,
            capture_output=True,
        )
        expect_equal({name: np.load(tmp_path / f"{name}.npy") for name in expected}, expected)
        done = memory.measure(
            memory.run_model_program(),
            tmp_path / "model.so",
            2,
            {"batch": batch, "frames": frames, "old": 3},
        )
        assert done["constants"] == module.memory.constants


def test_the_same_bytes_every_time(tmp_path):
    texts = []
    for name in "first", "second":
        path = tmp_path / name
        path.mkdir()
        compiled(layers(2), size_versions=VERSIONS).save(path / "model.so")
        texts.append((path / "model.so").read_bytes())
    assert texts[0] == texts[1]


PRODUCT = model(
    [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("Relu", ["h"], ["y"], name="relu"),
    ],
    [("x", FLOAT, ["n", WIDTH])],
    [("y", FLOAT, ["n", 64])],
    {"w": np.random.default_rng(1).standard_normal((WIDTH, 64)).astype(np.float32)},
)


def test_the_plan_has_the_steps_of_both(tmp_path):
    path = tmp_path / "product.onnx"
    path.write_bytes(PRODUCT)
    text = dumped_plan(path, "--target=x86-64-v3", "--size-version=n=1", "--size-version=n=4")
    steps = text[text.index("\nsteps\n") : text.index("\nkernel 0:")].splitlines()[2:]
    names = [line.split("(")[0].split(" with ")[0].split("  #")[0] for line in steps]
    assert names == [
        "  if n == 1",
        "    call 2 product + relu",
        "  else",
        "    if n == 4",
        "      call 1 product + relu",
        "    else",
        "      call 0 product + relu",
    ]
    assert steps[0].endswith("  # sizes n = 1")
    assert steps[-1].endswith(" with n single_thread  # product + relu")


def test_memory_is_that_of_the_larger_one(tmp_path):
    """The blocks of each version are disjoint while they live, and stay in the arena, which is as
    large as the larger needs."""
    for seed in range(4):
        path = tmp_path / "model.onnx"
        path.write_bytes(layers(seed))
        plan = Plan(dumped_plan(path, "--size-version=frames=1"))
        general, one = Plan(dumped_plan(path)), Plan(dumped_plan(path, "--shape=frames=1"))
        for frames in (1, 2, 40):
            symbols = {"batch": 2, "frames": frames, "old": 3}
            check_disjoint(live_pieces(plan, symbols))
            assert plan.arena_bytes(symbols) == max(
                general.arena_bytes(symbols), one.arena_bytes(symbols)
            )
        assert (
            max(sum(general.constants), sum(one.constants))
            <= sum(plan.constants)
            < sum(general.constants) + sum(one.constants)
        )


def test_constants_that_both_read_alike_are_there_once():
    scales = np.random.default_rng(2).standard_normal((7, 4096)).astype(np.float32)
    source = model(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        [("x", FLOAT, ["n", 7, 4096])],
        [("y", FLOAT, ["n", 7, 4096])],
        {"w": scales},
    )
    assert compiled(source, size_versions={"n": [1, 2]}).memory.constants == scales.nbytes


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
def test_weights_in_packed_formats_are_there_once(target):
    """One row and many read the same panels of MatMulNBits."""
    random, inner, count = np.random.default_rng(3), 256, 512
    codes = random.integers(0, 256, (count, inner // 32, 16)).astype(np.uint8)
    scales = (random.random(count * inner // 32) + 0.1).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits",
        ["x", "codes", "scales"],
        ["y"],
        domain="com.microsoft",
        K=inner,
        N=count,
        bits=4,
        block_size=32,
    )
    graph = helper.make_graph(
        [node],
        "packed",
        [helper.make_tensor_value_info("x", FLOAT, ["n", inner])],
        [helper.make_tensor_value_info("y", FLOAT, ["n", count])],
        [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scales, "scales")],
    )
    source = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)],
        ir_version=8,
    ).SerializeToString()
    module = compiled(source, target=target, size_versions={"n": [1]}, threads=1)
    assert (
        module.memory.constants
        == compiled(source, target=target, shapes={"n": 1}, threads=1).memory.constants
    )
    weights = (np.stack([codes & 15, codes >> 4], -1).reshape(count, inner) - 8.0) * np.repeat(
        scales.reshape(count, -1), 32, 1
    )
    for n in (1, 5):
        x = random.standard_normal((n, inner)).astype(np.float32)
        assert worst_error(module(x), x @ weights.T) < 1e-6


def test_profiles_tell_the_steps_that_ran():
    module = compiled(PRODUCT, size_versions={"n": [1]}, threads=1)
    for n, kernel in (1, 0), (5, 1):
        rows = module.profile(np.zeros((n, WIDTH), np.float32), seconds=0.05)
        assert list(rows.by_report) == [kernel]
        assert rows.by_report[kernel].flops > 0
    assert len(module.kernels) == 2
    assert module.explain().count("product + relu") == 2


def steps_of_steps():
    """Where x holds something positive the sums of its first rows, by a Scan; else -x."""

    def port(name, shape):
        return helper.make_tensor_value_info(name, FLOAT, shape)

    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "row"], ["next"]),
            helper.make_node("Identity", ["next"], ["told"]),
        ],
        "body",
        [port("state", [WIDTH]), port("row", [WIDTH])],
        [port("next", [WIDTH]), port("told", [WIDTH])],
    )
    sums = helper.make_graph(
        [helper.make_node("Scan", ["nought", "x"], ["last", "sums"], body=body, num_scan_inputs=1)],
        "sums",
        [],
        [port("sums", None)],
    )
    none = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["less"])], "none", [], [port("less", None)]
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
        helper.make_node("Greater", ["most", "limit"], ["go"]),
        helper.make_node("If", ["go"], ["chosen"], then_branch=sums, else_branch=none),
        helper.make_node("MatMul", ["chosen", "w"], ["y"]),
    ]
    return model(
        nodes,
        [("x", FLOAT, ["n", WIDTH])],
        [("y", FLOAT, ["n", WIDTH])],
        {
            "nought": np.zeros(WIDTH, np.float32),
            "limit": np.float32(0),
            "w": np.eye(WIDTH, dtype=np.float32)[::-1].copy(),
        },
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_branches_and_loops_inside(threads):
    source = steps_of_steps()
    module, plain, one = (
        compiled(source, threads=threads, **options)
        for options in ({"size_versions": {"n": [1]}}, {}, {"shapes": {"n": 1}})
    )
    for n in (1, 2, 9):
        for sign in (1, -1):
            x = sign * np.abs(np.random.default_rng(n).standard_normal((n, WIDTH))).astype(
                np.float32
            )
            expect_equal(module.run({"x": x}), (one if n == 1 else plain).run({"x": x}))
            np.testing.assert_allclose(
                module(x)[:, ::-1], np.cumsum(x, axis=0) if sign > 0 else -x, rtol=1e-5
            )


def refusal(*arguments, error=tc.ShapeError, **options):
    with pytest.raises(error) as raised:
        tc.compile(*arguments, log=False, **options)
    return str(raised.value)


def test_what_is_refused(tmp_path):
    path = tmp_path / "product.onnx"
    path.write_bytes(PRODUCT)
    assert (
        refusal(path, size_versions={"tokens": [1]})
        == "size_versions: 'tokens' is no open size of product.onnx; those are 'n'"
    )
    assert (
        refusal(path, size_versions={"n": [1]}, shapes={"n": 4})
        == "size_versions: 'n' is no open size of product.onnx; it has none"
    )
    assert refusal(path, size_versions={"n": [1]}, shapes={"n": (2, 8)}) == (
        "size_versions: 'n' is 1, but in product.onnx it is 2 to 8; give a size of that range, or another range with shapes"
    )
    assert refusal(path, size_versions={"n": range(1, 18)}) == (
        "size_versions asks for 17 versions of product.onnx; at most 16 are compiled into one artefact: give the sizes that occur most"
    )
    assert refusal(path, size_versions={"n": [4, 4]}) == (
        "size_versions: the version for n = 4 never runs, for that for n = 4 comes before it and takes its sizes: leave one out, or give it later"
    )
    expected = "; give the sizes of symbols, {'tokens': [1]}, or a list of versions, [{'batch': 1, 'frames': 1}, {'frames': 1}]"
    for wrong in (
        "n",
        {"n": "1"},
        {"n": [-1]},
        {"n": [1.5]},
        [{}],
        [{"n": [1]}],
        [1],
        {1: [1]},
        {"n": [True]},
    ):
        assert refusal(path, size_versions=wrong) == f"size_versions is {wrong!r}{expected}"
    assert refusal(non_zero(["n"]), size_versions={"n": [3]}, error=tc.UnsupportedError).startswith(
        "size_versions: the version of model 'sizes' for n = 3 has an output whose size '"
    )
    added = model(
        [helper.make_node("Add", ["a", "b"], ["y"])],
        [("a", FLOAT, ["n"]), ("b", FLOAT, ["m"])],
        [("y", FLOAT, None)],
    )
    assert refusal(added, size_versions={"n": [1]}, error=tc.UnsupportedError) == (
        "size_versions: the version of model 'sizes' for n = 1 has output 'y' as f32[m], not as f32[1]; leave this version out"
    )


def test_no_versions_are_none():
    for none in (None, {}, [], (), {"n": []}):
        assert len(compiled(PRODUCT, size_versions=none).kernels) == 1
    assert len(compiled(PRODUCT, size_versions={"n": 1}).kernels) == 2


def test_kinds_without_open_sizes_refuse_them_as_before(tmp_path):
    module = compiled(PRODUCT, size_versions={"n": [1]})
    with pytest.raises(
        tc.UnsupportedError, match="^size 'n' of input 'x' of model .model.onnx. is open"
    ):
        module.export(tmp_path / "model.c", kind="c")


def test_recurring_sizes_are_compiled_beside_them():
    module = tc.compile(PRODUCT, size_versions={"n": [1]}, specialise=1, log=False)
    x = np.ones((3, WIDTH), np.float32)
    first = module(x)
    np.testing.assert_array_equal(module(x), first)
    assert module.versions == [((3, WIDTH),)]
    assert not hasattr(tc.compile(PRODUCT, size_versions={"n": [1]}, log=False), "versions")


def test_the_command_line(tmp_path, capsys):
    path = tmp_path / "product.onnx"
    path.write_bytes(PRODUCT)
    assert (
        tc.cli.main(
            ["compile", str(path), "--size-version", "n=1", "-o", str(tmp_path / "model.so")]
        )
        == 0
    )
    x = np.ones((1, WIDTH), np.float32)
    np.testing.assert_array_equal(
        tc.load(tmp_path / "model.so")(x), compiled(PRODUCT, shapes={"n": 1})(x)
    )
    capsys.readouterr()
    assert tc.cli.main(["compile", str(path), "--size-version", "n"]) == 1
    assert "--size-version takes SYMBOL=1 or SYMBOL=1,SYMBOL=4, not 'n'" in capsys.readouterr().err
