"""Networks of torchvision, timm and transformers with seeded weights, exported by torch.onnx, compiled and compared:

    python -m tests.frontend.networks [PART OF A NAME …] [--exporter script|dynamo] [--write docs/networks.md]

The packages are not among the project's: `pip install --no-deps --target FOLDER torchvision timm transformers huggingface_hub
safetensors tokenizers … onnxscript` and FOLDER in PYTHONPATH. torchvision's wheel for another torch lacks its operators; what
does not need them is exported nevertheless. Each network has a process of its own, so that one that ends it is a row, too.

A row is `right` within 1e-3 of ONNX Runtime, else `wrong`, with what tc.verify says of it against float64; `refused` with tc's reason, or `not exported`
with the exporter's. Times are of one thread: the shortest of five runs, of both by turns.
"""

import argparse
import json
import re
import subprocess
import sys
import time
import warnings

LIMIT = 1e-3
SEED = 0
MOST_SECONDS = 180           # of a network, export included
RUNS = 5                     # of which the shortest counts

# (package, name in it, shape of the picture): small pictures, for the interpreter's sake.
PICTURES = [
    *(("torchvision", name, (1, 3, 64, 64)) for name in (
        "alexnet", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small",
        "regnet_x_400mf", "regnet_y_400mf", "resnet18", "resnext50_32x4d", "shufflenet_v2_x0_5", "squeezenet1_1", "vgg11", "convnext_tiny")),
    *(("torchvision", name, (1, 3, 224, 224)) for name in ("vit_b_32", "swin_t", "maxvit_t")),
    *(("timm", name, (1, 3, 64, 64)) for name in (
        "resnet10t", "efficientnet_lite0", "ghostnet_050", "hardcorenas_a", "lcnet_050", "mixnet_s", "mobileone_s0", "repvgg_a0", "tinynet_e",
        "semnasnet_050", "fbnetc_100", "nf_resnet26", "seresnet18", "skresnet18", "ese_vovnet19b_dw", "mobilenetv4_conv_small", "dla34")),
]
# transformers: (class of the configuration, model, what of the configuration is small)
SMALL = {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
         "max_position_embeddings": 64}
TEXTS = [("transformers", f"{name}Model", (2, 16)) for name in (
    "Bert", "Roberta", "Electra", "MPNet", "Albert", "GPT2", "GPTNeoX", "OPT", "Llama", "Mistral", "Qwen2", "Gemma")]
NETWORKS = PICTURES + TEXTS


def network_of(package, name, shape):
    """(module, example inputs by name), seeded."""
    import torch

    torch.manual_seed(SEED)
    if package == "transformers":
        import transformers

        config = getattr(transformers, name.removesuffix("Model") + "Config")(**SMALL)
        config._attn_implementation = "eager"
        model = getattr(transformers, name)(config)

        class Hidden(torch.nn.Module):
            """The last hidden state of token numbers alone."""

            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, input_ids):
                return self.model(input_ids=input_ids, use_cache=False, return_dict=False)[0]

        return Hidden().eval(), {"input_ids": torch.randint(3, SMALL["vocab_size"], shape)}
    if package == "torchvision":
        import torchvision

        module = torchvision.models.get_model(name, weights=None)
    else:
        import timm

        module = timm.create_model(name, pretrained=False)
    return module.eval(), {"x": torch.randn(shape)}


# Schemas of torchvision's operators, where its binary part does not fit this torch: it is imported without them.
_KEPT = []


def declare_missing_operators():
    import torch

    while True:
        try:
            import torchvision  # noqa: F401
            return
        except ImportError:
            return           # its networks say so
        except RuntimeError as error:
            missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
            if not missing:
                raise
        if not _KEPT:
            _KEPT.append(torch.library.Library("torchvision", "FRAGMENT"))
        _KEPT[0].define(f"{missing.group(1)}(Tensor x) -> Tensor")
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]


def exported(module, inputs, exporter):
    """The bytes of the ONNX model."""
    import io

    import torch

    file = io.BytesIO()
    names = list(inputs)
    if exporter == "dynamo":
        return torch.onnx.export(module, tuple(inputs.values()), dynamo=True, input_names=names, verbose=False).model_proto.SerializeToString()
    torch.onnx.export(module, tuple(inputs.values()), file, dynamo=False, input_names=names, opset_version=17)
    return file.getvalue()


def one_row(package, name, shape, exporter):
    """What comes of a network, as a dict."""
    row = {"package": package, "name": name, "exporter": exporter, "state": "not exported", "reason": ""}
    try:
        module, inputs = network_of(package, name, shape)
        data = exported(module, inputs, exporter)
    except Exception as error:   # whatever exporters raise
        return row | {"reason": f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[0][:160]}"}
    return row | result_of(data, {key: value.numpy() for key, value in inputs.items()})


