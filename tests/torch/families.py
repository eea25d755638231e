"""Models of torchvision, timm and transformers with seeded weights: which compile, and agree with PyTorch.

    python -m tests.torch.families [--family torchvision|timm|transformers] [--write] [NAME …]

Each model runs in a process of its own. --write renews the table of docs/pytorch_models.md. The packages are
no part of the tests' requirements: a family whose package is missing is skipped by name.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import time
import warnings

import torch
from torch.utils import _pytree as pytree

from tests.support import ROOT

from . import configurations

FAMILIES = ("torchvision", "timm", "transformers")
TOLERANCE = 1e-3
SECONDS = 600


def names_of(family):
    if importlib.util.find_spec(family) is None:
        return []
    return list(getattr(configurations, family.upper()))


def settle(module):
    """Seeded weights that keep the size of what flows: statistics of normalisations as they are, no zero scales."""
    torch.manual_seed(0)
    for name, parameter in module.named_parameters():
        if parameter.dim() < 2 and name.endswith("weight"):
            torch.nn.init.uniform_(parameter.data, 0.8, 1.2)
        elif parameter.dim() < 2:
            torch.nn.init.uniform_(parameter.data, -0.1, 0.1)
    return module.eval()


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
    torch.manual_seed(0)
    module, args, kwargs = getattr(configurations, f"{family}_model")(name)
    settle(module)
    with torch.no_grad():
        expected = module(*args, **kwargs)
    begin = time.perf_counter()
    try:
        compiled = tc.compile(module, inputs=(args, kwargs), log=False)
    except tc.Error as error:
        return {"verdict": "refused", "why": " ".join(str(error).split())[:600], "seconds": time.perf_counter() - begin}
    seconds = time.perf_counter() - begin
    error = distance(compiled(*args, **kwargs), expected)
    return {"verdict": "right" if error <= TOLERANCE else "wrong", "why": f"{error:.1e}", "seconds": seconds}


def in_process(family, name):
    command = [sys.executable, "-m", "tests.torch.families", "--one", family, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"verdict": "wrong", "why": f"no end after {SECONDS} s", "seconds": SECONDS}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if lines:
        return json.loads(lines[-1])
    return {"verdict": "wrong", "why": (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:300], "seconds": 0}


def table_of(rows):
    lines = ["| family | model | verdict | error or reason | seconds |", "|---|---|---|---|---|"]
    lines += [f"| {family} | {name} | {row['verdict']} | {row['why'].replace('|', '/')} | {row['seconds']:.1f} |"
              for (family, name), row in rows.items()]
    return "\n".join(lines)


def write(rows):
    counts = []
    for family in FAMILIES:
        own = [row for (each, _), row in rows.items() if each == family]
        if own:
            right = sum(row["verdict"] == "right" for row in own)
            counts.append(f"{family}: {right} of {len(own)} compile and agree within {TOLERANCE:g}.")
    text = ("# Models of PyTorch's families\n\nMade by `python -m tests.torch.families --write`: constructors with seeded weights, "
            "compiled by `tc.compile(module, inputs=…)`.\n\n" + "\n".join(counts) + "\n\n" + table_of(rows) + "\n")
    (ROOT / "docs" / "pytorch_models.md").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one", action="store_true")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*arguments.names)))
        return
    rows = {}
    for family in FAMILIES:
        if arguments.family not in (None, family):
            continue
        if importlib.util.find_spec(family) is None:
            print(f"{family} is not installed: skipped", flush=True)
        for name in names_of(family):
            if arguments.names and name not in arguments.names:
                continue
            rows[family, name] = row = in_process(family, name)
            print(f"{row['verdict']:8} {row['seconds']:6.1f} s  {family} {name}: {row['why'][:400]}", flush=True)
    if arguments.write:
        write(rows)


if __name__ == "__main__":
    main()
