"""Whatever models, kernels, boards, builds and errors are called: a page shows it as text."""

import json
import types

import pytest

from tc.lab import page as pages
from tc.lab.lab import Lab
from tc.lab.query import Query
from tc.lab.views import budget, comparing, devices, kernel, models, progress, records

from ..reporting.pages import Page
from .labs import InventedFleet, add, row

TAGS = ("script", "img", "svg", "iframe", "body", "a", "input", "style", "math", "object", "form")
ATTEMPTS = [
    *(f"<{tag} onload=alert(1) onerror=alert(1) src=x>" for tag in TAGS),
    *(
        f"</{tag}><script>alert(1)</script>"
        for tag in ("title", "pre", "td", "a", "option", "style")
    ),
    *(f"{quote}><script>alert(1)</script>" for quote in ('"', "'", "`", '\\"', "&quot;")),
    *(f"{quote} onmouseover=alert(1) x={quote}" for quote in ('"', "'", "`", "")),
    *(
        f"{scheme}:alert(1)"
        for scheme in ("javascript", "data:text/html", "vbscript", "JaVaScRiPt")
    ),
    "<!--<script>alert(1)</script>-->",
    "--><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml version='1.0'?><x/>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<SCRIPT/XSS SRC=//evil.example/x.js></SCRIPT>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<base href=//evil.example/>",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "<img src=x onerror=\"fetch('//evil.example')\">",
    "<svg><animate onbegin=alert(1) attributeName=x></svg>",
    "<details open ontoggle=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "//evil.example/<b>",
    '?token=x&kernel="><script>alert(1)</script>',
    "<b>" * 300,
]
VIEWS = {
    "/": progress.progress,
    "/kernels": progress.kernels,
    "/failures": records.failures,
    "/devices": devices.devices,
    "/budget": budget.budget,
    **{path: models.model_view(path) for path in models.PATHS},
    "/history": comparing.history,
    "/compare": comparing.compare,
    "/records": records.records,
}
ALLOWED = set(
    "html head meta title link script body a header h1 h2 h3 p nav ul li main section div dl dt dd span "
    "table caption thead tbody tr th td pre figure svg g desc text rect line path polygon ellipse circle "
    "form label select option button input".split()
)


def test_metrics_are_those_of_prometheus():
    """Whatever the names are, another program reads back what was written."""
    from prometheus_client.parser import text_string_to_metric_families

    from tc.lab import metrics

    name = 'a"b\\c\nd<script>'
    lab = types.SimpleNamespace(
        followers=[types.SimpleNamespace(name=name, state=types.SimpleNamespace(entries=[1, 2]))],
        fleet=InventedFleet(3, name + "{}"),
    )
    text = metrics.text_of(lab).decode()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["tc_log_records", name, "0"] == 2
    assert samples["tc_devices", "free"] == samples["tc_devices", "leased"] == 1
    assert samples[("tc_tracker_leases_total",)] == 40
    assert samples[("tc_tracker_waiting",)] == 3
    assert samples["tc_device_measured", name + "2"] == 200
    assert samples["tc_device_gigahertz", name + "0"] == 1.6
    assert not any(sample[0] == "tc_device_celsius" for sample in samples), "not known"


def test_there_are_fifty():
    assert len(set(ATTEMPTS)) >= 50


def report_of(name):
    """The facts of a report on a model in which everything is called so."""
    use = {"where": "block", "index": 0, "offset": 0, "bytes": 64, "type": "f32", "name": name}
    step = {
        "step": 0,
        "label": name,
        "kind": name,
        "flops": 100,
        "bytes": 64,
        "runs": True,
        "parent": None,
        "algorithm": name,
        "tuned": False,
        "report": 0,
        "workload": "ab" * 32,
        "untuned_seconds": None,
        "reads": [use],
        "writes": [use],
        "calls": 1,
        "seconds": 1e-6,
        "median_seconds": 1e-6,
        "roof": name,
        "roof_seconds": 1e-7,
        "share": 0.1,
    }
    bandwidth = {"level": name, "bytes": 1000, "read_bytes_per_second": 1e10}
    value = {
        "name": name,
        "dtype": name,
        "relative": 0.1,
        "absolute": 0.1,
        "within": False,
        "why": name,
    }
    port = {"name": name, "dtype": name, "shape": [1]}
    return {
        "format": 1,
        "subject": "model",
        "summary": {
            "model": name,
            "target": name,
            "threads": 1,
            "tolerance": 1e-4,
            "inputs": [port],
            "outputs": [port],
            "sizes": {},
            "seeded": [],
            "seed": 0,
            "memory": {"constants": 1, "arena": 1, "peak": 1},
            "not_run": name,
        },
        "steps": [step],
        "edges": [],
        "memory": {
            "arena": 64,
            "blocks": [
                {"name": name, "bytes": 64, "offset": 0, "first": 0, "last": 0, "segment": None}
            ],
            "segments": 0,
            "steps": 1,
        },
        "limits": {
            "bandwidths": [bandwidth | {"write_bytes_per_second": 1e10}],
            "peaks": [{"instructions": name, "types": "f32", "flops_per_second": 1e11}],
        },
        "peaks": {"f32": 1e11},
        "classes": [
            {
                "kind": name,
                "steps": 1,
                "seconds": 1e-6,
                "gflops_per_second": 1.0,
                "share": 0.1,
                "lost_seconds": 1e-7,
            }
        ],
        "errors": {
            "right": False,
            "budget": 1e-4,
            "reference": name,
            "culprit": {"part": name, "name": name, "detail": [name]},
            "warnings": [name],
            "outputs": [value],
            "values": [value],
        },
        "provenance": {
            "made": name,
            "tc": name,
            "runtime": name,
            "python": name,
            "build": name,
            "processor": name,
            "cores": 1,
            "target": name,
            "options": name,
            "file": None,
            "command": name,
        },
    }


