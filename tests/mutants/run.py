"""Breaks the compiler on purpose and demands that its tests notice.

    python -m tests.mutants.run [NAME ...]     all variants of mutants.txt, or those named
    python -m tests.mutants.run --table        only checks that the table fits the sources

All variants are built at once, in a copy of the repository: each stands beside the original text,
and the environment variable TC_MUTANT chooses one when a test runs. So there is one build; every
test must pass with none chosen and fail with the variant that names it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE = Path(__file__).with_name("mutants.txt")
FIELDS = ("name", "file", "before", "after", "test", "why")

# What each changed file begins with. No guarded statics: the runtime has no C++ library.
PROLOGUE = """#include <cstdlib>
#include <cstring>
[[maybe_unused]] static bool tc_mutant(const char* name) {
  static const char* chosen;
  static bool looked;
  if (!looked) {
    chosen = std::getenv("TC_MUTANT");
    looked = true;
  }
  return chosen != nullptr && std::strcmp(chosen, name) == 0;
}
"""


class Mutant(NamedTuple):
    name: str
    file: str
    before: str
    after: str
    test: str
    why: str


class Result(NamedTuple):
    name: str
    caught: bool
    seconds: float
    how: str


def read_table(path=TABLE):
    mutants, fields = [], {}
    for line in [*path.read_text().splitlines(), ""]:
        if line.startswith("#"):
            continue
        if line.strip():
            key, _, value = line.partition(":")
            if key not in FIELDS or key in fields:
                raise ValueError(f"{path.name}: unexpected '{line}'")
            fields[key] = value.strip()
        elif fields:
            mutants.append(Mutant(**fields))
            fields = {}
    return mutants


def problems(mutants, root=ROOT):
    """What does not fit the sources any more."""
    found = []
    names = [mutant.name for mutant in mutants]
    for mutant in mutants:
        source = root / mutant.file
        count = source.read_text().count(mutant.before) if source.is_file() else 0
        if names.count(mutant.name) > 1:
            found.append(f"{mutant.name}: the name is used twice")
        if count != 1:
            found.append(f"{mutant.name}: '{mutant.before}' occurs {count} times in {mutant.file}")
        if mutant.before == mutant.after or not mutant.before or not mutant.why:
            found.append(f"{mutant.name}: changes nothing or says nothing")
        _, target, _ = split_test(mutant.test)
        folder, _, name = target.removeprefix("//").partition(":")
        build = root / folder / "BUILD"
        declared = build.is_file() and f'name = "{name}"' in build.read_text()
        if not declared and not (root / folder / f"{name}.cc").is_file():
            found.append(f"{mutant.name}: there is no test {target}")
    return found


def split_test(test):
    """Environment, target and arguments of a `test` field."""
    words = test.split()
    variables = dict(
        word.split("=", 1) for word in words if "=" in word and not word.startswith("-")
    )
    rest = [word for word in words if word not in [f"{k}={v}" for k, v in variables.items()]]
    return variables, rest[0], rest[1:]


def both(mutant):
    """Text that is `before` or `after`, as TC_MUTANT says."""
    chosen = f'tc_mutant("{mutant.name}")'
    if mutant.before.endswith(";"):
        return f"{{ if ({chosen}) {{ {mutant.after} }} else {{ {mutant.before} }} }}"
    return f"({chosen} ? ({mutant.after}) : ({mutant.before}))"


def copy_sources(tree):
    """The files of the repository, those not yet committed too; what is gone goes."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    wanted = {name for name in listed if name and (ROOT / name).is_file()}
    for file in list(tree.rglob("*")) if tree.exists() else []:
        relative = file.relative_to(tree)
        if (
            file.is_file()
            and not relative.parts[0].startswith("bazel-")
            and str(relative) not in wanted
        ):
            file.unlink()
    for name in wanted:
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)


