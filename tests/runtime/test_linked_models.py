"""Several models in one C program, of any kind: each is itself, by names that are made of the
artefacts' files."""

import subprocess

import pytest

import tc

from ..support import ROOT, worst_error
from .linked_models import (
    CLANG,
    COMPILERS,
    compiled,
    export,
    layer,
    link_command,
    run_hosted,
    run_program,
    run_without_system,
    symbols,
)

NAMES = ("first", "second", "third")
MIXED = ("static", "object", "bare")


def expect(found, count):
    assert len(found) == count
    for number, array in enumerate(found):
        wanted = layer(number)[2].ravel()
        assert worst_error(array, wanted) <= 1e-4, number


def kinds(*names):
    return list(zip(NAMES, names))


def combinations():
    """Of a target, a compiler and kinds: a core of them, the others with --full."""
    for target, compilers in COMPILERS.items():
        for compiler in compilers:
            for chosen in [(kind,) * count for kind in MIXED for count in (2, 3)] + [
                MIXED,
                ("shared", "shared"),
                ("shared", "static", "bare"),
            ]:
                if "shared" in chosen and target != "x86-64-v3":
                    continue
                core = (
                    chosen in (MIXED, ("static",) * 3)
                    if target != "x86-64-v3"
                    else len(chosen) == 2 and (compiler == "gcc") == (chosen[0] != "object")
                )
                core = core or target == "x86-64-v3" and chosen == MIXED
                yield pytest.param(
                    target,
                    compiler,
                    chosen,
                    marks=() if core else pytest.mark.full,
                    id=f"{target}-{compiler}-{'-'.join(chosen)}",
                )


@pytest.mark.parametrize("target, compiler, chosen", list(combinations()))
def test_each_is_itself(target, compiler, chosen, tmp_path):
    expect(run_hosted(tmp_path, kinds(*chosen), target, compiler), len(chosen))


@pytest.mark.parametrize(
    "target, count",
    [
        ("rv32imfc", 2),
        ("rv32imfc_zve32f", 3),
        pytest.param("rv32imfc", 3, marks=pytest.mark.full),
        pytest.param("rv64gcv", 3, marks=pytest.mark.full),
        pytest.param("aarch64", 3, marks=pytest.mark.full),
    ],
)
def test_without_a_system(target, count, tmp_path):
    expect(run_without_system(tmp_path, NAMES[:count], target), count)


@pytest.mark.parametrize("kind", ["static", "object", "shared"])
def test_one_model_by_the_old_name(kind, tmp_path):
    """`tc_model_descriptor` is the model where there is but one."""
    chosen = [("tc_model", kind)]
    expect(run_hosted(tmp_path, chosen, "x86-64-v3", "gcc", headers=False), 1)
    (tmp_path / "tc_model.h").unlink(missing_ok=True)
    compiled(0, "x86-64-v3").export(
        tmp_path / f"only{ {'static': '.a', 'object': '.o', 'shared': '.so'}[kind] }", kind=kind
    )
    command = [
        word.replace("tc_model.", "only.")
        for word in link_command(tmp_path, chosen, "x86-64-v3", "gcc")
    ]
    subprocess.run(command, check=True)
    expect(run_program(tmp_path, "x86-64-v3"), 1)


def test_names_in_each_kind(tmp_path):
    for name, kind in (
        ("one.a", "static"),
        ("two.o", "object"),
        ("three.so", "shared"),
        ("tc_model.o", "object"),
    ):
        compiled(0, "x86-64-v3").export(tmp_path / name, kind=kind)
    assert {
        name: kind
        for name, kind in symbols(tmp_path / "two.o", "--extern-only", "--defined-only").items()
        if "kernel" not in name and "constants" not in name
    } == {"two_descriptor": "D", "tc_model_descriptor": "V"}
    assert all(
        name.startswith("two_descriptor") or name == "tc_model_descriptor"
        for name in symbols(tmp_path / "two.o", "--extern-only", "--defined-only")
    )
    assert symbols(tmp_path / "three.so", "--dynamic", "--defined-only") == {
        "three_descriptor": "D",
        "tc_model_descriptor": "V",
    }
    assert symbols(tmp_path / "one.a", "--extern-only", "--defined-only")["one_descriptor"] == "D"
    assert (
        symbols(tmp_path / "tc_model.o", "--extern-only", "--defined-only")["tc_model_descriptor"]
        == "D"
    )
    assert tc.load(tmp_path / "three.so").inputs[0].name == "x"


