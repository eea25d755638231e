"""Words that the project does not use: each had a meaning of its own here where the field has a
term."""

import re

import pytest

from .support import ROOT

FOLDERS = ("ir", "frontend", "scheduler", "codegen", "tuner", "runtime")
# What is looked for, in code and comments of C++ and Python, and the field's word for it.
REPLACED = (
    (r"\bface\b|\bdoors?\b", "interface"),
    (r"\btouch_\w+|\bis_touch\b|\b(a|no|the) touch\b", "prefetch by a load"),
    (r"\bsaved vectors\b", "spills"),
    (r"\bparked\b|\bpark_\w+|\bpark\(", "spill early, reload"),
    (r"\bchains in turns\b", "interleaved chains"),
    (r"\breorders\b(?=\s*[=?(])", "out_of_order"),
    (r"\bat_once_?\b", "what is counted: tiles, blocks, products"),
    (r"\bleast_block\b|\bhalves_\b", "small_block, half_blocks"),
    (r"(\.|->)members\b|\bmembers_\b", "iterator_parts, packed elements"),
    (r"\b[Tt]hrift\w*", "memory saving"),
    (r"\b[Aa]bandon(s|ing)?\b", "not applicable, refusal"),
    (r"\bone_stretch\b", "one basic block"),
    (r"\bStream::", "what the loads are of"),
    (r"\bperhaps\(", "conditionally"),
    (r"\bclosed forms?\b", "analytic cost model"),
    (r"\w(\.|->)apart\b", "what is separate"),
)


def uses(pattern, lines):
    return [f"{name}:{number}" for name, number, line in lines if re.search(pattern, line)]


def lines_of_sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cc", ".h", ".py") and path.is_file():
                for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                    yield path.relative_to(ROOT), number, line


@pytest.fixture(scope="module")
def lines():
    return list(lines_of_sources())


@pytest.mark.parametrize("pattern, instead", REPLACED, ids=[instead for _, instead in REPLACED])
def test_the_fields_word_is_used(lines, pattern, instead):
    assert uses(pattern, lines) == [], f"say '{instead}'"


@pytest.mark.parametrize(
    "line", ["throw Abandon{why};", "  loop->members.at(0)", "void park_sums();", "is_touch(a)"]
)
def test_uses_are_found(line):
    assert any(uses(pattern, [("file.cc", 1, line)]) for pattern, _ in REPLACED)
