"""The x86-64 levels that tests of numbers run for, whatever `native` is on this machine.

Sums are formed differently at each vector length, so that a result that is right at one may be
wrong at another.
"""

from pathlib import Path

import pytest

# What /proc/cpuinfo calls the features that a level has beyond the one before.
FEATURES = {
    "x86-64-v3": {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"},
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
# `./check` tells the levels that nobody tested by this beginning of a skipped test's reason
# (build_rules/count.py).
UNTESTED = "untested level "


def missing_features(level, cpuinfo=Path("/proc/cpuinfo")):
    """The features of a level that this machine's processor lacks, in order."""
    flags = next(
        (
            line.split(":")[1].split()
            for line in cpuinfo.read_text().splitlines()
            if line.startswith("flags")
        ),
        [],
    )
    return sorted(FEATURES[level] - set(flags))


def x86_levels(levels=tuple(FEATURES)):
    """Parameters of a test, one a level; levels that this machine cannot run are skipped by
    name."""
    found = []
    for level in levels:
        missing = missing_features(level)
        skip = pytest.mark.skipif(
            bool(missing), reason=f"{UNTESTED}{level}: this processor lacks {', '.join(missing)}"
        )
        found.append(pytest.param(level, marks=skip, id=level))
    return found


# `native` differs from all levels where the processor has instructions beyond them.
NATIVE_AND_LEVELS = ["native", *x86_levels()]
