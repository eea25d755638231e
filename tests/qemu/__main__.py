"""python -m tests.qemu EXECUTABLE [ARGUMENT ...]: runs it under qemu and prints what it
executed."""

import argparse
import sys

from . import cores, run_riscv64


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.qemu",
        description="Runs a riscv64 executable under qemu and prints its executed instructions by "
        "class. Options of this command come before the executable.",
    )
    parser.add_argument(
        "--cpu",
        choices=cores(),
        default="generic",
        help="a core of ir/target/riscv_cores.h (generic)",
    )
    parser.add_argument("--vlen", type=int, help="bits of a vector register (that core's)")
    parser.add_argument("--no-vector", action="store_true", help="a core without vectors: rv64gc")
    parser.add_argument(
        "--cycles", action="store_true", help="simulated cycles too (the model of cycle_model.h)"
    )
    parser.add_argument("--cache", action="store_true", help="the same, with its caches")
    parser.add_argument(
        "--dlen", type=int, help="bits of the model's vector datapath (that core's)"
    )
    parser.add_argument("executable")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    code, out, err, counts = run_riscv64(
        options.executable,
        options.arguments,
        vlen=options.vlen,
        vector=not options.no_vector,
        count=True,
        cycles=options.cycles,
        cache=options.cache,
        dlen=options.dlen,
        core=options.cpu,
    )
    sys.stdout.buffer.write(out)
    sys.stdout.flush()
    sys.stderr.buffer.write(err)
    for name, value in (counts or {}).items():
        print(f"{name:24} {value:>16,}")
    if counts is None:
        print(f"no counts: qemu or the guest ended with code {code}", file=sys.stderr)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
