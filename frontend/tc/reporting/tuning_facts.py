"""What a log says of a model's kernels, and what one session of tuning did."""

import collections

from ..digest import sha256
from ..log import Log, describe
from .provenance import without_password

_MAX_EXAMPLES = 3  # of failures, for each kernel


def of_module(log, module, kernels):
    """The log's records of the module's kernels, for its target and number of threads."""
    threads = _threads(module)
    with _opened(log) as opened:
        records = opened.records(target=module.target, threads=threads)
        name, problems = opened.path, list(opened.problems)
    labels = collections.defaultdict(list)
    for kernel in kernels:
        labels[kernel["workload"]].append(kernel["label"])
    known = [record for record in records if record.workload in labels]
    return _history(known, labels) | {
        "log": without_password(name),
        "problems": problems,
        "others": len(records) - len(known),
        "target": module.target,
        "threads": threads,
        "session": None,
    }


def of_session(result):
    """The same for a TuneResult: the log's records that were made while the session ran, and what
    it did for each kernel."""
    begin, end = result.began, result.began + int(result.seconds) + 1
    with _opened(result.log) as opened:
        records = [
            record
            for record in opened.records(target=result.target, threads=result.threads)
            if begin <= record.created <= end
        ]
        problems = list(opened.problems)
    labels = {record.workload: [describe(record.workload)] for record in records}
    return _history(records, labels) | {
        "log": without_password(result.log),
        "problems": problems,
        "others": 0,
        "target": result.target,
        "threads": result.threads,
        "session": session(result),
    }


def session(result):
    """A TuneResult as values that JSON can represent."""
    return result._asdict() | {
        "log": without_password(result.log),
        "kernels": [kernel._asdict() | {"gain": kernel.gain} for kernel in result.kernels],
    }


class _Lent:
    """A log of the caller's, which stays open."""

    def __init__(self, log):
        self._log = log

    def __enter__(self):
        return self._log

    def __exit__(self, *_):
        pass


def _opened(log):
    return _Lent(log) if isinstance(log, Log) else Log(log)


def _threads(module):
    from ..native import runtime

    return getattr(module, "_threads", 0) or runtime.core_count()


def _history(records, labels):
    """One row per workload, most measurements first. Times of different devices are not compared:
    where there are several, the one with the most records is taken."""
    devices = collections.Counter(record.device for record in records)
    device = min(devices, key=lambda name: (-devices[name], name), default="")
    groups = collections.defaultdict(list)
    for record in records:
        if record.device == device:
            groups[record.workload].append(record)
    rows = [_kernel(workload, group, labels[workload]) for workload, group in groups.items()]
    return {
        "device": device,
        "other_devices": sorted(set(devices) - {device}),
        "kernels": sorted(rows, key=lambda row: (-row["records"], row["hash"])),
    }


def _kernel(workload, records, labels):
    right = [record for record in records if record.outcome == "ok" and record.ratio]
    best = next((record for record in right if record.chosen), None) or min(
        right, key=lambda record: record.ratio, default=None
    )
    failures = collections.Counter(record.outcome for record in records if record.outcome != "ok")
    examples = [record.detail for record in records if record.outcome != "ok" and record.detail]
    return {
        "workload": workload,
        "hash": sha256(workload.encode()).hexdigest()[:8],
        "label": labels[0],
        "steps": len(labels),
        "what": describe(workload),
        "records": len(records),
        "failures": dict(sorted(failures.items())),
        "examples": examples[:_MAX_EXAMPLES],
        "unit": records[0].unit,
        "chosen": bool(best and best.chosen),
        "ratio": best.ratio if best else None,
        "median": best.median if best else None,
        "trace": list(best.trace) if best else [],
        "curve": _curve(records),
    }


def _curve(records):
    """[[measurements so far, best ratio so far], …] where the best changes, and at the end. The log
    keeps seconds: records of the same second are taken slowest first."""
    ordered = sorted(records, key=lambda record: (record.created, -(record.ratio or 0)))
    curve, best = [], None
    for number, record in enumerate(ordered, 1):
        if record.outcome != "ok" or not record.ratio:
            continue
        if best is None or record.ratio < best:
            best = record.ratio
            curve.append([number, best])
    if best is not None and curve[-1][0] != len(ordered):
        curve.append([len(ordered), best])
    return curve
