"""How large the project's own files, functions, classes and parameter lists are, with the
exceptions listed."""

import ast
import glob
import os
import re
from pathlib import Path

import lizard

from .support import ROOT

FOLDERS = ("ir", "frontend", "scheduler", "codegen", "tuner", "runtime")
MAX_LINES_OF_FILE = 600
MAX_LINES_OF_FUNCTION = 80
MAX_METHODS = 30
MAX_PARAMETERS = 6

CONTRACT = "the contract of users: every option is a keyword with a default"
OPERATORS = "a value with the operators of arithmetic"

# What is larger all the same, and why. The list is exact: what no longer is larger fails, too. It
# may only become shorter.
EXCEPTIONS = {
    "frontend/tc/compiling.py compile: parameters": CONTRACT,
    "frontend/tc/tuning.py tune: parameters": CONTRACT,
    "codegen/llvm/emit/number.h Number: methods": OPERATORS,
    "codegen/llvm/emit/tile_emitter.h TileEmitter: methods": "one leaf's state, divided over several files by subject",
}
MAX_EXCEPTIONS = 4
# A function of the table of PyTorch's operators is given the operator's own arguments by name.
ROWS_OF_PYTORCH = "frontend/tc/torch/aten/"


def sources():
    for folder in FOLDERS:
        for path in sorted(glob.glob(os.path.join(ROOT, folder, "**", "*"), recursive=True)):
            if path.endswith((".cc", ".h", ".c", ".py")):
                yield path, os.path.relpath(path, ROOT)


def methods_of_classes(text):
    """Name and number of methods declared in each class or struct of a C++ header, nested ones
    apart."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)
    found, stack, statement = [], [], ""
    for token in re.findall(r"[{};]|[^{};]+", text):
        if token == "{":
            opens = re.search(r"\b(?:class|struct)\s+(?:\w+::)*(\w+)\b[^;()]*$", statement)
            inside = bool(stack) and stack[-1] is not None
            if inside and not opens and is_method(statement):
                stack[-1][1] += 1
            stack.append([opens.group(1), 0] if opens else None)
            statement = ""
        elif token == "}":
            if stack and (closed := stack.pop()) is not None:
                found.append(tuple(closed))
            statement = ""
        elif token == ";":
            if stack and stack[-1] is not None and is_method(statement):
                stack[-1][1] += 1
            statement = ""
        else:
            statement += token
    return found


def is_method(statement):
    """Whether a declaration inside a class is a function: a name before parentheses, no initialiser
    before them."""
    statement = re.sub(r"\b(?:public|private|protected)\s*:", "", statement).strip()
    if statement.startswith(("using ", "friend ", "typedef ", "static_assert")):
        return False
    if re.search(r"\boperator\b", statement):
        return True
    return (
        re.match(r"[^=(]*[\w>&*\]=+\-()]\s*\(", statement) is not None
        and "std::function<" not in statement.split("(")[0]
    )


def docstring_sizes(text):
    """{line of a Python function's `def`: how many lines its docstring takes}. The docstring is
    what help() shows to users: it is no part of the function's length."""
    sizes = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0]
            is_there = ast.get_docstring(node, clean=False) is not None
            sizes[node.lineno] = first.end_lineno - first.lineno + 1 if is_there else 0
    return sizes


def excesses():
    """A line for everything that is larger than it should be."""
    for path, name in sources():
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines = text.count("\n")
        if lines > MAX_LINES_OF_FILE:
            yield f"{name}: lines", lines
        if path.endswith((".cc", ".h")):
            for owner, methods in methods_of_classes(text):
                if methods > MAX_METHODS:
                    yield f"{name} {owner}: methods", methods
        docstrings = docstring_sizes(text) if path.endswith(".py") else {}
        for function in lizard.analyze_file(path).function_list:
            short = function.name.removeprefix("tc::")
            length = function.end_line - function.start_line + 1
            length -= docstrings.get(function.start_line, 0)
            if length > MAX_LINES_OF_FUNCTION:
                yield f"{name} {short}: lines", length
            if len(function.full_parameters) > MAX_PARAMETERS and not name.startswith(
                ROWS_OF_PYTORCH
            ):
                yield f"{name} {short}: parameters", len(function.full_parameters)


def test_nothing_grows_beyond_its_size():
    found = dict(excesses())
    new = [f"{key} ({size})" for key, size in found.items() if key not in EXCEPTIONS]
    assert not new, "too large, divide: " + "; ".join(new)


def test_python_files_of_tests_are_short():
    long = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.read_text(encoding="utf-8").count("\n") > MAX_LINES_OF_FILE
    ]
    assert long == []


def test_exceptions_are_exact():
    found = dict(excesses())
    assert [key for key in EXCEPTIONS if key not in found] == []
    assert len(EXCEPTIONS) <= MAX_EXCEPTIONS


PASSES = "codegen/llvm/passes/"


def test_docstrings_are_not_counted():
    text = (
        'def f(\n    a,\n):\n    """One.\n\n    Two."""\n    return a\n\n\ndef g():\n    return 1\n'
    )
    assert docstring_sizes(text) == {1: 3, 10: 0}


def test_counts_methods():
    text = """class A : public B { public: A(); void f() const; int x = g(1); int h() { return 1; }
              std::function<void(int)> hook; struct C { bool operator==(const C&) const; }; };"""
    assert dict(methods_of_classes(text)) == {"A": 3, "C": 1}


def test_the_page_of_code_generation_names_every_file():
    page = (ROOT / "docs" / "codegen.md").read_text(encoding="utf-8")
    names = {
        os.path.splitext(os.path.basename(name))[0]
        for _, name in sources()
        if name.startswith("codegen/") and not name.startswith(PASSES)
    }
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


# Headers of others that comments name.
FOREIGN_HEADERS = {"string.h", "stdint.h", "common.h", "asm/hwcap.h"}


def test_files_that_comments_name_exist():
    files = {os.path.basename(name) for _, name in sources()}
    files |= {path.name for path in (Path(ROOT) / "tests").rglob("*.cc")}
    unknown = [
        f"{name}:{number} {other}"
        for path, name in sources()
        if name.endswith((".cc", ".h"))
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1)
        for other in re.findall(r"[\w/]*\b[a-z]\w*\.(?:cc|h)\b", line.partition("// ")[2])
        if os.path.basename(other) not in files and other not in FOREIGN_HEADERS
    ]
    assert unknown == []


def test_each_file_of_passes_is_a_row_of_their_page():
    page = (ROOT / "docs" / "code_passes.md").read_text(encoding="utf-8")
    names = {
        os.path.splitext(os.path.basename(name))[0]
        for _, name in sources()
        if name.startswith(PASSES)
    }
    rows = set(re.findall(r"^\| (\w+) \|", page, re.M)) - {"pass"}
    assert names - {"pass"} == rows and len(rows) > 10
