"""What ./check does with the Python tests: a file that fails or crashes is seen, whatever ran
beside it."""

import os
import subprocess
import sys

import pytest

BUILD_RULES = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../build_rules"))


def run(folder, files):
    """The exit code, what is printed, and the lines of the count."""
    for part, text in files.items():
        path = folder / "tests" / part
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "results").mkdir()
    done, counted = (
        subprocess.run(
            [sys.executable, f"{BUILD_RULES}/{program}.py", folder / "results"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        for program in ("python_tests", "count")
    )
    assert counted.returncode == done.returncode, done.stdout + done.stderr
    return done.returncode, done.stdout, counted.stdout.splitlines()


def one_test(body):
    return f"def test_it():\n    {body}\n"


# How a file ends, and what the count says of it; None: that it passed.
ENDS = {
    "pass": (one_test("pass"), None),
    "nothing": ("", None),
    "fail": (one_test("assert False, 'seen'"), "FAILED tests.{0}.test_fail.test_it"),
    "import": ("import there_is_no_such_module\n", "FAILED .tests.{0}.test_import"),
    "abort": (
        one_test("import os; os.abort()"),
        "FAILED .tests/{0}/test_abort.py::test_it (SIGABRT)",
    ),
    "code": (
        one_test("import os; os._exit(7)"),
        "FAILED .tests/{0}/test_code.py::test_it (exit code 7)",
    ),
    "leave": (
        one_test("import os; os._exit(0)"),
        "FAILED .tests/{0}/test_leave.py::test_it (exit code 0)",
    ),
    "kill": (
        one_test("pass").replace("it", "before")
        + one_test("import os; os.kill(os.getpid(), 9)")
        + one_test("pass").replace("it", "after"),
        "FAILED .tests/{0}/test_kill.py::test_it (SIGKILL)",
    ),
    "late": (
        one_test("import atexit, os; atexit.register(os.abort)"),
        "FAILED .tests/{0}/test_late.py::test_it (SIGABRT)",
    ),
}


@pytest.mark.parametrize("folder", ["other", "tuner"])
def test_each_end_counts(tmp_path, folder):
    code, printed, lines = run(
        tmp_path,
        {"other/test_first.py": one_test("pass")}
        | {f"{folder}/test_{name}.py": text for name, (text, _) in ENDS.items()},
    )
    assert code == 1, printed
    assert "tests/other/test_first.py: ." in printed and "seen" in printed
    assert "there_is_no_such_module" in printed
    assert f"the process of tests/{folder}/test_kill.py ended with SIGKILL" in printed
    assert (tmp_path / "results/tests_other_test_first.xml").exists()
    failures = [said.format(folder) for _, said in ENDS.values() if said]
    # Two passed in files that passed, and one in that which ended late.
    assert sorted(lines[:-1]) == sorted(failures)
    assert lines[-1] == f"3 passed, {len(failures)} failed"


@pytest.mark.parametrize("folder", ["other", "tuner"])
def test_the_exit_code_is_of_all(tmp_path, folder):
    files = {
        "other/test_first.py": one_test("pass"),
        f"{folder}/test_last.py": one_test("assert False"),
    }
    assert run(tmp_path, files)[0] == 1


def test_what_one_leaves_another_does_not_find(tmp_path):
    text = one_test("import json; assert not hasattr(json, 'left'); json.left = True")
    files = {f"{folder}/test_a.py": text for folder in ("other", "tuner")}
    assert run(tmp_path, files)[0] == 0


def test_pytorch_is_found_only_by_those_that_import_it(tmp_path):
    """And is there before these begin, since all others have begun."""
    pytest.importorskip("torch")
    check = "import sys; assert ('torch' in sys.modules) == "
    files = {
        "a/test_torch.py": "import sys\nTHERE = 'torch' in sys.modules\nimport torch\n"
        + one_test("assert THERE"),
        "b/test_other.py": one_test(check + "False"),
        "tuner/test_other.py": one_test("pass"),
    }
    code, printed, _ = run(tmp_path, files)
    assert code == 0, printed


# Says when it begins and ends. The two of the folder `other` wait for each other.
BESIDE = """
import os
import time

def say(what):
    with open("times", "a") as file:
        file.write(f"{os.path.basename(__file__)} {what}\\n")

def test_it():
    say("begins")
    end = time.monotonic() + 60
    while "other" in __file__ and open("times").read().count("begins") < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    say("ends")
"""


def test_two_run_beside_each_other_and_those_that_measure_alone(tmp_path):
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one processor runs one file at a time")
    alone = ["test_c.py", "test_d.py"]
    files = ["other/test_a.py", "other/test_b.py", *(f"tuner/{name}" for name in alone)]
    code, printed, _ = run(tmp_path, dict.fromkeys(files, BESIDE))
    assert code == 0, printed
    told = (tmp_path / "times").read_text().splitlines()
    assert told[4:] == [f"{name} {what}" for name in alone for what in ("begins", "ends")]


def test_named_files_exist():
    """The lists of the runner have no file that is gone."""
    sys.path.insert(0, BUILD_RULES)
    try:
        import python_tests
    finally:
        sys.path.remove(BUILD_RULES)
    root = os.path.dirname(BUILD_RULES)
    assert [path for path in python_tests.LONG if not os.path.exists(f"{root}/{path}")] == []
