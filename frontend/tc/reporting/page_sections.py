"""The sections of a report's page, each a function of the facts that returns None where it has
nothing to say."""

from . import amounts
from .error_chart import error_chart, relative
from .graph import NotDrawn, drawing
from .markup import drawn, element, escaped, joined, notes, paragraph, scrolled, table, tiles
from .memory_chart import MAX_BLOCKS, memory_chart
from .picture import kinds_of, legend
from .roofline import MAX_POINTS, points_of, roofline
from .step_table import step_table
from .tuning_section import tuning_section

MAX_ROWS = 200  # of a table in the page; JSON has all rows
_MAX_OF_COMMAND = 2000
_MAX_ERRORS = 100  # rows of each table of errors
_MAX_DETAILS = 10  # sentences on a culprit


def note_on_rest(shown, total, what):
    """A sentence where a table or picture leaves something out."""
    if total <= shown:
        return None
    return paragraph(
        f"{total - shown:,} of {total:,} {what} are left out here; the report as JSON (--json) has all.",
        class_="soft",
    )


def summary(facts):
    """The first things that one wants to know."""
    if facts["subject"] != "model":
        return None
    found, memory, tolerance = (
        facts["summary"],
        facts["summary"]["memory"],
        facts["summary"]["tolerance"],
    )
    shown = [
        *_times(found),
        ("Steps", f"{len(facts['steps']):,}" if facts["steps"] else amounts.MISSING, ""),
        ("Threads", f"{found['threads']:,}", ""),
        ("Tolerance", amounts.MISSING if tolerance is None else f"{tolerance:g}", ""),
        ("Constants", amounts.size(memory["constants"]), ""),
        ("Arena", amounts.size(memory["arena"]), ""),
        ("Peak memory", amounts.size(memory["peak"]), "constants, arena, scratch"),
    ]
    if facts["errors"]:
        right = facts["errors"]["right"]
        word = element("span", "right" if right else "wrong", class_="good" if right else "bad")
        culprit = facts["errors"]["culprit"]
        blame = f"{culprit['part']} {culprit['name']}, " if culprit else ""
        shown.append(("Verification", word, f"{blame}budget {facts['errors']['budget']:g}"))
    return joined(
        tiles(shown),
        paragraph(f"There are no times: {found['not_run']}.") if found["not_run"] else None,
        _port_table(found),
    )


def _times(found):
    if "run_seconds" not in found:
        return []
    runs = amounts.of(found["runs"], "run")
    median = f"median {amounts.seconds(found['median_run_seconds'])} of {runs}, {_data(found)}"
    steps = amounts.seconds(found["step_seconds"])
    limit = (
        f"{steps} in all steps; an artefact does not know its limits"
        if found["share"] is None
        else f"{amounts.seconds(found['roof_seconds'])} of {steps} in all steps"
    )
    return [
        ("Fastest run", amounts.seconds(found["run_seconds"]), median),
        ("Of the machine's limit", amounts.percent(found["share"]), limit),
    ]


def _data(found):
    if not found["sizes"]:
        return "no inputs"
    if not found["seeded"]:
        return "given data"
    some = "given and " if len(found["seeded"]) < len(found["sizes"]) else ""
    return f"{some}seeded data (seed {found['seed']})"


def _port_table(found):
    rows = []
    for what, ports in (("input", found["inputs"]), ("output", found["outputs"])):
        for port in ports:
            shape = "any shape" if port["shape"] is None else _shape(port["shape"])
            rows.append(
                [port["name"], what, port["dtype"], shape, _shape(found["sizes"].get(port["name"]))]
            )
    shown = rows[:MAX_ROWS]
    return joined(
        table("Inputs and outputs", ["Name", "What", "Type", "Shape", "Size in the run"], shown),
        note_on_rest(len(shown), len(rows), "inputs and outputs"),
    )


def _shape(sizes):
    if sizes is None:
        return ""
    return "[" + ", ".join("?" if size is None else str(size) for size in sizes) + "]"


