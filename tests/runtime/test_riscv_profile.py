"""`--profile` of an executable for RISC-V tells what the core counts in each step."""

import json

import pytest
import tc
from tests import zoo

from ..qemu import qemu_path, run_riscv64
from ..support import input_options


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_steps_have_cycles(more, tmp_path):
    if qemu_path() is None:
        pytest.skip("qemu-riscv64 is not installed")
    inputs, _ = zoo.reference("nsnet2_step")
    shapes = {name: array.shape for name, array in inputs.items()}
    tc.compile(
        str(zoo.export("nsnet2_step")), "rv64gcv_zvl256b", threads=1, log=False, shapes=shapes
    ).export(tmp_path / "step", kind="executable")
    code, output, error, _ = run_riscv64(
        tmp_path / "step",
        [*input_options(inputs, tmp_path), "--threads", "1", "--profile", "--repeat", "3", *more],
    )
    assert code == 0, error.decode()
    if more:
        steps = json.loads(output)["steps"]
        assert len(steps) > 3 and all(step["cycles"] > 0 and step["ms"] > 0 for step in steps)
    else:
        steps = [line for line in output.decode().splitlines() if line.startswith("step ")]
        assert len(steps) > 3 and all(
            line.split()[7] == "cycles" and int(line.split()[6]) > 0 for line in steps
        )
