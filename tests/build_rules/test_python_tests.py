"""What ./check does with the Python tests: a file that fails or crashes is seen, whatever ran
beside it."""

import os
import subprocess
import sys

import pytest

SCRIPT = os.path.abspath(
    os.path.join(os.path.dirname(__file__), "../../build_rules/python_tests.sh")
)


@pytest.mark.parametrize(
    "last, code", [("pass", 0), ("assert False, 'seen'", 1), ("import os; os.abort()", 1)]
)
@pytest.mark.parametrize("folder", ["other", "tuner"])
def test_each_file_counts(tmp_path, folder, last, code):
    for part, body in (
        ("other/test_first.py", "pass"),
        ("other/test_none.py", None),
        (f"{folder}/test_last.py", last),
    ):
        path = tmp_path / "tests" / part
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def test_it():\n    {body}\n" if body else "")
    (tmp_path / "results").mkdir()
    done = subprocess.run(
        [SCRIPT, sys.executable, tmp_path / "results"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert "tests/other/test_first.py: ." in done.stdout
    assert ("seen" in done.stdout) == ("seen" in last)
    assert (tmp_path / "results/tests_other_test_first.xml").exists()
