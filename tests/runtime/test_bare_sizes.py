"""What a bare artefact takes of a board's memory: flash, RAM and stack, told and bounded."""

import json
import os
import re

import numpy
import pytest

import tc
from tc.cli import main
from tc.native import LIBRARY_FOLDER

from ..support import ROOT
from .bare_models import (
    MACHINES,
    keyword_network,
    link_example,
    run_as_process,
    run_tool,
    said,
    words,
    write_samples,
)


@pytest.fixture(name="network", scope="module")
def network_of_keywords(tmp_path_factory):
    path = tmp_path_factory.mktemp("sizes") / "keywords.onnx"
    keyword_network(path)
    return path


def macros(header):
    return {
        name: int(value)
        for name, value in re.findall(
            r"^#define MODEL_(\w+_BYTES) (\d+)$", header.read_text(), re.M
        )
    }


def sections(path):
    """Bytes of what the program loads, by whether it is written: readelf's table."""
    rows = re.findall(
        r"\] (\S+) +\w+ +[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) [0-9a-f]+ +([A-Z]*A[A-Z]*) ",
        run_tool("llvm-readelf", "--sections", "--wide", path),
    )
    return {
        written: sum(int(size, 16) for _, size, flags in rows if ("W" in flags) == written)
        for written in (False, True)
    }


@pytest.mark.parametrize("target", MACHINES)
def test_what_is_told_is_so(target, network, tmp_path):
    """Against the sections of the object, and the stack that the example finds used."""
    sizes = tc.compile(network, target=target, threads=1, log=False).export(
        tmp_path / "model.o", kind="bare"
    )
    there = sections(tmp_path / "model.o")
    assert (
        sizes["constants"] + sizes["code"] == there[False]
        and sizes["arena"] + sizes["zeros"] == there[True]
    )
    told = macros(tmp_path / "model.h")
    assert (
        told["WEIGHTS_BYTES"],
        told["ARENA_BYTES"],
        told["CODE_BYTES"],
        told["STACK_BYTES"],
    ) == tuple(sizes[name] for name in ("constants", "arena", "code", "stack"))
    write_samples(tmp_path, words()[:1])
    _, _, (_, _, stack) = said(
        run_as_process(
            link_example(tmp_path, target, [ROOT / "tests/runtime/bare_linux.c"]), target
        ),
        numpy.float32,
    )
    print(f"{target}: stack {sizes['stack']}, of the whole program {stack}")
    assert sizes["stack"] <= stack <= sizes["stack"] + 600


def test_the_header_names_the_file(network, tmp_path):
    module = tc.compile(network, target="rv64gc", threads=1, log=False)
    for name, header in (("kws.elf.o", "kws.elf.h"), ("net", "net.h"), ("kws.obj", "kws.h")):
        module.export(tmp_path / name, kind="bare")
        assert (
            (tmp_path / header)
            .read_text()
            .startswith(
                f"/* {name}: model 'keywords' for a system without an operating system: link this file.\n"
            )
        )
    (tmp_path / "folder.h").mkdir()
    with pytest.raises(tc.DeviceError) as raised:
        module.export(tmp_path / "folder.o", kind="bare")
    assert (
        str(raised.value)
        == f"'{tmp_path}/folder.h' cannot be written: it is a folder; give the name of a file"
    )
    with pytest.raises(tc.DeviceError) as raised:  # the compiler by itself
        module._compiled.export(
            "bare", os.fsencode(tmp_path / "folder.o"), os.fsencode(LIBRARY_FOLDER), b""
        )
    assert str(raised.value) == f"cannot write '{tmp_path}/folder.h': it is a folder"
    assert set(os.listdir(tmp_path)) == {
        "kws.elf.o",
        "kws.elf.h",
        "net",
        "net.h",
        "kws.obj",
        "kws.h",
        "folder.h",
    }


def test_flash_and_ram_are_apart(network, tmp_path):
    """91 KB of constants and 64 of arena: within 80 KB of RAM only where constants lie
    elsewhere."""
    options = {"target": "rv64gcv", "threads": 1, "log": False}
    with pytest.raises(
        tc.UnsupportedError,
        match="needs 9[0-9]* bytes for constants and 6[0-9]* to work in, but it may use 80000 at most",
    ):
        tc.compile(network, max_ram="80KB", **options)
    module = tc.compile(network, max_ram="80KB", max_flash="0.25MB", **options)
    assert module.export(tmp_path / "m.o", kind="bare")["arena"] <= 80_000
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(network, max_flash="50KiB", **options)
    assert re.fullmatch(
        r"model 'keywords.onnx' needs \d+ bytes for constants, but max_flash gives it 51200; its largest constants are 'w\d+' \(\d+ bytes\), .*; use a smaller or a "
        "quantised model, or give it more by max_flash",
        str(raised.value),
    )
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(network, max_ram="40KB", max_flash="1MB", **options)
    assert re.match(
        r"model 'keywords.onnx' needs \d+ bytes to work in, but it may use 40000 at most; most is in use in step '",
        str(raised.value),
    )


