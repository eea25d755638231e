"""The text of verify's findings."""

import math

from .comparing import QUANTISED
from .errors import lines_text

_NEXT = {
    "pass": "look at the pass: `python -m tc inspect {model} --dump={name}` shows the graph after it, --dump=all after each",
    "schedule": "look at the kernel: `python -m tc inspect {model} --kernel 0 --dump=default` shows why its schedule was chosen, --dump=trace, "
    "--dump=tree and --dump=loops what it does; with tolerance=0 no schedule approximates",
    "recorded schedule": "compile with log=False (TC_LOG= on the command line) until the record is gone: `python -m tc log` lists the log's records",
    "fusion": "look at the fused kernel: `python -m tc inspect {model} --kernel 0 --dump=statements`; the groups are made by ir/passes/group.cc",
    "operator": "look at what is generated: `python -m tc inspect {model} --kernel 0 --dump=statements`, --dump=loops and --dump=llvm",
    "overflow": "keep this node in float32, or scale what it reads; the model computes more than its type holds, whatever runs it",
    "model": "compare the two models there; the reference's part is in reference.onnx",
    "rounding": "compare with tolerance=0, and with the error of ONNX Runtime above: a model as ill-conditioned as this needs a larger budget "
    "(--budget), or float64",
    "definition": "compare both with the operator's text in the ONNX specification",
}
_TRIALS = {True: "right", False: "wrong", None: "cannot be compiled so"}


def _number(value):
    """A float for JSON; infinities and NaN, which JSON lacks, become texts."""
    return value if value is None or value == value and abs(value) != float("inf") else str(value)


def rows_of(differences):
    """Differences as values that JSON can represent."""
    return [
        {
            key: _number(value)
            if isinstance(value, float)
            else list(value)
            if isinstance(value, tuple)
            else value
            for key, value in each._asdict().items()
        }
        for each in differences
    ]


def _amount(value):
    return "?" if value is None else value if isinstance(value, str) else f"{value:.3g}"


def _distance(row):
    if row["absolute"] is None:
        return row["why"] or "equal"
    ulp = "" if row["ulp"] is None else f", {_amount(row['ulp'])} ULP"
    at = f" at {row['index']}" if row["index"] else ""
    exact = [
        value if isinstance(value, str) else f"{value:.9g}"
        for value in (row["actual"], row["reference"])
    ]
    why = f" ({row['why']})" if row["why"] else ""
    return f"absolute {_amount(row['absolute'])}, relative {_amount(row['relative'])}{ulp}{at}: {exact[0]}, not {exact[1]}{why}"


def _shape(sizes):
    return "[" + ", ".join(str(size) for size in sizes) + "]"


def _worst(rows):
    return max(rows, key=lambda row: (not row.within, row.relative or 0.0), default=None)


def _integer_lines(found):
    """Lines on how many elements of quantised values equal the reference's."""
    rows = [
        row
        for row in (*found.values, *found.outputs)
        if row.dtype in QUANTISED and row.shape is not None
    ]
    if not found.quantised or not rows:
        return []
    total, unlike, beside = (
        sum(math.prod(row.shape) for row in rows),
        sum(row.unlike for row in rows),
        sum(row.beside for row in rows),
    )
    return [
        f"quantised {found.quantised}: of {total} elements of {len(rows)} values of integers {total - unlike} are the reference's, {beside} lie one step "
        f"beside, {unlike - beside} farther"
    ]


def _culprit_lines(found):
    culprit = found.culprit
    row, node = culprit["difference"], culprit["node"]
    lines = [
        f"first wrong value: '{row['name']}' {row['dtype']} {_shape(row['shape'])}: {_distance(row)}"
    ]
    if node:
        lines.append(
            f"  node     '{node['name']}' ({node['operator']}), which reads "
            + ", ".join(
                f"'{name}' {dtype} {_shape(shape)}"
                for name, (dtype, shape) in culprit["inputs"].items()
            )
        )
        others = [each for each in culprit["nodes"] if each != node]
        if others:
            lines.append(
                "  with     "
                + ", ".join(f"'{each['name']}' ({each['operator']})" for each in others)
                + ": it is wrong only together with them"
            )
    lines.append(f"  seen in  {culprit['where']}")
    lines.append(
        f"culprit: {culprit['part']}"
        + (f" {culprit['name']}" if culprit["name"] and culprit["part"] != "rounding" else "")
    )
    lines += [f"  {line}" for line in culprit["detail"]]
    width = max((len(trial["change"]) for trial in culprit["trials"]), default=0)
    lines += [
        f"  {trial['change']:{width}}  {_TRIALS[trial['right']]}" for trial in culprit["trials"]
    ]
    if culprit["confirmed"]:
        lines.append(f"  confirmed: {culprit['confirmed']}")
    return lines


def report_text(found):
    """The report: what was compared, the first wrong value, the culprit, and what to do next."""
    lines = [
        f"model     {found.model} for {found.target}",
        f"reference the interpreter in {found.reference}; budget {found.budget:g} of a value's largest magnitude",
    ]
    worst = _worst(found.outputs)
    if worst is not None:
        lines.append(
            f"outputs   {len(found.outputs)}, as compiled; the worst is '{worst.name}': {_distance(rows_of([worst])[0])}"
        )
    inner = _worst(found.values)
    if inner is not None:
        lines.append(
            f"values    {len(found.values)}, in a build that gives every value (its kernels are fused less); the worst is '{inner.name}': "
            f"{_distance(rows_of([inner])[0])}"
        )
    lines += _integer_lines(found)
    if found.peer:
        rows = found.peer.get("outputs")
        if rows:
            of = max(
                rows,
                key=lambda row: (
                    row["relative"]
                    if isinstance(row["relative"], float)
                    else float(row["relative"] is not None)
                ),
            )
            lines.append(f"ONNX Runtime's outputs: the worst is '{of['name']}': {_distance(of)}")
        else:
            lines.append(f"ONNX Runtime has no say: {found.peer['why_not']}")
    lines += [f"warning: {warning}" for warning in found.warnings]
    if found.right:
        return lines_text(
            [*lines, "right: every output is within the budget, and no node is wrong by itself"]
        )
    lines += _culprit_lines(found)
    model = next((path for path in found.files if path.endswith("minimal.onnx")), None)
    if found.files:
        lines.append(f"wrote     {', '.join(found.files)}")
    lines.append(
        "next: "
        + _NEXT[found.culprit["part"]].format(
            model=model or "minimal.onnx", name=found.culprit["name"]
        )
    )
    if model:
        reference = "".join(
            f" --against {path}" for path in found.files if path.endswith("reference.onnx")
        )
        given = "".join(
            f" --input '{name}={path}'"
            for name, path in zip(
                found.minimal_inputs, (path for path in found.files if path.endswith(".npy"))
            )
        )
        lines.append(f"again: python -m tc verify {model}{reference}{given}")
    return lines_text(lines)
