"""Models of torchvision, timm and transformers with seeded weights: which compile, and agree with
PyTorch.

    python -m tests.torch.families [--family torchvision|timm|transformers] [--part K/N]
                                   [--write] [--resume] [NAME …]

Some models at a time share a process. --write renews the rows of docs/pytorch_models.md of what
ran, and keeps the others. The packages are no part of the tests' requirements: a family whose
package is missing is skipped by name.
"""

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings

import torch
from torch.utils import _pytree as pytree

from tests.support import ROOT

from . import configurations

FAMILIES = ("torchvision", "timm", "transformers")
TOLERANCE = 1e-3
SECONDS = 600
MEMORY = 16 << 30
PAGE = ROOT / "docs" / "pytorch_models.md"


def names_of(family):
    if importlib.util.find_spec(family) is None:
        return []
    return list(getattr(configurations, family.upper()))


def settle(module):
    """Seeded weights that keep the size of what flows: statistics of normalisations as they are,
    and nothing near zero, as which scales of layers and last layers begin, for it would hide what
    is wrong before it."""
    torch.manual_seed(0)
    for name, parameter in module.named_parameters():
        tiny = not parameter.numel() or float(parameter.detach().abs().max()) < 1e-3
        if parameter.dim() < 2:
            torch.nn.init.uniform_(
                parameter.data, *((0.8, 1.2) if name.endswith("weight") else (-0.1, 0.1))
            )
        elif tiny and parameter.numel() == max(parameter.shape):
            torch.nn.init.uniform_(parameter.data, 0.1, 0.3)
        elif tiny:
            torch.nn.init.normal_(
                parameter.data, std=(parameter.shape[0] / max(parameter.numel(), 1)) ** 0.5
            )
    return module.eval()


def spread(module, parts, kinds, least, call):
    """Normalises what each layer of these kinds in these parts gives over the places of its image
    or the rows of its matrix, where there are so many, while `call` runs the module once: by its
    own weights, or by statistics where it is a normalisation. Otherwise most places of seeded
    detectors have the same numbers, their scores tie where candidates are cut, and PyTorch itself
    finds other boxes in float64 than in float32."""

    def axes_of(value):
        return (0, *range(2, value.dim())) if value.numel() >= least * value.shape[1] else None

    def scale(layer, inputs, output):
        axes = axes_of(output)
        if layer.bias is None or axes is None:
            return None
        deviation, around = output.std(axes), torch.empty_like(layer.bias).uniform_(-0.1, 0.1)
        layer.bias.copy_((layer.bias - output.mean(axes)) / deviation + around)
        layer.weight.div_(deviation.reshape(-1, *[1] * (layer.weight.dim() - 1)))
        return layer.forward(*inputs)

    def observe(layer, inputs):
        axes = axes_of(inputs[0])
        if axes is not None:
            layer.running_mean.copy_(inputs[0].mean(axes))
            layer.running_var.copy_(inputs[0].var(axes))

    chosen = [
        layer
        for part in parts
        for layer in module.get_submodule(part).modules()
        if isinstance(layer, kinds)
    ]
    hooks = [
        layer.register_forward_pre_hook(observe)
        if isinstance(layer, torch.nn.BatchNorm2d)
        else layer.register_forward_hook(scale)
        for layer in chosen
    ]
    with torch.no_grad():
        call()
    for hook in hooks:
        hook.remove()


def prepared(family, name):
    """(module, args, kwargs) of a model with its seeded weights."""
    torch.manual_seed(0)
    module, args, kwargs = getattr(configurations, f"{family}_model")(name)
    settle(module)
    if name in configurations.SPREAD:
        spread(module, *configurations.SPREAD[name], lambda: module(*args, **kwargs))
    return module, args, kwargs


def distance(actual, expected):
    """The largest error of any tensor, relative to its largest magnitude."""
    ones, others = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    assert len(ones) == len(others), (len(ones), len(others))
    worst = 0.0
    for one, other in zip(ones, others):
        if not isinstance(other, torch.Tensor) or not other.numel():
            continue
        assert one.shape == other.shape, (one.shape, other.shape)
        scale = float(other.double().abs().max()) or 1.0
        error = float((one.double() - other.double()).abs().max()) / scale
        worst = max(worst, error if error == error else float("inf"))
    return worst


def measure(family, name):
    """The row of one model."""
    import tc

    warnings.simplefilter("ignore")
    module, args, kwargs = prepared(family, name)
    with torch.no_grad():
        expected = module(*args, **kwargs)
    begin = time.perf_counter()
    try:
        compiled = tc.compile(module, inputs=(args, kwargs), log=False)
    except tc.Error as error:
        return {
            "verdict": "refused",
            "why": " ".join(str(error).split())[:600],
            "seconds": time.perf_counter() - begin,
        }
    seconds = time.perf_counter() - begin
    error = distance(compiled(*args, **kwargs), expected)
    return {
        "verdict": "right" if error <= TOLERANCE else "wrong",
        "why": f"{error:.1e}",
        "seconds": seconds,
    }


