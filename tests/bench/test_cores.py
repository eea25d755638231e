"""The bench of tuning for a core that is not there prints cycles by both tables, none of them
slower than untuned."""

import re
import shutil
import subprocess
import sys

import pytest

from tests.bench.core_tables import MCA
from tests.qemu import qemu_path
from tests.qemu.assemble import missing_tools


@pytest.mark.skipif(qemu_path() is None, reason="qemu-riscv64 is not installed")
def test_both_tables_are_tuned_on_the_board():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.bench.cores",
            "product 32x64 by 96",
            "--board",
            "thead-c908",
            "--wrong",
            "sifive-p670",
            "--trials",
            "4",
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    row = re.search(
        r"^product 32x64 by 96 +([\d,]+) +([\d,]+) +([\d,]+) +([\d,]+) +([\d.]+)$",
        done.stdout,
        re.M,
    )
    assert row, done.stdout + done.stderr
    untuned, right, untuned_wrong, wrong = (int(row[i].replace(",", "")) for i in range(1, 5))
    assert right <= untuned and wrong <= untuned_wrong
    assert float(row[5]) == pytest.approx(wrong / right, abs=1e-3)
    assert (done.returncode == 1) == (wrong > 1.05 * right)


@pytest.mark.skipif(
    qemu_path() is None or bool(missing_tools()) or shutil.which(MCA) is None,
    reason="qemu-riscv64 or LLVM's tools are not installed",
)
def test_rows_differ_from_llvms_tables_where_a_reason_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.cores", "--tables"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Both cores' rows have been read, and what decides between schedules agrees.
    for core in ("sifive-x280", "sifive-p670"):
        assert int(re.search(rf"^{core} +(\d+) numbers agree$", done.stdout, re.M)[1]) > 25
        assert not re.search(rf"^{core} +(vfmacc.vf|vle32.v|vse32.v) ", done.stdout, re.M)
