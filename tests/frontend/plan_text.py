"""Reads the text of a plan (`python -m tc inspect MODEL --dump=plan`) and works out from the steps
alone what of the arena is live when.

The text's own lives of blocks (`steps A .. B`) are not looked at. A step's accesses come from the
kernels' argument lists: each reads its inputs whole and writes its outputs whole.
"""

import re
from dataclasses import dataclass, field

_SIZES = {
    "f64": 8,
    "i64": 8,
    "u64": 8,
    "f32": 4,
    "i32": 4,
    "u32": 4,
    "f16": 2,
    "bf16": 2,
    "i16": 2,
    "u16": 2,
    "i8": 1,
    "u8": 1,
    "bool": 1,
}


class PlanFault(Exception):
    """The plan would compute something else than it says."""


def value_of(expression, symbols):
    """An expression of symbols as the compiler prints it, for example 64*floor((n + 1)/2)."""
    names = {"floor": lambda x: x, "mod": lambda a, b: a % b, "min": min, "max": max, **symbols}
    return int(eval(expression.replace("/", "//"), {"__builtins__": {}}, names))


@dataclass
class Kernel:
    name: str = ""
    parameters: list = field(default_factory=list)
    arguments: list = field(default_factory=list)  # (scope, element size, [sizes])

    def bytes_of(self, argument, values):
        _, size, sizes = self.arguments[argument]
        for each in sizes:
            size *= value_of(each, dict(zip(self.parameters, values)))
        return size


@dataclass
class Step:
    text: str
    body: list = field(default_factory=list)
    otherwise: list = field(default_factory=list)


@dataclass
class Block:
    name: str
    offset: str
    bytes: str


@dataclass(frozen=True)
class Access:
    """Bytes begin .. end of the arena, meant for `block`, at a place in the order of steps."""

    step: int
    block: int
    write: bool
    begin: int
    end: int


def split_list(text):
    """The parts of "a, b[c, d]" between the commas that are in no bracket."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "[(") - (char in "])")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return parts + [text[start:].strip()] if text[start:].strip() else parts


class Plan:
    def __init__(self, text):
        self.constants, self.blocks, self.kernels, self.steps = [], [], [], []
        self.arena = None
        lines = text.splitlines()
        begin = lines.index("steps")
        end = next(
            (i for i in range(begin, len(lines)) if lines[i].startswith("kernel 0:")), len(lines)
        )
        for line in lines[:begin]:
            if found := re.fullmatch(r"constant (\d+) .* (\d+) bytes", line):
                self.constants.append(int(found[2]))
            elif found := re.fullmatch(r"arena (.*) bytes, scratch \d+ bytes", line):
                self.arena = found[1]
            elif found := re.fullmatch(
                r"block (\d+) (.*) \[(.*), \+(.*)\) steps \d+ \.\. \d+", line
            ):
                assert int(found[1]) == len(self.blocks)
                self.blocks.append(Block(*found.groups()[1:]))
        self._read_steps(lines[begin + 1 : end])
        self._read_kernels(lines[end:])
        assert self.arena is not None and self.steps

    def _read_steps(self, lines):
        open_lists = [self.steps]  # by depth
        for line in lines:
            text = line.strip()
            depth = (len(line) - len(line.lstrip())) // 2
            del open_lists[depth:]
            if text == "else":
                open_lists.append(open_lists[-1][-1].otherwise)
                continue
            step = Step(text)
            open_lists[depth - 1].append(step)
            open_lists.append(step.body)

    def _read_kernels(self, lines):
        for line in lines:
            if re.fullmatch(r"kernel \d+:", line):
                self.kernels.append(Kernel())
            elif found := re.fullmatch(r'kernel (?:"(.*)"|(\w+))', line):
                self.kernels[-1].name = found[1] or found[2]
            elif found := re.match(r"  parameter (\w+) = ", line):
                self.kernels[-1].parameters.append(found[1])
            elif found := re.match(r"  (input|output|constant) \w+ (\w+)\[(.*?)\]", line):
                self.kernels[-1].arguments.append(
                    (found[1], _SIZES[found[2]], split_list(found[3]))
                )

    def arena_bytes(self, symbols):
        return value_of(self.arena, symbols)

    def extent(self, block, symbols):
        """Begin and end of the block's bytes."""
        begin = value_of(self.blocks[block].offset, symbols)
        return begin, begin + value_of(self.blocks[block].bytes, symbols)

    def accesses(self, symbols):
        """All accesses to the arena in the steps' order, and the (first, last) steps of loops."""
        found, loops = [], []
        self._count = 0

        def add(location, write, bytes, values, trips):
            match = re.fullmatch(r"block(\d+)@\[(.*)\]", location)
            if not match:
                assert re.match(r"(input|output|constant)\d+", location), location
                return
            # With a loop's symbol in it: from the first iteration's bytes to the last one's.
            ends = [
                value_of(match[2], {**values, **dict(zip(trips, times))})
                for times in ([0] * len(trips), [trip - 1 for trip in trips.values()])
            ]
            found.append(Access(self._count, int(match[1]), write, min(ends), max(ends) + bytes))

        def walk(steps, values, trips):
            for step in steps:
                here = self._count
                if match := re.match(r"call (\d+) ", step.text):
                    kernel = self.kernels[int(match[1])]
                    start = f"call {match[1]} {kernel.name}("
                    assert step.text.startswith(start), step.text
                    locations = _closed(step.text, len(start) - 1)
                    rest = step.text[len(start) + len(locations) + 1 :]
                    # The first thread writes all of it.
                    if found := re.search(r" scratch (block(\d+)@\[.*\])(  # .*)?$", rest):
                        begin, end = self.extent(int(found[2]), values)
                        add(found[1], True, end - begin, values, trips)
                        rest = rest[: found.start()]
                    given = re.match(r" with (.*?)( single_thread)?( no_barrier)?(  # .*)?$", rest)
                    numbers = (
                        [
                            value_of(part, {**values, **{name: 0 for name in trips}})
                            for part in split_list(given[1])
                        ]
                        if given
                        else []
                    )
                    parts = split_list(locations)
                    assert len(parts) == len(kernel.arguments), step.text
                    for number, part in enumerate(parts):
                        add(
                            part,
                            kernel.arguments[number][0] == "output",
                            kernel.bytes_of(number, numbers),
                            values,
                            trips,
                        )
                elif match := re.match(r"copy (.*?) bytes \(", step.text):
                    to, source = split_list(_closed(step.text, match.end() - 1))
                    bytes = value_of(match[1], values)
                    add(source, False, bytes, values, trips)
                    add(to, True, bytes, values, trips)
                elif match := re.match(r"loop (\w+) < (.*?)(  # .*)?$", step.text):
                    trip = value_of(match[2], values)
                    self._count += 1
                    if trip > 0:
                        walk(step.body, values, {**trips, match[1]: trip})
                    loops.append((here, self._count))
                # By sizes: a run takes one of both.
                elif match := re.match(r"if (.* == .*?)(  # .*)?$", step.text):
                    self._count += 1
                    pairs = [pair.split(" == ") for pair in split_list(match[1])]
                    holds = all(
                        value_of(left, values) == value_of(right, values) for left, right in pairs
                    )
                    walk(step.body if holds else step.otherwise, values, trips)
                elif match := re.match(r"if (\S+)", step.text):
                    add(match[1], False, 1, values, trips)
                    self._count += 1
                    for branch in (step.body, step.otherwise):
                        # No barrier before its first step: another thread may still read the
                        # condition.
                        if branch:
                            add(match[1], False, 1, values, trips)
                        walk(branch, values, trips)
                elif match := re.match(r"bind (\w+) <= (.*?) to (\S+)  # ", step.text):
                    add(match[3], False, 8, values, trips)
                    # The most that the run finds.
                    values = {**values, match[1]: value_of(match[2], values)}
                else:
                    raise AssertionError(f"no step: {step.text}")
                self._count += 1

        walk(self.steps, dict(symbols), {})
        return found, loops