def test_code_is_a_part_of_flash(network, tmp_path):
    options = {"target": "rv64gcv", "threads": 1, "log": False}
    constants = tc.compile(network, max_flash="1MB", **options).export(
        tmp_path / "m.o", kind="bare"
    )["constants"]
    module = tc.compile(network, max_flash=constants, **options)
    with pytest.raises(tc.UnsupportedError) as raised:
        module.export(tmp_path / "n.o", kind="bare")
    told = re.fullmatch(
        rf"model 'keywords.onnx' needs {constants} bytes for constants and (\d+) for code, but max_flash gives it {constants}; use a smaller or a quantised model, or "
        r"give it at least (\d+) by max_flash",
        str(raised.value),
    )
    assert told and int(told[2]) == constants + int(told[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.h", "m.o"]


def test_ram_of_small_targets_has_no_constants(network, tmp_path):
    """There is no other kind of artefact for them."""
    for target in ("rv32imfc", "cortex-m4"):
        module = tc.compile(network, target=target, max_ram="80KB", log=False)
        assert module.export(tmp_path / "m.o", kind="bare")["arena"] <= 80_000


@pytest.mark.parametrize("target", ["rv32imfc", "cortex-m4"])
def test_variables_and_stack_are_a_part_of_ram(target, network, tmp_path):
    options = {"target": target, "log": False}
    sizes = tc.compile(network, max_ram="80KB", **options).export(tmp_path / "m.o", kind="bare")
    needed = sizes["arena"] + sizes["zeros"] + sizes["stack"]
    assert sizes["stack"] > 0
    with pytest.raises(tc.UnsupportedError) as raised:
        tc.compile(network, max_ram=needed - 1, **options).export(tmp_path / "n.o", kind="bare")
    assert str(raised.value) == (
        f"model 'keywords.onnx' needs {sizes['arena']} bytes to work in, {sizes['zeros']} for variables and {sizes['stack']} of the stack, "
        f"but max_ram gives it {needed - 1}; use a smaller model, or give it at least {needed} by max_ram"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.h", "m.o"]
    tc.compile(network, max_ram=needed, **options).export(tmp_path / "n.o", kind="bare")


def test_the_command_tells_it(network, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = [
        "compile",
        str(network),
        "--target",
        "rv64gcv",
        "--threads",
        "1",
        "--kind",
        "bare",
        "-o",
        "kws.o",
        "--max-ram",
        "80KB",
    ]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    flash, ram, stack = (
        next(line for line in lines if line.startswith(word)) for word in ("flash", "RAM", "stack")
    )
    assert re.fullmatch(r"flash  (\d+\.\d) KB: constants (\d+\.\d) KB, code (\d+\.\d) KB", flash)
    assert re.fullmatch(
        r"RAM    \d+\.\d KB: arena 64\.0 KB, zeros \d+\.\d KB; inputs and outputs are the program's",
        ram,
    )
    assert re.fullmatch(r"stack  \d+\.\d KB of a run", stack)
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    known = {
        name.removeprefix("KWS_"): int(value)
        for name, value in re.findall(
            r"^#define (KWS_\w+_BYTES) (\d+)$", (tmp_path / "kws.h").read_text(), re.M
        )
    }
    assert told["flash"] == {
        "total": known["WEIGHTS_BYTES"] + known["CODE_BYTES"],
        "constants": known["WEIGHTS_BYTES"],
        "code": known["CODE_BYTES"],
    }
    assert (
        told["ram"]["arena"] == known["ARENA_BYTES"]
        and told["ram"]["total"] == told["ram"]["arena"] + told["ram"]["zeros"]
    )
    assert told["stack"] == known["STACK_BYTES"]
    assert main([*command, "--max-flash", "60KB"]) == 1
    assert "but max_flash gives it 60000; its largest constants are" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "--max-flash", "60 kilo"])
    assert (
        "'60 kilo' is not a number of bytes, alone or with a unit (256KB, 1MiB)"
        in capsys.readouterr().err
    )
