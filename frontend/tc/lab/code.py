"""Loops and assembly of a schedule from the log, and the operations of kernels, made in a process
of its own: whoever wrote the log, making them neither stops the lab nor takes long."""

import json
import subprocess
import sys
import threading

from ..errors import Error, error_of, printable

_SECONDS = 20
_MOST = 300_000  # characters of a text
_MEMORY = 4 << 30  # bytes of the process
_ONE = threading.Semaphore(1)


def code_of(workload, target, trace):
    """{"loops": text, "assembly": text}. Raises an Error that says why there is none."""
    request = json.dumps({"workload": workload, "target": target, "trace": trace})
    with _ONE:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tc.lab.code"],
                input=request.encode(),
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Error(f"it took longer than {_SECONDS} seconds") from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise Error(f"the process that makes it ended with code {done.returncode}") from None
    if "error" in answer:
        raise Error(printable(answer["error"], 2000))
    return answer


def operations_of(kernels):
    """The operations of floating point of kernels given as (workload, target), 0 where they are not
    known. The list is shorter where the process ended at a kernel."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tc.lab.code", "operations"],
            input=json.dumps(kernels).encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        lines = done.stdout
    except subprocess.TimeoutExpired as late:
        lines = late.stdout or b""
    return [float(line) for line in lines.split(b"\n")[:-1]][: len(kernels)]


def _print_operations(kernels):
    from ..native import compiler

    for workload, target in kernels:
        try:
            found = compiler.Schedule(workload, target).flops()
        except Exception:  # noqa: BLE001 - of another version of tc, or never one of a kernel
            found = 0
        print(found, flush=True)


def _answer(request):
    from ..native import compiler

    schedule = compiler.Schedule(request["workload"], request["target"])
    for line in request["trace"].split("\n"):
        if line.strip() and (refusal := schedule.apply(line)) is not None:
            return {"error": f"the line '{printable(line)}' of the trace is refused: {refusal}"}
    return {"loops": schedule.loops()[:_MOST], "assembly": schedule.code_text("assembly")[:_MOST]}


def _main():
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.argv[1:] == ["operations"]:
        _print_operations(json.load(sys.stdin))
        return
    try:
        answer = _answer(json.load(sys.stdin))
    except Exception as exception:  # noqa: BLE001 - the lab says it
        answer = {"error": str(error_of(exception))}
    print(json.dumps(answer))


if __name__ == "__main__":
    _main()
