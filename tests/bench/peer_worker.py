"""One compiler or runtime, one model, one process: loads, checks, then times on request.

Called by peers.py with PEER MODEL THREADS FOLDER; the folder is for what the peer keeps, and holds
module.pt, the PyTorch module, for a peer that starts from one. Speaks one JSON object a line:
first its state after the first runs, then, for each line `{"seconds": S}` read, the times of its
runs: for that long, three at least, but no more than one past four times that long.
"""

import importlib
import json
import os
import sys
import time

import numpy

# Runs before the state is told, but one only of a peer that takes longer than this, in seconds.
WARM_RUNS, SLOW_RUN = 2, 2.0


def load_onnxruntime(model, threads, inputs, folder):
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
    return (
        lambda: session.run_with_iobinding(binding),
        lambda: dict(zip(names, binding.copy_outputs_to_cpu())),
    )


def load_openvino(model, threads, inputs, folder, precision="f32"):
    """The latency hint with one stream; `precision` None leaves that to OpenVINO."""
    import openvino

    core = openvino.Core()
    shapes = {name: array.shape for name, array in inputs.items()}
    network = core.read_model(model)
    network.reshape(shapes)
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
        "INFERENCE_NUM_THREADS": str(threads),
    }
    if precision:
        options["INFERENCE_PRECISION_HINT"] = precision
    request = core.compile_model(network, "CPU", options).create_infer_request()
    for name, array in inputs.items():
        request.set_tensor(name, openvino.Tensor(array))
    return request.infer, lambda: {
        next(iter(port.names)): request.get_tensor(port).data for port in request.model_outputs
    }


def load_iree(model, threads, inputs, folder):
    """The compiler's highest level for this machine; compiled once for all thread counts, and that
    time told again."""
    import iree.compiler
    import onnx
    import iree.runtime
    from iree.compiler.tools.import_onnx import __main__ as importer

    compiled = os.path.join(folder, "iree.vmfb")
    begin = time.perf_counter()
    if not os.path.exists(compiled):
        # The importer infers shapes best where inputs have them; symbolic ones become the
        # example's.
        source, text = os.path.join(folder, "iree.onnx"), os.path.join(folder, "iree.mlir")
        proto = onnx.load(model)
        for value in proto.graph.input:
            for dimension, size in zip(value.type.tensor_type.shape.dim, inputs[value.name].shape):
                dimension.dim_value = size
        onnx.save(proto, source)
        importer.main(importer.parse_arguments([source, "-o", text]))
        os.unlink(source)
        iree.compiler.compile_file(
            text,
            input_type="onnx",
            target_backends=["llvm-cpu"],
            output_file=compiled,
            extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"],
        )
        os.unlink(text)
        with open(compiled + ".seconds", "w") as file:
            file.write(str(time.perf_counter() - begin))
        begin = time.perf_counter()
    with open(compiled + ".seconds") as file:
        before = float(file.read())
    # The thread that calls waits: as many workers as threads are asked for.
    iree.runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
    config = iree.runtime.Config("local-sync" if threads == 1 else "local-task")
    context = iree.runtime.SystemContext(config=config)
    module = iree.runtime.VmModule.mmap(context.instance, compiled)
    context.add_vm_module(module)
    name = next(name for name in module.function_names if name[0] != "_" and "$" not in name)
    function = context.modules[module.name][name]
    arrays = [iree.runtime.asdevicearray(config.device, array) for array in inputs.values()]
    names = output_names(model)

    def outputs():
        results = function(*arrays)
        results = results if isinstance(results, tuple) else (results,)
        return {name: result.to_host() for name, result in zip(names, results, strict=True)}

    return (lambda: function(*arrays)), outputs, before + time.perf_counter() - begin


