"""What tests of artefacts' files share: the checksum in Python, written from its description, and
artefacts made by hand."""

import itertools
import shutil
import struct
import subprocess

from ..support import ROOT

COMPILER = shutil.which("gcc-12") or shutil.which("gcc")
MARK = b"\ntc checksum 1\n\0"
WORD = (1 << 64) - 1


def rotated(word):
    return (word << 29 | word >> 35) & WORD


def checksum(data):
    """Of bytes: eight lanes that take words in turn, zeros up to a whole block behind the end, and
    then the lanes one by one."""
    odd, other = 0x9E3779B97F4A7C15, 0x93CD3A2C8198E269
    padded = data + bytes(64 - len(data) % 64)
    lanes = list(range(1, 9))
    for (word,), lane in zip(struct.iter_unpack("<Q", padded), itertools.cycle(range(8))):
        lanes[lane] = rotated((lanes[lane] ^ word) * odd & WORD)
    result = len(data) * odd & WORD
    for lane in lanes:
        result = rotated((result ^ lane) * odd & WORD)
    result = (result ^ result >> 32) * other & WORD
    return result ^ result >> 29


def sealed(data):
    """A library's bytes with the checksum behind them."""
    return data + MARK + struct.pack("<Q", checksum(data + MARK))


def resealed(data):
    """An artefact's bytes, changed on purpose, with the checksum that they have then."""
    return sealed(data[: -len(MARK) - 8])


def library(path, source, *options, seal=True):
    """A shared library of C's text, or of a file, with a checksum as artefacts have."""
    if isinstance(source, str):
        (path.parent / f"{path.name}.c").write_text(source)
        source = path.parent / f"{path.name}.c"
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", f"-I{ROOT}", *options, source, "-o", path], check=True
    )
    if seal:
        path.write_bytes(sealed(path.read_bytes()))
    return path
