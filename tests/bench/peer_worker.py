"""One compiler or runtime, one model, one process: loads, checks, then times on request.

Called by peers.py with PEER MODEL THREADS. Speaks one JSON object a line: first its state after
the first run, then, for each line `{"seconds": S, "least": N}` read, the times of its runs.
"""

import json
import os
import sys
import time

import numpy


def load_onnxruntime(model, threads, inputs):
    """Sequential execution, all graph optimisations, inputs and outputs bound once."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    names = [output.name for output in session.get_outputs()]
    for name in names:
        binding.bind_output(name)
    return (lambda: session.run_with_iobinding(binding),
            lambda: dict(zip(names, binding.copy_outputs_to_cpu())))


def load_openvino(model, threads, inputs):
    """The latency hint with one stream, and float32 arithmetic as asked of everybody."""
    import openvino

    core = openvino.Core()
    shapes = {name: array.shape for name, array in inputs.items()}
    network = core.read_model(model)
    network.reshape(shapes)
    request = core.compile_model(network, "CPU", {
        "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(threads)}).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array))
    return request.infer, lambda: {next(iter(port.names)): request.get_tensor(port).data
                                   for port in request.model_outputs}


def load_tc(model, threads, inputs):
    """This project's compiler, untuned."""
    import tc

    module = tc.compile(model, threads=threads)
    arrays = [inputs[value.name] for value in module.inputs]
    return (lambda: module(*arrays)), lambda: module.run(inputs)


LOADERS = {"onnxruntime": load_onnxruntime, "openvino": load_openvino, "tc": load_tc}


def distance(actual: numpy.ndarray, expected: numpy.ndarray) -> float:
    """The worst error as a share of the largest expected magnitude."""
    if actual.shape != expected.shape or not numpy.isfinite(actual).all():
        return float("inf")
    return float(numpy.abs(actual - expected).max() / numpy.abs(expected).max())


def peak_megabytes() -> float:
    """The process's largest resident memory so far; getrusage would count the parent's too."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def start(peer: str, model: str, threads: int):
    """Loads and runs once; returns the function to time and what to report."""
    with numpy.load(os.path.splitext(model)[0] + ".ref.npz") as file:
        inputs = {key[4:]: file[key] for key in file if key.startswith("in__")}
    begin = time.perf_counter()
    run, outputs = LOADERS[peer](model, threads, inputs)
    load = time.perf_counter() - begin
    run()
    run()
    state = {"load_seconds": load, "peak_megabytes": peak_megabytes()}
    actual = outputs()
    with numpy.load(os.path.splitext(model)[0] + ".ref.npz") as file:
        state["error"] = max(distance(numpy.asarray(actual[key[5:]]), file[key])
                             for key in file if key.startswith("out__"))
    return run, state


def main() -> None:
    peer, model, threads = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print must not mix with the answers.

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    try:
        run, state = start(peer, model, int(threads))
    except ImportError as error:
        return answer({"missing": str(error)})
    except Exception as error:
        return answer({"failed": f"{type(error).__name__}: {error}"})
    answer(state)
    for line in sys.stdin:
        request = json.loads(line)
        end, times = time.perf_counter() + request["seconds"], []
        while len(times) < request["least"] or time.perf_counter() < end:
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        answer(times)


if __name__ == "__main__":
    main()
