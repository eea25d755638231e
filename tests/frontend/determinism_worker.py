"""Compiles one model in a process of its own and exports every kind of artefact of it.

python -m tests.frontend.determinism_worker MODEL TARGET BUILD_THREADS FOLDER [SHAPES as JSON]
"""

import json
import locale
import sys
from pathlib import Path

import tc

SUFFIXES = {"shared": ".so", "static": ".a", "object": ".o", "executable": ""}


def main():
    model, target, build_threads, folder = sys.argv[1:5]
    shapes = json.loads(sys.argv[5]) if len(sys.argv) > 5 else {}
    # What a program that speaks its user's language does before it compiles.
    locale.setlocale(locale.LC_ALL, "")
    module = tc.compile(model, target, threads=2, build_threads=int(build_threads), shapes=shapes)
    for kind, suffix in SUFFIXES.items():
        module.export(str(Path(folder) / f"artefact{suffix}"), kind=kind)
    (Path(folder) / "explained.txt").write_text(
        "\n".join(
            "\n".join([report["label"], report["statements"], *report["trace"]])
            for report in module.kernels
        )
    )
    print(locale.localeconv()["decimal_point"])


if __name__ == "__main__":
    main()
