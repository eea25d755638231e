"""Damaged and hostile artefacts, in a process of their own: opens mutants FIRST to FIRST + COUNT of
the artefact, each drawn from its number, and prints what became of them. A line on standard error
names the number of a mutant of which something wrong was said; a process that dies has the number
in the file NUMBER.

    python -m tests.runtime.artefact_mutants ARTEFACT FOLDER FIRST COUNT"""

import collections
import json
import os
import random
import signal
import struct
import sys

import tc

from .artefacts import MARK, resealed

SECONDS = 20
NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    8,
    64,
    0xFF,
    0xFFFF,
    1 << 20,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    1 << 47,
    1 << 63,
    (1 << 64) - 1,
)


def fields_of(data):
    """(offset, bytes) of the fields of headers, of dynamic entries, symbols and relocations of an
    artefact."""
    fields = [(at, 1) for at in range(16)] + [
        (16, 2),
        (18, 2),
        (20, 4),
        (24, 8),
        (32, 8),
        (40, 8),
        (48, 4),
        (52, 2),
        (54, 2),
        (56, 2),
        (58, 2),
        (60, 2),
        (62, 2),
    ]
    (begin,) = struct.unpack_from("<Q", data, 32)
    (count,) = struct.unpack_from("<H", data, 56)
    tables = []
    for at in range(begin, begin + 56 * count, 56):
        fields += [(at, 4), (at + 4, 4), *((at + 8 * i, 8) for i in range(1, 7))]
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 2:
            tables = [(offset + i, size) for i in range(0, size, 16)]
    values = {}
    for at, _ in tables:
        tag, value = struct.unpack_from("<QQ", data, at)
        fields += [(at, 8), (at + 8, 8)]
        values[tag] = value
    # The tables lie in the first segment, where addresses are offsets: relocations, symbols with
    # their hashes.
    fields += [(values[7] + i, 8) for i in range(0, values[8], 8)]
    fields += [(values[6] + i, 4) for i in range(0, values[5] - values[6], 4)]
    return fields


class Mutants:
    def __init__(self, data):
        self.data = data
        self.fields = fields_of(data)
        loads = [
            struct.unpack_from("<IIQQQQ", data, at) for at in range(64, 64 + 56 * data[56], 56)
        ]
        written = next(load for load in loads if load[0] == 1 and load[1] & 2)
        begin, end = written[2], written[2] + written[5]
        self.fields += [(at, 4) for at in range(begin, end - 3, 4)]  # the descriptor and its tables

    def make(self, number):
        """(kind, bytes, whether they are opened without trust) of a mutant."""
        pick = random.Random(number)
        kind = pick.choice(("bit", "cut", "bytes", "header", "moved", "hostile", "hostile"))
        data = bytearray(self.data)
        if kind == "bit":
            data[pick.randrange(len(data))] ^= 1 << pick.randrange(8)
        elif kind == "cut":
            del data[pick.choice((pick.randrange(len(data)), len(data) - pick.randrange(1, 80))) :]
        elif kind == "bytes":
            at, size = pick.randrange(len(data)), pick.choice((1, 4, 16, 512, 4096))
            data[at : at + size] = (
                pick.randbytes(len(data[at : at + size]))
                if pick.randrange(2)
                else bytes(len(data[at : at + size]))
            )
        elif kind == "moved":
            at, size = pick.randrange(len(data)), pick.choice((1, 8, 4096))
            data[at : at + size * pick.randrange(2)] = pick.randbytes(size)
        else:
            for _ in range(pick.choice((1, 1, 2, 3))):
                self.change_field(data, pick)
        if kind == "hostile" and bytes(data[-24:-8]) == MARK:
            data = resealed(bytes(data))
        return kind, bytes(data), pick.randrange(4) == 0 or kind == "hostile"

    def change_field(self, data, pick):
        at, size = pick.choice(self.fields)
        old = int.from_bytes(data[at : at + size], "little")
        how = pick.randrange(4)
        new = (
            pick.choice(NUMBERS)
            if how == 0
            else old ^ 1 << pick.randrange(8 * size)
            if how == 1
            else old + pick.choice((-8, -1, 1, 8, 4096))
            if how == 2
            else pick.randrange(1 << 8 * size)
        )
        data[at : at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")


def open_one(path, untrusted):
    """What is said of the file: "" where it is opened."""
    try:
        module = tc.load(path, trusted=not untrusted)
        module._model.info()
        repr(module)
        return ""
    except tc.Error as error:
        return str(error)


def fault_of(path, said):
    """What is wrong with a sentence, or None."""
    if not said.startswith(f"{path}: "):
        return "it does not begin with the file's name"
    if not said.isprintable() or len(said) > 1000:
        return "it is no printable sentence"
    return None


def main(artefact, folder, first, count):
    with open(artefact, "rb") as file:
        mutants = Mutants(file.read())
    counts = collections.Counter()
    number_file = os.open(os.path.join(folder, "NUMBER"), os.O_WRONLY | os.O_CREAT, 0o600)
    for number in range(first, first + count):
        os.pwrite(number_file, b"%-20d" % number, 0)
        kind, data, untrusted = mutants.make(number)
        path = os.path.join(folder, f"mutant{number}.so")
        with open(path, "wb") as file:
            file.write(data)
        signal.alarm(SECONDS)
        said = open_one(path, untrusted)
        signal.alarm(0)
        os.remove(path)
        wrong = (
            fault_of(path, said)
            if said
            else "it is opened"
            if kind != "hostile" and data != mutants.data
            else None
        )
        if wrong:
            print(f"mutant {number} ({kind}): {wrong}: {said!r}", file=sys.stderr)
        counts[f"{kind}: {'refused' if said else 'opened'}"] += 1
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:5]))
