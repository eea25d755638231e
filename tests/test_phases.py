"""A compilation goes one way through the sources: no file includes one of a phase behind its own,
and planning none of a back end."""

import re
from pathlib import Path

import pytest

from .support import ROOT

FOLDERS = ("ir", "frontend", "scheduler", "codegen", "tuner")
DRIVER = ("compile", "kernel_module", "tune", "tune_devices", "builder_main", "model_program")

# In the order in which a model passes them; a file is of the first whose pattern it has.
PHASES = {
    "import": r"frontend/import/",
    "group": r"ir/passes/group\.",
    "passes": r"ir/(passes/|evaluate\.)",  # the reference runs a pass
    "schedule": r"scheduler/",
    "drive": rf"frontend/(pipeline/({'|'.join(DRIVER)})\.|profile/|python/)|tuner/|codegen/backend/table\.",
    "plan": r"frontend/pipeline/",
    "link": r"codegen/(llvm/(artefact/|probe/|backend\.|bare_export\.|required_features\.|kernel_code\.)"
    r"|c/(backend|model_source)\.)",
    "emit": r"codegen/",
}
ORDER = ["import", "passes", "group", "schedule", "plan", "emit", "link", "drive"]


def phase_of(name):
    """None of what all phases share: the representations of programs, in ir."""
    return next((phase for phase, pattern in PHASES.items() if re.match(pattern, name)), None)


def includes():
    """{file: the project's headers that it includes}."""
    found = {}
    for folder in FOLDERS:
        for path in sorted(Path(ROOT, folder).rglob("*")):
            if path.suffix in (".cc", ".h"):
                text = path.read_text(encoding="utf-8")
                found[str(path.relative_to(ROOT))] = re.findall(
                    r'^#include "((?:ir|frontend|scheduler|codegen|tuner|runtime)/[^"]+)"',
                    text,
                    re.M,
                )
    return found


def forwards(all_includes):
    """A line for each include of a later phase."""
    for name, headers in all_includes.items():
        own = phase_of(name)
        for header in headers:
            other = phase_of(header)
            if other is not None and (own is None or ORDER.index(other) > ORDER.index(own)):
                yield f"{name} ({own or 'shared'}) includes {header} ({other})"


def test_no_phase_includes_a_later_one():
    assert list(forwards(includes())) == []


@pytest.mark.parametrize(
    "line",
    [
        ("scheduler/a.cc", "frontend/pipeline/layout.h"),
        ("ir/loop.h", "ir/passes/group.h"),
        ("frontend/pipeline/layout.cc", "codegen/llvm/kernel_code.h"),
        ("codegen/llvm/emit/math.cc", "codegen/llvm/artefact/link.h"),
    ],
)
def test_what_goes_forwards_is_found(line):
    name, header = line
    assert len(list(forwards({name: [header]}))) == 1


def reached(name, all_includes):
    """All headers that a file sees."""
    seen, left = set(), [name]
    while left:
        for header in all_includes.get(left.pop(), []):
            if header not in seen:
                seen.add(header)
                left.append(header)
    return seen


def test_planning_sees_no_back_end():
    all_includes = includes()
    planning = [
        name
        for name in all_includes
        if phase_of(name) in ("import", "passes", "group", "schedule", "plan")
    ]
    assert len(planning) > 200
    assert [
        name
        for name in planning
        if any(header.startswith("codegen/") for header in reached(name, all_includes))
    ] == []


def library(package, name):
    text = Path(ROOT, package, "BUILD").read_text(encoding="utf-8")
    return next(
        rule
        for rule in re.findall(r"^cc_library\(\n.*?^\)", text, re.M | re.S)
        if f'name = "{name}"' in rule
    )


@pytest.mark.parametrize(
    "package, name",
    [("frontend", "import"), ("frontend", "plan"), ("scheduler", "scheduler"), ("ir", "ir")],
)
def test_the_build_graph_says_the_same(package, name):
    """Bazel refuses headers of libraries that are no dependencies."""
    assert "//codegen" not in library(package, name).partition("deps = [")[2]


def test_back_ends_know_nothing_of_each_other():
    """The driver and the tuner reach them by their interface and table alone."""
    all_includes = includes()
    folders = [path.name for path in Path(ROOT, "codegen").iterdir() if path.is_dir()]
    back_ends = sorted(set(folders) - {"backend"})
    assert {"c", "llvm"} <= set(back_ends)
    for name in back_ends:
        shared = ("codegen/backend/", f"codegen/{name}/")
        assert [
            file
            for file, headers in all_includes.items()
            if file.startswith(f"codegen/{name}/")
            and any(
                header.startswith("codegen/") and not header.startswith(shared)
                for header in headers
            )
        ] == []
    users = [
        name
        for name, headers in all_includes.items()
        if not name.startswith("codegen/")
        and any(
            header.startswith("codegen/") and not header.startswith("codegen/backend/")
            for header in headers
        )
    ]
    # Measures the machine with code of the back end for it.
    assert users == ["frontend/profile/limits.cc"]
