"""The quickstart's main job: real networks compiled, checked, timed and run on a simulated board.

`python -m tc.demo [MODEL.onnx ...]` needs onnx and onnxruntime, which the quickstart installs.
Without arguments it takes the full-size SqueezeNet and ResNet-50 graphs of the onnx package's
backend tests, whose constant weights it replaces by seeded ones of sensible scale.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import time

import numpy as np

from . import interrupts
from .files import replaced

COPIES = 4  # of a module, where small differences in time matter


def seeded_light_model(name, folder):
    """Writes the onnx package's light model `name` with seeded weights; returns its path."""
    import onnx
    from onnx import numpy_helper

    path = os.path.join(folder, f"{name}.onnx")
    if os.path.exists(path):
        return path
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
    model = onnx.load(os.path.join(data, f"light_{name}.onnx"))
    graph = model.graph
    random = np.random.default_rng(0)
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    roles = {}
    for node in graph.node:
        for position, tensor in enumerate(node.input):
            roles.setdefault(tensor, (node.op_type, position))
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = [int(size) for size in known[node.input[0]]]
        op_type, position = roles.get(node.output[0], ("", 0))
        if op_type == "BatchNormalization":
            # Scale, bias, mean and variance are chosen so that sums of residual additions do not
            # saturate the softmax at the end, which would hide errors.
            centre = {1: 1.0, 2: 0.0, 3: 0.0, 4: 2.0}[position]
            weights = centre + 0.1 * random.standard_normal(shape)
            weights = np.abs(weights) if position == 4 else weights
        elif len(shape) > 1:
            fan_in = int(np.prod(shape[1:]))
            weights = random.standard_normal(shape) * np.sqrt(2.0 / fan_in)
        else:
            weights = 0.01 * random.standard_normal(shape)
        graph.initializer.append(
            numpy_helper.from_array(weights.astype(np.float32), node.output[0])
        )
    del graph.node[:]
    graph.node.extend(kept)
    with replaced(path) as place:
        onnx.save(model, place)
    return path


def example_inputs(module):
    """Seeded inputs for the module's ports, which must not have symbolic dimensions."""
    random = np.random.default_rng(0)
    arrays = {}
    for port in module.inputs:
        if np.issubdtype(np.dtype(port.dtype), np.floating):
            arrays[port.name] = random.standard_normal(port.shape).astype(port.dtype)
        else:
            arrays[port.name] = random.integers(0, 2, port.shape).astype(port.dtype)
    return arrays


def best_and_median(call, seconds=1.0):
    """Runs `call` for about `seconds` after a warm-up; minimum and median in milliseconds."""
    call()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e3)
    return min(times), float(np.median(times))


