"""The form of the C and C++ files: clang-format by `.clang-format`, and lines of at most 110
columns."""

import subprocess

import pytest

from .support import ROOT

FOLDERS = ("ir", "frontend", "scheduler", "codegen", "tuner", "runtime", "tests")
MAX_COLUMNS = 110


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".cc", ".h") and path.is_file():
                yield path


def test_files_are_formatted():
    formatter = pytest.importorskip(
        "clang_format", reason="the package clang-format is not installed"
    )
    files = [str(path) for path in sources()]
    assert len(files) > 800
    done = subprocess.run(
        [formatter.get_executable("clang-format"), "--dry-run", "-Werror", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    differ = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "error:" in line})
    assert done.returncode == 0, (
        f"format these again (clang-format -i FILE): {differ}{done.stderr[:500]}"
    )


def test_lines_are_short():
    """Texts that a program compares or prints stand in one line, however long: strings, kernels,
    and addresses."""
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MAX_COLUMNS
        and not any(mark in line for mark in ('"', "http", ">= 0", "+= ", "]: "))
    ]
    assert long == []
