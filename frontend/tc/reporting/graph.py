"""The graph of the plan: each step is a box with the nodes that are fused into it, drawn by
graphviz' program dot where it is installed."""

import re
import shutil
import subprocess
import xml.etree.ElementTree

from ..errors import printable
from . import amounts
from .markup import Markup, element
from .picture import number

MAX_NODES = 400
MAX_EDGES = 2000
MAX_BYTES = 700_000  # of the drawing in the page
_SECONDS = 20
_MAX_OUTPUT = 8_000_000  # bytes that dot may write
_MAX_LINES = 4  # of text in a box
_MAX_OF_LINE = 30  # characters
_SVG = "{http://www.w3.org/2000/svg}"
_NUMBERS = re.compile(r"[-+0-9.,eE\sMCLZ]*")
_PLACE = re.compile(r"[-0-9.]+")


class NotDrawn(Exception):
    """Why there is no drawing, as a sentence."""


def drawing(steps, edges, kinds):
    """The graph as an SVG. Raises NotDrawn."""
    program = shutil.which("dot")
    if program is None:
        raise NotDrawn("the program dot of graphviz is not installed")
    shown = [step for step in steps if step.get("runs", True)]
    if len(shown) > MAX_NODES:
        raise NotDrawn(f"{len(shown):,} steps are more than the {MAX_NODES} that are drawn")
    if len(edges) > MAX_EDGES:
        raise NotDrawn(f"{len(edges):,} edges are more than the {MAX_EDGES} that are drawn")
    drawn = _svg(
        _dot(program, _description(shown, edges)), {step["step"]: step for step in shown}, kinds
    )
    if len(drawn.encode()) > MAX_BYTES:
        raise NotDrawn("the drawing would be larger than the page allows")
    return drawn


def _description(steps, edges):
    """The graph in dot's language."""
    numbers = {step["step"] for step in steps}
    lines = [
        "digraph {",
        'graph [rankdir=LR ranksep=0.3 nodesep=0.25 bgcolor="transparent"]',
        'node [shape=box fontname="sans-serif" fontsize=11 margin="0.12,0.06" height=0.3]',
    ]
    inputs, outputs = _ports(steps, "reads", "input"), _ports(steps, "writes", "output")
    for place, (name, _) in inputs.items():
        lines.append(f"i{place} [shape=ellipse label={_quoted([name])}]")
    for place, (name, _) in outputs.items():
        lines.append(f"o{place} [shape=ellipse label={_quoted([name])}]")
    for step in steps:
        lines.append(f"s{step['step']} [label={_quoted(lines_of(step))}]")
    lines += [f"s{one} -> s{two}" for one, two in edges if one in numbers and two in numbers]
    lines += [f"i{place} -> s{step}" for place, (_, users) in inputs.items() for step in users]
    lines += [f"s{step} -> o{place}" for place, (_, users) in outputs.items() for step in users]
    return "\n".join([*lines, "}"])


def _ports(steps, field, where):
    """{number of the input or output: (its name, the steps that use it)}."""
    found = {}
    for step in steps:
        for use in step[field]:
            if use["where"] == where:
                users = found.setdefault(use["index"], (use["name"], {}))[1]
                users[step["step"]] = True
    return found


def lines_of(step):
    """The text in a step's box: the nodes that are fused in it, a line each, and its kind."""
    names = str(step["label"]).split(" + ")
    lines = names[:_MAX_LINES]
    if len(names) > _MAX_LINES:
        lines[-1] = f"{len(names) - _MAX_LINES + 1} more"
    time = "" if step.get("seconds") is None else f", {amounts.seconds(step['seconds'])}"
    return [*lines, f"{step['step']}: {step['kind']}{time}"]


def _quoted(lines):
    """Text for dot: what is not plain is escaped, and no line is long."""
    shown = []
    for line in lines:
        short = printable(line, 2 * _MAX_OF_LINE)
        if len(short) > _MAX_OF_LINE:
            short = f"{short[: _MAX_OF_LINE // 2]}…{short[-_MAX_OF_LINE // 2 + 1 :]}"
        shown.append(short.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;"))
    return '"' + "\\n".join(shown) + '"'


def _dot(program, description):
    try:
        done = subprocess.run(
            [program, "-Tsvg"],
            input=description.encode(),
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotDrawn(f"dot did not finish within {_SECONDS} seconds") from None
    except OSError as error:
        raise NotDrawn(f"dot cannot be run: {error.strerror}") from None
    if done.returncode != 0 or len(done.stdout) > _MAX_OUTPUT:
        said = printable(done.stderr.decode("utf-8", "replace").strip(), 200)
        raise NotDrawn(f"dot failed with code {done.returncode}: {said or 'it said nothing'}")
    return done.stdout


def _svg(data, steps, kinds):
    """The drawing written anew from what dot wrote: only shapes, paths and text, with coordinates
    that are numbers, and the page's own classes."""
    try:
        root = xml.etree.ElementTree.fromstring(data)
        width, height = (float(value) for value in root.get("viewBox").split()[2:])
    except (xml.etree.ElementTree.ParseError, AttributeError, ValueError):
        raise NotDrawn("dot wrote no drawing that can be read") from None
    parts = []
    for group in root.iter(f"{_SVG}g"):
        if group.get("class") in ("node", "edge"):
            parts.append(_group(group, steps, kinds))
    count = sum(group.get("class") == "node" for group in root.iter(f"{_SVG}g"))
    return element(
        "svg",
        element("title", "Graph of the steps", id="graph-title"),
        element(
            "desc",
            f"{count} boxes: each step has the nodes that are fused into it. The table of steps has the same.",
            id="graph-desc",
        ),
        element("g", parts, transform=Markup(f"translate(4 {number(height - 4)})")),
        class_="graph",
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=number(width * 4 / 3),
        height=number(height * 4 / 3),
        role="img",
        aria_labelledby="graph-title graph-desc",
    )


def _group(group, steps, kinds):
    title = group.findtext(f"{_SVG}title", "")
    step = steps.get(int(title[1:])) if re.fullmatch(r"s[0-9]{1,9}", title) else None
    parts = [element("title", step["label"])] if step else []
    for child in group.iter():
        name = child.tag.removeprefix(_SVG)
        if name == "path":
            parts.append(element("path", d=_coordinates(child, "d")))
        elif name == "polygon":
            parts.append(element("polygon", points=_coordinates(child, "points")))
        elif name == "ellipse":
            parts.append(
                element("ellipse", **{key: _place(child, key) for key in ("cx", "cy", "rx", "ry")})
            )
        elif name == "text":
            place = {key: _place(child, key) for key in ("x", "y")}
            parts.append(element("text", child.text or "", **place))
    of_kind = f" k{kinds.get(step['kind'], 0)}" if step else ""
    return element("g", parts, class_=f"{group.get('class')}{of_kind}")


def _coordinates(child, key):
    value = child.get(key, "")
    if not _NUMBERS.fullmatch(value):
        raise NotDrawn("dot wrote a path that is none")
    return Markup(value)


def _place(child, key):
    value = child.get(key, "")
    if not _PLACE.fullmatch(value):
        raise NotDrawn("dot wrote a place that is none")
    return Markup(value)