def result_of(data, arrays):
    """What comes of an ONNX model: its state, and where it is right or wrong the error and ONNX Runtime's time over tc's."""
    import onnxruntime

    import tc
    from tests.support import worst_error

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    reference = session.run(None, arrays)
    try:
        compiled = tc.compile(data, threads=1, log=False)
    except tc.Error as error:
        return {"state": "refused", "reason": str(error)[:300]}
    outputs = list(compiled.run(arrays).values())
    error = max(worst_error(actual, expected) for actual, expected in zip(outputs, reference))
    row = {"state": "right" if error <= LIMIT else "wrong", "error": error}
    times = {"tc": [], "peer": []}
    for _ in range(RUNS):
        for key, run in (("tc", lambda: compiled.run(arrays)), ("peer", lambda: session.run(None, arrays))):
            begin = time.perf_counter()
            run()
            times[key].append(time.perf_counter() - begin)
    row["ratio"] = min(times["peer"]) / min(times["tc"])
    return row | (judged(data, arrays) if error > LIMIT else {})


def judged(data, arrays):
    """What verify says of a network that is farther than the limit from ONNX Runtime."""
    import tc

    found = tc.verify(data, inputs=arrays, threads=1, budget=LIMIT, log=False)
    if all(each.within for each in found.outputs):
        return {"state": "right", "reason": "within the limit of float64, farther from ONNX Runtime"}
    node = found.culprit["node"]
    return {"reason": f"{found.culprit['part']} {found.culprit['name']}" + (f" at node '{node['name']}' ({node['operator']})" if node else "")}


def in_process(package, name, shape, exporter):
    command = [sys.executable, "-m", "tests.frontend.networks", "--one", json.dumps([package, name, shape, exporter])]
    row = {"package": package, "name": name, "exporter": exporter, "state": "crashed", "reason": ""}
    try:
        done = subprocess.run(command, capture_output=True, timeout=MOST_SECONDS, check=False, text=True)
    except subprocess.TimeoutExpired:
        return row | {"state": "too slow", "reason": f"more than {MOST_SECONDS} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"package"')]
    return json.loads(lines[-1]) if lines else row | {"reason": (done.stderr.strip().splitlines() or ["?"])[-1][:200]}


def table_text(rows):
    """The table as a page."""
    counts = {state: sum(row["state"] == state for row in rows) for state in sorted({row["state"] for row in rows})}
    right = [row for row in rows if row["state"] == "right"]
    mean = 1.0
    for row in right:
        mean *= row["ratio"] ** (1 / len(right))
    lines = ["# Networks that PyTorch exports", "",
             "Written by `python -m tests.frontend.networks --write`: seeded weights, exported by `torch.onnx`; errors against ONNX Runtime, relative to an "
             "output's largest magnitude, and ONNX Runtime's time over tc's on one thread.", "",
             f"{len(rows)} exports: " + ", ".join(f"{count} {state}" for state, count in counts.items())
             + (f"; geometric mean of the ratios {mean:.2f}." if right else "."), "",
             "| network | exporter | result | error | time ratio |", "|---|---|---|---|---|"]
    for row in rows:
        error = f"{row['error']:.1e}" if "error" in row else ""
        ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
        reason = f": {row['reason']}".replace("|", "\\|") if row["reason"] else ""
        lines.append(f"| {row['package']} {row['name']} | {row['exporter']} | {row['state']}{reason} | {error} | {ratio} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.frontend.networks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names; default: all")
    parser.add_argument("--exporter", choices=("script", "dynamo"), action="append", help="default: both")
    parser.add_argument("--write", metavar="FILE", help="write the table there")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.one:
        declare_missing_operators()
        print(json.dumps(one_row(*json.loads(arguments.one))))
        return 0
    rows = []
    for package, name, shape in NETWORKS:
        if arguments.names and not any(part in f"{package} {name}" for part in arguments.names):
            continue
        for exporter in arguments.exporter or ("script", "dynamo"):
            rows.append(in_process(package, name, shape, exporter))
            print(f"{package} {name} {exporter}: {rows[-1]['state']} {rows[-1].get('ratio', '')} {rows[-1]['reason']}", flush=True)
            if arguments.write:
                # What is there by now, if the run is ended before its end.
                with open(arguments.write, "w", encoding="utf-8") as file:
                    file.write(table_text(rows))
    if not arguments.write:
        print(table_text(rows))
    return 1 if any(row["state"] in ("wrong", "crashed") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
