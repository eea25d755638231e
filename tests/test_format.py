"""The form of the files: C and C++ by clang-format (`.clang-format`), with lines of at most 110
columns; Python by `ruff format` (`pyproject.toml`), with lines of at most 100."""

import ast
import io
import subprocess
import tokenize

import pytest

from .support import ROOT

FOLDERS = ("ir", "frontend", "scheduler", "codegen", "tuner", "runtime", "tests")
FOLDERS_OF_PYTHON = (*FOLDERS, "build_rules")
MAX_COLUMNS = 110
MAX_COLUMNS_OF_PYTHON = 100
# From Python 3.12 on an f-string is several tokens, of which the text between braces is one kind.
STRINGS = {
    getattr(tokenize, name)
    for name in ("STRING", "FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
    if hasattr(tokenize, name)
}


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".cc", ".h") and path.is_file():
                yield path


def sources_of_python():
    yield from sorted(ROOT.glob("*.py"))
    for folder in FOLDERS_OF_PYTHON:
        yield from sorted((ROOT / folder).rglob("*.py"))


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


def test_python_files_are_formatted():
    ruff = pytest.importorskip("ruff", reason="the package ruff is not installed")
    files = [str(path) for path in sources_of_python()]
    assert len(files) > 400
    done = subprocess.run(
        [ruff.find_ruff_bin(), "format", "--no-cache", "--check", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (
        f"format these again (ruff format FILE): {done.stdout}{done.stderr[:500]}"
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


def docstring_lines(tree):
    """The numbers of the lines that docstrings of a module take."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if ast.get_docstring(node, clean=False) is not None:
                yield from range(node.body[0].lineno, node.body[0].end_lineno + 1)


def lines_of_strings(text):
    """The numbers of the lines on which a string stands, or a part of one."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in STRINGS:
            yield from range(token.start[0], token.end[0] + 1)


def long_lines(text):
    """The numbers of the lines of a Python file that are too long: code, comments and docstrings.
    A line on which another string stands may be longer, since nothing breaks the string; a comment
    behind the string may not."""
    docstrings = set(docstring_lines(ast.parse(text)))
    strings = set(lines_of_strings(text)) - docstrings
    comments = {
        token.start[0]
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    return [
        number
        for number, line in enumerate(text.split("\n"), 1)
        if len(line) > MAX_COLUMNS_OF_PYTHON
        and "http" not in line
        and (number not in strings or number in comments)
    ]


def test_lines_of_python_are_short():
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources_of_python()
        for number in long_lines(path.read_text(encoding="utf-8"))
    ]
    assert long == []


def test_long_lines_of_python_are_found():
    much = "x" * 100
    assert long_lines(f'a = "{much}"\nb = f"""\n{much}{{a}} {much}\n"""\n') == []
    assert long_lines(f'"""A\n\n{much}x"""\na = 1\n') == [3]
    assert long_lines(f'def f():\n    """{much}"""\n') == [2]
    assert long_lines(f"a = 1  # {much}\n# {much}\n{much} = 1\n") == [1, 2, 3]
    assert long_lines(f'a = "{much}"  # and why\n') == [1]
