"""Reports of models: what is in them, and that the page, the facts and the plan agree."""

import base64
import hashlib
import json
import re
import sys

import numpy as np
import pytest

import tc
from tc.native import compiler
from tc.reporting import amounts, graph
from tc.reporting.page import MAX_BYTES, page
from tc.reporting.page_sections import MAX_ROWS

pytest.importorskip("onnx")
from ..frontend.plan_text import Plan  # noqa: E402
from .pages import Page, array, chain, small_network  # noqa: E402

# Numbers that differ from run to run.
MEASURED = re.compile(
    r"seconds|share|gflops|runs|limits|peaks|classes|made|^step_seconds$|per_second$"
)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    path.write_bytes(small_network().SerializeToString())
    return path


@pytest.fixture(scope="module")
def module(file):
    return tc.compile(str(file), threads=1, log=False)


@pytest.fixture(scope="module")
def report(module, file):
    verification = tc.verify(str(file), threads=1, log=False)
    return module.report(seconds=0.05, verification=verification)


@pytest.fixture(scope="module")
def read(report):
    return Page(report.html)


def test_sections(read):
    assert read.faults == []
    assert read.of("h1") == ["small.onnx"]
    assert read.of("h2") == [
        "Summary",
        "Roofline",
        "Memory over the steps",
        "Kinds of steps",
        "Steps, most time first",
        "Graph with fusions",
        "Error by layer",
        "Where this comes from",
    ]
    # Every section is linked from the top, and every picture has a title and a description.
    sections = [value for name, key, value in read.attributes if (name, key) == ("section", "id")]
    links = [value for name, key, value in read.attributes if (name, key) == ("a", "href")]
    assert links == ["#content", *(f"#{name}" for name in sections)] and len(sections) == 8
    ids = {value for _, key, value in read.attributes if key == "id"}
    for _, key, value in read.attributes:
        if key in ("aria-labelledby", "href"):
            assert {each.removeprefix("#") for each in value.split()} <= ids
    images = [value for element, key, value in read.attributes if (element, key) == ("svg", "role")]
    assert len(images) == 4 - (graph.shutil.which("dot") is None) and set(images) == {"img"}
    assert read.elements.count("caption") == read.elements.count("table") > 5


def test_the_page_says_what_the_facts_say(report, read):
    facts, text = report.facts, read.text()
    summary = facts["summary"]
    for value in (
        amounts.seconds(summary["run_seconds"]),
        amounts.percent(summary["share"]),
        amounts.size(summary["memory"]["constants"]),
        amounts.size(summary["memory"]["arena"]),
        amounts.size(summary["memory"]["peak"]),
        facts["provenance"]["build"],
        facts["provenance"]["file"]["sha256"],
        *(amounts.seconds(step["seconds"]) for step in facts["steps"]),
        *(block["name"] for block in facts["memory"]["blocks"]),
        *(amounts.error(row["relative"]) for row in facts["errors"]["values"]),
    ):
        assert value in text, value
    assert summary["tolerance"] == 1e-4 and "0.0001" in text
    assert "seeded data (seed 0)" in text and summary["seeded"] == ["x"]
    # The slowest step comes first.
    slowest = max(facts["steps"], key=lambda step: step["seconds"])
    table = text[text.index("Times, work and limits") :]
    assert table.index(slowest["label"]) == min(
        table.index(step["label"]) for step in facts["steps"]
    )


def test_facts_are_json(report, tmp_path):
    assert json.loads(json.dumps(report.facts)) == report.to_dict()
    report.save_json(tmp_path / "facts.json")
    assert json.loads((tmp_path / "facts.json").read_text()) == report.facts
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.html
    with pytest.raises(tc.DeviceError, match="cannot be written"):
        report.save(tmp_path / "missing" / "report.html")


def test_provenance(report, file):
    facts = report.facts["provenance"]
    data = file.read_bytes()
    assert facts["file"] == {
        "name": "small.onnx",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "why_not": "",
    }
    assert facts["tc"] == tc.__version__ and facts["build"].startswith(tc.__version__)
    assert facts["target"] == report.facts["summary"]["target"]


