"""The summary line of ./check counts what ran, and what did not even start."""

import json
import os
import subprocess
import sys

from .. import levels

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
    event = {
        "id": {"testResult": {"label": "//tests:c_test"}},
        "aborted": {"reason": "USER_INTERRUPTED"},
    }
    (tmp_path / "plain.json").write_text(json.dumps(event) + "\n")
    assert count(tmp_path) == ("0 passed, 1 failed", 1)


def test_levels_that_nobody_tested_are_told(tmp_path):
    reason = "untested level x86-64-v4: this processor lacks avx512f"
    (tmp_path / "pytest.xml").write_text(
        f'<testsuite><testcase name="good"/><testcase name="wide"><skipped message="{reason}"/></testcase></testsuite>'
    )
    result = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True)
    assert result.stdout == (
        "Nobody tested the numbers of x86-64-v4: this processor lacks avx512f\n"
        "1 passed, 0 failed, 1 skipped\n"
    )


def test_a_level_is_skipped_where_the_processor_lacks_its_features(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor : 0\nflags\t\t: fpu avx2 bmi1 bmi2 f16c fma movbe avx512f avx512cd\n"
    )
    assert levels.missing_features("x86-64-v3", cpuinfo) == []
    assert levels.missing_features("x86-64-v4", cpuinfo) == ["avx512bw", "avx512dq", "avx512vl"]
    assert levels.UNTESTED in open(SCRIPT, encoding="utf-8").read()