def run_simulated(executable, inputs, folder):
    """Runs an exported rv64gcv executable under qemu-riscv64, which writes its outputs into the
    folder; returns the number of executed instructions. (With a plugin that counts them qemu is
    also several times as fast.)"""
    from tc import fleet

    counts = os.path.join(folder, "instructions.json")
    command = [
        "qemu-riscv64",
        "-cpu",
        "rv64,v=true,vlen=256,vext_spec=v1.0",
        "-plugin",
        fleet.counting_plugin(counts),
        executable,
    ]
    for name, array in inputs.items():
        file = os.path.join(folder, f"in_{len(command)}.npy")
        np.save(file, array)
        command += ["--input", f"{name}={file}"]
    command += ["--output-dir", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(counts, encoding="utf-8") as file:
        return json.load(file)["total"]


def worst_error(actual, expected):
    """Largest error relative to the expected output's largest magnitude."""
    scale = float(np.max(np.abs(expected))) or 1.0
    return float(np.max(np.abs(np.asarray(actual, np.float64) - expected))) / scale


def onnxruntime_session(path):
    """ONNX Runtime's session of the model on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def job(path, folder, shapes):
    import tc

    name = os.path.splitext(os.path.basename(path))[0]
    print(f"\n{name}: {path}")
    begin = time.perf_counter()
    module = tc.compile(path, shapes=shapes, threads=1)
    print(f"  compiled for this machine in {time.perf_counter() - begin:.1f} s")
    inputs = example_inputs(module)
    outputs = module.run(inputs)

    session = onnxruntime_session(path)
    expected = dict(
        zip([output.name for output in session.get_outputs()], session.run(None, inputs))
    )
    error = max(worst_error(outputs[key], expected[key].astype(np.float64)) for key in expected)
    print(f"  worst error against ONNX Runtime: {error:.1e} of the largest output")
    if not error <= 1e-3:
        print("  FAILED: the outputs differ")
        return False

    ours = best_and_median(lambda: module.run(inputs))
    theirs = best_and_median(lambda: session.run(None, inputs))
    print(
        f"  one thread, minimum / median: tc {ours[0]:.2f} / {ours[1]:.2f} ms, "
        f"ONNX Runtime {theirs[0]:.2f} / {theirs[1]:.2f} ms "
        f"(ONNX Runtime / tc = {theirs[0] / ours[0]:.2f})"
    )

    executable = os.path.join(folder, f"{name}.rv64gcv")
    tc.compile(path, target="rv64gcv", shapes=shapes).export(executable, kind="executable")
    print(
        f"  exported for rv64gcv: {executable} ({os.path.getsize(executable) / 1e6:.1f} MB, static)"
    )
    if shutil.which("qemu-riscv64") is None:
        print("  qemu-riscv64 is not installed: the executable was not run")
        return True
    results = os.path.join(folder, f"{name}.outputs")
    os.makedirs(results, exist_ok=True)
    begin = time.perf_counter()
    instructions = run_simulated(executable, inputs, results)
    simulated = {key: np.load(os.path.join(results, output_file(key))) for key in expected}
    error = max(worst_error(simulated[key], expected[key].astype(np.float64)) for key in expected)
    print(
        f"  ran under qemu-riscv64 (256-bit vectors) in {time.perf_counter() - begin:.0f} s, "
        f"{instructions / 1e6:.0f} million instructions: worst error {error:.1e}; outputs in {results}"
    )
    if not error <= 1e-3:
        print("  FAILED: the outputs differ")
        return False
    return True


def medians_by_turns(calls, inputs, seconds=6.0, least_rounds=20):
    """Milliseconds of each name's calls. The names take turns, and so do the calls of a name, so
    that slow moments of the machine affect all of them."""
    times = {name: [] for name in calls}
    for each in calls.values():
        for call in each:
            call(inputs)
    end = time.perf_counter() + seconds
    rounds = 0
    while time.perf_counter() < end or rounds < least_rounds:
        for name, each in calls.items():
            begin = time.perf_counter()
            each[rounds % len(each)](inputs)
            times[name].append(1e3 * (time.perf_counter() - begin))
        rounds += 1
    return {name: statistics.median(each) for name, each in times.items()}


def tune_job(path, folder, shapes, seconds):
    """Tunes the model for this machine and for the simulated board through a tracker, then compiles
    it from the log, without measuring again."""
    import tc
    from tc import fleet

    log = os.path.join(folder, "tuning.db")
    print(
        f"\ntuning {os.path.basename(path)} for {seconds:.0f} s each, with a tracker and agents on this machine"
    )
    devices = {"native": ["--name", "this-machine"]}
    if shutil.which("qemu-riscv64"):
        devices["rv64gcv"] = [
            "--name",
            "simulated-board",
            "--runner",
            "qemu",
            "--vector-bits",
            "256",
        ]
    with fleet.Local(*devices.values()) as local:
        for target in devices:
            found = tc.tune(
                path,
                target,
                shapes=shapes,
                threads=1,
                time_limit=seconds,
                log=log,
                tracker=local.address,
                insecure=True,
                progress=False,
            )
            gain = (
                f"the whole model is {found.model_gain:.3f} times as fast as untuned (in {found.unit})"
                if found.model_gain
                else (found.notes or [found.stopped])[-1]
            )
            print(f"  {target}: {found.trials} schedules tried in {found.seconds:.0f} s, {gain}")
    # The address at which a copy is loaded changes its time by a few percent, so several copies of
    # each are timed.
    untuned = [tc.compile(path, shapes=shapes, threads=1, log=False) for _ in range(COPIES)]
    tuned = [tc.compile(path, shapes=shapes, threads=1, log=log) for _ in range(COPIES)]
    inputs = example_inputs(tuned[0])
    session = onnxruntime_session(path)
    times = medians_by_turns(
        {
            "untuned": [module.run for module in untuned],
            "tuned": [module.run for module in tuned],
            "ONNX Runtime": [lambda values: session.run(None, values)],
        },
        inputs,
    )
    print(
        "  compiled again from the log, with no measurement; one thread, median: "
        + ", ".join(f"{name} {time:.3f} ms" for name, time in times.items())
    )
    print(f"  the log: {log}")


def output_file(name):
    """File name that the exported executable gives to an output."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name) + ".npy"


def main():
    parser = argparse.ArgumentParser(prog="quickstart", description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="ONNX files; default: SqueezeNet and ResNet-50")
    parser.add_argument("--output", default="out", help="folder for what is written (default: out)")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,224,224",
        help="shape of an input with symbolic dimensions",
    )
    parser.add_argument(
        "--tune-seconds",
        type=float,
        default=60,
        help="of the first model, for each of two targets (default 60; 0: none)",
    )
    arguments = parser.parse_args()
    shapes = {}
    for text in arguments.shape:
        name, _, sizes = text.rpartition("=")
        shapes[name] = tuple(int(size) for size in sizes.split(","))
    folder = os.path.abspath(arguments.output)
    os.makedirs(folder, exist_ok=True)
    paths = arguments.models or [
        seeded_light_model(name, folder) for name in ("squeezenet", "resnet50")
    ]
    good = [job(path, folder, shapes or None) for path in paths]
    if arguments.tune_seconds > 0:
        tune_job(paths[0], folder, shapes or None, arguments.tune_seconds)
    print(f"\n{sum(good)} of {len(good)} models agree; everything written is in {folder}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    interrupts.run(main)