def test_a_file_that_has_changed_has_no_hash(tmp_path):
    path = tmp_path / "changing.onnx"
    path.write_bytes(small_network().SerializeToString())
    module = tc.compile(str(path), "rv64gcv", threads=1, log=False)
    path.write_bytes(b"another")
    found = module.report()
    assert found.facts["provenance"]["file"]["sha256"] is None
    assert "unknown: the file has changed since the model was read" in Page(found.html).text()
    assert (
        tc.compile(small_network(), "rv64gcv", log=False).report().facts["provenance"]["file"]
        is None
    )


def test_steps_and_memory_are_those_of_the_plan(module, report):
    """The facts beside the plan's own text, which inspect shows."""
    plan = Plan(module._compiled.plan)
    memory, steps = report.facts["memory"], report.facts["steps"]
    assert [(block["offset"], block["bytes"]) for block in memory["blocks"]] == [
        (int(block.offset), int(block.bytes)) for block in plan.blocks
    ]
    assert memory["arena"] == int(plan.arena) and memory["steps"] == len(plan.steps) == len(steps)
    accesses, _ = plan.accesses({})
    found = [
        (step["step"], use["index"], writes, use["offset"], use["offset"] + use["bytes"])
        for step in steps
        for writes in (False, True)
        for use in step["writes" if writes else "reads"]
        if use["where"] == "block"
    ]
    # Scratch memory in the arena is no argument.
    assert set(found) <= {
        (each.step, each.block, each.write, each.begin, each.end) for each in accesses
    }
    assert len(found) >= len(steps) - 1
    for block in memory["blocks"]:
        assert 0 <= block["first"] <= block["last"] < len(steps)
    convolution = next(step for step in steps if step["label"].startswith("first"))
    (given,) = [use for use in convolution["reads"] if use["where"] == "input"]
    assert given["name"] == "x" and given["bytes"] == 4 * 8 * 24 * 24
    assert (
        given["type"] == "f32[1, 8, 576]"
    )  # neighbouring dimensions as one, as the kernel sees it


def test_edges_follow_the_data(report):
    steps, edges = report.facts["steps"], report.facts["edges"]
    assert edges and all(one < two for one, two in edges)
    # Every step but those that read the input alone is read from another.
    readers = {two for _, two in edges}
    for step in steps:
        reads = {use["where"] for use in step["reads"]} - {"constant", "input"}
        assert (step["step"] in readers) == bool(reads)
    (pool,) = [step["step"] for step in steps if step["label"] == "pool"]
    assert len([two for one, two in edges if one == pool]) >= 1


def test_a_culprit_is_seen_at_once(report):
    errors = {
        **report.facts["errors"],
        "right": False,
        "culprit": {"part": "fusion", "name": "k<1>", "detail": ["why it is so"]},
    }
    read = Page(page(report.facts | {"errors": errors}))
    text = read.text()
    assert "fusion k<1>, budget 0.0001" in text and "Culprit: fusion 'k<1>'. " in text
    assert "why it is so" in text and read.of("span").count("wrong") == 1


def test_edges_of_overlapping_memory():
    def use(index, offset, size):
        return {"where": "block", "index": index, "offset": offset, "bytes": size}

    from tc.reporting.facts import edges

    steps = [
        {"step": 0, "reads": [], "writes": [use(0, 0, 8)]},
        {"step": 1, "reads": [], "writes": [use(0, 8, 8)]},
        {"step": 2, "reads": [use(0, 0, 16)], "writes": [use(1, 0, 4)]},
        {"step": 3, "reads": [use(1, 4, 4)], "writes": [use(0, 0, 16)]},
        {"step": 4, "reads": [use(0, 4, 4)], "writes": []},
        {"step": 5, "reads": [use(0, 4, 4)], "writes": [], "runs": False},
    ]
    assert edges(steps) == [[0, 2], [1, 2], [3, 4]]


def test_the_same_but_for_times(module):
    def still(value):
        if isinstance(value, dict):
            return {key: still(each) for key, each in value.items() if not MEASURED.search(key)}
        # Which step is bound by what follows from measured limits.
        return [still(each) for each in value] if isinstance(value, list) else value

    one, two = (module.report(seconds=0.01).facts for _ in range(2))
    for facts in (one, two):
        for step in facts["steps"]:
            step.pop("roof")
    assert still(one) == still(two)
    assert page(one) == page(one)