@pytest.mark.parametrize(
    "file, name",
    [
        ("my-model.a", "my_model"),
        ("7 odd.v2.a", "_7_odd_v2"),
        ("int.a", "int"),
        ("Ünï.a", "__n__"),
        (".a", "_"),
        ("plain", "plain"),
        ("a.b/c", "c"),
    ],
)
def test_a_file_name_becomes_a_name_of_c(file, name, tmp_path):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    compiled(0, "x86-64-v3").export(path, kind="static")
    header = next(path.parent.glob("*.h"))
    text = header.read_text()
    assert f"const struct tc_descriptor {name}_descriptor;" in text and text.startswith("/* ")
    assert symbols(path, "--extern-only", "--defined-only")[f"{name}_descriptor"] == "D"
    for language in "c", "c++":
        subprocess.run(
            [
                CLANG,
                "-x",
                language,
                "-pedantic",
                "-Wall",
                "-Werror",
                "-fsyntax-only",
                f"-I{ROOT}/runtime",
                header,
            ],
            check=True,
        )


def compile_both(folder, first, second):
    """What a compiler says of a program that includes both headers, each twice."""
    text = "".join(f'#include "{name}"\n' for name in (first, second, first, second))
    (folder / "both.c").write_text(text + "int main(void) { return 0; }\n")
    return subprocess.run(
        ["gcc", "-fsyntax-only", f"-I{folder}", f"-I{ROOT}/runtime", folder / "both.c"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("kind, suffix", [("static", ".a"), ("object", ".o"), ("bare", ".o")])
@pytest.mark.parametrize(
    "one, other", [("my-model", "my_model"), ("my model", "my.model"), ("ä", "ö")]
)
def test_names_that_become_the_same_do_not_compile(kind, suffix, one, other, tmp_path):
    for number, name in enumerate((one, other)):
        compiled(number, "x86-64-v3").export(tmp_path / f"{name}{suffix}", kind=kind)
    done = compile_both(tmp_path, f"{one}.h", f"{other}.h")
    assert done.returncode != 0 and "#error the names of two models begin with" in done.stderr
    assert compile_both(tmp_path, f"{one}.h", f"{one}.h").returncode == 0


def test_macros_that_become_the_same_do_not_compile(tmp_path):
    """Symbols differ, but what the headers define does not."""
    for number, name in enumerate(("kws", "KWS")):
        compiled(number, "x86-64-v3").export(tmp_path / f"{name}.o", kind="bare")
    assert (
        "#error the names of two models begin with KWS or KWS"
        in compile_both(tmp_path, "kws.h", "KWS.h").stderr
    )


def test_objects_of_the_same_name_do_not_link(tmp_path):
    names = [("m-1", "object"), ("m_1", "object")]
    export(tmp_path, names, "x86-64-v3")
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    done = subprocess.run(
        link_command(tmp_path, names, "x86-64-v3", "gcc"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and "multiple definition of `m_1_descriptor'" in done.stderr


def test_the_header_of_another_artefact_is_kept(tmp_path):
    compiled(0, "x86-64-v3").export(tmp_path / "m.a", kind="static")
    before = (tmp_path / "m.h").read_text()
    with pytest.raises(tc.DeviceError) as raised:
        compiled(1, "x86-64-v3").export(tmp_path / "m.o", kind="bare")
    assert (
        str(raised.value)
        == f"'{tmp_path}/m.h' is the header of 'm.a'; give 'm.o' another name, or remove both files of the other artefact"
    )
    assert (tmp_path / "m.h").read_text() == before and sorted(
        path.name for path in tmp_path.iterdir()
    ) == ["m.a", "m.h"]
    compiled(1, "x86-64-v3").export(tmp_path / "m.a", kind="static")  # its own is replaced
    compiled(1, "x86-64-v3").export(tmp_path / "m.o", kind="object")  # this one declares the same
    (tmp_path / "m.h").write_text("/* somebody's own */\n")
    compiled(1, "x86-64-v3").export(tmp_path / "m.o", kind="bare")
    with pytest.raises(tc.DeviceError, match="is the header of 'm.o'; give 'm.obj' another name"):
        compiled(0, "x86-64-v3").export(tmp_path / "m.obj", kind="bare")


def test_the_same_bytes_for_the_same_name(tmp_path):
    made = {}
    for folder in "a", "b":
        (tmp_path / folder).mkdir()
        for kind, name in (
            ("static", "m.a"),
            ("object", "n.o"),
            ("shared", "m.so"),
            ("executable", "m"),
            ("bare", "o.o"),
        ):
            compiled(0, "x86-64-v3").export(tmp_path / folder / name, kind=kind)
        made[folder] = {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}
    assert made["a"] == made["b"] and len(made["a"]) == 8
    compiled(0, "x86-64-v3").export(tmp_path / "other", kind="executable")
    assert (tmp_path / "other").read_bytes() == made["a"]["m"]  # it shows no names
    compiled(0, "x86-64-v3").export(tmp_path / "n.so")
    assert (tmp_path / "n.so").read_bytes() != made["a"]["m.so"]