def write_mutants(mutants, tree):
    for file in sorted({mutant.file for mutant in mutants}):
        source = (ROOT / file).read_text()
        for mutant in mutants:
            if mutant.file == file:
                source = source.replace(mutant.before, both(mutant))
        (tree / file).write_text(PROLOGUE + source)


def run_test(tree, test, name, limit):
    """(passed, seconds, what failed first)."""
    variables, target, arguments = split_test(test)
    binary = tree / "bazel-bin" / target.removeprefix("//").replace(":", "/")
    folder = next(
        path for path in binary.with_name(binary.name + ".runfiles").iterdir() if path.is_dir()
    )
    environment = {**os.environ, **variables}
    environment.pop("TC_MUTANT", None)
    if name:
        environment["TC_MUTANT"] = name
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [str(binary), *arguments, "--gtest_fail_fast"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return False, time.monotonic() - begin, "does not end"
    seconds = time.monotonic() - begin
    if (
        done.returncode == 0
        and "[  PASSED  ] 0 tests" not in done.stdout
        and "[  SKIPPED ]" not in done.stdout
    ):
        return True, seconds, ""
    failed = [
        line.split("]", 1)[1].split(",")[0].split(" (")[0].strip()
        for line in done.stdout.splitlines()
        if line.startswith("[  FAILED  ]")
    ]
    running = [
        line.split("]", 1)[1].strip()
        for line in done.stdout.splitlines()
        if line.startswith("[ RUN ")
    ]
    if done.returncode < 0:
        return (
            False,
            seconds,
            f"signal {-done.returncode} in {running[-1] if running else 'the start'}",
        )
    return (
        False,
        seconds,
        failed[0] if failed else f"exit {done.returncode}: {(done.stdout + done.stderr)[-300:]}",
    )


def run(mutants, report=print):
    """Builds once and runs all; a test that fails with no variant chosen is an error."""
    if "TC_ONNX_NODE_TESTS" not in os.environ:
        import onnx

        os.environ["TC_ONNX_NODE_TESTS"] = str(
            Path(onnx.__file__).parent / "backend/test/data/node"
        )
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    tree = caches / "tc" / f"mutants-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:12]}"
    copy_sources(tree)
    write_mutants(mutants, tree)
    targets = sorted({split_test(mutant.test)[1] for mutant in mutants})
    built = subprocess.run(
        [
            "bazel",
            "build",
            "--keep_going",
            "--noshow_progress",
            "--ui_event_filters=-info,-warning",
            *targets,
        ],
        cwd=tree,
        capture_output=True,
        text=True,
    )
    if built.returncode != 0:
        raise RuntimeError(f"the variants do not build:\n{built.stderr[-4000:]}")
    times = {}
    for test in sorted({mutant.test for mutant in mutants}):
        passed, seconds, why = run_test(tree, test, "", 900)
        report(
            f"without a variant: {test}: {'passes' if passed else 'FAILS: ' + why} ({seconds:.1f} s)"
        )
        if not passed:
            raise RuntimeError(f"{test} fails with no variant chosen: {why}")
        times[test] = seconds
    results = []
    for mutant in mutants:
        passed, seconds, how = run_test(
            tree, mutant.test, mutant.name, 60 + 10 * times[mutant.test]
        )
        results.append(Result(mutant.name, not passed, seconds, how))
        report(
            f"{mutant.name}: {'SURVIVES ' + mutant.test if passed else 'caught by ' + how} ({seconds:.1f} s)"
        )
    return results


def main():
    names = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    mutants = read_table()
    wrong = problems(mutants)
    for problem in wrong:
        print(problem)
    if wrong or "--table" in sys.argv:
        return bool(wrong)
    chosen = [mutant for mutant in mutants if not names or mutant.name in names]
    results = run(chosen, lambda line: print(line, flush=True))
    survivors = [result.name for result in results if not result.caught]
    print(
        f"{len(results) - len(survivors)} of {len(results)} broken variants are caught"
        + (f"; these survive: {', '.join(survivors)}" if survivors else "")
    )
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
