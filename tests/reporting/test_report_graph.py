"""The graph of a report: drawn by graphviz' dot, which is run as a program that may be missing,
fail, hang or write anything."""

import shutil

import pytest

from tc.reporting import graph

from .pages import Page


def use(where, index, name="v"):
    return {"where": where, "index": index, "offset": 0, "bytes": 4, "type": "f32[1]", "name": name}


def steps(labels=("first + second", "third")):
    found = []
    for number, label in enumerate(labels):
        last = number == len(labels) - 1
        found.append(
            {
                "step": number,
                "label": label,
                "kind": "product" if number % 2 else "conv 1x1",
                "seconds": 1e-6,
                "runs": True,
                "reads": [use("block", number - 1) if number else use("input", 0, "image")],
                "writes": [use("output", 0, "classes") if last else use("block", number)],
            }
        )
    return found


KINDS = {"conv 1x1": 0, "product": 1}


def script(tmp_path, monkeypatch, text):
    """Puts a program dot in the place of graphviz'."""
    program = tmp_path / "dot"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_the_drawing():
    drawn = graph.drawing(steps(), [[0, 1]], KINDS)
    read = Page(drawn)
    assert read.faults == []
    texts = read.of("text")
    assert texts.count("first") == texts.count("second") == texts.count("third") == 1
    assert "image" in texts and "classes" in texts and "1: product, 1.00 µs" in texts
    classes = [value for _, key, value in read.attributes if key == "class"]
    assert classes.count("edge") == 3  # from the input, between the steps, to the output
    assert "node k0" in classes and "node k1" in classes
    assert not {"a", "image", "script", "style"} & set(read.elements)


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")
def test_long_labels_are_cut_short():
    many = " + ".join(f"node{number}" for number in range(10))
    texts = Page(graph.drawing(steps((many, "n" * 500)), [[0, 1]], KINDS)).of("text")
    assert [text for text in texts if text.startswith("node")] == ["node0", "node1", "node2"]
    assert "7 more" in texts and f"{'n' * 15}…{'n' * 14}" in texts


def test_without_graphviz(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(graph.NotDrawn, match="the program dot of graphviz is not installed"):
        graph.drawing(steps(), [[0, 1]], KINDS)


@pytest.mark.parametrize(
    "text, why",
    [
        ("exit 3", "dot failed with code 3: it said nothing"),
        ("printf 'bad\\033[31m' >&2; exit 1", r"dot failed with code 1: bad\\x1b\[31m"),
        ("echo no drawing", "dot wrote no drawing that can be read"),
        ("echo '<svg xmlns=\"http://www.w3.org/2000/svg\"/>'", "dot wrote no drawing"),
        ("sleep 30", "dot did not finish within 0.3 seconds"),
    ],
)
def test_a_program_that_fails(tmp_path, monkeypatch, text, why):
    monkeypatch.setattr(graph, "_SECONDS", 0.3 if "sleep" in text else 20)
    script(tmp_path, monkeypatch, text)
    with pytest.raises(graph.NotDrawn, match=why):
        graph.drawing(steps(), [[0, 1]], KINDS)


def written(inner):
    return (
        'cat >/dev/null; cat <<"END"\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10">'
        f'<g class="graph">{inner}</g></svg>\nEND'
    )


def test_only_shapes_and_text_are_taken(tmp_path, monkeypatch):
    script(
        tmp_path,
        monkeypatch,
        written(
            '<script>alert(1)</script><g class="node" onclick="x()"><title>s0</title>'
            '<a href="http://x"><polygon points="1,2 3,4" fill="url(http://x)"/></a><image href="x"/>'
            '<text x="1" y="2">&lt;b&gt;</text></g><g class="edge"><title>e</title><path d="M0,0C1,1 2,2 3,3"/></g>'
        ),
    )
    drawn = graph.drawing(steps(), [[0, 1]], KINDS)
    read = Page(drawn)
    assert set(read.elements) == {"svg", "title", "desc", "g", "polygon", "text", "path"}
    assert "http" not in drawn and "onclick" not in drawn and "alert" not in drawn
    assert read.of("text") == ["<b>"]


@pytest.mark.parametrize(
    "inner, why",
    [
        ('<g class="node"><path d="M0 0&quot; onload=&quot;x"/></g>', "a path that is none"),
        ('<g class="edge"><polygon points="javascript:1"/></g>', "a path that is none"),
        ('<g class="node"><text x="1;2" y="2">t</text></g>', "a place that is none"),
    ],
)
def test_coordinates_are_numbers(tmp_path, monkeypatch, inner, why):
    script(tmp_path, monkeypatch, written(inner))
    with pytest.raises(graph.NotDrawn, match=f"dot wrote {why}"):
        graph.drawing(steps(), [[0, 1]], KINDS)


def test_large_graphs_are_not_drawn(monkeypatch):
    with pytest.raises(graph.NotDrawn, match="401 steps are more than the 400 that are drawn"):
        graph.drawing(steps(["s"] * 401), [], KINDS)
    with pytest.raises(graph.NotDrawn, match="2,001 edges are more than the 2000 that are drawn"):
        graph.drawing(steps(), [[0, 1]] * 2001, KINDS)
    if shutil.which("dot") is None:
        return
    monkeypatch.setattr(graph, "MAX_BYTES", 10)
    with pytest.raises(graph.NotDrawn, match="the drawing would be larger than the page allows"):
        graph.drawing(steps(), [[0, 1]], KINDS)
