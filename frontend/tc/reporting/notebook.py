"""Short tables for notebooks, of the objects that have one. They never hold a model's bytes."""

from ..ports import shape_text
from . import amounts
from .markup import element, escaped, few_rows, joined

_MAX_ROWS = 20


def _title(name, target):
    return joined(name, " for ", escaped(target, 500))


def module_table(module):
    ports = [("input", port) for port in module.inputs] + [
        ("output", port) for port in module.outputs
    ]
    rows = [
        (what, joined(element("code", port.name), " ", shape_text(port)))
        for what, port in ports[:_MAX_ROWS]
    ]
    if len(ports) > _MAX_ROWS:
        rows.append(("", f"and {len(ports) - _MAX_ROWS} more"))
    memory = module.memory
    rows.append(
        (
            "memory",
            f"constants {amounts.size(memory.constants)}, arena {amounts.size(memory.arena)}",
        )
    )
    return few_rows(_title(module.name, module.target), rows)


def profile_table(profile):
    totals = profile.summary()
    rows = [
        ("fastest run", amounts.seconds(totals["run_seconds"])),
        ("median run", amounts.seconds(totals["median_run_seconds"])),
        ("of the machine's limit", amounts.percent(totals["share"])),
    ]
    rows += [
        (row["kind"], f"{amounts.seconds(row['seconds'])} in {amounts.of(row['steps'], 'step')}")
        for row in profile.classes[:_MAX_ROWS]
    ]
    return few_rows(_title(profile.model, profile.target), rows)


def report_table(report):
    facts = report.facts
    summary = facts["summary"]
    rows = [("steps", f"{len(facts['steps']):,}")]
    if summary.get("run_seconds") is not None:
        rows.append(("fastest run", amounts.seconds(summary["run_seconds"])))
        rows.append(("of the machine's limit", amounts.percent(summary["share"])))
    if summary.get("memory"):
        rows.append(("peak of memory", amounts.size(summary["memory"]["peak"])))
    rows.append(("the page", element("code", 'report.save("report.html")')))
    return few_rows(joined("Report on ", _title(summary["model"], summary["target"])), rows)


def tuning_table(result):
    rows = [
        ("whole model", f"{amounts.times(result.model_gain)} as fast as untuned"),
        ("schedules tried", f"{result.trials:,}, {result.measured:,} measured now"),
        ("took", f"{result.seconds:,.0f} s ({result.stopped})"),
    ]
    slowest = sorted(result.kernels, key=lambda kernel: -kernel.untuned * kernel.calls)
    rows += [(kernel.label, amounts.times(kernel.gain)) for kernel in slowest[:_MAX_ROWS]]
    return few_rows(_title(result.model, result.target), rows)


def verification_table(found):
    rows = [("verdict", "right" if found.right else "wrong")]
    if found.culprit:
        rows.append(("culprit", f"{found.culprit['part']} {found.culprit['name']}"))
    rows.append(("budget", f"{found.budget:g}"))
    rows += [
        (row.name, f"relative error {amounts.error(row.relative)}")
        for row in found.outputs[:_MAX_ROWS]
    ]
    return few_rows(_title(found.model, found.target), rows)


def quantised_table(found):
    integers = sum(layer.integers for layer in found.layers)
    rows = [
        ("size", amounts.size(len(found.model))),
        ("layers in integers", f"{integers} of {len(found.layers)}"),
        ("error", f"{found.error:.2e} on {amounts.of(found.samples, 'sample')}"),
        ("least cosine", f"{found.cosine:.6f}"),
    ]
    if found.agreement is not None:
        rows.append(("the same class", amounts.percent(found.agreement)))
    return few_rows("Quantised network", rows)
