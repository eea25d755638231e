"""The bench of tuning for a core that is not there prints cycles by both tables, none of them slower than untuned."""

import re
import subprocess
import sys

import pytest

from tests.qemu import qemu_path


@pytest.mark.skipif(qemu_path() is None, reason="qemu-riscv64 is not installed")
def test_both_tables_are_tuned_on_the_board():
    done = subprocess.run([sys.executable, "-m", "tests.bench.cores", "product 32x64 by 96", "--board", "thead-c908", "--wrong", "sifive-p670",
                           "--trials", "4"], capture_output=True, text=True, timeout=600, check=False)
    row = re.search(r"^product 32x64 by 96 +([\d,]+) +([\d,]+) +([\d,]+) +([\d,]+) +([\d.]+)$", done.stdout, re.M)
    assert row, done.stdout + done.stderr
    untuned, right, untuned_wrong, wrong = (int(row[i].replace(",", "")) for i in range(1, 5))
    assert right <= untuned and wrong <= untuned_wrong
    assert float(row[5]) == pytest.approx(wrong / right, abs=1e-3)
    assert (done.returncode == 1) == (wrong > 1.05 * right)
