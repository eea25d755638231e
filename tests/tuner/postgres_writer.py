"""Writes records to a log until it has written enough or a file appears; tells of each batch once
it is written. Its argument is a JSON object: url, writer (a number), count, batch, pause (seconds
after each batch), acks, stop, start and times (files; the last one gets the seconds of each
batch)."""

import json
import os
import sys
import time
from pathlib import Path

from tc.native import compiler

RECORD = {
    "target": "x86-64-v3",
    "device": "somewhere",
    "unit": "seconds",
    "threads": 1,
    "outcome": "ok",
    "detail": "",
    "samples": 3,
    "minimum": 1e-6,
    "median": 1e-6,
    "spread": 0.0,
    "ratio": 0.5,
    "worst_error": 0.0,
    "build": "0",
    "language": "1.0",
    "seed": 0,
    "created": 1,
}


def record(writer, number):
    """One that no other writer writes, with a trace as long as they are."""
    trace = [f"split i{number} 8*vscale as io{line} ii{line}" for line in range(14)]
    return {
        **RECORD,
        "workload": f"kernel {number % 20}",
        "trace": [f"# {writer}.{number}", *trace],
    }


def main(options):
    writer, batch = options["writer"], options["batch"]
    store = compiler.open_store(options["url"], True)
    times = []
    with open(options["acks"], "w") as acks:
        acks.write("begun\n")
        acks.flush()
        if start := options.get("start"):
            while not os.path.exists(start):
                time.sleep(0.01)
        for number in range(0, options["count"], batch):
            if os.path.exists(options["stop"]):
                break
            rows = [record(writer, number + i) for i in range(batch)]
            begun = time.monotonic()
            store.add(rows)
            times.append(time.monotonic() - begun)
            acks.write("".join(f"# {writer}.{number + i}\n" for i in range(batch)))
            acks.flush()
            time.sleep(options.get("pause", 0))
        if path := options.get("times"):
            Path(path).write_text(json.dumps(times))
        acks.write("done\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
