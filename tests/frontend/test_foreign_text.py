"""Whatever names models, files and records have: what people read of them is lines that can be
seen, and no command drives a terminal."""

import json
import os
import subprocess

import numpy as np
import pytest

import tc
from tc import cli, errors, inspecting_command

from . import hostile_names as hostile

# --- the function ---------------------------------------------------------------------------------


def test_what_is_printable_stays():
    for text in "", "conv1/weights:0", "größe 大きさ 🙂", "it's 'a' \\x1b":
        assert errors.printable(text) == errors.printable_lines(text) == text
    assert errors.printable_lines("a\tb\n\nc\n") == "a\tb\n\nc\n"


def test_what_cannot_be_seen_is_an_escape():
    assert errors.printable("\x1b[2J\n\r\t\0\x7f\x9b") == r"\x1b[2J\n\r\t\x00\x7f\x9b"
    assert (
        errors.printable("\u202e\u200b\u2028\u3164\U000e0041\ud800")
        == r"\u202e\u200b\u2028\u3164\U000e0041\ud800"
    )
    assert errors.printable(os.fsdecode(b"a\xffb")) == r"a\xffb"
    assert errors.printable_lines("a\r\nb\x1b[1m") == "a\\r\nb\\x1b[1m"


def test_the_middle_of_what_is_long_is_left_out():
    assert errors.printable("a" * 200) == "a" * 200
    assert (
        errors.printable("a" * 100 + "\n" * 3 + "b" * 100)
        == "a" * 100 + "...3 characters left out..." + "b" * 100
    )
    assert (
        errors.printable("x" * 600_000)
        == "x" * 100 + "...599800 characters left out..." + "x" * 100
    )
    assert errors.printable("abcdefg", 4) == "ab...3 characters left out...fg"
    assert (
        errors.printable_lines("short\n" + "y" * 5000)
        == "short\n" + "y" * 2000 + "...1000 characters left out..." + "y" * 2000
    )


@pytest.mark.parametrize("kind", hostile.NAMES)
def test_names_in_messages(kind):
    name = hostile.NAMES[kind]
    error = tc.ModelError(f"node '{name}' of the model's file reads '{name}'")
    for each in (
        error,
        tc.ModelError(str(error)),
        tc.ModelError(f"{name}: no quotes"),
        tc.ModelError(f"{name}: no quotes", shown=True),
    ):
        hostile.assert_fit_to_be_seen(str(each))
        assert "\n" not in str(each)
    assert (
        str(error).startswith("node '")
        and len(str(error)) < 1800
        and str(tc.ModelError(str(error))) == str(error)
    )


def test_messages_of_ours_stay():
    for text in (
        "input 'x' of model.onnx has no shape; give an array, or its sizes with shapes={'x': (…)}",
        "the elements' 4 bytes and 'x'",
        "'",
        "''",
        "a ' b",
    ):
        assert str(tc.ModelError(text)) == text
    assert tc.Error().args == ("",) and str(tc.Error("a", shown=True)) == "a"


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture(
    scope="module",
    params=[
        kind
        if kind in ("all at once", "long codes")
        else pytest.param(kind, marks=pytest.mark.full)
        for kind in hostile.NAMES
    ],
)
def files(request, tmp_path_factory):
    """A model with a hostile name, and what is made of it; its folder has such a name as far as a
    file system takes it."""
    name, folder = hostile.NAMES[request.param], tmp_path_factory.mktemp("hostile")
    part = name[:30]
    made = {
        "name": name,
        "folder": folder,
        "part": str(folder / part),
        "model": hostile.save(hostile.model(name), folder / f"{part}.onnx"),
        "refused": hostile.save(hostile.refused_model(name), folder / f"{part}.refused.onnx"),
    }
    module = tc.compile(made["model"], log=False, threads=1)
    made["so"], made["program"] = str(folder / f"{part}.so"), str(folder / "program")
    module.export(made["so"])
    module.export(made["program"], kind="executable")
    made["x"] = str(folder / f"{part}.npy")
    np.save(made["x"], np.ones((2, 4), np.float32))
    np.savez(
        folder / f"{part}.npz",
        **{f"{name}.x": np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)},
    )
    return made


