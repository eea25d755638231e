"""Accelerators: devices beside a core that execute tiles of kernels, each described by one file.

The file is Python, and is executed when a target names the accelerator (`+accel:NAME`) or a user
the file. It makes one `Accelerator` called `accelerator`; docs/accelerators.md says what is in it.
"""

import os
import re
import runpy

from .errors import TargetError
from .native import compiler
from .sizes import EXPECTED, bytes_of

HOST = "host"  # the name of the core's memory in operands
IN_TARGET = re.compile(r"\+accel:([A-Za-z0-9_]+)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
MAX_NUMBER = 2**31 - 1  # of bytes of a step, trips, cycles; sizes of memories may be larger

_loaded = {}  # by name


class Accelerator:
    """The description of an accelerator.

    name: of the accelerator, a C identifier; commands in C are NAME_INSTRUCTION(...).
    block: channels of a block of activations, which instructions find next to each other.
    issue_cycles: for which the core writes a command.
    queue: how many commands wait or are executed at a time; the core writes no further one until
        the first of them is executed.
    wait: where instructions have encodings, the core's instruction that waits for all of them, in
        the language of its assembler.
    """

    def __init__(self, name, block=16, issue_cycles=1, queue=16, wait=""):
        self.name = _identifier(name, "accelerator")
        self.block = _whole(block, f"accelerator '{name}': block")
        self.issue_cycles = _whole(issue_cycles, f"accelerator '{name}': issue_cycles")
        self.queue = _whole(queue, f"accelerator '{name}': queue")
        self.wait = _text(wait, f"accelerator '{name}': wait", "the text of an instruction")
        self.memories = []
        self.instructions = []

    def memory(self, name, size, alignment=1, row=1):
        """A memory of the accelerator: its size ("256KiB", or bytes), and the alignment of operands
        in it, in bytes. Where its addresses count rows, `row` is the bytes of one: operands begin
        at rows, elements along their last subscript are in one row, other steps are whole
            rows."""
        where = f"accelerator '{self.name}', memory '{name}'"
        bytes_ = bytes_of(size)
        if bytes_ is None:
            raise TargetError(f"{where}: its size is {size!r}; give {EXPECTED}")
        alignment = _whole(alignment, f"{where}: its alignment")
        row = _whole(row, f"{where}: its row")
        self.memories.append((_identifier(name, where), bytes_, max(alignment, row), row))

    def unit(self, name):
        """A unit of the accelerator, which executes one command at a time."""
        return Unit(self, _identifier(name, f"accelerator '{self.name}', unit '{name}'"))

    def register(self):
        """Makes targets that end in `+accel:NAME` mean this accelerator."""
        compiler.register_accelerator(
            self.name,
            self.memories,
            self.instructions,
            self.block,
            self.issue_cycles,
            self.queue,
            self.wait,
        )


class Unit:
    """A unit of an accelerator; made by Accelerator.unit."""

    def __init__(self, accelerator, name):
        self._accelerator = accelerator
        self._name = name

    def instruction(self, name, meaning, operands, limits, cycles):
        """An instruction, which this unit executes.

        meaning: an assignment in the language of docs/ir.md (`=`; `+=` where it adds to what is
            there, `max=` where it keeps the larger one), whose subscripts are one iterator each,
            such as "c[m, n] += i32(a[m, k]) * i32(b[k, n])".
        operands: for each operand "TYPE MEMORY", where MEMORY is one of the accelerator's or
            "host". Elements along the last subscript are adjacent; along the others commands say
            how far they are apart. A step that
            commands cannot choose follows: "i8 tiles k=16" has one of 16 bytes along k.
        limits: for each iterator how many trips a command may have; for each number that is part of
            a command, and which the meaning has as `index(NAME)`, the smallest and the largest.
        cycles: for which a command occupies its unit, as a formula of the trips by the iterators'
            names: "8 + m * ceil(n, 16)", with + - * / (rounded down) % min max ceil.
        """
        where = f"accelerator '{self._accelerator.name}', instruction '{name}'"
        _identifier(name, where)
        _text(meaning, f"{where}: its meaning", "an assignment such as 'c[i] = a[i]'")
        _text(cycles, f"{where}: its cycles", "a formula such as '8 + i'")
        operands = _named(operands, f"{where}: its operands")
        limits = _named(limits, f"{where}: its limits")
        written = re.match(r"\s*([A-Za-z_]\w*)\s*\[([^\]]*)\]\s*(\+=|max=|=)", meaning)
        if not written:
            raise TargetError(
                f"{where}: its meaning {meaning!r} is no assignment to an operand; write it as 'c[i] = a[i]', 'c[i] += a[i]' or 'c[i] max= a[i]'"
            )
        numbers = {key: each for key, each in limits.items() if isinstance(each, (tuple, list))}
        limits = {key: each for key, each in limits.items() if key not in numbers}
        lines = [f"kernel {name}"]
        for iterator, limit in limits.items():
            most = _whole(limit, f"{where}: the limit of '{iterator}'")
            lines.append(f"parameter trips_{iterator} = trips_{iterator} in [1, {most}]")
        for number, range_ in numbers.items():
            smallest, largest = _range(range_, f"{where}: the range of '{number}'")
            lines.append(f"parameter {number} = {number} in [{smallest}, {largest}]")
        memories, steps = [], {}
        for operand, place in sorted(operands.items(), key=lambda each: each[0] == written[1]):
            memory, *fixed = self._operand(operand, place, meaning, written[1], where, lines)
            memories.append(memory)
            steps.update({f"{operand}_{iterator}": bytes_ for iterator, bytes_ in fixed})
        domain = ", ".join(f"{each}:trips_{each}" for each in limits)
        lines.append(f"{name.lower()}_[{domain}]: {meaning.strip()}")
        names = [*limits, *numbers]
        made = (name, self._name, "\n".join(lines), memories, cycles, names, steps, [])
        self._accelerator.instructions.append(made)

    def encode(self, name, words):
        """What the core executes for a command of this instruction, where it hands over none.

        words: instructions of the core, each its text in the language of the assembler, in which
            %0, %1 ... are registers, then for each register {first bit: formula}. The formulas
            are of the operands' addresses (a), their steps (a_m), the trips (m) and the numbers.
        """
        where = f"accelerator '{self._accelerator.name}', instruction '{name}'"
        encodings = [each[-1] for each in self._accelerator.instructions if each[0] == name]
        if not encodings:
            raise TargetError(f"{where}: it has an encoding, but is not described before it")
        encodings[0][:] = _words(words, where)

    @staticmethod
    def _operand(operand, place, meaning, written, where, lines):
        """Appends the operand's line; its memory, and each iterator with its fixed step."""
        access = re.search(rf"\b{re.escape(_identifier(operand, where))}\s*\[([^\]]*)\]", meaning)
        if not access:
            raise TargetError(f"{where}: its meaning does not have the operand '{operand}'")
        read = isinstance(place, str) and re.fullmatch(
            r"\s*(\S+)\s+([^\s=]+)((?:\s+\w+=\d+)*)\s*", place
        )
        if not read:
            raise TargetError(
                f"{where}: operand '{operand}' is {place!r}; write its type and its memory, as 'u8 {HOST}'"
            )
        shape = ", ".join("trips_" + each.strip() for each in access[1].split(","))
        scope = "output" if operand == written else "input"
        lines.append(f"{scope} {operand} {read[1]}[{shape}]")
        memory = "" if read[2] == HOST else read[2]
        steps = []
        for iterator, bytes_ in (each.split("=") for each in read[3].split()):
            if len(bytes_) > len(str(MAX_NUMBER)) or int(bytes_) > MAX_NUMBER:
                raise TargetError(
                    f"{where}: operand '{operand}' has a step of {bytes_} bytes along '{iterator}'; give at most {MAX_NUMBER}"
                )
            steps.append((iterator, int(bytes_)))
        return memory, *steps


def _words(encoding, where):
    """The words of an encoding: each its text, and for each register its bits and formulas."""
    if not isinstance(encoding, (tuple, list)):
        raise TargetError(f"{where}: its encoding is {encoding!r}; give a list of words")
    words = []
    for word in encoding:
        assembly, *registers = word if isinstance(word, (tuple, list)) and word else [None]
        formulas = [
            formula
            for register in registers
            if isinstance(register, dict)
            for formula in register.values()
        ]
        parts = [assembly, *formulas]
        if not all(map(_is_text, parts)) or not all(isinstance(each, dict) for each in registers):
            raise TargetError(
                f"{where}: {word!r} is no word of an encoding; write it as ('mv x1, %0', {{0: 'a', 32: 'n'}})"
            )
        for bit in (bit for register in registers for bit in register):
            if isinstance(bit, bool) or not isinstance(bit, int) or not 0 <= bit <= 63:
                raise TargetError(
                    f"{where}: the word {assembly!r} has a value from bit {bit!r} on; registers have bits 0 to 63"
                )
        words.append((assembly, [list(register.items()) for register in registers]))
    return words


def _is_text(value):
    """Whether the value is a text that native code can have: no half of a pair of UTF-16."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def _text(value, what, expected):
    if not _is_text(value):
        raise TargetError(f"{what} is {value!r}, not {expected}")
    return value


def _named(value, what):
    if not isinstance(value, dict):
        raise TargetError(f"{what} are {value!r}; give a dictionary by their names")
    for name in value:
        _identifier(name, what)
    return value


def _range(value, what):
    whole = all(isinstance(each, int) and abs(each) <= MAX_NUMBER for each in value)
    if len(value) != 2 or not whole:
        raise TargetError(
            f"{what} is {value!r}; give its smallest and its largest number, whole numbers from -{MAX_NUMBER} to {MAX_NUMBER}"
        )
    return value


def _identifier(name, where):
    if not isinstance(name, str) or not _NAME.match(name):
        raise TargetError(f"{where}: the name {name!r} is no identifier of C")
    return name


def _whole(number, where):
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole or not 0 <= number <= MAX_NUMBER:
        raise TargetError(f"{where} is {number!r}, not a whole number from 0 to {MAX_NUMBER}")
    return number


def add(made):
    """Makes targets with `+accel:NAME` mean this Accelerator, and returns it."""
    made.register()
    _loaded[made.name] = made
    return made


def load(file):
    """Executes the file that describes an accelerator, makes targets with `+accel:NAME` mean it,
    and returns it."""
    path = os.fspath(file)
    try:
        found = runpy.run_path(path).get("accelerator")
        if isinstance(found, Accelerator):
            return add(found)
    except OSError as error:
        raise TargetError(f"accelerator file '{path}' cannot be read: {error.strerror}") from error
    except TargetError as error:
        raise TargetError(f"accelerator file '{path}': {error}") from error
    except (Exception, SystemExit) as error:
        raise TargetError(
            f"accelerator file '{path}' ends with {type(error).__name__}: {error}; it is executed as Python"
        ) from error
    raise TargetError(
        f"accelerator file '{path}' does not make an Accelerator called `accelerator`; see docs/accelerators.md"
    )


def plan_for(options):
    """Makes the compiler's options ask for the plan with the accelerator's commands, where their
    target has one: that of the kind of artefact that can have them."""
    if IN_TARGET.search(options.target):
        options.kind = "c"
    return options


def load_for(target):
    """Loads the file of the accelerator that the target names: accelerators/NAME.py of the working
    folder, else tc's own."""
    named = IN_TARGET.search(target) if isinstance(target, str) else None
    if not named or named[1] in _loaded:
        return
    name = named[1]
    folders = ["accelerators", os.path.join(os.path.dirname(__file__), "accelerators")]
    files = [os.path.join(folder, name + ".py") for folder in folders]
    path = next((each for each in files if os.path.isfile(each)), None)
    if path is None:
        raise TargetError(
            f"target '{target}': there is no accelerator '{name}': neither {files[0]} nor tc has it; give its file as --accelerator FILE or by tc.accelerator.load(FILE)"
        )
    made = load(path)
    if made.name != name:
        raise TargetError(
            f"accelerator file '{path}' describes accelerator '{made.name}', not '{name}'"
        )
