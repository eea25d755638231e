"""Networks of torchvision, timm and transformers with seeded weights, exported by torch.onnx,
compiled and compared:

    python -m tests.frontend.networks [PART OF A NAME …] [--cache FOLDER] [--peers]
                                      [--write docs/networks.md]

tests/frontend/network_list.py lists them. The packages are not among the project's: `pip install
--no-deps --target FOLDER torchvision timm onnxscript onnx_ir pillow` and FOLDER in PYTHONPATH
(openvino as well for --peers). Each network has a process of its own, with a limit of time and
memory, so that one that ends it is a row, too. Exports and results are kept in the cache's folder,
and a second call goes on where the first one ended; `--again` and `--export-again` do named ones
anew, `--export-only` stops there.

A row is `right` within 1e-3 of ONNX Runtime (of PyTorch, where that does not run it), else `wrong`,
with what tc.verify says of it against float64; `refused` with tc's reason, or `not exported` with
the exporter's. --peers measures those that are right beside ONNX Runtime and OpenVINO on one
thread: the least processor time of several runs, of all by turns.
"""

import argparse
import json
import math
import multiprocessing
import os
import re
import resource
import sys
import tempfile
import time
import warnings
import zlib
from pathlib import Path

import numpy as np

from .network_list import exports

LIMIT = 1e-3
MAX_SECONDS = 180  # of an export, and of a compilation with its runs
MAX_BYTES = 8 << 30  # that a network's process takes beside what it begins with
RUNS = 5  # at least, of which the shortest counts
MEASURED_SECONDS = 1.5  # of all runs of a network


def exported_row(network, exporter, opset, files):
    """Exports into `files`; the reason where that fails."""
    from . import network_makers

    import torch

    torch.set_num_threads(1)
    failures = []
    other = ("dynamo", 18) if exporter == "script" else ("script", 17)
    for exporter, opset in ((exporter, opset), other):
        try:
            module, inputs = network_makers.network_of(network)
            with torch.no_grad():
                data = network_makers.exported(module, inputs, exporter, opset)
                outputs = [
                    each.numpy() for each in network_makers.tensors_of(module(*inputs.values()))
                ]
            session_of(data)
        except Exception as error:  # whatever exporters raise, and ONNX Runtime of what they write
            failures.append(
                f"{exporter} {opset}: {type(error).__name__}: {last_cause(error)[:200]}"
            )
            continue
        files["model"].write_bytes(data)
        np.savez(
            files["arrays"],
            **{f"input {name}": value.numpy() for name, value in inputs.items()},
            **{f"output {number}": value for number, value in enumerate(outputs)},
        )
        return {
            "state": "exported",
            "exporter": exporter,
            "opset": opset,
            "reason": "; ".join(failures),
        }
    return {
        "state": "not exported",
        "exporter": exporter,
        "opset": opset,
        "reason": "; ".join(failures),
    }


def last_cause(error):
    """The first line of what was at the bottom of an error."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip() or "?").splitlines()[0]


def inputs_and_outputs(files):
    with np.load(files["arrays"]) as arrays:
        inputs = {
            key.removeprefix("input "): arrays[key] for key in arrays if key.startswith("input ")
        }
        outputs = [arrays[key] for key in arrays if key.startswith("output ")]
    return inputs, outputs


def session_of(data, threads=1):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def result_of(data, arrays, expected=None):
    """What comes of an ONNX model: its state and, where it is right or wrong, the error."""
    import tc
    from tests.support import worst_error

    note = ""
    try:
        session = session_of(data)
        wanted = {port.name for port in session.get_inputs()}
        arrays = {name: array for name, array in arrays.items() if name in wanted}
        expected = session.run(None, arrays)
    except Exception as error:  # ONNX Runtime raises what it likes
        if expected is None:
            raise
        note = "ONNX Runtime: " + (str(error).splitlines() or ["?"])[0][:120]
        import onnx

        wanted = {port.name for port in onnx.load_from_string(data).graph.input}
        arrays = {name: array for name, array in arrays.items() if name in wanted}
    begin = time.perf_counter()
    try:
        compiled = tc.compile(data, threads=1, log=False)
        seconds = time.perf_counter() - begin
        outputs = list(compiled.run(arrays).values())
    except tc.Error as error:
        return {"state": "refused", "reason": str(error)[:600]}
    error = max(worst_error(actual, each) for actual, each in zip(outputs, expected))
    row = {
        "state": "right" if error <= LIMIT else "wrong",
        "error": error,
        "compile_seconds": seconds,
        "reason": note,
    }
    return row | (judged(data, arrays) if error > LIMIT and not note else {})


def judged(data, arrays):
    """What verify says of a network that is farther than the limit from ONNX Runtime."""
    import tc

    found = tc.verify(data, inputs=arrays, threads=1, budget=LIMIT, log=False)
    if all(each.within for each in found.outputs):
        return {
            "state": "right",
            "reason": "within the limit of float64, farther from ONNX Runtime",
        }
    # None: where shapes or what is no number differ.
    own = max(math.inf if each.relative is None else each.relative for each in found.outputs)
    peers = [
        math.inf if each["relative"] is None else each["relative"]
        for each in (found.peer or {}).get("outputs", ())
    ]
    if peers and own <= 2 * max(peers) < math.inf:
        return {
            "state": "right",
            "reason": f"ill-conditioned: {own:.1e} from float64, ONNX Runtime {max(peers):.1e}",
        }
    if found.culprit is None:
        return {
            "reason": f"{own:.1e} from float64, ONNX Runtime {max(peers, default=math.nan):.1e}"
        }
    node = found.culprit["node"]
    return {
        "reason": f"{found.culprit['part']} {found.culprit['name']}"
        + (f" at node '{node['name']}' ({node['operator']})" if node else "")
    }


def _child(connection, work):
    low, high = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MAX_BYTES, high))
    warnings.simplefilter("ignore")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        connection.send(work())
    except BaseException as error:  # a row says it
        connection.send(
            {
                "state": "crashed",
                "reason": f"{type(error).__name__}: {(str(error).splitlines() or ['?'])[0][:300]}",
            }
        )
    connection.close()
    os._exit(0)


def in_process(work):
    """What `work` returns in a process of its own, which starts with what is imported here."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(sender, work))
    process.start()
    sender.close()
    try:
        if not receiver.poll(MAX_SECONDS):
            process.kill()
            return {"state": "too slow", "reason": f"more than {MAX_SECONDS} s"}
        return receiver.recv()
    except EOFError:
        process.join()
        return {"state": "crashed", "reason": f"exit code {process.exitcode}"}
    finally:
        process.join()