def load_inductor(model, threads, inputs, folder, autotune=False):
    """torch.compile of the PyTorch module itself, constants folded and weights packed
    (`freezing`)."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, f"inductor-{threads}-{autotune}")
    import torch

    torch.set_num_threads(threads)
    with torch.no_grad():
        module = torch.load(os.path.join(folder, "module.pt"), weights_only=False)
        tensors = [torch.from_numpy(array) for array in inputs.values()]
        begin = time.perf_counter()
        compiled = torch.compile(module, options={"freezing": True, "max_autotune": autotune})
        compiled(*tensors)  # Compiles.
        load = time.perf_counter() - begin
    names = output_names(model)

    def run():
        with torch.no_grad():
            return compiled(*tensors)

    def outputs():
        results = run()
        results = results if isinstance(results, tuple) else (results,)
        return {name: result.numpy() for name, result in zip(names, results, strict=True)}

    return run, outputs, load


def load_tvm(model, threads, inputs, folder):
    """Relax with its default pipeline for this machine and no tuning: loops as they are written."""
    os.environ["TVM_NUM_THREADS"] = str(threads)
    import onnx
    import tvm
    from tvm.relax.frontend import onnx as importer

    shapes = {name: array.shape for name, array in inputs.items()}
    types = {name: str(array.dtype) for name, array in inputs.items()}
    module = importer.from_onnx(onnx.load(model), shape_dict=shapes, dtype_dict=types)
    target = tvm.target.Target(
        {
            "kind": "llvm",
            "mcpu": tvm.get_global_func("target.llvm_get_system_cpu")(),
            "num-cores": threads,
        }
    )
    machine = tvm.relax.VirtualMachine(tvm.compile(module, target), tvm.cpu())
    function, arrays = machine["main"], [tvm.runtime.tensor(array) for array in inputs.values()]
    names = output_names(model)

    def outputs():
        results = function(*arrays)
        results = [results] if hasattr(results, "numpy") else list(results)
        return {name: result.numpy() for name, result in zip(names, results, strict=True)}

    return (lambda: function(*arrays)), outputs


def load_tc(model, threads, inputs, folder, target="native", tolerance=1e-4):
    """This project's compiler, untuned: no log is read, and nothing is kept from earlier
    compiles."""
    import tc

    module = tc.compile(model, target, threads=threads, tolerance=tolerance, log=False)
    arrays = [inputs[value.name] for value in module.inputs]
    return (lambda: module(*arrays)), lambda: module.run(inputs)


# By peer: what it imports, which is not timed, its loader, and what that is given besides.
LOADERS = {
    "onnxruntime": ("onnxruntime", load_onnxruntime, {}),
    "openvino": ("openvino", load_openvino, {}),
    "iree": ("iree.compiler", load_iree, {}),
    "inductor": ("torch", load_inductor, {}),
    "inductor-autotune": ("torch", load_inductor, {"autotune": True}),
    "tvm": ("tvm.relax.frontend.onnx", load_tvm, {}),
    "openvino-default": ("openvino", load_openvino, {"precision": None}),
    "onnxruntime-avx2": ("onnxruntime", load_onnxruntime, {}),
    "openvino-avx2": ("openvino", load_openvino, {}),
    "tc": ("tc", load_tc, {}),
    "tc-float32": ("tc", load_tc, {"tolerance": 0}),
    "tc-loose": ("tc", load_tc, {"tolerance": 1e-2}),
    "tc-avx2": ("tc", load_tc, {"target": "x86-64-v3", "tolerance": 0}),
}


def output_names(model: str) -> list[str]:
    """The model's outputs in their order, for peers that do not tell names."""
    import onnx

    return [value.name for value in onnx.load(model, load_external_data=False).graph.output]


def distance(actual: numpy.ndarray, expected: numpy.ndarray) -> float:
    """The worst error as a share of the largest expected magnitude."""
    if actual.shape != expected.shape or not numpy.isfinite(actual).all():
        return float("inf")
    return float(numpy.abs(actual - expected).max() / numpy.abs(expected).max())


def peak_megabytes() -> float:
    """The process's largest resident memory so far; getrusage would count the parent's too."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


def start(peer: str, model: str, threads: int, folder: str):
    """Loads and runs; returns the function to time and what to report."""
    with numpy.load(os.path.splitext(model)[0] + ".ref.npz") as file:
        inputs = {key[4:]: file[key] for key in file if key.startswith("in__")}
    package, loader, options = LOADERS[peer]
    importlib.import_module(package)
    begin = time.perf_counter()
    # A loader that knows better what belongs to loading tells the time.
    run, outputs, *told = loader(model, threads, inputs, folder, **options)
    load = told[0] if told else time.perf_counter() - begin
    begin = time.perf_counter()
    for _ in range(WARM_RUNS):
        run()
        if time.perf_counter() - begin > SLOW_RUN:
            break
    state = {"load_seconds": load, "peak_megabytes": peak_megabytes()}
    actual = outputs()
    with numpy.load(os.path.splitext(model)[0] + ".ref.npz") as file:
        state["error"] = max(
            distance(numpy.asarray(actual[key[5:]]), file[key])
            for key in file
            if key.startswith("out__")
        )
    return run, state


def run_for(run, seconds: float) -> list[float]:
    """The times of runs for that long, in seconds: of three at least, unless they take four times
    as long."""
    begin, times = time.perf_counter(), []
    while (
        not times
        or (past := time.perf_counter() - begin) < seconds
        or (len(times) < 3 and past < 4 * seconds)
    ):
        start_of_run = time.perf_counter()
        run()
        times.append(time.perf_counter() - start_of_run)
    return times


def main() -> None:
    peer, model, threads, folder = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print must not mix with the answers.

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    try:
        run, state = start(peer, model, int(threads), folder)
    except ImportError as error:
        return answer({"missing": str(error)})
    except Exception as error:
        return answer({"failed": f"{type(error).__name__}: {error}"})
    answer(state)
    for line in sys.stdin:
        answer(run_for(run, json.loads(line)["seconds"]))


if __name__ == "__main__":
    main()
