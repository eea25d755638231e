"""One artefact for RISC-V has versions of its kernels for longer vectors, and shares one copy of
its constants among them."""

import pytest
import tc

from .. import zoo
from ..support import count_under_qemu, output_file, worst_error

NETWORK = "squeezenet1_1"
# Instructions that the artefact executes on a length, for each that one for this length alone does:
# some kernels pack their constants as shorter vectors ask for, so that no two blocks of channels
# lie next to each other, to be one vector.
MOST = {128: 1.06, 256: 1.25}
# Bytes that the versions take, at most.
SIZE = 350e3


def executed(target, folder, lengths, network=NETWORK):
    """Instructions of the whole process at each length of vectors, and the executable's bytes
    beside its constants."""
    inputs, expected = zoo.reference(network)
    module = tc.compile(str(zoo.export(network)), target, threads=1)
    executable = folder / target
    module.export(str(executable), kind="executable")
    counts = {}
    for length in lengths:
        outputs, classes = count_under_qemu(
            executable, inputs, folder, vlen=length, arguments=["--threads", "1"]
        )
        worst = max(
            worst_error(outputs[output_file(name)], array) for name, array in expected.items()
        )
        print(
            f"{target} at {length} bits: {classes['total'] / 1e6:.1f} M instructions, worst error {worst:.1e} of the largest output"
        )
        assert worst <= 1e-4
        counts[length] = classes["total"]
    return counts, module.memory.constants, executable.stat().st_size


def test_each_length_has_its_version(tmp_path):
    every, constants, size = executed("rv64gcv+lengths", tmp_path, [128, 256, 512, 1024])
    short, shared, least = executed("rv64gcv", tmp_path, [128])
    assert constants == shared
    assert least < size <= least + SIZE
    alone = {128: short[128], **executed("rv64gcv_zvl256b", tmp_path, [256])[0]}
    for length, count in alone.items():
        assert every[length] <= MOST[length] * count, length
    assert every[512] < 0.9 * every[256] < 0.8 * every[128]
    # Versions have blocks of 16 channels, and no vector of 1024 bits is filled by one. What starts
    # and ends a process differs a little.
    assert abs(every[1024] - every[512]) <= 0.001 * every[512]


@pytest.mark.parametrize("network", [NETWORK, pytest.param("mobilenet_v2", marks=pytest.mark.full)])
def test_blocks_of_long_vectors(tmp_path, network):
    """Alone, vectors of 512 bits have blocks of 32 channels: half of the instructions and little
    more, since layers of few channels fill no pair of such blocks. (tests/bench/riscv_lengths.py
    has more networks.)"""
    half = executed("rv64gcv_zvl512b", tmp_path, [512], network)[0][512]
    assert half <= 0.55 * executed("rv64gcv_zvl256b", tmp_path, [256], network)[0][256]


def test_the_plan_tells_versions(tmp_path):
    module = tc.compile(str(zoo.export("nsnet2_step")), "rv64gcv+lengths", threads=1)
    plan = module._compiled.plan
    assert (
        "\nkernel 0:\n" in plan
        and "\nkernel 0 for rv64gcv_zvl256b:\n" in plan
        and "\nkernel 0 for rv64gcv_zvl512b:\n" in plan
    )
