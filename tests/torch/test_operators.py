"""A seeded sample of PyTorch's own samples of its operators, a larger one with --full: none is
wrong, and the list of those that are refused is exact. `python -m tests.torch.operators` examines
all."""

import json
import random
import re
import subprocess
import sys

from tests.torch import operators

CHOSEN, CHOSEN_BY_DEFAULT = 24, 8


def test_a_sample_of_pytorchs_operators(request):
    count = CHOSEN if request.config.getoption("--full") else CHOSEN_BY_DEFAULT
    every = operators.operators()
    chosen = {name: every[name] for name in random.Random(25).sample(sorted(every), count)}
    counts, wrong, refused = operators.examine(chosen)
    assert wrong == []
    assert counts["right"] >= 2 * count, counts
    listed = operators.golden_lines()
    assert operators.lines_of(refused) == sorted(
        line for name in chosen for line in listed.get(name, [])
    )


def test_list_is_of_pytorchs_operators():
    every = operators.operators()
    unknown = [name for name in operators.golden_lines() if name not in every]
    assert unknown == []


def test_command():
    done = subprocess.run(
        [sys.executable, "-m", "tests.torch.operators", "abs", "digamma"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert json.loads(lines[-1])["right"] >= 2
    assert [
        line
        for line in lines
        if re.fullmatch(
            r"refused digamma \(.*bool\): prims.digamma.default: it is not supported", line
        )
    ], lines