def commands(files):
    """{command: lists of its arguments}: hostile names in everything that it is told, and in the
    files that it reads."""
    name, model, refused, so, x = (files[key] for key in ("name", "model", "refused", "so", "x"))
    size, given, target = (
        f"{name}.x=2,4",
        f"{name}.x={x}",
        ["--target", "x86-64-v3", "--threads", "1"],
    )
    log = files["part"] + ".db"
    return {
        "compile": [
            [model, "-o", files["part"] + ".out.so", *target],
            [refused],
            [model, "--target", name],
            [model, "--kind", name],
            [model, "--shape", f"{name}=3,4"],
            [model, "--shape", f"{name}.x=5,{name}"],
            [files["part"] + ".none"],
        ],
        "tune": [
            [refused, "--trials", "1"],
            [model, "--tracker", name],
            [model, "--log", files["part"] + "/none/x.db", "--trials", "1"],
            [model, refused, "--trials", "1"],
            [model, "--log", files["part"] + ".b.db", "--builders", name],
            [model, "--log", files["part"] + ".b.db", "--builders", f"ray:{name}"],
        ],
        "run": [
            [model, "--input", given],
            [so, "--input", given],
            [so, "--random", "--shape", size, "--output-dir", files["part"] + ".results"],
            [so, "--random"],
            [so, "--input", f"{name}.x={model}"],
            [so, "--input", name],
            [model, "--value", f"{name}={name}"],
        ],
        "bench": [
            [so, "--shape", size, "--seconds", "0.01"],
            [model, "--shape", size, "--repeat", "1"],
            [so, "--shape", size, "--repeat", "1", "--roof"],
        ],
        "check": [[model], [refused], [x]],
        "verify": [
            [model, "--shape", size, "--output-dir", files["part"] + ".verify", "--threads", "1"],
            [refused],
            [model, "--input", name],
        ],
        "inspect": [
            [model],
            [so],
            [model, "--dump", "all"],
            [model, "--dump", "plan"],
            [model, "--kernel", "0", "--no-time"],
            [model, "--kernel", name],
            [model, "--dump", name],
        ],
        "formats": [[name], ["--json", name]],
        "generate": [
            [model, "--prompt", name],
            [files["part"] + ".none", "--prompt", "x"],
            [files["part"] + ".gguf", "--prompt", name],
        ],
        "serve": [
            [model, "--port", "0"],
            [files["part"] + ".none", "--port", "0"],
            [model, "--port", "0", "--host", name],
            [model, "--port", "0", "--token-file", files["part"] + ".none"],
            [model, "--port", name],
        ],
        "lab": [
            ["--log", files["part"] + ".none", "--port", "0"],
            ["--log", model, "--port", "0"],
            ["--log", log, "--port", "0", "--report", files["part"] + ".none"],
            ["--log", log, "--port", "0", "--host", name],
            ["--log", log, "--port", "0", "--token-file", files["part"] + ".none"],
        ],
        "report": [
            [model, "--shape", size, "--seconds", "0", "-o", files["part"] + ".html"],
            [model, "--shape", size, "--seconds", "0", "-o", files["part"] + ".html", "--log", log],
            [refused],
            [model, "--target", name],
            [model, "-o", model],
            [files["part"] + ".none"],
        ],
        "targets": [[name]],
        "version": [[f"--{name}"]],
        "log": [
            ["list", log],
            ["stats", log],
            ["best", log],
            ["show", log, "--workload", name],
            ["export", log, x],
            ["import", log, model],
            ["merge", log, model],
            ["prune", log],
            [name],
        ],
        "quantize": [
            [
                model,
                "--data",
                files["part"] + ".npz",
                "-o",
                files["part"] + ".int8.onnx",
                "--threads",
                "1",
            ],
            [refused, "--data", x],
            [model, "--data", model],
        ],
        "cflags": [["--libs", "--machine", name]],
        "devices": [
            ["--tracker", name],
            ["--credentials", files["part"], "--tracker", "localhost:1"],
        ],
        "certs": [
            ["list", "--folder", files["part"]],
            ["add", name, "--folder", files["part"]],
            [name],
        ],
        "cluster": [
            ["init", "--credentials", files["part"], "--hosts", name],
            ["node", name, "--credentials", files["part"]],
            ["head", "--host", name, "--credentials", files["part"] + ".none"],
            [name],
        ],
        "units": [
            ["agent", "--path", "/" + name],
            ["tracker", "--path", name],
            ["tracker", "--path", "/x", "--credentials", name],
            ["agent", "--path", "/x", f"--run={name}"],
        ],
        "tracker": [["--listen", name], [f"--{name}"]],
        "agent": [["--tracker", name], ["--program", name], [f"--{name}"]],
    }


def test_all_commands_are_tried():
    parser = cli._parser()._commands()
    assert set(commands(dict.fromkeys(("name", "model", "refused", "so", "x", "part"), ""))) == set(
        parser
    )