def roof(facts):
    kinds = kinds_of(facts["steps"])
    image = roofline(facts["steps"], facts["limits"], facts["peaks"], kinds)
    if image is None:
        return None
    points = len(points_of(facts["steps"]))
    measured = sum(bool(step.get("seconds")) for step in facts["steps"])
    rows = [
        [row["level"], amounts.size(row["bytes"])]
        + [f"{row[f'{way}_bytes_per_second'] * 1e-9:,.1f}" for way in ("read", "write")]
        for row in facts["limits"]["bandwidths"]
    ]
    peaks = [
        [row["instructions"], row["types"], f"{row['flops_per_second'] * 1e-9:,.1f}"]
        for row in facts["limits"]["peaks"]
    ]
    return joined(
        paragraph(
            "The limits were measured on this machine before the run. A point is a step; its area grows with its "
            "time. Operations are those of the direct computation: an algorithm that needs fewer (Winograd) may "
            "be above the peak."
        ),
        image,
        paragraph(
            f"{measured - points} of {measured} steps have no arithmetic and no place in the picture."
        )
        if measured > points
        else None,
        note_on_rest(min(points, MAX_POINTS), points, "points"),
        table(
            "Bandwidth of streams over so many bytes",
            ["Memory", "Bytes", "Read, GB/s", "Write, GB/s"],
            rows,
            ["", "number", "number", "number"],
        ),
        table("Peak speeds", ["Instructions", "Types", "GFLOP/s"], peaks, ["", "", "number"]),
    )


def classes(facts):
    if not facts["classes"]:
        return None
    whole = sum(row["seconds"] for row in facts["classes"]) or 1.0
    rows = [
        [
            row["kind"],
            f"{row['steps']:,}",
            amounts.seconds(row["seconds"]),
            amounts.percent(row["seconds"] / whole),
            f"{row['gflops_per_second']:,.1f}",
            amounts.percent(row["share"]),
            amounts.seconds(row["lost_seconds"]),
        ]
        for row in facts["classes"]
    ]
    shown = rows[:MAX_ROWS]
    return joined(
        table(
            "Kinds of steps, most time first; above the limit: the time that the limits do not explain",
            ["Kind", "Steps", "Time", "Of all", "GFLOP/s", "Of limit", "Above the limit"],
            shown,
            ["", *["number"] * 6],
        ),
        note_on_rest(len(shown), len(rows), "kinds"),
    )


def memory(facts):
    found = facts["memory"]
    if not found:
        return None
    kinds = kinds_of(facts["steps"])
    writers = {step["step"]: step["kind"] for step in facts["steps"]}
    image = memory_chart(found, writers, kinds)
    if image is None:
        return paragraph("No value is in the arena: every step reads inputs and writes outputs.")
    blocks = sorted(
        found["blocks"], key=lambda block: (-block["bytes"], block["offset"], block["name"])
    )
    rows = [
        [
            block["name"],
            amounts.size(block["bytes"]),
            f"{block['offset']:,}",
            f"{block['first']}",
            f"{block['last']}",
        ]
        for block in blocks[:MAX_ROWS]
    ]
    firsts = {block["first"] for block in blocks}
    used = {step["kind"] for step in facts["steps"] if step["step"] in firsts}
    return joined(
        paragraph(
            "The compiler's own plan: each rectangle is a value, from the step that writes it to the last that reads "
            "it, at its place in the arena. Its colour is the kind of the step that writes it."
        ),
        drawn(
            "Memory over the steps",
            image,
            legend({kind: kinds[kind] for kind in kinds if kind in used}),
        ),
        note_on_rest(MAX_BLOCKS, len(blocks), "values"),
        paragraph(
            f"{amounts.of(found['segments'], 'value')} whose size only a run tells is in memory of its own."
            if found["segments"] == 1
            else f"{found['segments']} values whose sizes only a run tells are in memory of their own."
        )
        if found["segments"]
        else None,
        table(
            "Values in the arena, largest first",
            ["Value", "Bytes", "Offset", "First step", "Last step"],
            rows,
            ["", *["number"] * 4],
        ),
        note_on_rest(len(rows), len(blocks), "values"),
    )


def graph(facts):
    steps = facts["steps"]
    if not any(step["reads"] or step["writes"] for step in steps):
        return None
    kinds = kinds_of(steps)
    said = paragraph(
        "Each box is a step, with the nodes of the model that are fused into it. Colours are kinds of steps:"
    )
    try:
        image = drawing(steps, facts["edges"], kinds)
        return joined(said, legend(kinds), scrolled("Graph of the steps", image, "canvas"))
    except NotDrawn as why:
        return joined(
            paragraph(f"The graph is a table here: {why}."), _edge_table(steps, facts["edges"])
        )


