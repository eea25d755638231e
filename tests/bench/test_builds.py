"""Builds beside each other: what is printed, and a folder without a build."""

import subprocess
import sys

import pytest

from tests.bench import builds
from tests.bench.peers import ROOT


def test_compares_a_build_with_itself():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.bench.builds",
            "nsnet2_step",
            "--builds",
            "a=installed",
            "b=installed,x86-64-v3",
            "--rounds",
            "2",
            "--seconds",
            "0.02",
            "--kernels",
            "2",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    first, second = (
        next(line for line in lines if line[:3] == ["nsnet2_step", "1", label]) for label in "ab"
    )
    assert float(first[6]) == float(first[7]) == 1
    assert float(second[6]) == pytest.approx(float(first[3]) / float(second[3]), rel=1e-2)
    assert lines[-1][:-1] == "1 thread: geometric mean of first / b".split()
    assert float(lines[-1][-1]) == float(second[6])
    # The steps that were asked for.
    assert sum(line[0].isdigit() and line[1] != "thread:" for line in lines) == 2


def test_a_folder_without_a_build_is_named(tmp_path):
    with pytest.raises(SystemExit, match="holds no package tc; run .*stage.sh"):
        builds.package_of(str(tmp_path))
    assert builds.package_of("installed") is None