def _closed(text, at):
    """What stands between the bracket at `at` and the one that closes it."""
    depth = 0
    for end in range(at, len(text)):
        depth += (text[end] in "[(") - (text[end] in "])")
        if depth == 0:
            return text[at + 1 : end]
    raise AssertionError(text)


@dataclass(frozen=True)
class Piece:
    """Bytes of one block that are accessed alike, and the steps from the first write to the last
    use, over whole loops where their iterations hand the bytes on."""

    block: int
    begin: int
    end: int
    first: int
    last: int


def live_pieces(plan, symbols):
    """Every byte of the arena that the steps use, as pieces. Raises PlanFault where an access
    leaves its block, a block leaves the arena, or something is read that nothing wrote."""
    accesses, loops = plan.accesses(symbols)
    arena = plan.arena_bytes(symbols)
    by_block = {}
    for access in accesses:
        by_block.setdefault(access.block, []).append(access)
    pieces = []
    for block, uses in by_block.items():
        begin, end = plan.extent(block, symbols)
        if begin < 0 or end > arena:
            raise PlanFault(f"block {block} leaves the arena of {arena} bytes")
        for use in uses:
            if use.begin < begin or use.end > end:
                raise PlanFault(f"step {use.step} leaves block {block}")
        cuts = sorted({use.begin for use in uses} | {use.end for use in uses})
        for left, right in zip(cuts, cuts[1:]):
            own = [use for use in uses if use.begin <= left and right <= use.end]
            if own:
                pieces.append(_piece(block, left, right, own, loops))
    return pieces


def _piece(block, begin, end, uses, loops):
    writes = [use.step for use in uses if use.write]
    reads = [use.step for use in uses if not use.write]
    if not writes or (reads and min(reads) <= min(writes)):
        raise PlanFault(f"step {min(reads)} reads bytes of block {block} that nothing wrote")
    first, last = min(writes), max(writes + reads)
    for start, finish in loops:  # inner ones come before outer ones
        inside = [use for use in uses if start <= use.step <= finish]
        if not inside:
            continue
        inner_writes = [use.step for use in inside if use.write]
        inner_reads = [use.step for use in inside if not use.write]
        handed_on = inner_reads and (not inner_writes or min(inner_reads) <= min(inner_writes))
        if handed_on or first < start or last > finish:
            first, last = min(first, start), max(last, finish)
    return Piece(block, begin, end, first, last)


def largest_live_set(pieces):
    """Bytes of the pieces that live at once, at the step where they are most."""
    change = {}
    for piece in pieces:
        change[piece.first] = change.get(piece.first, 0) + piece.end - piece.begin
        change[piece.last + 1] = change.get(piece.last + 1, 0) - (piece.end - piece.begin)
    now = largest = 0
    for step in sorted(change):
        now += change[step]
        largest = max(largest, now)
    return largest


def check_disjoint(pieces):
    """Raises PlanFault where two pieces that live at once share bytes. One block's never do."""
    ordered = sorted(pieces, key=lambda piece: piece.begin)
    for at, piece in enumerate(ordered):
        for other in ordered[at + 1 :]:
            if other.begin >= piece.end:
                break
            if piece.first <= other.last and other.first <= piece.last:
                raise PlanFault(
                    f"blocks {piece.block} and {other.block} share bytes {other.begin} "
                    f".. {min(piece.end, other.end)} while both live"
                )
