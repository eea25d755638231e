"""Command line: `python -m tests.zoo list` and `… export [NAME ...] [--output DIR]`."""

import argparse
import time

from . import NETWORKS, export


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="print the networks")
    writer = commands.add_parser("export", help="write NAME.onnx and NAME.ref.npz")
    writer.add_argument(
        "names", nargs="*", default=["all"], metavar="NAME|all", choices=["all", *NETWORKS]
    )
    writer.add_argument("--output", help="folder (default: the cache)")
    arguments = parser.parse_args()
    if arguments.command == "list":
        for name, network in NETWORKS.items():
            print(
                f"{name:14s} {network.parameters / 1e6:8.2f} M parameters "
                f"{network.multiply_adds / 1e6:10.1f} M multiply-adds"
            )
        return
    for name in NETWORKS if "all" in arguments.names else arguments.names:
        start = time.monotonic()
        path = export(name, arguments.output)
        print(f"{path} ({time.monotonic() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
