"""Whatever names a model, a log or a device has: a page shows them as text, and nothing of them is
markup, a line of ours or without end."""

import dataclasses
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

import tc
from tc import tuning
from tc.errors import MAX_OF_NAME
from tc.reporting.markup import Markup, element, escaped, joined

pytest.importorskip("onnx")
from ..frontend import hostile_names as hostile  # noqa: E402
from .pages import Page, array, small_network  # noqa: E402

NAMES = {
    **hostile.NAMES,
    "a script": "<script>alert(1)</script>",
    "an image": "\"><img src=x onerror='alert(1)'>",
    "the end of the style": "</style></title></svg></table><h1>all is well</h1>",
    "a comment": "<!-- <![CDATA[ ]]> -->",
    "references": "&lt;b&gt; &amp;amp; &#60;b&#62; &",
    "a label of dot": '"]; x [label="y" URL="http://z"]; /* \\N \\" <b>',
    "ten thousand": "<a>&" * 2500,
}
ALLOWED = set(
    "html head meta title style body a header h1 h2 h3 p nav ul li main section div dl dt dd span table "
    "caption thead tbody tr th td pre code figure svg g desc text rect line path polygon ellipse circle".split()
)


def check(page, expected_headings=None):
    read = Page(page)
    assert read.faults == []
    assert set(read.elements) <= ALLOWED
    assert "script" not in read.elements and "img" not in read.elements
    assert not [key for _, key, _ in read.attributes if key.startswith("on") or key == "src"]
    for where, text in read.texts:
        if where != "style":
            hostile.assert_fit_to_be_seen(text)
    if expected_headings:
        assert len(read.of("h1")) == 1
    return read


def test_what_is_not_markup_is_escaped():
    assert escaped("a<b>&\"'") == "a&lt;b&gt;&amp;&quot;&#x27;"
    assert escaped("a\x1b\n\u202eb") == r"a\x1b\n\u202eb"
    assert len(escaped("x" * 10_000)) < MAX_OF_NAME + 50
    assert joined("<", Markup("<b>"), ["&", None, Markup("</b>")]) == "&lt;<b>&amp;</b>"
    assert element("td", "<i>", class_='"') == '<td class="&quot;">&lt;i&gt;</td>'
    assert element("rect", x="1", y=None) == '<rect x="1"/>'


@pytest.mark.parametrize("kind", NAMES)
def test_pages_of_models_with_such_names(kind):
    made = hostile.model(NAMES[kind])
    module = tc.compile(made, threads=1, log=False)
    array_of_rows = np.ones((3, 4), np.float32)
    inputs = {port.name: array_of_rows for port in module.inputs}
    verification = tc.verify(made, inputs=inputs, threads=1, log=False)
    verification.model = module.name = NAMES[kind]
    found = module.report(inputs=inputs, seconds=0.01, verification=verification)
    read = check(found.html, expected_headings=True)
    assert len(found.html) < 200_000
    assert json.loads(json.dumps(found.facts)) == found.facts
    if kind == "a script":
        assert "<script>alert(1)</script>.product" in read.text()
    if shutil.which("dot"):
        assert "graph" in [value for name, key, value in read.attributes if key == "class"]
    for shown in (module, found, verification, found.profile):
        check_shown(shown)


def check_shown(shown):
    """The short text and the table for notebooks."""
    assert len(repr(shown)) < 10 * hostile.MAX_OF_LINE
    hostile.assert_fit_to_be_seen(repr(shown))
    table = Page(shown._repr_html_())
    assert table.faults == [] and set(table.elements) <= {"b", "table", "tr", "th", "td", "code"}
    for _, text in table.texts:
        hostile.assert_fit_to_be_seen(text)
    assert len(shown._repr_html_()) < 100_000


@pytest.mark.parametrize("kind", NAMES)
def test_pages_of_sessions_with_such_names(kind, tmp_path):
    name = NAMES[kind]
    log = str(tmp_path / "empty.db")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("")
    tc.Log.import_into(log, str(rows))
    kernel = tuning.KernelResult(name, 2, 2e-6, 1e-6, 5e-7, 4, {name: 1}, name)
    found = tc.TuneResult(
        [kernel] * 30, "seconds", 4, 4, 1.0, 1.5, name, [name], log, name, "x86-64-v3", 1, 0
    )
    report = found.report()
    read = check(report.html, expected_headings=True)
    assert "2.00×" in read.text()
    check_shown(found)
    check_shown(report)
    check_shown(tc.TuneResults([found] * 3, 30, 12, 12, 1.0, name, log))


def test_a_quantised_network_shows_no_bytes():
    quantised = tc.quantize(
        small_network(), [array((1, 8, 24, 24), seed) for seed in range(2)], progress=False
    )
    quantised.layers[0] = dataclasses.replace(quantised.layers[0], node=NAMES["a script"])
    check_shown(quantised)
    assert len(repr(quantised)) < 200 and "Quantised" in repr(quantised)
    assert len(quantised._repr_html_()) < 2000


def test_reprs_are_one_short_line():
    module = tc.compile(small_network(), threads=1, log=False)
    profile = module.profile(array((1, 8, 24, 24)), seconds=0.01)
    report = module.report(seconds=0.01)
    assert repr(profile).startswith("<tc.Profile of ") and " steps, " in repr(profile)
    assert repr(report).startswith("<tc.Report on ") and " steps, " in repr(report)
    for shown in (module, profile, report):
        assert len(repr(shown)) < 300 and "\n" not in repr(shown)
    kernel = tuning.KernelResult("k", 1, 2e-6, 1e-6, 0.0, 4, {}, "")
    result = tc.TuneResult(
        [kernel], "seconds", 4, 3, 1.0, 1.25, "done", [], "l.db", "m.onnx", "t", 1, 0
    )
    assert (
        repr(result)
        == "<tc.TuneResult of m.onnx for t: 1 kernels, 4 schedules tried, 3 measured now, 1.250 times as fast>"
    )


def test_passwords_are_not_shown():
    from tc.reporting.provenance import without_password

    for url, shown in (
        ("postgresql://me:s3c@ret@host:5432/db?x=1", "postgresql://me:***@host:5432/db?x=1"),
        ("--log=p://host/db?password=s3cret&y=2", "--log=p://host/db?password=***&y=2"),
        ("--tracker host:9190 a@b", "--tracker host:9190 a@b"),
        ("sqlite:a:b@c.db", "sqlite:a:b@c.db"),
    ):
        assert without_password(url) == shown


def test_command_with_such_a_file(tmp_path):
    path = tmp_path / "a'<script>\x1b[2J&.onnx"
    path.write_bytes(small_network().SerializeToString())
    done = subprocess.run(
        [sys.executable, "-m", "tc", "report", str(path), "--seconds", "0", "--threads", "1", "-o"]
        + [str(tmp_path / "page.html")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    hostile.assert_fit_to_be_seen(done.stdout)
    read = check((tmp_path / "page.html").read_text(encoding="utf-8"), expected_headings=True)
    (command,) = read.of("pre")
    assert command.startswith("python -m tc report ") and "\\x1b[2J" in command
