"""A tuner as a process of its own: `python tuner_process.py JSON` tunes, and tells what it has
done.

Each report of progress is a line of JSON in the file `acks`: how many schedules this session has
measured, and how many of them a lost device did not answer for. The tuner reports them after they
are in the log, so that a line in the file acknowledges `measured - lost` new records. The last line
has the key "done", or "error" with the error's kind and text.
"""

import json
import os
import resource
import sys

import tc


def run(acks, file_bytes=None, **options):
    """`file_bytes` is how large a file may become, as on a disk that is full then."""
    file = os.open(acks, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def tell(**row):
        os.write(file, json.dumps(row).encode() + b"\n")

    def progress(raw):
        lost = sum(kernel["failures"].get("device lost", 0) for kernel in raw["kernels"])
        tell(measured=raw["measured"], lost=lost, trials=raw["trials"], doing=raw["doing"])

    tell(measured=0, lost=0, trials=0, doing="begin")
    if file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    try:
        result = tc.tune(
            threads=1, insecure=True, progress=progress, _sample_seconds=0.001, **options
        )
    except tc.Error as error:
        tell(error=type(error).__name__, text=str(error))
        return 1
    tell(done=result.stopped, measured=result.measured, trials=result.trials, notes=result.notes)
    return 0


if __name__ == "__main__":
    sys.exit(run(**json.loads(sys.argv[1])))