def test_nothing_is_fetched_and_nothing_runs(report, read):
    assert "://" not in report.html and "@import" not in report.html and "url(" not in report.html
    assert not {"script", "iframe", "object", "embed", "link", "img", "base", "form"} & set(
        read.elements
    )
    keys = {key for _, key, _ in read.attributes}
    assert not keys & {"src", "srcset", "style", "srcdoc", "action", "xlink:href"}
    assert not any(key.startswith("on") for key in keys)
    hrefs = [value for _, key, value in read.attributes if key == "href"]
    assert hrefs and all(value.startswith("#") for value in hrefs)
    (policy,) = [value for _, key, value in read.attributes if key == "content" and "src" in value]
    (style,) = read.of("style")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert "prefers-color-scheme: dark" in style and "@media print" in style


def test_thousands_of_steps_make_no_large_page():
    module = tc.compile(chain(3000), threads=1, tolerance=0, log=False)
    found = module.report(seconds=0.01)
    assert len(found.facts["steps"]) == 3000  # JSON has all of them
    assert len(found.html.encode()) < MAX_BYTES
    text = Page(found.html).text()
    assert f"{3000 - MAX_ROWS:,} of 3,000 steps are left out here; the report as JSON" in text
    assert "3,000 steps are more than the 400 that are drawn" in text


def test_the_bounds_hold_for_the_largest_texts():
    """A model of 3,000 steps whose names have 10,000 characters that all need an escape."""
    module = tc.compile(chain(2), threads=1, log=False)
    facts = module.report(seconds=0.01).facts
    (step, _) = facts["steps"]
    name = "<\x1b&\U0001f600'" * 2000
    for use in (*step["reads"], *step["writes"]):
        use["name"] = use["type"] = name
    facts["steps"] = [
        step | {"step": number, "label": name, "kind": f"{number % 300}{name}"}
        for number in range(3000)
    ]
    facts["edges"] = [[number, number + 1] for number in range(2999)]
    facts["memory"]["steps"] = 3000
    facts["memory"]["blocks"] = [
        {
            "name": name,
            "offset": number,
            "bytes": 9,
            "first": number,
            "last": number,
            "segment": None,
        }
        for number in range(3000)
    ]
    row = {
        "name": name,
        "dtype": "f32",
        "relative": 1.0,
        "absolute": 1.0,
        "within": False,
        "why": name,
    }
    facts["errors"] = {
        **{"budget": 0.1, "reference": "float64", "right": False, "warnings": [name] * 3000},
        **{"culprit": {"part": "fusion", "name": name, "detail": [name]}},
        **{"outputs": [row] * 3000, "values": [row] * 3000},
    }
    facts["summary"]["model"] = name
    facts["summary"]["inputs"] = [{"name": name, "dtype": "float32", "shape": [1]}] * 3000
    read = Page(page(facts))
    assert read.faults == []

    assert len(page(facts).encode()) < MAX_BYTES


def test_foreign_targets_have_no_times(file):
    module = tc.compile(str(file), "rv64gcv", threads=1, log=False)
    found = module.report()
    text = Page(found.html).text()
    assert "There are no times: model 'small.onnx' is compiled for rv64gcv" in text
    assert found.facts["steps"][0]["seconds"] is None and found.facts["limits"] is None
    assert "Memory over the steps" in text and "Roofline" not in text
    with pytest.raises(
        tc.TargetError,
        match="there is no trace of 'small.onnx': it did not run here; make the report on a machine of its target",
    ):
        found.save_trace("trace.json")


def test_a_loaded_artefact_has_times_alone(module, tmp_path):
    module.save(tmp_path / "model.so")
    found = tc.load(tmp_path / "model.so", threads=1).report(seconds=0.01)
    text = Page(found.html).text()
    assert "an artefact does not know its limits" in text
    assert [step["label"] for step in found.facts["steps"]] == [
        step["label"] for step in module.report(seconds=0.01).facts["steps"]
    ]
    assert found.facts["memory"] is None and found.facts["provenance"]["file"]["sha256"]
    with pytest.raises(tc.Error, match="a loaded artefact has the names of its steps alone"):
        found.save_onnx(tmp_path / "steps.onnx")


