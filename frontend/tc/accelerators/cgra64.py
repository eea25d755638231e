"""A coarse-grained array of elements that multiply bytes, beside one SRAM: convolutions, products
of matrices and depthwise convolutions, with requantisation of what they sum up.

The elements compute either several outputs of one input at a time, or sum up several inputs of one
output. `coarse_grained_array` makes other sizes.
"""

from tc.accelerator import Accelerator

BUS = 8  # bytes that the DMA moves in a cycle
SET_UP = 30  # cycles until a transfer begins


def coarse_grained_array(name, elements, sram, parallel="outputs", depthwise=True):
    """The accelerator with so many elements and bytes of SRAM, which are parallel in "outputs" or
    "inputs", with or without an instruction for depthwise convolutions."""
    made = Accelerator(name, block=elements, issue_cycles=4)
    made.memory("sram", sram, alignment=8)
    dma, array = made.unit("dma"), made.unit("array")
    copy = "to[i, j, k] = from[i, j, k]"
    limits = {"i": 4096, "j": 4096, "k": 1 << 20}
    for kind, size in (("u8", 1), ("i8", 1), ("i32", 4), ("f32", 4)):
        cycles = f"{SET_UP} + i * j * ceil(k * {size}, {BUS})"
        here, host = f"{kind} sram", f"{kind} host"
        read = {"to": here, "from": host}
        dma.instruction(f"OP_DMA_READ_{kind}", copy, read, limits, cycles)
        dma.instruction(f"OP_DMA_WRITE_{kind}", copy, {"to": host, "from": here}, limits, cycles)
        array.instruction(f"OP_FILL_{kind}", "to[i, j, k] = 0", {"to": here}, limits, cycles)

    sums = {"a": "u8 sram", "b": "i8 sram", "c": "i32 sram"}
    trips = {"y": 256, "x": 4096, "n": elements, "k": elements}
    array.instruction(
        "OP_CONV",
        "c[y, x, n] += i32(a[y, x, k]) * i32(b[k, n])",
        sums,
        trips,
        f"8 + y * x * {'k' if parallel == 'outputs' else 'n'}",
    )
    result = {"y": 256, "x": 4096, "n": elements}
    if depthwise:
        meaning = "c[y, x, n] += i32(a[y, x, n]) * i32(b[n])"
        array.instruction("OP_DEPTH_CONV", meaning, sums, result, "8 + y * x")
    scaled = {
        "to": "u8 sram",
        "from": "i32 sram",
        "bias": "i32 sram",
        "left": "i32 sram",
        "factor": "i32 sram",
        "half": "i32 sram",
    }
    array.instruction(
        "OP_REQUANTISE",
        "to[y, x, n] = u8(min(max(shr(i32(shr(i64((from[y, x, n] + bias[n]) * left[n]) * "
        "i64(factor[n]), 32)) + half[n], i32(index(shift))), i32(index(low))), i32(index(high))))",
        scaled,
        {**result, "shift": (0, 31), "low": (0, 255), "high": (0, 255)},
        "8 + y * x",
    )
    bytes_, words = "u8 sram", "i32 sram"
    array.instruction(
        "OP_POOL", "c[y, x, n] max= a[y, x, n]", {"a": bytes_, "c": bytes_}, result, "8 + y * x"
    )
    array.instruction(
        "OP_POOL_SUM",
        "c[y, x, n] += i32(a[y, x, n])",
        {"a": bytes_, "c": words},
        result,
        "8 + y * x",
    )
    # Bytes of one scale: their sum, and the range that a Relu leaves of it.
    term = "f32(i32({}[y, x, n]) - i32(u8(index(zero)))) * 1"
    array.instruction(
        "OP_E_ADD",
        f"to[y, x, n] = u8(i32(round(min(max({term.format('a')} + {term.format('b')}, "
        "f32(index(low))), f32(index(high))))) + i32(index(zero)))",
        {"to": bytes_, "a": bytes_, "b": bytes_},
        {**result, "zero": (0, 255), "low": (-255, 255), "high": (-255, 255)},
        "8 + y * x",
    )
    array.instruction(
        "OP_E32_ADD",
        "to[y, x, n] = a[y, x, n] + b[y, x, n]",
        {"to": words, "a": words, "b": words},
        result,
        "8 + y * x",
    )
    array.instruction(
        "OP_ACT_RELU",
        "to[y, x, n] = max(from[y, x, n], 0)",
        {"to": words, "from": words},
        result,
        "8 + y * x",
    )
    return made


accelerator = coarse_grained_array("cgra64", elements=64, sram="512KiB")