def _edge_table(steps, edges):
    after, before = {}, {}
    for one, two in edges:
        after.setdefault(one, []).append(two)
        before.setdefault(two, []).append(one)

    def listed(numbers):
        text = ", ".join(str(number) for number in numbers[:8])
        return text + (f" and {len(numbers) - 8} more" if len(numbers) > 8 else "")

    rows = [
        [
            escaped(step["label"], 120),
            str(step["step"]),
            step["kind"],
            listed(before.get(step["step"], [])),
            listed(after.get(step["step"], [])),
        ]
        for step in steps[:MAX_ROWS]
    ]
    return joined(
        table(
            "Steps and the steps that they read from",
            ["Nodes", "Step", "Kind", "Reads from", "Is read by"],
            rows,
        ),
        note_on_rest(len(rows), len(steps), "steps"),
    )


def steps(facts):
    return step_table(facts, MAX_ROWS, note_on_rest)


def errors(facts):
    found = facts["errors"]
    if not found:
        return None
    ordered = sorted(found["values"], key=lambda row: (row["within"], -(relative(row) or 0.0)))

    def rows_of(values):
        return [
            [
                row["name"],
                row["dtype"],
                amounts.error(row["relative"]),
                amounts.error(row["absolute"]),
                element("span", "within", class_="good")
                if row["within"]
                else element(
                    "span",
                    joined("too large", escaped(f": {row['why']}", 100) if row["why"] else ""),
                    class_="bad",
                ),
            ]
            for row in values[:_MAX_ERRORS]
        ]

    heads = ["Value", "Type", "Relative", "Absolute", f"Budget {found['budget']:g}"]
    kinds = ["", "", "number", "number", ""]
    culprit, chart = found["culprit"], error_chart(found)
    return joined(
        paragraph(
            f"Compared with the interpreter in {found['reference']}. Relative: the largest error of a value, divided by "
            "its largest magnitude."
        ),
        paragraph(
            f"Culprit: {culprit['part']} '{culprit['name']}'. ",
            *culprit["detail"][:_MAX_DETAILS],
            class_="bad",
        )
        if culprit
        else None,
        notes("Warning: ", found["warnings"]),
        drawn("Relative error by value", chart) if chart else None,
        table("Outputs of the model as it is compiled", heads, rows_of(found["outputs"]), kinds),
        note_on_rest(_MAX_ERRORS, len(found["outputs"]), "outputs"),
        table(
            "Values, largest error first, in a build that gives every value",
            heads,
            rows_of(ordered),
            kinds,
        ),
        note_on_rest(_MAX_ERRORS, len(ordered), "values"),
    )


def origin(facts):
    found = facts["provenance"]
    file = found["file"]
    rows = [
        ("Made", found["made"]),
        ("tc", f"{found['tc']}, runtime {found['runtime']}, Python {found['python']}"),
        ("Build", found["build"] or amounts.MISSING),
        (
            "Machine",
            f"{found['processor'] or 'unknown processor'}, {amounts.of(found['cores'], 'core')}",
        ),
        ("Target", escaped(found["target"], 500)),
    ]
    if found["options"]:
        rows.append(("Options", escaped(found["options"], 1000)))
    if file:
        rows.append(("File", file["name"]))
        rows.append(("SHA-256", file["sha256"] or f"unknown: {file['why_not']}"))
        if file["bytes"] is not None:
            rows.append(("Bytes", f"{file['bytes']:,}"))
    return joined(
        element(
            "dl",
            [joined(element("dt", key), element("dd", value)) for key, value in rows],
            class_="facts",
        ),
        joined(
            element("h3", "To make it again"),
            element("pre", escaped(found["command"], _MAX_OF_COMMAND), tabindex="0"),
        )
        if found["command"]
        else None,
    )


# (id, heading, function) in the order of the page.
SECTIONS = (
    ("summary", "Summary", summary),
    ("roofline", "Roofline", roof),
    ("memory", "Memory over the steps", memory),
    ("tuning", "Tuning", tuning_section),
    ("kinds", "Kinds of steps", classes),
    ("steps", "Steps, most time first", steps),
    ("graph", "Graph with fusions", graph),
    ("errors", "Error by layer", errors),
    ("provenance", "Where this comes from", origin),
)
