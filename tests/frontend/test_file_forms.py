"""Forms in which valid ONNX files are written: external data behind links, sparse constants, nodes
in any order, inputs with an initializer. What no valid file has is refused in a sentence."""

import json
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tc
from tc.cli import main
from tc.onnx_file import OnnxFile

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
W = np.array([[1.5, -2, 0], [0.25, 3, 1], [-1, 0.5, 2]], np.float32)


def model(nodes, inputs, initializers=(), outputs=("y",), **more):
    """A model of float32 results; inputs as (name, sizes)."""
    graph = helper.make_graph(
        nodes,
        "forms",
        [helper.make_tensor_value_info(name, FLOAT, sizes) for name, sizes in inputs],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        list(initializers),
        **more,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


# --- external data --------------------------------------------------------------------------------


def with_external(location, **entries):
    """x times a 3 by 3 matrix in a file beside the model."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[3, 3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", [2, 3])], [tensor])


def written(path, location, **entries):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(with_external(location, **entries).SerializeToString())
    return path


def put(path, data=W.tobytes()):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def computes(path, **options):
    np.testing.assert_allclose(tc.compile(path, **options).run({"x": X})["y"], X @ W, rtol=1e-6)


def refused(path, **options):
    with pytest.raises(tc.ModelError) as error:
        tc.compile(path, **options)
    return str(error.value)


@pytest.mark.parametrize(
    "location, entries",
    [
        ("w.bin", {}),
        ("./w.bin", {}),
        ("deep/./er/w.bin", {}),
        ("././deep/er/w.bin", {}),
        ("w.bin", {"offset": 0}),
        ("w.bin", {"length": 36}),
        ("w.bin", {"checksum": "none"}),
    ],
)
def test_external_data_by_any_plain_path(tmp_path, location, entries):
    put(tmp_path / location)
    computes(written(tmp_path / "m.onnx", location, **entries))


@pytest.mark.parametrize("offset", [1, 4, 4096])
def test_external_data_without_a_length_begins_at_its_offset(tmp_path, offset):
    put(tmp_path / "w.bin", b"\x55" * offset + W.tobytes() + b"\x55" * 7)
    computes(written(tmp_path / "m.onnx", "w.bin", offset=offset))


@pytest.mark.parametrize(
    "entries, needed",
    [
        ({"offset": 1}, "has 36 bytes; 36 at offset 1 are needed"),
        ({"offset": 2**63 - 1}, "has 36 bytes; 36 at offset 9223372036854775807 are needed"),
        ({"length": 32}, "its shape needs 36 bytes but its external data has 32"),
        ({"offset": -4}, "'-4' is not a size in bytes"),
        ({"offset": 2**64}, "'18446744073709551616' is not a size in bytes"),
    ],
)
def test_sizes_that_do_not_fit_the_file(tmp_path, entries, needed):
    put(tmp_path / "w.bin")
    assert needed in refused(written(tmp_path / "m.onnx", "w.bin", **entries))


def cache(tmp_path, inside=""):
    """The path of a model in a cache of Hugging Face's form, and the folder of its blobs: every
    file of a snapshot is a link."""
    repository = tmp_path / "models--someone--net"
    blob = put(repository / "blobs/9a5c")
    snapshot = repository / "snapshots/0123abcd" / inside
    snapshot.mkdir(parents=True)
    up = os.path.relpath(repository / "blobs", snapshot)
    written(repository / "blobs/77ff", "model.onnx_data")
    (snapshot / "model.onnx").symlink_to(f"{up}/77ff")
    (snapshot / "model.onnx_data").symlink_to(f"{up}/{blob.name}")
    return snapshot / "model.onnx", repository / "blobs"


@pytest.mark.parametrize("inside", ["", "onnx", "onnx/fp32"])
def test_a_cache_of_links(tmp_path, inside):
    path, _ = cache(tmp_path, inside)
    computes(path)
    computes(os.path.relpath(path))


def test_links_out_of_a_cache_stay_refused(tmp_path):
    path, blobs = cache(tmp_path)
    data = path.parent / "model.onnx_data"
    secret = put(tmp_path / "secret/w.bin")
    for target in (secret, tmp_path / "models--someone--net/refs", blobs / "../../secret/w.bin"):
        data.unlink()
        data.symlink_to(target)
        put(tmp_path / "models--someone--net/refs")
        assert (
            "goes through a symbolic link to a file outside of the folders that may hold it (data_folders names more)"
            in refused(path)
        )
    data.unlink()
    data.symlink_to(blobs / "link")
    (blobs / "link").symlink_to(secret)
    assert "outside of the folders that may hold it" in refused(path)
    data.unlink()
    data.symlink_to(blobs / "nothing")
    assert "goes through a symbolic link to nothing that can be opened" in refused(path)
    data.unlink()
    data.symlink_to(blobs)
    assert "outside of the folders" in refused(path) or "is not a regular file" in refused(path)


def test_a_link_that_a_fifo_or_two_names_end(tmp_path):
    path, blobs = cache(tmp_path)
    data = path.parent / "model.onnx_data"
    os.mkfifo(blobs / "pipe")
    data.unlink()
    data.symlink_to(blobs / "pipe")
    assert "is not a regular file" in refused(path)
    os.link(blobs / "9a5c", blobs / "again")
    data.unlink()
    data.symlink_to(blobs / "again")
    assert "has more than one hard link" in refused(path)


def test_a_folder_of_blobs_that_is_a_link_is_none(tmp_path):
    path, blobs = cache(tmp_path)
    blobs.rename(tmp_path / "elsewhere")
    blobs.symlink_to(tmp_path / "elsewhere")
    assert "outside of the folders that may hold it" in refused(path)


def test_links_within_the_models_folder(tmp_path):
    put(tmp_path / "weights/v2.bin")
    (tmp_path / "w.bin").symlink_to("weights/v2.bin")
    (tmp_path / "current").symlink_to("weights")
    computes(written(tmp_path / "m.onnx", "w.bin"))
    computes(written(tmp_path / "m.onnx", "current/v2.bin"))


def test_data_folders_let_links_lead_elsewhere(tmp_path, capsys):
    put(tmp_path / "store/w.bin")
    path = written(tmp_path / "model/m.onnx", "w.bin")
    (tmp_path / "model/w.bin").symlink_to(tmp_path / "store/w.bin")
    assert "data_folders names more" in refused(path)
    assert "data_folders names more" in refused(path, data_folders=[tmp_path / "model"])
    computes(path, data_folders=[tmp_path / "store"])
    assert tc.check(path, data_folders=[str(tmp_path / "store")]) == []
    assert "'/no/such' of data_folders is no folder that can be opened" in refused(
        path, data_folders=["/no/such"]
    )
    with pytest.raises(tc.Error, match="data_folders is 'store'; give a list of folders"):
        tc.compile(path, data_folders="store")
    assert main(["check", str(path), "--json"]) == 1
    capsys.readouterr()
    assert main(["check", str(path), "--data-folder", str(tmp_path / "store")]) == 0


# --- sparse constants -----------------------------------------------------------------------------


def sparse(name, dense, linear):
    places = np.flatnonzero(dense)
    indices = places if linear else np.argwhere(dense)
    return onnx.SparseTensorProto(
        values=numpy_helper.from_array(dense.flat[places], name),
        indices=numpy_helper.from_array(indices.astype(np.int64)),
        dims=dense.shape,
    )


KINDS = [np.float32, np.float64, np.int64, np.int32, np.uint8, np.int8, np.float16, np.bool_]


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_initializers(kind, linear):
    dense = np.zeros((2, 3, 2), kind)
    dense[0, 1, 1], dense[1, 0, 0], dense[1, 2, 1] = 1, 3, 5
    made = model(
        [
            helper.make_node("Cast", ["s"], ["f"], to=FLOAT),
            helper.make_node("Add", ["x", "f"], ["y"]),
        ],
        [("x", [2, 3, 2])],
        sparse_initializer=[sparse("s", dense, linear)],
    )
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    np.testing.assert_array_equal(tc.compile(made).run({"x": x})["y"], x + dense.astype(np.float32))


@pytest.mark.parametrize(
    "dense", [np.zeros((3, 3), np.float32), np.array([0, 0, 7], np.float32), W]
)
def test_constants_of_sparse_values(dense):
    for linear in (True, False):
        nodes = [
            helper.make_node("Constant", [], ["s"], sparse_value=sparse("", dense, linear)),
            helper.make_node("Mul", ["x", "s"], ["y"]),
        ]
        np.testing.assert_array_equal(
            tc.compile(model(nodes, [("x", [3])])).run({"x": X[0]})["y"], X[0] * dense
        )


def test_a_sparse_constant_in_a_branch_and_in_a_part_of_a_file():
    branches = {
        name: helper.make_graph(
            [helper.make_node("Add", ["x", f"{name}_s"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, FLOAT, None)],
            sparse_initializer=[sparse(f"{name}_s", sign * W, True)],
        )
        for name, sign in (("yes", 1), ("no", -1))
    }
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["over"]),
        helper.make_node(
            "If", ["over"], ["y"], then_branch=branches["yes"], else_branch=branches["no"]
        ),
    ]
    made = model(nodes, [("x", [3, 3])], [numpy_helper.from_array(np.float32(0), "zero")])
    module = tc.compile(made)
    np.testing.assert_array_equal(module.run({"x": np.ones((3, 3), np.float32)})["y"], 1 + W)
    np.testing.assert_array_equal(module.run({"x": -np.ones((3, 3), np.float32)})["y"], -1 - W)


@pytest.mark.parametrize(
    "values, indices, dims, needed",
    [
        ([1, 2], [0, 6], [2, 3], "index 1 is outside of its shape [2, 3]"),
        ([1, 2], [-1, 3], [2, 3], "index 0 is outside of its shape [2, 3]"),
        ([1, 2], [[0, 0], [1, 3]], [2, 3], "index 1 is outside of its shape [2, 3]"),
        ([1, 2], [[0, 0], [2, 0]], [2, 3], "index 1 is outside of its shape [2, 3]"),
        ([1, 2], [3, 3], [2, 3], "index 1 does not come behind the one before it"),
        ([1, 2], [3, 1], [2, 3], "index 1 does not come behind the one before it"),
        (
            [1, 2],
            [0],
            [2, 3],
            "has values of shape [2] and indices of type i64 and shape [1]; [n] and i64, [n] or [n, 2], are needed",
        ),
        (
            [1, 2],
            [[0], [1]],
            [2, 3],
            "indices of type i64 and shape [2, 1]; [n] and i64, [n] or [n, 2], are needed",
        ),
        ([1], [0], [-2], "negative"),
        ([1], [0], [2**40, 2**40], "sparse tensor 's' of model.onnx"),
    ],
)
def test_sparse_tensors_that_are_none(values, indices, dims, needed):
    tensor = onnx.SparseTensorProto(
        values=numpy_helper.from_array(np.array(values, np.float32), "s"),
        indices=numpy_helper.from_array(np.array(indices, np.int64)),
        dims=dims,
    )
    with pytest.raises(tc.ModelError) as error:
        tc.compile(
            model(
                [helper.make_node("Add", ["x", "s"], ["y"])],
                [("x", [2, 3])],
                sparse_initializer=[tensor],
            )
        )
    assert needed in str(error.value)


def test_sparse_tensors_that_would_fill_memory():
    tensor = onnx.SparseTensorProto(
        values=numpy_helper.from_array(np.ones(1, np.float32), "s"),
        indices=numpy_helper.from_array(np.zeros(1, np.int64)),
        dims=[2**20, 2**12],
    )
    with pytest.raises(
        tc.UnsupportedError,
        match=r"sparse tensor 's' of model.onnx has 4294967296 elements; as dense tensors all sparse ones of this "
        r"model may take 134217728 bytes \(128 MB, or 3 times what the model has\); write it dense",
    ):
        tc.compile(
            model([helper.make_node("Identity", ["s"], ["y"])], [], sparse_initializer=[tensor])
        )


def test_sparse_tensors_that_are_not_read():
    given = sparse("s", W, True)
    given.values.data_location = TensorProto.EXTERNAL
    with pytest.raises(
        tc.UnsupportedError,
        match="has external data, which is not read for sparse tensors; keep them in the model's file",
    ):
        tc.compile(
            model([helper.make_node("Identity", ["s"], ["y"])], [], sparse_initializer=[given])
        )
    small = onnx.SparseTensorProto(
        values=helper.make_tensor("s", TensorProto.INT4, [1], [3]),
        indices=numpy_helper.from_array(np.zeros(1, np.int64)),
        dims=[2],
    )
    with pytest.raises(
        tc.UnsupportedError,
        match="sparse tensor 's' of model.onnx has elements of type i4; make it dense",
    ):
        tc.compile(
            model([helper.make_node("Identity", ["s"], ["y"])], [], sparse_initializer=[small])
        )


# --- order ----------------------------------------------------------------------------------------


def chain(length):
    """x, halved and one more, so often."""
    constants = [
        numpy_helper.from_array(np.float32(0.5), "half"),
        numpy_helper.from_array(np.float32(1), "one"),
    ]
    nodes, last = [], "x"
    for i in range(length):
        nodes += [
            helper.make_node("Mul", [last, "half"], [f"m{i}"]),
            helper.make_node("Add", [f"m{i}", "one"], [f"a{i}"]),
        ]
        last = f"a{i}"
    return nodes, last, constants


NOTE = "the nodes of 1 graph of the file stood in another order than they are computed in, and were sorted"


@pytest.mark.parametrize("seed", range(4))
def test_nodes_in_any_order(seed):
    nodes, last, constants = chain(6)
    order = (
        np.random.default_rng(seed).permutation(len(nodes)) if seed else np.arange(len(nodes))[::-1]
    )
    module = tc.compile(
        model([nodes[i] for i in order], [("x", [2, 3])], constants, outputs=[last])
    )
    expected = X
    for _ in range(6):
        expected = expected * np.float32(0.5) + 1
    np.testing.assert_allclose(module.run({"x": X})[last], expected, rtol=1e-6)
    assert NOTE in module.explain()
    straight = tc.compile(model(nodes, [("x", [2, 3])], constants, outputs=[last]))
    assert "another order" not in straight.explain()


def test_a_subgraph_that_reads_a_later_node():
    branch = {
        name: helper.make_graph(
            [helper.make_node("Neg" if name == "no" else "Identity", ["later"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, FLOAT, None)],
        )
        for name in ("yes", "no")
    }
    nodes = [
        helper.make_node(
            "If", ["over"], ["y"], then_branch=branch["yes"], else_branch=branch["no"]
        ),
        helper.make_node("Exp", ["x"], ["later"]),
        helper.make_node("Greater", ["sum", "zero"], ["over"]),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
    ]
    module = tc.compile(
        model(nodes, [("x", [2, 3])], [numpy_helper.from_array(np.float32(0), "zero")])
    )
    for x in (X, X + 5):
        np.testing.assert_allclose(
            module.run({"x": x})["y"], np.exp(x) if x.sum() > 0 else -np.exp(x), rtol=1e-5
        )


def test_nodes_of_a_body_and_of_a_function_in_any_order():
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["next"], ["state"]),
            helper.make_node("Add", ["before", "one"], ["next"]),
            helper.make_node("Identity", ["goes_on"], ["still"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", FLOAT, [2, 3]),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", FLOAT, [2, 3]),
        ],
    )
    constants = [
        numpy_helper.from_array(np.float32(1), "one"),
        numpy_helper.from_array(np.int64(3), "three"),
        numpy_helper.from_array(np.array(True), "true"),
    ]
    module = tc.compile(
        model(
            [helper.make_node("Loop", ["three", "true", "x"], ["y"], body=body)],
            [("x", [2, 3])],
            constants,
        )
    )
    np.testing.assert_allclose(module.run({"x": X})["y"], X + 3)
    made = model([helper.make_node("Twice", ["x"], ["y"], domain="ours")], [("x", [2, 3])])
    made.functions.append(
        helper.make_function(
            "ours",
            "Twice",
            ["a"],
            ["c"],
            [helper.make_node("Neg", ["b"], ["c"]), helper.make_node("Add", ["a", "a"], ["b"])],
            [helper.make_opsetid("", 20)],
        )
    )
    made.opset_import.append(helper.make_opsetid("ours", 1))
    np.testing.assert_allclose(tc.compile(made).run({"x": X})["y"], -2 * X)


@pytest.mark.parametrize(
    "nodes, circle",
    [
        (
            [("Add", ["x", "b"], "a"), ("Mul", ["a", "x"], "b"), ("Neg", ["b"], "y")],
            "'a' (Add) needs 'b' (Mul), which needs 'a' (Add)",
        ),
        ([("Add", ["x", "y"], "y")], "'y' (Add) needs itself"),
        (
            [
                ("Neg", ["c"], "y"),
                ("Abs", ["x"], "f"),
                ("Neg", ["a"], "b"),
                ("Add", ["b", "f"], "c"),
                ("Exp", ["c"], "a"),
            ],
            "'c' (Add) needs 'b' (Neg), which needs 'a' (Exp), which needs 'c' (Add)",
        ),
    ],
)
def test_circles(nodes, circle):
    made = model(
        [helper.make_node(op, inputs, [output]) for op, inputs, output in nodes], [("x", [2, 3])]
    )
    with pytest.raises(tc.ModelError) as error:
        tc.compile(made)
    assert (
        str(error.value)
        == f"'model.onnx' has nodes that cannot be computed in any order: {circle}; export it again"
    )


def test_a_long_circle_is_told_in_part():
    nodes = [helper.make_node("Neg", [f"n{(i + 1) % 40}"], [f"n{i}"]) for i in range(40)]
    with pytest.raises(
        tc.ModelError,
        match=r"which needs 'n7' \(Neg\), and so on through 32 more, which needs 'n0' \(Neg\); export it again",
    ):
        tc.compile(model(nodes, [("x", [2, 3])], outputs=["n0"]))


def test_parts_of_a_file_that_was_sorted_and_has_sparse_constants():
    nodes, last, constants = chain(3)
    nodes.append(helper.make_node("MatMul", [last, "s"], ["y"]))
    file = OnnxFile(
        model(
            nodes[::-1], [("x", [2, 3])], constants, sparse_initializer=[sparse("s", W, True)]
        ).SerializeToString()
    )
    assert [node.name for node in file.nodes] == ["m0", "a0", "m1", "a1", "m2", "a2", "y"]
    part = file.data(nodes={6}, inputs={last: ("f32", [2, 3])})
    np.testing.assert_allclose(tc.compile(part).run({last: X})["y"], X @ W, rtol=1e-6)


# --- inputs with an initializer -------------------------------------------------------------------


def scaled():
    """x * k + b, where k and b have values in the file; k is an input too."""
    made = model(
        [helper.make_node("Mul", ["x", "k"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])],
        [("x", [2, 3]), ("k", [3])],
        [
            numpy_helper.from_array(np.array([3, 4, 5], np.float32), "k"),
            numpy_helper.from_array(np.float32(0.5), "b"),
        ],
    )
    return made


def test_an_initializer_that_is_an_input_is_a_constant_unless_it_is_opened():
    module = tc.compile(scaled())
    assert [port.name for port in module.inputs] == ["x"]
    np.testing.assert_array_equal(module.run({"x": X})["y"], X * np.float32([3, 4, 5]) + 0.5)


def test_an_open_initializer_is_taken_or_left_as_the_file_has_it():
    module, k = tc.compile(scaled(), open_initializers=["k"]), np.array([-1, 2, 0.25], np.float32)
    assert [port.name for port in module.inputs] == ["x", "k"]
    for found in (module.run({"x": X, "k": k})["y"], module(X, k), module(X, k=k)):
        np.testing.assert_array_equal(found, X * k + 0.5)
    for found in (module.run({"x": X})["y"], module(X), module(x=X)):
        np.testing.assert_array_equal(found, X * np.float32([3, 4, 5]) + 0.5)
    with pytest.raises(tc.ShapeError, match="input 'x' of model '.*' is missing"):
        module.run({"k": k})
    assert tc.check(scaled(), open_initializers=["k"]) == []


def test_an_open_initializer_of_an_open_size():
    made = model(
        [helper.make_node("Mul", ["x", "k"], ["y"])],
        [("x", ["n", 3]), ("k", [3])],
        [numpy_helper.from_array(np.array([3, 4, 5], np.float32), "k")],
    )
    module = tc.compile(made, open_initializers=("k",))
    for size in (1, 2, 2, 2, 5, 5):
        x = np.ones((size, 3), np.float32)
        np.testing.assert_array_equal(module.run({"x": x})["y"], x * np.float32([3, 4, 5]))
        np.testing.assert_array_equal(
            module.run({"x": x, "k": np.float32([1, 0, 2])})["y"], x * np.float32([1, 0, 2])
        )


@pytest.mark.parametrize("name", ["b", "x", "nobody"])
def test_what_is_no_open_initializer(name):
    with pytest.raises(tc.ShapeError) as error:
        tc.compile(scaled(), open_initializers=[name])
    assert (
        str(error.value)
        == f"open_initializers: '{name}' is no input of model.onnx that has an initializer too; those are 'k'"
    )
    with pytest.raises(tc.ShapeError, match="that has an initializer too; it has none"):
        tc.compile(
            model([helper.make_node("Neg", ["x"], ["y"])], [("x", [2, 3])]), open_initializers=["x"]
        )
    with pytest.raises(tc.Error, match="open_initializers is 'k'; give a list of names"):
        tc.compile(scaled(), open_initializers="k")


def test_open_initializers_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "scaled.onnx"
    path.write_bytes(scaled().SerializeToString())
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "k.npy", np.float32([2, 2, 2]))
    given = [
        "run",
        str(path),
        "--json",
        "--input",
        f"x={tmp_path / 'x.npy'}",
        "--output-dir",
        str(tmp_path),
    ]
    assert main([*given, "--open-initializer", "k", "--input", f"k={tmp_path / 'k.npy'}"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), X * 2 + 0.5)
    capsys.readouterr()
    assert main([*given, "--open-initializer", "q"]) == 1
    assert "open_initializers: 'q'" in json.loads(capsys.readouterr().out)["error"]["text"]
