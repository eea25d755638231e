"""No circle of imports among the Python files of the package; imports in functions count too."""

import ast
import graphlib

import pytest

from .support import ROOT

PACKAGE = ROOT / "frontend" / "tc"
# Folders whose files need a package that may be absent: they are imported in a function, when a
# model of theirs is given, and that is no part of a circle.
OPTIONAL = ("torch", "tflite", "gguf")


def module_names(package):
    """{name below the package: path}; "" is the package itself."""
    names = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def from_imports(node, late=False):
    """(statement, whether it is in a function) of each `from … import …`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield child, late
        elif isinstance(child, (ast.stmt, ast.ExceptHandler)):
            yield from from_imports(
                child, late or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            )


def imports_of(name, path, names):
    """(name, whether a function does it) of each module of the package that the file imports."""
    base = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node, late in from_imports(ast.parse(path.read_text(encoding="utf-8"))):
        module = node.module or ""
        if node.level:
            parts = base.split(".") if base else []
            module = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [module])])
        elif module.partition(".")[0] == "tc":
            module = module.partition(".")[2]
        else:
            continue
        for alias in node.names:
            whole = f"{module}.{alias.name}".lstrip(".")
            # A name is a file of the package, or what a file defines; others are extension modules.
            if whole in names or (path.parent / f"{alias.name}.py").exists():
                yield whole if whole in names else module, late
            elif not alias.name.startswith("_"):
                yield module, late


def graph_of(package):
    """{module: the modules that it imports}, without what functions import of optional packages."""
    names = module_names(package)
    graph = {}
    for name, path in names.items():
        own = name.partition(".")[0]
        graph[name] = {
            other
            for other, late in imports_of(name, path, names)
            if other in names
            and other != name
            and not (
                late and other.partition(".")[0] in OPTIONAL and other.partition(".")[0] != own
            )
        }
    return graph


def circle_in(graph):
    """The modules of a circle, in their order; nothing where there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def test_no_file_of_the_package_imports_itself_by_others():
    graph = graph_of(PACKAGE)
    assert len(graph) > 100 and "errors" in graph["compiling"] and "torch" not in graph["formats"]
    assert circle_in(graph) == []


@pytest.mark.parametrize("late", ["", "def f():\n    "])
def test_circles_are_found(tmp_path, late):
    (tmp_path / "__init__.py").write_text("from .one import a\n")
    (tmp_path / "one.py").write_text("from .two import b\n")
    (tmp_path / "two.py").write_text(f"{late}from . import one\n")
    assert set(circle_in(graph_of(tmp_path))) == {"one", "two"}
    (tmp_path / "two.py").write_text(f"{late}from .torch import a\n")
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("from ..one import a\n")
    assert bool(circle_in(graph_of(tmp_path))) == (late == ""), (
        "only what a function imports of an optional package is let through"
    )
