"""Sums the results of a run of ./check: build event files of Bazel and JUnit files of pytest.

The only argument is the folder they are in. Prints what failed, the levels of x86-64 that no test
ran for (tests/levels.py), and then the one line "N passed, N failed[, N skipped]"; the exit code is
1 where something failed or nothing ran.
"""

import glob
import json
import os
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


def junit_cases(path, prefix):
    """Yields (name, "passed" | "failed" | "skipped") for each test case of a JUnit file."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{prefix}{case.get('classname', '')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            yield name, "failed"
        elif case.find("skipped") is not None or case.get("result") == "skipped":
            yield name, "skipped"
        elif case.get("status") != "notrun":
            yield name, "passed"


def untested_levels(path):
    """Yields "LEVEL: why" for each test case of a JUnit file that was skipped since the machine
    cannot run its level."""
    for skipped in ElementTree.parse(path).getroot().iter("skipped"):
        _, begin, level = skipped.get("message", "").partition("untested level ")
        if begin:
            yield level


def bazel_cases(path):
    """Yields the same for a build event file; what did not build or crashed is one failure."""
    with open(path, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    for event in events:
        key = event.get("id", {})
        if "targetCompleted" in key and not event.get("completed", {}).get("success"):
            yield key["targetCompleted"]["label"] + " (does not build)", "failed"
        if "testResult" not in key:
            continue
        label = key["testResult"]["label"]
        result = event.get("testResult", {"status": "ABORTED"})  # a run that was interrupted
        reports = [
            output["uri"]
            for output in result.get("testActionOutput", [])
            if output["name"] == "test.xml"
        ]
        cases = []
        for report in reports:
            try:
                report = urllib.parse.unquote(urllib.parse.urlparse(report).path)
                cases += junit_cases(report, label + " ")
            except (OSError, ElementTree.ParseError):
                pass
        yield from cases
        if result["status"] != "PASSED" and not any(state == "failed" for _, state in cases):
            yield f"{label} ({result['status'].lower()})", "failed"


def main():
    folder = sys.argv[1]
    cases = []
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        cases += bazel_cases(path)
    untested = set()
    for path in sorted(glob.glob(os.path.join(folder, "*.xml"))):
        cases += junit_cases(path, "")
        untested.update(untested_levels(path))
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for name, state in cases:
        count[state] += 1
        if state == "failed":
            print("FAILED", name)
    for level in sorted(untested):
        print(f"Nobody tested the numbers of {level}")
    line = f"{count['passed']} passed, {count['failed']} failed"
    if count["skipped"]:
        line += f", {count['skipped']} skipped"
    print(line)
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
