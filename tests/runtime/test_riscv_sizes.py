"""Size and memory of static executables for riscv64: what they need beside weights and arena."""

import os
import subprocess
import time
from pathlib import Path

import pytest
import tc
from tc.native import LIBRARY_FOLDER

from .. import zoo
from ..qemu import plugin_path, qemu_path
from ..support import input_options

# Bytes of the file beside the weights, by target: code for one length of vectors, and for all.
MAX_BYTES = {"rv64gcv_zvl256b": 400e3, "rv64gcv+lengths": 1.2e6}
# Bytes in memory beside weights and arena: code, the C library's data, inputs and outputs.
MAX_MEMORY = (1 << 20) + (16 << 10)
# Where the emulator puts the program's memory, and how much of it there is.
GUEST_BASE, GUEST_BYTES = 0x400000000000, 1 << 36


def largest_memory(executable, arguments):
    """Largest number of bytes in memory of the program, the emulator's own left out, that was seen
    while it ran."""
    if qemu_path() is None:
        pytest.skip("qemu-riscv64 is not installed")
    # The plugin makes vector code several times as fast.
    command = [
        qemu_path(),
        "-cpu",
        "rv64,v=true,vlen=256",
        "-B",
        hex(GUEST_BASE),
        "-R",
        hex(GUEST_BYTES),
        "-plugin",
        f"{plugin_path()},out=/dev/null",
        executable,
        *arguments,
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        largest = samples = 0
        while process.poll() is None:
            largest = max(largest, resident_bytes(process.pid))
            samples += 1
            time.sleep(0.002)
    assert process.returncode == 0 and samples > 20
    return largest


def resident_bytes(process):
    """Bytes in memory of the mappings in the guest's range."""
    total = inside = 0
    try:
        lines = Path(f"/proc/{process}/smaps").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # it ended
        return 0
    for line in lines:
        words = line.split()
        if not words[0].endswith(":"):
            inside = GUEST_BASE <= int(words[0].partition("-")[0], 16) < GUEST_BASE + GUEST_BYTES
        elif inside and words[0] == "Rss:":
            total += int(words[1]) * 1024
    return total


@pytest.mark.parametrize(
    "network",
    [
        "mobilenet_v2",
        "nsnet2",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("squeezenet1_1", "mobilenet_v1", "tinybert")
        ),
    ],
)
@pytest.mark.parametrize("target", MAX_BYTES)
def test_an_executable_is_weights_arena_and_little_more(network, target, tmp_path):
    if not (Path(LIBRARY_FOLDER) / "riscv64" / "musl").exists():
        pytest.skip(
            "the small C library was not fetched (build_rules/setup.sh does it): executables have 414 KB of the other one"
        )
    inputs = zoo.example(network)
    module = tc.compile(
        str(zoo.export(network)),
        target,
        threads=1,
        shapes={name: array.shape for name, array in inputs.items()},
    )
    executable = tmp_path / "network"
    module.export(str(executable), kind="executable")
    memory = module.memory
    beside = os.path.getsize(executable) - memory.constants
    largest = largest_memory(executable, [*input_options(inputs, tmp_path), "--threads", "1"])
    print(
        f"{network} for {target}: {beside} bytes beside the weights, {largest - memory.constants - memory.arena} in memory "
        "beside them and the arena"
    )
    assert 0 < beside <= MAX_BYTES[target]
    # Were the weights or the arena not seen in memory, the bound would say nothing. Of TinyBERT's
    # table of embeddings a run reads some rows.
    read = memory.constants / 2 if network == "tinybert" else memory.constants
    assert memory.arena + read < largest <= memory.constants + memory.arena + MAX_MEMORY