class Cache:
    """A folder of exported models and rows by the networks' labels."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def files(self, network):
        stem = re.sub(r"\W+", "_", network.label).strip("_")
        return {
            "model": self.folder / f"{stem}.onnx",
            "arrays": self.folder / f"{stem}.npz",
            "row": self.folder / f"{stem}.json",
        }

    def row(self, network):
        file = self.files(network)["row"]
        return json.loads(file.read_text()) if file.exists() else {}

    def keep(self, network, row):
        file = self.files(network)["row"]
        file.with_suffix(".new").write_text(json.dumps(row))
        os.replace(file.with_suffix(".new"), file)


def steps(arguments, cache):
    """Exports, runs and, with --peers, measures what is not in the cache yet; a line for each."""
    end = time.time() + arguments.seconds
    chosen = [
        each
        for each in exports()
        if not arguments.names or any(part in each[0].label for part in arguments.names)
    ]
    fresh = {
        network.label
        for network, *_ in chosen
        if arguments.export_again or "export" not in cache.row(network)
    }
    preload(exporting=bool(fresh))
    # The small ones first; in an order that mixes the kinds, so that a part of the run says
    # something of the whole.
    for network, exporter, opset in sorted(
        chosen,
        key=lambda each: (each[0].package != "transformers", zlib.crc32(each[0].label.encode())),
    ):
        begin = time.time()
        if network.label in fresh:
            row = in_process(lambda: exported_row(network, exporter, opset, cache.files(network)))
            cache.keep(network, {"export": row})
            print(
                f"export {network.label}: {row['state']} {row['reason']} {time.time() - begin:.1f} s",
                flush=True,
            )
        row = cache.row(network)
        if arguments.export_only or row["export"]["state"] != "exported":
            continue
        if "result" not in row or arguments.again and not arguments.peers:
            begin, files = time.time(), cache.files(network)
            result = in_process(
                lambda: result_of(files["model"].read_bytes(), *inputs_and_outputs(files))
            )
            cache.keep(network, row | {"result": result})
            print(
                f"run {network.label}: {result['state']} {result.get('error', '')} {result['reason']} {time.time() - begin:.1f} s",
                flush=True,
            )
        if arguments.peers and time.time() < end:
            measure(network, arguments, cache)
    return chosen


def preload(exporting):
    """What every child would import, once."""
    import onnxruntime  # noqa: F401

    import tc  # noqa: F401

    if exporting:
        import onnxscript  # noqa: F401
        import torch.export  # noqa: F401
        import torch.onnx  # noqa: F401
        import transformers  # noqa: F401

        from tests.torchvision_package import import_torchvision

        import_torchvision()
        import timm  # noqa: F401
        import torch.onnx._internal.exporter._registration as registration

        registration.ONNXRegistry.from_torchlib()


def measured(data, arrays):
    """Seconds that the processor works for tc, ONNX Runtime and OpenVINO on one thread: the least
    of runs by turns. What passes by the clock has other programs of a busy machine in it."""
    import tc

    session = session_of(data)
    arrays = {port.name: arrays[port.name] for port in session.get_inputs()}
    compiled = tc.compile(data, threads=1, log=False)
    runs = {"tc": lambda: compiled.run(arrays), "onnxruntime": lambda: session.run(None, arrays)}
    notes = {}
    try:
        runs["openvino"] = openvino_run(data, arrays)
    except Exception as error:  # OpenVINO raises what it likes
        notes["openvino"] = (str(error).strip().splitlines() or ["?"])[-1][:120]
    times = {name: [] for name in runs}
    end = time.perf_counter() + MEASURED_SECONDS
    while len(times["tc"]) < RUNS or (time.perf_counter() < end and len(times["tc"]) < 100 * RUNS):
        for name, run in runs.items():
            begin = time.process_time()
            run()
            times[name].append(time.process_time() - begin)
    return {
        "state": "measured",
        "seconds": {name: min(each) for name, each in times.items()},
        "reason": str(notes or ""),
    }


def openvino_run(data, arrays):
    import openvino

    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    request = core.compile_model(core.read_model(data), "CPU").create_infer_request()

    def run():
        return list(request.infer(arrays).values())

    run()
    return run


def measure(network, arguments, cache):
    """The times of a network that is right."""
    row = cache.row(network)
    if row["result"]["state"] != "right" or ("times" in row and not arguments.again):
        return
    files = cache.files(network)
    times = in_process(lambda: measured(files["model"].read_bytes(), inputs_and_outputs(files)[0]))
    cache.keep(network, row | {"times": times})
    print(
        f"time {network.label}: {ratio_of(times)} {times.get('seconds', times['reason'])}",
        flush=True,
    )


def ratio_of(times):
    """The best peer's time over tc's, or None."""
    seconds = times.get("seconds")
    return (
        min(value for name, value in seconds.items() if name != "tc") / seconds["tc"]
        if seconds
        else None
    )


def table_text(rows):
    """The table as a page, of rows by label: {"export", "result", "times"}."""
    states = {
        label: row["result"]["state"] if "result" in row else row["export"]["state"]
        for label, row in rows.items()
    }
    counts = {state: list(states.values()).count(state) for state in sorted(set(states.values()))}
    tried = sum(
        count for state, count in counts.items() if state not in ("not exported", "exported")
    )
    ratios = [ratio for row in rows.values() if (ratio := ratio_of(row.get("times", {})))]
    lines = [
        "# Networks that PyTorch exports",
        "",
        "Written by `python -m tests.frontend.networks --write`: seeded weights, exported by `torch.onnx`; errors against ONNX Runtime, relative to an "
        "output's largest magnitude; the better time of ONNX Runtime and OpenVINO over tc's on one thread.",
        "",
        f"{len(rows)} networks: "
        + ", ".join(f"{count} {state}" for state, count in counts.items())
        + ". "
        + f"Of {tried} that are exported, {counts.get('right', 0)} are right ({100 * counts.get('right', 0) / max(tried, 1):.1f} %)."
        + (
            f" Geometric mean of {len(ratios)} time ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}; "
            f"{sum(ratio < 0.95 for ratio in ratios)} below 0.95."
            if ratios
            else ""
        ),
        "",
        "| network | exporter | opset | result | error | time ratio |",
        "|---|---|---|---|---|---|",
    ]
    for label, row in rows.items():
        what = row.get("result", row["export"])
        error = f"{what['error']:.1e}" if "error" in what else ""
        ratio = ratio_of(row.get("times", {}))
        reason = (
            f": {what['reason'][:200]}".replace("|", "\\|").replace("\n", " ")
            if what["reason"]
            else ""
        )
        lines.append(
            f"| {label} | {row['export'].get('exporter', '')} | {row['export'].get('opset', '')} | {states[label]}{reason} | {error} | "
            f"{f'{ratio:.2f}' if ratio else ''} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.frontend.networks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", help="parts of names; default: all")
    parser.add_argument(
        "--cache",
        default=os.environ.get("TC_NETWORKS", os.path.join(tempfile.gettempdir(), "tc-networks")),
        help="folder of exports and results (default: %(default)s)",
    )
    parser.add_argument(
        "--export-only", action="store_true", help="stop before anything is compiled"
    )
    parser.add_argument(
        "--export-again", action="store_true", help="export also what is in the cache"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="compile, run and measure also what has a result in the cache",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="measure those that are right beside ONNX Runtime and OpenVINO",
    )
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no measurement after that time"
    )
    parser.add_argument("--table", action="store_true", help="only show what is in the cache")
    parser.add_argument("--write", metavar="FILE", help="write the table there")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    cache = Cache(arguments.cache)
    if arguments.table:
        chosen = [
            each
            for each in exports()
            if cache.row(each[0])
            and (not arguments.names or any(part in each[0].label for part in arguments.names))
        ]
    else:
        chosen = steps(arguments, cache)
    rows = {network.label: cache.row(network) for network, *_ in chosen if cache.row(network)}
    if arguments.write:
        Path(arguments.write).write_text(table_text(rows), encoding="utf-8")
    else:
        print(table_text(rows))
    return (
        1
        if any(row.get("result", {}).get("state") in ("wrong", "crashed") for row in rows.values())
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
