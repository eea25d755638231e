"""What a report says, gathered from a module, its profile, its plan, a verification and the log, as
values that JSON can represent. The pictures and the page read nothing else."""

import dataclasses
import re

import numpy as np

from ..digest import sha256
from ..errors import Error, ShapeError, TargetError
from ..native import compiler, runtime
from ..profile import peak, symbols_of
from ..seeded import seeded_array
from .provenance import provenance
from .tuning_facts import of_module as tuning_of

FORMAT = 1  # of the facts; it changes when a field changes its meaning


@dataclasses.dataclass(frozen=True)
class Question:
    """What a report is asked for; Module.report says what each is."""

    inputs: dict | None = None
    seconds: float = 1.0
    seed: int = 0
    log: object = None
    verification: object = None
    command: str = ""  # the command line that makes the report
    seeded: tuple | None = None  # which of `inputs` are seeded data after all


def gather(module, question=Question()):
    """(the facts on a compiled model, its profile or None where it does not run here)."""
    arrays = _arrays(module, question)
    profile, why_not = None, ""
    try:
        profile = module.profile(
            *(arrays[port.name] for port in module.inputs), seconds=question.seconds
        )
    except TargetError as error:
        why_not = str(error)
    planned = module.planned
    steps, memory = _plan(planned, profile, arrays)
    kernels = planned.kernels if planned else []
    found = {
        "format": FORMAT,
        "subject": "model",
        "summary": _summary(module, question, profile, arrays) | {"not_run": why_not},
        "limits": profile.limits if profile else None,
        "peaks": _peaks(profile),
        "steps": steps,
        "classes": profile.classes if profile else [],
        "memory": memory,
        "edges": edges(steps),
        "errors": question.verification.to_dict() if question.verification else None,
        "tuning": tuning_of(question.log, module, kernels) if question.log else None,
        "provenance": provenance(module, question.command),
    }
    _add_untuned(found, kernels)
    return found, profile


def _arrays(module, question):
    """{input: array}: the given arrays, and seeded data for the other inputs."""
    given = dict(question.inputs or {})
    names = [port.name for port in module.inputs]
    for name in given:
        if name not in names:
            raise ShapeError(
                f"model '{module.name}' has no input '{name}'; its inputs are {', '.join(names)}"
            )
    random = np.random.default_rng(question.seed)
    for port in module.inputs:
        if port.name in given:
            continue
        if port.kind.startswith("optional"):
            given[port.name] = None
            continue
        if (
            port.kind != "tensor"
            or port.shape is None
            or not all(isinstance(size, int) for size in port.shape)
        ):
            raise ShapeError(
                f"input '{port.name}' of model '{module.name}' has open sizes, so that a report "
                f"cannot make data for it; give an array: report(path, inputs={{'{port.name}': ...}})"
            )
        if port.dtype != "string":  # of strings there is no data; no such model is profiled
            given[port.name] = seeded_array(random, port.dtype, port.shape)
        else:
            given[port.name] = np.full(port.shape, "", object)
    return given


def _ports(ports):
    return [
        {
            "name": port.name,
            "dtype": port.dtype,
            "shape": None if port.shape is None else list(port.shape),
        }
        for port in ports
    ]


def _summary(module, question, profile, arrays):
    tolerance = re.search(r"\btolerance=([0-9.e+-]+)", module.provenance or "")
    memory = module.memory._asdict()
    threads = getattr(module, "_threads", 0) or runtime.core_count()
    return {
        "model": module.name,
        "target": module.target,
        "threads": profile.threads if profile else threads,
        "tolerance": float(tolerance[1]) if tolerance else None,
        "inputs": _ports(module.inputs),
        "outputs": _ports(module.outputs),
        "sizes": {name: list(np.shape(array)) for name, array in arrays.items()},
        "seed": question.seed,
        "seeded": list(
            question.seeded
            if question.seeded is not None
            else (name for name in arrays if name not in (question.inputs or {}))
        ),
        "memory": memory,
        **(profile.summary() if profile else {}),
    }


def _peaks(profile):
    """Peak operations per second by element type, of the target's widest vectors."""
    if not profile or not profile.limits:
        return {}
    return {
        dtype: peak(profile.limits, profile.target, dtype)
        for dtype in ("f32", "f64")
        if any(row["types"] == dtype for row in profile.limits["peaks"])
    }