def in_process(family, names):
    """(name, row) of the models as they are done, one after the other in a process of limited
    memory; where one ends it, the others run in a new one."""
    left = list(names)
    while left:
        command = [
            sys.executable,
            "-m",
            "tests.torch.families",
            "--family",
            family,
            "--here",
            *left,
        ]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            ending = threading.Timer(SECONDS * len(left), process.kill)
            ending.start()
            for line in process.stdout:
                if line.startswith("{"):
                    row = json.loads(line)
                    yield left.pop(0), row
            ending.cancel()
            code = process.wait()
            errors.seek(0)
            why = (errors.read().strip().splitlines() or [f"exit code {code}"])[-1][:300]
        if left:
            yield left.pop(0), {"verdict": "wrong", "why": why, "seconds": 0.0}


def here(family, names):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for name in names:
        try:
            row = measure(family, name)
        except Exception as error:  # noqa: BLE001 - whatever happens to one model is told of it
            row = {
                "verdict": "wrong",
                "why": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
                "seconds": 0.0,
            }
        print(json.dumps(row), flush=True)


def table_of(rows):
    lines = ["| family | model | verdict | error or reason | seconds |", "|---|---|---|---|---|"]
    lines += [
        f"| {family} | {name} | {row['verdict']} | {row['why'].replace('|', '/')} | {row['seconds']:.1f} |"
        for (family, name), row in rows.items()
    ]
    return "\n".join(lines)


def written():
    """{(family, name): row} of the table as it is."""
    cells = (
        [
            line.strip("| ").split(" | ")
            for line in PAGE.read_text(encoding="utf-8").splitlines()
            if line.startswith("| ")
        ]
        if PAGE.exists()
        else []
    )
    return {
        (row[0], row[1]): {"verdict": row[2], "why": row[3], "seconds": float(row[4])}
        for row in cells
        if row[0] in FAMILIES
    }


def write(rows):
    rows = {
        key: row
        for key, row in {**written(), **rows}.items()
        if key[1] in getattr(configurations, key[0].upper())
    }
    rows = dict(sorted(rows.items(), key=lambda item: (FAMILIES.index(item[0][0]), item[0][1])))
    counts = []
    for family in FAMILIES:
        own = [row for (each, _), row in rows.items() if each == family]
        if own:
            right = sum(row["verdict"] == "right" for row in own)
            counts.append(
                f"{family}: {right} of {len(own)} compile and agree within {TOLERANCE:g} of the largest number "
                f"({len(getattr(configurations, family.upper()))} are listed in tests/torch/configurations.py).\n"
            )
    text = (
        "# Models of PyTorch's families\n\nMade by `python -m tests.torch.families --write`: constructors with seeded weights, "
        "compiled by `tc.compile(module, inputs=…)`. The seconds are those of the compilation, on one busy machine.\n\n"
        + "\n".join(counts)
        + "\n"
        + table_of(rows)
        + "\n"
    )
    PAGE.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument(
        "--part", default="0/1", help="only every so many models: 0/2 and 1/2 are the halves"
    )
    parser.add_argument("--together", type=int, default=6, help="models that share a process")
    parser.add_argument("--write", action="store_true")
    parser.add_argument(
        "--resume", action="store_true", help="leave out what the page has as right"
    )
    parser.add_argument("--here", action="store_true", help="in this process")
    arguments = parser.parse_args()
    if arguments.here:
        here(arguments.family, arguments.names)
        return
    part, parts = map(int, arguments.part.split("/"))
    for family in FAMILIES:
        if arguments.family not in (None, family):
            continue
        if importlib.util.find_spec(family) is None:
            print(f"{family} is not installed: skipped", flush=True)
        done = (
            {
                name
                for (each, name), row in written().items()
                if each == family and row["verdict"] == "right"
            }
            if arguments.resume
            else ()
        )
        names = [
            name
            for number, name in enumerate(names_of(family))
            if number % parts == part
            and name not in done
            and (not arguments.names or name in arguments.names)
        ]
        for start in range(0, len(names), arguments.together):
            for name, row in in_process(family, names[start : start + arguments.together]):
                print(
                    f"{row['verdict']:8} {row['seconds']:6.1f} s  {family} {name}: {row['why'][:400]}",
                    flush=True,
                )
                if arguments.write:
                    write({(family, name): row})


if __name__ == "__main__":
    main()