def check(markup, name):
    """Everything of the page is what the lab writes; the name is text."""
    read = Page(markup.replace("<link ", "<meta ").replace("<input ", "<meta "))
    assert read.faults == []
    assert set(read.elements) <= ALLOWED and read.elements.count("script") == 1
    for element, key, value in read.attributes:
        assert not key.startswith("on") and key != "style", (element, key)
        if key == "src":
            assert value == "/lab.js"
        if key in ("href", "action"):
            assert value.startswith(("/", "#")) and not value.startswith("//"), value
    assert len(markup) < 400_000
    return " ".join(read.text().split())


@pytest.mark.parametrize("name", ATTEMPTS, ids=range(len(ATTEMPTS)))
def test_names_stay_text(tmp_path, name):
    log = f"memory:{tmp_path}"
    names = {"target": name, "device": name, "build": name}
    add(
        log,
        [
            row(0, 0.5, workload=f"kernel k\n{name}", trace=[name], **names),
            row(1, 0.7, **names | {"build": f"{name} 2"}),
            row(
                0, 0.9, workload=f"kernel k\n{name}", trace=[name + " 2"], **names | {"build": "2"}
            ),
            row(0, 0.0, outcome="crash", detail=name, workload=f"kernel k\n{name}", **names),
        ],
    )
    (tmp_path / "report.json").write_text(json.dumps(report_of(name)))
    fleet = InventedFleet(3, name, state=name, client=name, processor=name, key=name)
    lab = Lab([log, log], [tmp_path / "report.json"], fleet)
    for follower in lab.followers:
        follower.load()
    shown = {}
    values = {"target": name, "device": name, "build": name, "outcome": name, "state": name}
    for query in (Query(), Query((values | {"left": f"0:{name}", "right": "1:2"}).items())):
        for path, view in VIEWS.items():
            shown[path] = check(pages.page(lab, path, "1", view(lab, query), query), name)
    state = lab.followers[0].state
    for entry in state.entries.values():
        found = records.record(lab, Query(), entry.number)
        check(pages.page(lab, "/record", "1", found, Query()), name)
        found = kernel.kernel(lab, Query(), entry.kernel)
        check(pages.page(lab, "/kernel", "1", found, Query()), name)
    begin = name.strip().split(" ")[0][:20]
    assert begin in shown["/"] and begin in shown["/devices"] and begin in shown["/steps"]


def test_names_of_logs_stay_text(tmp_path):
    name = "<script>alert(1)</script>"
    log = f"memory:{tmp_path}/{name}"
    add(log, [row()])
    lab = Lab([log])
    lab.followers[0].load()
    lab.followers[0].problem = name
    view = progress.progress(lab, Query())
    assert name in check(pages.page(lab, "/", "1", view, Query()), name)


def test_control_characters_are_shown_as_escapes(tmp_path):
    fleet = InventedFleet(1, "a\x1b[2J\u202e{}\nb")
    add(f"memory:{tmp_path}", [row()])
    lab = Lab([f"memory:{tmp_path}"], fleet=fleet)
    lab.followers[0].load()
    markup = pages.page(lab, "/devices", "1", devices.devices(lab, Query()), Query())
    assert "\x1b" not in markup and "\u202e" not in markup and "a\\x1b[2J\\u202e0\\nb" in markup


def test_what_an_address_says_is_bounded():
    query = Query(
        [("a", "x" * 6000), ("b", "1" * 30), ("c", "٣"), ("d", "7"), ("d", "8"), ("e", "-1")]
    )
    assert query.text("a") == "" and query.number("b") == 0 and query.number("c") == 0
    assert query.number("d") == 7 and query.number("e", 3) == 3
    assert query.kept("d", "e", "z") == {"d": "7", "e": "-1"}


def test_numbers_that_nobody_measured_break_no_page(tmp_path):
    """The log takes whatever is finite; whoever writes it may write that."""
    log = f"memory:{tmp_path}"
    most = {"minimum": 1e300, "median": 1e300}
    add(
        log,
        [
            row(0, 1e-320, created=-(2**62), **most),
            row(0, 1e300, created=2**62, seed=2**64 - 1, samples=2**31 - 1),
            row(1, 0.5, spread=1e300, worst_error=1e300, created=0, build="b"),
            row(1, 0.6, spread=1e-320, created=2**62),
            row(2, 5e-324, created=1, threads=4096, **most),
        ],
    )
    lab = Lab([log])
    lab.followers[0].load()
    lab.followers[0].operations = dict.fromkeys(lab.followers[0].state.workloads, 1e300)
    for query in (Query(), Query([("threads", "4096")]), Query([("begin", "999999999999999")])):
        for path, view in VIEWS.items():
            check(pages.page(lab, path, "1", view(lab, query), query), "")
    for entry in lab.followers[0].state.entries.values():
        check(pages.page(lab, "/", "1", records.record(lab, Query(), entry.number), Query()), "")
        check(pages.page(lab, "/", "1", kernel.kernel(lab, Query(), entry.kernel), Query()), "")