def _plan(planned, profile, arrays):
    """(steps, memory): what the compiler planned, with the times of the profile."""
    if planned is None:
        return [], None
    rows = {row.step: row._asdict() for row in profile.rows} if profile else {}
    compiled = planned._compiled
    if compiled is None:  # a loaded artefact knows its steps' names alone
        return [{**row, "reads": [], "writes": []} for row in rows.values()], None
    try:
        given = [arrays.get(port.name) for port in planned._tensor_inputs]
        symbols = profile.symbols if profile else symbols_of(planned, given)
        work = compiler.step_work(compiled, symbols)
        blocks = compiler.arena_blocks(compiled, symbols)
    except Error:
        return [], None  # sizes that only a run tells
    names = {
        "input": [port.name for port in planned._tensor_inputs],
        "output": [port.name for port in planned._tensor_outputs],
        "block": [block["name"] for block in blocks],
    }
    reports = planned.kernels
    steps = [
        _step(number, each, rows.get(number), names, reports) for number, each in enumerate(work)
    ]
    memory = {
        **planned.memory._asdict(),
        "blocks": [block for block in blocks if block["segment"] is None],
        "segments": sum(block["segment"] is not None for block in blocks),
        "steps": len(steps),
    }
    return steps, memory


_UNKNOWN = dict.fromkeys(
    (
        "calls",
        "seconds",
        "median_seconds",
        "gflops_per_second",
        "roof",
        "roof_seconds",
        "share",
        "predicted_seconds",
    )
)


def _step(number, work, row, names, reports):
    report = reports[work["report"]] if work["report"] >= 0 else None
    own = {
        "step": number,
        "label": work["label"],
        "kind": work["class"],
        "flops": work["flops"],
        "bytes": work["read"] + work["constants"] + work["written"],
        "runs": work["runs"],
        "parent": work["parent"],
        "algorithm": report["algorithm"] if report else "",
        "tuned": bool(report and report["tuned"]),
        "report": work["report"] if report else None,
        # The SHA-256 of the kernel's statements, by which a log's records are known.
        "workload": sha256(report["workload"].encode()).hexdigest() if report else "",
        "untuned_seconds": None,
        "reads": [_use(use, names) for use in work["uses"] if not use["writes"]],
        "writes": [_use(use, names) for use in work["uses"] if use["writes"]],
    }
    # For a step that runs several times, the profile has the work of all its runs.
    return own | (row or _UNKNOWN) | {"label": own["label"], "kind": own["kind"]}


def _use(use, names):
    known = names.get(use["where"], [])
    name = known[use["index"]] if use["index"] < len(known) else f"{use['where']} {use['index']}"
    return {key: use[key] for key in ("where", "index", "offset", "bytes", "type")} | {"name": name}


def edges(steps):
    """[[writer, reader], …]: for each piece of memory that a step reads the steps that wrote it
    last. A model's inputs and constants have no writer."""
    writers, found = {}, {}
    for step in steps:
        if not step.get("runs", True):
            continue
        for use in step["reads"]:
            for begin, end, writer in writers.get((use["where"], use["index"]), ()):
                if begin < use["offset"] + use["bytes"] and use["offset"] < end:
                    found[writer, step["step"]] = True
        for use in step["writes"]:
            place = use["where"], use["index"]
            begin, end = use["offset"], use["offset"] + use["bytes"]
            kept = [
                each for each in writers.get(place, ()) if not (begin <= each[0] and each[1] <= end)
            ]
            writers[place] = [*kept, (begin, end, step["step"])]
    return [list(pair) for pair in found]


def _add_untuned(found, kernels):
    """The time that a tuned step would have untuned, by the ratio that the log has of its
    schedule."""
    if not found["tuning"]:
        return
    ratios = {
        (kernel["workload"], tuple(kernel["trace"])): kernel["ratio"]
        for kernel in found["tuning"]["kernels"]
        if kernel["ratio"]
    }
    for step in found["steps"]:
        if step.get("report") is None or step["seconds"] is None:
            continue
        report = kernels[step["report"]]
        ratio = ratios.get((report["workload"], tuple(report["trace"])))
        step["untuned_seconds"] = step["seconds"] / ratio if ratio else None