def said_by(arguments, capfd):
    """(exit code, stdout, stderr) of the command line, in this process but for the native
    programs."""
    if arguments[0] in ("tracker", "agent"):
        done = subprocess.run(
            [
                os.path.join(os.path.dirname(tc.__file__), "bin", f"tc-{arguments[0]}"),
                *arguments[1:],
            ],
            capture_output=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    try:
        code = cli.main(arguments)
    except SystemExit as ended:
        code = ended.code
    return code, *capfd.readouterr()


def test_every_command(files, capfd, monkeypatch):
    monkeypatch.chdir(files["folder"])
    monkeypatch.setattr(inspecting_command, "_peak_share", lambda *_: None)
    codes = {}
    for command, calls in commands(files).items():
        for arguments in calls:
            code, out, err = said_by([command, *arguments], capfd)
            hostile.assert_fit_to_be_seen(out)
            hostile.assert_fit_to_be_seen(err)
            assert "internal error" not in err and "Traceback" not in err, (arguments, err)
            assert code == 0 or err or command == "check", arguments
            codes.setdefault(command, []).append(code)
    assert (
        codes["compile"] == [0, 1, 1, 2, 1, 1, 1]
        and codes["run"][:4] == [0, 0, 0, 1]
        and codes["inspect"][:5] == [0] * 5
    )
    assert codes["verify"][0] == codes["quantize"][0] == codes["bench"][0] == 0
    assert codes["report"] == [0, 1, 1, 1, 1, 1]  # there is no log of that name


def test_json_has_the_names_themselves(files, capfd):
    name, model = files["name"], files["model"]
    for arguments in (
        ["run", model, "--input", f"{name}.x={files['x']}"],
        ["compile", model, "-o", files["part"] + ".j.so"],
        ["inspect", model],
        ["check", files["refused"]],
        ["compile", files["refused"]],
    ):
        code, out, _ = said_by([*arguments, "--json"], capfd)
        row = json.loads(out)
        assert out.isascii() and out.count("\n") == 1
        if "inputs" in row:
            assert [each["name"] for each in row["inputs"]] == [f"{name}.x"] and [
                each["name"] for each in row["outputs"]
            ] == [f"{name}.y"]


def test_names_are_themselves_as_keys(files):
    name = files["name"]
    for module in tc.compile(files["model"], log=False), tc.load(files["so"]):
        assert [port.name for port in module.inputs] == [f"{name}.x"] and module.name in (
            name,
            errors.printable(os.path.basename(files["model"])),
            os.path.basename(files["so"]),
        )
        assert list(module.run({f"{name}.x": np.ones((2, 4), np.float32)})) == [f"{name}.y"]
        for text in repr(module), module.explain():
            hostile.assert_fit_to_be_seen(text)
        with pytest.raises(tc.Error) as raised:
            module.run({f"{name}.x": np.ones((2, 5), np.float32)})
        hostile.assert_fit_to_be_seen(str(raised.value))
        assert len(str(raised.value).split("\n")) == 1
    hostile.assert_fit_to_be_seen(
        str(tc.load(files["so"]).profile(np.ones((2, 4), np.float32), seconds=0.01))
    )


# --- executables ----------------------------------------------------------------------------------


def test_executables(files):
    name, x = files["name"], files["x"]
    results = files["part"] + ".of_program"
    for arguments, code in (
        ([f"--input={name}.x={x}", "--output-dir", results], 0),
        ([f"--input={name}.x={x}", "--profile"], 0),
        (["--help"], 0),
        ([f"--input={name}"], 2),
        ([], 2),
        ([f"--input={name}.x={name[:200]}"], 1),
        ([f"--{name}"], 2),
        ([f"--input={name}.x={files['model']}"], 1),
    ):
        done = subprocess.run(
            [files["program"], *arguments], capture_output=True, check=False, timeout=60
        )
        assert done.returncode == code, (arguments, done)
        for text in done.stdout, done.stderr:
            hostile.assert_fit_to_be_seen(text.decode())
    done = subprocess.run(
        [files["program"], f"--input={name}.x={x}", "--json", "--profile", "--output-dir", results],
        capture_output=True,
        check=True,
    )
    row = json.loads(done.stdout)
    assert (
        done.stdout.isascii()
        and row["model"] == name
        and row["inputs"][0] == {"name": f"{name}.x", "dtype": "f32", "shape": [2, 4], "file": x}
    )
    np.testing.assert_array_equal(
        np.load(row["outputs"][0]["file"]), np.full((2, 3), 2, np.float32)
    )


# --- what C cannot hold ---------------------------------------------------------------------------


def test_a_zero_in_a_name(tmp_path):
    path = hostile.save(hostile.model("a\0b"), tmp_path / "zero.onnx")
    for call in lambda: tc.compile(path, log=False), lambda: tc.check(path):
        with pytest.raises(
            tc.ModelError,
            match=r"^'zero.onnx' has the name 'a\\x00b[.\w]*', with a 0 in it; rename it, or export the model again$",
        ):
            call()
