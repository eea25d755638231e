"""Gemmini: a systolic array of 16 x 16 multipliers of signed bytes that keeps weights, beside a
scratchpad of bytes and accumulators, as its generator makes it by default.

The core executes its instructions (RoCC, opcode custom-3), as Gemmini's documentation encodes
them: the function in bits 31 to 25, two registers with addresses and sizes. Addresses in its
memories count rows of 16 elements; those of the accumulators have bit 31. What follows the sums is
computed by the core: the array scales all channels by one number, quantised layers each by its own.
"""

from tc.accelerator import Accelerator

SIZE = 16  # elements of a row, rows and columns of the array
BUS = 16  # bytes that a copy moves in a cycle
CONFIGURE, LOAD, STORE, MULTIPLY, PRELOAD = 0, 2, 3, 4, 6  # functions
OF_ARRAY, OF_LOADS, OF_STORES = 0, 1, 2  # what is configured
ONE = 0x3F800000  # the float 1: nothing is scaled
NOTHING = 0xFFFFFFFF  # an address: zeros
ACCUMULATORS, ADD, WHOLE = {31: "1"}, {30: "1"}, {29: "1"}  # bits of addresses in them

accelerator = Accelerator("gemmini16", block=SIZE, issue_cycles=8, wait="fence")
accelerator.memory("scratchpad", "256KiB", row=SIZE)
accelerator.memory("accumulators", "64KiB", row=4 * SIZE)
load, store = accelerator.unit("load"), accelerator.unit("store")
array = accelerator.unit("array")


def word(function, first, second):
    return f".insn r CUSTOM_3, 3, {function}, x0, %0, %1", first, second


def block(address, columns, rows):
    """A register with an address, which is a formula or has further bits, and how many columns and
    rows there are."""
    place, bits = address if isinstance(address, tuple) else (address, {})
    return {0: place, **bits, 32: columns, 48: rows}


def sums(operand, bit):
    """The address of an operand in the accumulators."""
    return f"{operand} / {4 * SIZE}", {**ACCUMULATORS, **bit}


def configured(what, stride):
    """The step in bytes between the rows in the core's memory."""
    scale = {32: str(ONE), 16: str(SIZE)} if what == OF_LOADS else {}
    return word(
        CONFIGURE,
        {0: str(what), **scale},
        {0: stride, **({32: str(ONE)} if what == OF_STORES else {})},
    )


ROWS = {"i": SIZE, "k": SIZE}
for kind, size, memory in (("i8", 1, "scratchpad"), ("i32", 4, "accumulators")):
    here, row = f"{kind} {memory}", size * SIZE
    there = sums("to", {}) if size > 1 else f"to / {row}"
    cycles = f"4 + i * ceil(k * {size}, {BUS})"
    load.instruction(
        f"MVIN_{kind}",
        meaning="to[i, k] = from[i, k]",
        operands={"to": f"{here} i={row}", "from": f"{kind} host"},
        limits=ROWS,
        cycles=cycles,
    )
    load.encode(
        f"MVIN_{kind}",
        [configured(OF_LOADS, "from_i"), word(LOAD, {0: "from"}, block(there, "k", "i"))],
    )
    load.instruction(
        f"CLEAR_{kind}",
        meaning="to[i, k] = 0",
        operands={"to": f"{here} i={row}"},
        limits=ROWS,
        cycles="4 + i",
    )
    # The address 0 in the core's memory stands for zeros.
    load.encode(
        f"CLEAR_{kind}", [configured(OF_LOADS, "0"), word(LOAD, {0: "0"}, block(there, "k", "i"))]
    )

store.instruction(
    "MVOUT_i32",
    meaning="to[i, k] = from[i, k]",
    operands={"to": "i32 host", "from": f"i32 accumulators i={4 * SIZE}"},
    limits=ROWS,
    cycles=f"4 + i * ceil(k * 4, {BUS})",
)
store.encode(
    "MVOUT_i32",
    [configured(OF_STORES, "to_i"), word(STORE, {0: "to"}, block(sums("from", WHOLE), "k", "i"))],
)

array.instruction(
    "MATMUL",
    meaning="c[x, n] += i32(a[x, k]) * i32(b[k, n])",
    operands={"a": "i8 scratchpad", "b": f"i8 scratchpad k={SIZE}", "c": "i32 accumulators"},
    limits={"x": SIZE, "n": SIZE, "k": SIZE},
    # The next weights are loaded while activations pass through the array.
    cycles=str(SIZE),
)
array.encode(
    "MATMUL",
    [
        # Bit 2: weights stay in the array. The steps between rows, in rows.
        word(
            CONFIGURE,
            {0: str(OF_ARRAY), 2: "1", 16: f"a_x / {SIZE}", 32: str(ONE)},
            {48: f"c_x / {4 * SIZE}"},
        ),
        word(PRELOAD, block(f"b / {SIZE}", "n", "k"), block(sums("c", ADD), "n", "x")),
        word(MULTIPLY, block(f"a / {SIZE}", "k", "x"), block(str(NOTHING), "n", "x")),
    ],
)