def test_open_sizes_need_arrays():
    from onnx import helper

    from .pages import model

    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n", 4]}, ["y"])
    module = tc.compile(made, threads=1, log=False)
    with pytest.raises(tc.ShapeError) as refused:
        module.report()
    assert str(refused.value) == (
        "input 'x' of model 'model.onnx' has open sizes, so that a report cannot make data for it; "
        "give an array: report(path, inputs={'x': ...})"
    )
    found = module.report(inputs={"x": array((70000, 4))}, seconds=0.01)
    assert found.facts["summary"]["sizes"] == {"x": [70000, 4]}
    assert found.facts["steps"][0]["writes"][0]["bytes"] == 70000 * 16
    assert "given data" in Page(found.html).text()


def test_versions_by_value_are_reported():
    from onnx import TensorProto, helper

    from .pages import model

    made = model([helper.make_node("Reshape", ["x", "s"], ["y"])], {"x": [4, 6]}, ["y"])
    made.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, [2]))
    module = tc.compile(made, threads=1, log=False)
    found = module.report(inputs={"s": np.array([8, 3])}, seconds=0.01)
    assert found.facts["steps"] and found.facts["summary"]["seeded"] == ["x"]


def test_loops_have_parents():
    from onnx import helper

    from .pages import model

    units = 16
    made = model(
        [helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=units)],
        {"x": ["frames", 1, 8]},
        ["y"],
        w=array((1, 3 * units, 8), 1),
        r=array((1, 3 * units, units), 2),
    )
    module = tc.compile(made, threads=1, log=False)
    found = module.report(inputs={"x": array((6, 1, 8))}, seconds=0.01)
    inner = [step for step in found.facts["steps"] if step["parent"] is not None]
    assert inner and all(step["calls"] == 6 for step in inner if step["seconds"])
    loop = found.facts["steps"][inner[0]["parent"]]
    assert loop["kind"] == "loop" and "(6 times)" in Page(found.html).text()


def test_wrong_arguments(module):
    with pytest.raises(TypeError, match="report.. got an unexpected keyword argument 'second'"):
        module.report(second=1)
    with pytest.raises(tc.ShapeError, match="report: seconds is -1; give a number of at least 0"):
        module.report(seconds=-1)
    with pytest.raises(
        tc.ShapeError, match="model 'small.onnx' has no input 'z'; its inputs are x"
    ):
        module.report(inputs={"z": array((1,))})
    with pytest.raises(tc.ShapeError, match="input 'x': axis 2 is 25; the model expects 24"):
        module.report(inputs={"x": array((1, 8, 25, 24))})


def test_the_trace_is_in_chromes_format(report, tmp_path):
    report.save_trace(tmp_path / "run.json")
    value = json.loads((tmp_path / "run.json").read_text())
    assert [event["name"] for event in value["traceEvents"]] == [
        step["label"] for step in report.facts["steps"]
    ]
    assert {event["ph"] for event in value["traceEvents"]} == {"X"}


def test_the_steps_as_an_onnx_file(report, tmp_path):
    import onnx

    report.save_onnx(tmp_path / "steps.onnx")
    made = onnx.load(tmp_path / "steps.onnx").graph
    assert [node.name for node in made.node] == [step["label"] for step in report.facts["steps"]]
    assert {node.domain for node in made.node} == {"tc.step"}
    assert [each.name for each in made.input] == ["x"]
    assert [each.name for each in made.output] == ["y"]
    known = {each.name for each in made.input}
    for node in made.node:
        for name in node.input:
            assert name in known or name.startswith("constant ")
        known.update(node.output)
    assert [size.dim_value for size in made.input[0].type.tensor_type.shape.dim] == [1, 8, 576]


def test_the_onnx_file_needs_a_package(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        tc.Error, match="writing ONNX files needs the package onnx: pip install onnx"
    ):
        report.save_onnx(tmp_path / "steps.onnx")


def test_limits_come_from_the_profile(module, report):
    from tc.profile import limits

    assert report.facts["limits"] == limits(module.target, 1)
    assert report.facts["peaks"]["f32"] > 1e9
    assert compiler.vector_bits(module.target) in {
        row["vector_bits"] for row in report.facts["limits"]["peaks"]
    }
