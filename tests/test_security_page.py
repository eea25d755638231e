"""The tests that docs/security.md names are there."""

import glob
import os
import re

from .support import ROOT


def text_of(*pattern):
    return "\n".join(
        open(path, encoding="utf-8").read()
        for path in glob.glob(os.path.join(ROOT, "tests", *pattern), recursive=True)
        if os.path.isfile(path)
    )


def test_every_test_that_the_page_names_exists():
    with open(os.path.join(ROOT, "docs", "security.md"), encoding="utf-8") as file:
        page = file.read()
    cpp, python = text_of("**", "*.cc"), text_of("**", "test_*.py")
    attacks = text_of("agent", "hostile.h") + text_of("agent", "cheater.h")
    cells = [
        cell.strip()
        for line in page.splitlines()
        if line.startswith("|")
        for cell in line.strip("|").split("|")
    ]
    missing = [
        name
        for name in re.findall(r"`(\w+\.(?:[A-Z]\w+))`", page)
        if not re.search(r"TEST(_F|_P)?\(" + name.replace(".", r",\s*") + r"\)", cpp)
    ]
    missing += [name for name in re.findall(r"`(test_\w+)`", page) if f"def {name}(" not in python]
    missing += [
        name
        for name in re.findall(r"`(test_\w+\.py)`", page)
        if not glob.glob(os.path.join(ROOT, "tests", "**", name), recursive=True)
    ]
    kinds = [
        kind
        for cell in cells
        for names in re.findall(r"(?:Hostile|Cheaters) ((?:[A-Z]\w+(?:, )?)+)", cell)
        for kind in names.strip(", ").split(", ")
    ]
    missing += [kind for kind in kinds if f"(k{kind})" not in attacks]
    assert len(kinds) > 30
    assert not missing
