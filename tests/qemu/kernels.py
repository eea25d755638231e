"""Where the simulated cycles of a compiled model go: by kernel, and by instruction of a kernel."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import run_riscv64

_LLVM = "/usr/lib/llvm-19/bin"


def tool(name):
    """A program of LLVM's, in Debian's folder of it or on PATH; RuntimeError where it is not
    installed."""
    found = shutil.which(name, path=_LLVM) or shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed: apt install lld-19 llvm-19 clang-19")
    return found


def emulator_object(folder):
    """The object of ime_emulator.c, which computes SpacemiT's matrix instruction under qemu."""
    source = Path(__file__).with_name("ime_emulator.c")
    made = Path(folder) / "ime_emulator.o"
    options = ["-march=rv64gc", "-O2", "-fno-vectorize", "-fno-slp-vectorize", "-c"]
    command = [tool("clang"), "--target=riscv64-linux-gnu", *options, str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    return made


def link_with_symbols(module, path, objects=()):
    """Writes the static executable of a compiled module, as `module.export(path,
    kind="executable")` does, but with the names of its kernels, and with these objects."""
    from tc.native import LIBRARY_FOLDER

    compiled = Path(f"{path}.o")
    module.export(str(compiled), kind="object")
    library = Path(LIBRARY_FOLDER) / "riscv64"
    c_library = library / "musl" if (library / "musl").exists() else library
    files = [
        c_library / "crt1.o",
        c_library / "crti.o",
        library / "crtbeginT.o",
        compiled,
        *objects,
        "--start-group",
    ]
    files += [
        library / "libtc_runtime.a",
        c_library / "libm.a",
        c_library / "libc.a",
        library / "libgcc.a",
        library / "libgcc_eh.a",
    ]
    files += ["--end-group", library / "crtend.o", c_library / "crtn.o"]
    subprocess.run(
        [
            tool("ld.lld"),
            "-m",
            "elf64lriscv",
            "--build-id=none",
            "-z",
            "noexecstack",
            "-static",
            "--gc-sections",
            "--eh-frame-hdr",
            *map(str, files),
            "-o",
            str(path),
        ],
        check=True,
    )
    compiled.unlink()


def kernel_ranges(executable):
    """(start, end) of each kernel's code by its number."""
    names = subprocess.run(
        [tool("llvm-nm"), "--print-size", str(executable)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = re.findall(r"^(\w+) (\w+) \w \w+_descriptor_kernel_(\d+)$", names, re.M)
    return {
        int(number): (int(start, 16), int(start, 16) + int(size, 16))
        for start, size, number in found
    }


@dataclass
class Run:
    """One warm run: what a second one adds to the first."""

    total: int  # executed instructions
    cycles: int
    vector_multiplies: int
    scalar_multiplies: int
    vectors: int
    profile: dict  # by address: executions, cycles

    def within(self, start, end):
        """(executions, cycles) of the instructions in a range of addresses."""
        rows = [row for address, row in self.profile.items() if start <= address < end]
        return sum(row[0] for row in rows), sum(row[1] for row in rows)


def measure(program, arguments, profile=False, **options):
    """Runs the program once and twice (--repeat) in the model with caches."""
    runs = []
    for repeat in ("1", "2"):
        code, _, error, counts = run_riscv64(
            program, [*arguments(repeat)], cache=True, profile=profile, timeout=3600, **options
        )
        if code != 0 or counts is None:
            raise RuntimeError(
                f"{Path(program).name} ended with {code}: {error.decode(errors='replace')[-300:]}"
            )
        runs.append(counts)
    once, twice = runs
    difference = {key: twice[key] - once[key] for key in twice if key != "profile"}
    rows = {}
    if profile:
        rows = {
            address: (
                count - once["profile"].get(address, (0, 0))[0],
                spent - once["profile"].get(address, (0, 0))[1],
            )
            for address, (count, spent) in twice["profile"].items()
        }
    return Run(
        difference["total"],
        difference["simulated_cycles"],
        difference["vector_multiply"],
        difference["scalar_float_multiply"],
        sum(value for key, value in difference.items() if key.startswith("vector_")),
        rows,
    )


def disassembled(executable, start, end, *options):
    """(address, text) of each instruction in a range of addresses."""
    text = subprocess.run(
        [
            tool("llvm-objdump"),
            "-d",
            "--no-show-raw-insn",
            "--mattr=+v,+m,+a,+f,+d,+c,+zfh",
            *options,
            f"--start-address={start:#x}",
            f"--stop-address={end:#x}",
            str(executable),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for line in text.splitlines():
        if found := re.match(r"\s*([0-9a-f]+):\s*(.*)", line):
            yield int(found[1], 16), found[2]


def listing(executable, start, end, run, least=1):
    """The disassembly of a range with executions and cycles, of instructions that executed `least`
    times."""
    for address, text in disassembled(executable, start, end):
        executions, cycles = run.profile.get(address, (0, 0))
        if executions >= least:
            each = f"{cycles / executions:8.2f}"
            yield f"{executions:>10} {each} {address:>8x}: {text.expandtabs(8)}"
