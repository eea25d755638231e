"""Every error text that a user can meet is quoted by a test, or listed in tests/untested_errors.txt
with the reason why no test can."""

from .error_sites import all_tests, is_quoted, sites
from .support import ROOT

LIST = ROOT / "tests/untested_errors.txt"


def listed():
    """{(file, text): reason} of the list's lines "file: text: reason"; # begins a remark."""
    found = {}
    for line in LIST.read_text().splitlines():
        if line and not line.startswith("#"):
            file, text, reason = line.split(" | ")
            found[file, text] = reason
    return found


def test_texts_are_tested():
    tests = all_tests()
    every = sites()
    assert len(every) > 300
    untested = {site for site in every if not is_quoted(site[1], tests)}
    missing = sorted(untested - set(listed()))
    assert not missing, "no test quotes:\n" + "\n".join(
        f"{file} | {text}" for file, text in missing
    )
    stale = sorted(set(listed()) - untested)
    assert not stale, "tested now, or gone:\n" + "\n".join(
        f"{file} | {text}" for file, text in stale
    )
    assert all(len(reason) > 10 for reason in listed().values())
