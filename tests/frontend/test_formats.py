"""The table of formats: what it lists, what goes by it, and that a format is added by a row."""

import importlib.util
import io
import json
import re
import zipfile

import numpy as np
import onnx.parser
import pytest

from google.protobuf.json_format import MessageToJson

import tc
from tc import formats, sources
from tc.cli import main

from ..support import ROOT

TEXT = '<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Relu(x) }'
MODEL = onnx.parser.parse_model(TEXT).SerializeToString()
KNOWN = (
    "ONNX (.onnx), PyTorch (.pt, .pth, .ts, .jit, .pt2), TensorFlow Lite (.tflite), GGUF (.gguf), "
    "transformers (a folder with config.json) and ONNX as text (.onnxtxt, .onnxjson)"
)


def zipped():
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a", "b")
    return data.getvalue()


def test_the_command_lists_the_table(capsys):
    assert main(["formats", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["formats"]
    assert [row["name"] for row in rows] == [
        "ONNX",
        "PyTorch",
        "TensorFlow Lite",
        "GGUF",
        "transformers",
        "ONNX as text",
    ]
    assert rows[1]["suffixes"] == [".pt", ".pth", ".ts", ".jit", ".pt2"] and rows[1]["options"] == [
        "inputs",
        "trust_archive",
    ]
    for row in rows:
        assert row["installed"] == (
            not row["extra"] or importlib.util.find_spec(row["extra"]) is not None
        )
    assert main(["formats"]) == 0
    text = capsys.readouterr().out
    state = "is installed" if rows[2]["installed"] else "is not installed here"
    assert (
        "TensorFlow Lite: .tflite\n  read by the package tflite (docs/tflite.md)\n"
        f"  needs pip install 'tc-compiler[tflite]', which {state}" in text
    )
    assert (
        "ONNX: .onnx; an onnx.ModelProto\n  read by the compiler itself\n"
        "  options of its own: open_initializers, data_folders\n" in text
    )


def test_the_page_has_the_table():
    page = (ROOT / "docs" / "frontend.md").read_text(encoding="utf-8")
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines()
        if line.startswith("|") and line.count("|") == 6
    ]
    rows = {row[0]: row for row in table[2:]}
    assert list(rows) == [row.name for row in formats.formats()]
    for row in formats.formats():
        _, files, reader, options, extra = rows[row.name]
        assert re.findall(r"`(\.\w+)`", files) == list(row.suffixes) and reader == row.reader
        assert (
            re.findall(r"`(\w+)`", options) == list(row.options) and extra.strip("`") == row.extra
        )


def test_options_and_extras_are_those_of_the_package():
    known = tc.compile.__kwdefaults__
    extras = (
        (ROOT / "pyproject.toml")
        .read_text(encoding="utf-8")
        .partition("[project.optional-dependencies]")[2]
        .partition("[project.scripts]")[0]
    )
    for row in formats.formats():
        assert set(row.options) <= set(known), row.name
        assert not row.extra or re.search(rf"^{row.extra} = ", extras, re.M), row.name


@pytest.mark.parametrize(
    "name, data, wanted",
    [
        ("a.PT2", b"", "PyTorch"),
        ("a.jit", b"x", "PyTorch"),
        ("a", zipped(), "PyTorch"),
        ("a.onnx", zipped(), "PyTorch"),
        ("a.tflite", b"", "TensorFlow Lite"),
        ("a.bin", b"\x1c\0\0\0TFL3", "TensorFlow Lite"),
        ("a.onnx", MODEL, None),
        ("a", b"", None),
    ],
)
def test_files_are_known_by_suffix_or_beginning(tmp_path, name, data, wanted):
    path = tmp_path / name
    path.write_bytes(data)
    row = formats.front_end_of(path)
    assert (row and row.name) == wanted == (formats.front_end_of(str(path)) and row.name)
    if wanted is None or row.begins(data):
        assert formats.front_end_of(data) == row


def test_a_file_of_no_format_is_told_which_there_are(tmp_path):
    for name in ("net.xyz", "net"):
        (tmp_path / name).write_bytes(b"neither one nor another")
        for use in (tc.compile, tc.check, tc.kernels):
            with pytest.raises(tc.ModelError) as error:
                use(tmp_path / name)
            assert str(error.value) == (
                f"'{name}' is not a complete ONNX model: it is damaged, cut short or in another "
                "format; export it again or "
                f"copy it whole; tc reads {KNOWN}"
            )
    (tmp_path / "net.xyz").write_bytes(MODEL)
    assert tc.compile(tmp_path / "net.xyz", log=False)(np.float32([-1, 2, -3, 4])).tolist() == [
        0,
        2,
        0,
        4,
    ]


def test_a_format_is_added_by_a_row(tmp_path, monkeypatch, capsys):
    def read(model, inputs, shapes):
        with open(model) as file:
            parsed = onnx.parser.parse_model(file.read()).SerializeToString()
        return formats.Read(parsed, shapes, lambda compiled: compiled(parsed))

    row = formats.Format(
        "a language of graphs", (".graph",), "a parser", begin=b"<ir_version", read=read
    )
    monkeypatch.setattr(formats, "FRONT_ENDS", (*formats.FRONT_ENDS, row))
    formats.formats.cache_clear()
    try:
        assert (
            main(["formats"]) == 0
            and "a language of graphs: .graph\n  read by a parser" in capsys.readouterr().out
        )
        for name in ("net.graph", "net"):
            (tmp_path / name).write_text(TEXT)
            assert tc.compile(tmp_path / name, log=False)(np.float32([-1, 2, -3, 4])).tolist() == [
                0,
                2,
                0,
                4,
            ]
        with pytest.raises(tc.ShapeError, match="only models of PyTorch take example inputs"):
            tc.compile(tmp_path / "net", inputs=(1,))
        with pytest.raises(
            tc.ModelError,
            match="is the path of an ONNX, PyTorch, TensorFlow Lite, GGUF, transformers, ONNX as text or a language of graphs file, its bytes",
        ):
            sources.source_of(3)
    finally:
        formats.formats.cache_clear()


def test_onnx_as_text(tmp_path):
    x = np.float32([-1, 2, -3, 4])
    (tmp_path / "net.onnxtxt").write_text(TEXT)
    (tmp_path / "net.onnxjson").write_text(MessageToJson(onnx.load_model_from_string(MODEL)))
    for name in ("net.onnxtxt", "net.onnxjson"):
        assert tc.compile(tmp_path / name, log=False)(x).tolist() == [0, 2, 0, 4]
        assert main(["check", str(tmp_path / name)]) == 0


@pytest.mark.parametrize(
    "name, text, said",
    [
        ("a.onnxtxt", b"poem", "'a.onnxtxt' is no model in ONNX's text syntax: "),
        ("a.onnxtxt", b"\xff\xfe", "'a.onnxtxt' is no text in UTF-8, as its suffix says"),
        ("a.onnxtxt", b"<" * 201, "'a.onnxtxt' has more than 200 brackets inside of each other"),
        ("a.onnxjson", b"{", "'a.onnxjson' is no model in ONNX's JSON: "),
        ("a.onnxjson", b'{"graph": 3}', "'a.onnxjson' is no model in ONNX's JSON: "),
    ],
)
def test_what_is_no_text_of_onnx_is_refused(tmp_path, name, text, said):
    (tmp_path / name).write_bytes(text)
    with pytest.raises(tc.ModelError, match="^" + re.escape(said)):
        tc.compile(tmp_path / name)


def test_quoted_brackets_are_not_counted(tmp_path):
    quoted = TEXT.replace("ir_version: 8", 'ir_version: 8, producer_name: "' + "(" * 300 + '"')
    (tmp_path / "a.onnxtxt").write_text(quoted)
    assert tc.compile(tmp_path / "a.onnxtxt", log=False)(np.float32([-1, 2, -3, 4])).tolist() == [
        0,
        2,
        0,
        4,
    ]


def test_a_large_text_is_refused(tmp_path, monkeypatch):
    from tc import onnx_text

    monkeypatch.setattr(onnx_text, "MAX_BYTES", 1 << 20)
    (tmp_path / "a.onnxtxt").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(
        tc.ModelError, match="^'a.onnxtxt' is a text of more than 1 MB; write the model as .onnx$"
    ):
        tc.compile(tmp_path / "a.onnxtxt")
