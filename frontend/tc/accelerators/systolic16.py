"""A systolic array of 16 x 16 multipliers of bytes, which keeps weights, beside a scratchpad and
accumulators; lanes that multiply each channel by its own weight.

Weights pass in through the columns (16 cycles), then each row of activations takes a cycle. Sums
are scaled and rounded to bytes on their way out, as TensorFlow Lite does.
"""

from tc.accelerator import Accelerator

SIZE = 16
BUS = 16  # bytes that a copy moves in a cycle

accelerator = Accelerator("systolic16", block=SIZE, issue_cycles=2)
accelerator.memory("scratchpad", "256KiB", alignment=16)
accelerator.memory("accumulators", "64KiB", alignment=64)
load, store = accelerator.unit("load"), accelerator.unit("store")
array, lanes = accelerator.unit("array"), accelerator.unit("lanes")
rounding = accelerator.unit("rounding")

for kind, size, memory in (
    ("u8", 1, "scratchpad"),
    ("i8", 1, "scratchpad"),
    ("i32", 4, "scratchpad"),
    ("f32", 4, "scratchpad"),
    ("i32", 4, "accumulators"),
):
    name = f"{kind}_{memory}"
    load.instruction(
        f"LOAD_{name}",
        meaning="to[i, j, k] = from[i, j, k]",
        operands={"to": f"{kind} {memory}", "from": f"{kind} host"},
        limits={"i": 4096, "j": 4096, "k": 65536},
        cycles=f"20 + i * j * ceil(k * {size}, {BUS})",
    )
    store.instruction(
        f"STORE_{name}",
        meaning="to[i, j, k] = from[i, j, k]",
        operands={"to": f"{kind} host", "from": f"{kind} {memory}"},
        limits={"i": 4096, "j": 4096, "k": 65536},
        cycles=f"20 + i * j * ceil(k * {size}, {BUS})",
    )
    load.instruction(
        f"CLEAR_{name}",
        meaning="to[i, j, k] = 0",
        operands={"to": f"{kind} {memory}"},
        limits={"i": 4096, "j": 4096, "k": 65536},
        cycles=f"4 + i * j * ceil(k * {size}, 64)",
    )

array.instruction(
    "MULTIPLY",
    meaning="c[y, x, n] += i32(a[y, x, k]) * i32(b[k, n])",
    operands={"a": "u8 scratchpad", "b": "i8 scratchpad", "c": "i32 accumulators"},
    limits={"y": 64, "x": 1024, "n": SIZE, "k": SIZE},
    cycles=f"{SIZE} + y * x",
)

# What comes after the sums of a quantised layer, as networks of ONNX have it (a product with a
# float) and as TensorFlow Lite's kernels do (fixed point).
RESULT = {"y": 64, "x": 64, "n": SIZE}
rounding.instruction(
    "SCALE",
    meaning="to[y, x, n] = u8(i32(round(min(max(f32(from[y, x, n]) * scale[n] + bias[n], f32(index(low))), "
    "f32(index(high))))) + i32(index(zero)))",
    operands={
        "to": "u8 scratchpad",
        "from": "i32 accumulators",
        "bias": "f32 scratchpad",
        "scale": "f32 scratchpad",
    },
    limits={**RESULT, "low": (-255, 255), "high": (-255, 255), "zero": (0, 255)},
    cycles="8 + y * x",
)
rounding.instruction(
    "SHIFT",
    meaning="to[y, x, n] = u8(min(max(shr(i32(shr(i64((from[y, x, n] + bias[n]) * left[n]) * i64(factor[n]), 32)) + "
    "half[n], i32(index(shift))), i32(index(low))), i32(index(high))))",
    operands={
        "to": "u8 scratchpad",
        "from": "i32 accumulators",
        "bias": "i32 scratchpad",
        "left": "i32 scratchpad",
        "factor": "i32 scratchpad",
        "half": "i32 scratchpad",
    },
    limits={**RESULT, "shift": (0, 31), "low": (0, 255), "high": (0, 255)},
    cycles="8 + y * x",
)
lanes.instruction(
    "DEPTHWISE",
    meaning="c[y, x, n] += i32(a[y, x, n]) * i32(b[n])",
    operands={"a": "u8 scratchpad", "b": "i8 scratchpad", "c": "i32 accumulators"},
    limits=RESULT,
    cycles="4 + y * x",
)
