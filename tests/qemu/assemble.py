"""Builds small freestanding riscv64 programs from assembly text, for tests that count exactly."""

import shutil
import subprocess

TOOLS = ("clang-19", "ld.lld-19", "llvm-nm-19")

EXIT = """
    li a7, 93
    li a0, 0
    ecall
"""


def missing_tools():
    """The names of the tools that are needed and absent."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


class Program:
    """A static executable and the addresses of its symbols."""

    def __init__(self, path, symbols):
        self.path = path
        self.symbols = symbols

    def range(self, start, end):
        """The address range between two labels."""
        return (self.symbols[start], self.symbols[end])


def assemble(folder, text, name="program", compressed=True):
    """Assembles and links `text`, which defines _start, without any library."""
    source = folder / f"{name}.s"
    executable = folder / name
    source.write_text(f".globl _start\n.text\n{text}\n")
    architecture = "rv64imafdv_zfh" + ("_c" if compressed else "")
    subprocess.run(
        [
            "clang-19",
            "--target=riscv64-linux-gnu",
            f"-march={architecture}",
            "-mno-relax",
            "-nostdlib",
            "-static",
            "-fuse-ld=lld",
            str(source),
            "-o",
            str(executable),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    listing = subprocess.run(
        ["llvm-nm-19", str(executable)], check=True, capture_output=True, text=True
    ).stdout
    symbols = {}
    for line in listing.splitlines():
        address, _, symbol = line.split()
        symbols[symbol] = int(address, 16)
    return Program(executable, symbols)
