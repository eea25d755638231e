"""Whether two checkouts make the same artefacts: every network of the zoo and every shared model,
for several targets and tolerances.

    python -m tests.bench.artefacts write FOLDER OUT.json [NAME ...] [--targets T ...]
                                          [--tolerances X ...]
    python -m tests.bench.artefacts compare BEFORE.json AFTER.json

`write` compiles with the package of a checkout in which `build_rules/stage.sh` was run (or
`installed`) and notes, for each combination, a hash of the linked artefact, one of its instructions
in any order, the traces of its kernels and the seconds that compiling took. `compare` prints each
combination that differs, with what does: the kernels whose traces do, the instructions, or only
their order and other parts of the artefact, such as its tables. It ends with 1 where one differs.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import zoo
from tests.bench.builds import package_of
from tests.bench.peers import ROOT, search_path

TARGETS = ["native", "x86-64-v3", "rv64gcv"]
TOLERANCES = [0.0, 1e-4]
WITHOUT_RUNTIME = ["rv32imfc", "cortex-m4", "cortex-m7", "cortex-m55"]


def shared_models():
    """Name and path of each ONNX file of $TC_MODELS or the folder of models beside the project."""
    folder = Path(os.environ.get("TC_MODELS") or ROOT / ".." / "shared" / "models")
    return {str(path.relative_to(folder)): path for path in sorted(folder.glob("**/*.onnx"))}


def one(name, target, tolerance):
    """What is noted of one compilation: a dict with `artefact`, `kernels` and `seconds`, or with
    `refused`."""
    import tc

    shapes = {}
    if name in shared_models():
        model = shared_models()[name]
    else:
        model = zoo.export(name)
        shapes = zoo.shapes(name)
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "artefact.o"
        # A target without a runtime has no shared objects.
        kind = "bare" if target in WITHOUT_RUNTIME else "shared"
        try:
            module = tc.compile(
                model, target, threads=1, tolerance=tolerance, log=False, shapes=shapes
            )
            seconds = time.perf_counter() - begin
            module.export(str(path), kind=kind)
            artefact = hashlib.sha256(path.read_bytes()).hexdigest()
            if kind == "shared":
                module.export(str(path), kind="object")
        except tc.Error as error:
            return {"refused": str(error)}
        instructions = instructions_of(path)
    kernels = [
        [report["label"], report["statements"], report["trace"]] for report in module.kernels
    ]
    return {
        "artefact": artefact,
        "instructions": instructions,
        "kernels": kernels,
        "seconds": round(seconds, 2),
    }


def instructions_of(path):
    """A hash of an object's instructions without their operands, in any order; None where LLVM's
    disassembler is not installed."""
    tool = shutil.which("llvm-objdump-19") or shutil.which("llvm-objdump")
    if tool is None:
        return None
    done = subprocess.run(
        [tool, "-d", "--no-show-raw-insn", path], text=True, capture_output=True, check=True
    )
    lines = [line.split("\t") for line in done.stdout.splitlines() if line.startswith(" ")]
    names = sorted(fields[1].strip() for fields in lines if len(fields) > 1)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def work():
    """Answers a line of JSON for each line of JSON on standard input: a process of a build's
    package."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(one(*json.loads(line))), file=answers, flush=True)


def write(folder, out, names, targets, tolerances):
    environment = dict(
        os.environ, PYTHONPATH=search_path(package_of(folder), ROOT, os.environ.get("PYTHONPATH"))
    )
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.artefacts", "worker"],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    found = {}
    for name in names or [*zoo.NETWORKS, *shared_models()]:
        for target in targets:
            for tolerance in tolerances:
                worker.stdin.write(json.dumps([name, target, tolerance]) + "\n")
                worker.stdin.flush()
                line = worker.stdout.readline()
                if not line:
                    sys.exit(
                        f"the process ended while it compiled {name} for {target} at {tolerance:g}"
                    )
                found[f"{name} {target} {tolerance:g}"] = json.loads(line)
    worker.stdin.close()
    worker.wait()
    Path(out).write_text(json.dumps(found, indent=1))


def differences(before, after):
    """Sentences, one for each combination that is not the same in both."""
    for key in before | after:
        a, b = before.get(key), after.get(key)
        if a is None or b is None:
            yield f"{key}: only {'after' if a is None else 'before'}"
        elif "refused" in a or "refused" in b:
            if a.get("refused") != b.get("refused"):
                yield f"{key}: {a.get('refused', 'compiled')} ▶ {b.get('refused', 'compiled')}"
        elif a["artefact"] != b["artefact"]:
            alike = a.get("instructions") and a.get("instructions") == b.get("instructions")
            changed = [new[0] for old, new in zip(a["kernels"], b["kernels"]) if old != new]
            count = (
                f"{len(a['kernels'])} ▶ {len(b['kernels'])} kernels"
                if len(a["kernels"]) != len(b["kernels"])
                else f"{len(changed)} of {len(b['kernels'])} kernels"
            )
            same = "the same traces" + (" and instructions" if alike else "")
            yield f"{key}: {count}: {', '.join(changed[:6]) or same}"


def compare(before, after):
    before, after = (json.loads(Path(path).read_text()) for path in (before, after))
    found = list(differences(before, after))
    print("\n".join(found))
    seconds = [sum(each.get("seconds", 0) for each in notes.values()) for notes in (before, after)]
    print(
        f"{len(found)} of {len(before | after)} differ; compiling took {seconds[0]:.0f} s ▶ {seconds[1]:.0f} s"
    )
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writer = commands.add_parser("write")
    writer.add_argument("folder")
    writer.add_argument("out")
    writer.add_argument("names", nargs="*")
    writer.add_argument("--targets", nargs="+", default=TARGETS)
    writer.add_argument("--tolerances", nargs="+", type=float, default=TOLERANCES)
    comparer = commands.add_parser("compare")
    comparer.add_argument("before")
    comparer.add_argument("after")
    commands.add_parser("worker")
    options = parser.parse_args()
    if options.command == "worker":
        return work()
    if options.command == "write":
        return write(
            options.folder, options.out, options.names, options.targets, options.tolerances
        )
    return compare(options.before, options.after)


if __name__ == "__main__":
    sys.exit(main())
