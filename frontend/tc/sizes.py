"""Sizes in bytes: reading what users write, and texts for reports."""

import re

import numpy as np

from .errors import Error
from .kinds import kind_row

# Units of SI and IEC: 256KB are 256,000 bytes, 256KiB are 262,144.
_UNITS = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)},
}
_MOST = (1 << 63) - 1
# More than any memory has.
UNLIMITED = 1 << 62
# What an error says is expected.
EXPECTED = "a number of bytes, alone or with a unit (256KB, 1MiB)"


def bytes_of(value):
    """The number of bytes that `value` means: 262144, "262144", "256KiB", "0.25 MB" (units in any
    case). None where it is no size, or not from 1 to 2^63 - 1 bytes; fractions of a byte are
    dropped."""
    number = None
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+)(\.\d+)?\s*([a-z]*)\s*", value.lower(), re.ASCII)
        if found and found[3] in _UNITS and len(found[0]) < 64:
            whole, part, unit = int(found[1]), found[2] or ".0", _UNITS[found[3]]
            number = whole * unit + int(part[1:]) * unit // 10 ** (len(part) - 1)
    elif (
        isinstance(value, (int, float, np.integer, np.floating))
        and not isinstance(value, bool)
        and value == value // 1
    ):
        number = int(value)
    return number if number is not None and 1 <= number <= _MOST else None


def size_option(name, value, otherwise):
    """The number of bytes of the option `name`, 0 where it is None, which means `otherwise` (a noun
    phrase for the error)."""
    if value is None:
        return 0
    number = bytes_of(value)
    if number is None:
        raise Error(f"{name} is {value!r}; give {EXPECTED}, or None for {otherwise}")
    return number


def size_argument(text):
    """The same for argparse's `type=`."""
    number = bytes_of(text)
    if number is None:
        import argparse  # only the command line needs it

        raise argparse.ArgumentTypeError(f"'{text}' is not {EXPECTED}")
    return number


def kilobytes(count):
    """A number of bytes as "91.5 KB", in units of 1000 bytes."""
    return f"{count / 1000:.1f} KB"


def flash_limit(arguments):
    """max_flash from a command's arguments. A bare artefact has its constants in flash even where
    the size of that is not given."""
    given = getattr(arguments, "max_flash", None)
    kind = getattr(arguments, "kind", None)
    apart = arguments.max_ram and kind and kind_row(kind)["constants_in_flash"]
    return given or (UNLIMITED if apart else None)


def board_rows(sizes):
    """What `compile --json` prints on a bare artefact, in bytes; {} for others. `sizes` are what
    Module.export returned."""
    if not sizes:
        return {}
    parts = {
        "flash": {"constants": sizes["constants"], "code": sizes["code"]},
        "ram": {"arena": sizes["arena"], "zeros": sizes["zeros"]},
    }
    return {
        **{memory: {"total": sum(each.values()), **each} for memory, each in parts.items()},
        "stack": sizes["stack"],
    }


def board_text(rows):
    """The same as lines."""
    if not rows:
        return []
    flash, ram = rows["flash"], rows["ram"]
    return [
        f"flash  {kilobytes(flash['total'])}: constants {kilobytes(flash['constants'])}, code {kilobytes(flash['code'])}",
        f"RAM    {kilobytes(ram['total'])}: arena {kilobytes(ram['arena'])}, zeros {kilobytes(ram['zeros'])}; inputs and outputs are the program's",
        f"stack  {kilobytes(rows['stack'])} of a run",
    ]
