"""The summary line of ./check counts what ran, and what did not even start."""

import json
import os
import subprocess
import sys

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "build_rules", "count.py")

JUNIT = """<testsuites><testsuite name="s">
  <testcase name="good" classname="s"/>
  <testcase name="bad" classname="s"><failure message="1 is not 2"/></testcase>
  <testcase name="later" classname="s"><skipped/></testcase>
</testsuite></testsuites>"""


def count(folder):
    """Runs count.py on `folder`; returns its last line and its exit code."""
    result = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
    assert result.stderr == ""
    return result.stdout.splitlines()[-1], result.returncode


def bazel_result(label, status, xml):
    return {
        "id": {"testResult": {"label": label}},
        "testResult": {
            "status": status,
            "testActionOutput": [{"name": "test.xml", "uri": f"file://{xml}"}],
        },
    }


def test_cases_of_both_kinds_are_summed(tmp_path):
    (tmp_path / "pytest.xml").write_text(JUNIT)
    log = tmp_path / "logs"
    log.mkdir()
    (log / "test.xml").write_text(JUNIT)
    event = bazel_result("//tests:a_test", "FAILED", log / "test.xml")
    (tmp_path / "plain.json").write_text(json.dumps(event) + "\n")
    assert count(tmp_path) == ("2 passed, 2 failed, 2 skipped", 1)


def test_a_target_that_does_not_build_is_a_failure(tmp_path):
    event = {"id": {"targetCompleted": {"label": "//tests:b_test"}}, "aborted": {}}
    (tmp_path / "plain.json").write_text(json.dumps(event) + "\n")
    assert count(tmp_path) == ("0 passed, 1 failed", 1)


def test_a_crash_without_a_report_is_a_failure(tmp_path):
    event = bazel_result("//tests:c_test", "TIMEOUT", tmp_path / "nothing.xml")
    (tmp_path / "plain.json").write_text(json.dumps(event) + "\n")
    assert count(tmp_path) == ("0 passed, 1 failed", 1)


def test_success_needs_a_test_that_ran(tmp_path):
    assert count(tmp_path) == ("0 passed, 0 failed", 1)
    (tmp_path / "pytest.xml").write_text('<testsuite><testcase name="good"/></testsuite>')
    assert count(tmp_path) == ("1 passed, 0 failed", 0)


def test_a_run_that_was_interrupted_is_a_failure(tmp_path):
    event = {"id": {"testResult": {"label": "//tests:c_test"}}, "aborted": {"reason": "USER_INTERRUPTED"}}
    (tmp_path / "plain.json").write_text(json.dumps(event) + "\n")
    assert count(tmp_path) == ("0 passed, 1 failed", 1)
