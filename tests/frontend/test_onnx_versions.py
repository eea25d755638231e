"""Every version of every operator of ONNX is known or refused: docs/operators.md lists the newest
that are known."""

import os
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tc

from ..support import ROOT

# Refused at every version, and why.
REFUSED = {
    **dict.fromkeys(
        (
            "ai.onnx.preview.training Adagrad",
            "ai.onnx.preview.training Adam",
            "ai.onnx.preview.training Gradient",
            "ai.onnx.preview.training Momentum",
        ),
        "train models",
    ),
    **dict.fromkeys(
        ("ai.onnx.ml CastMap", "ai.onnx.ml CategoryMapper", "ai.onnx.ml DictVectorizer"),
        "maps as inputs, which tc has not",
    ),
}
# Without rows: the importer resolves these, or the host runs them.
RESOLVED = [
    "ConcatFromSequence",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
    "SplitToSequence",
    "ImageDecoder",
    "RegexFullMatch",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "ai.onnx.ml ZipMap",
    "ai.onnx.preview FlexAttention",
]


def full_name(domain, name):
    return f"{domain} {name}" if domain else name


def known():
    """{operator: newest version} and {domain: newest operator set}, of the page."""
    section = (ROOT / "docs/operators.md").read_text().partition("## newest versions")[2]
    versions, sets, domain = {}, {}, None
    for line in section.splitlines():
        if heading := re.fullmatch(r"\* (.*), operator set (\d+):", line):
            domain = heading[1].replace("default domain", "")
            sets[domain] = int(heading[2])
        elif domain is not None and line.startswith("  "):
            versions.update(
                {
                    full_name(domain, name): int(version)
                    for name, version in re.findall(r"(\w+) (\d+)", line)
                }
            )
    return versions, sets


def rows():
    """Names of operators with a row."""
    text = (ROOT / "docs/operators.md").read_text().partition("## newest versions")[0]
    forms = [
        form.rpartition(" ")[0]
        for line in text.splitlines()
        if line.startswith("| ")
        for form in line.split(" | ")[1].split(", ")
    ]
    return {form.replace("::", " ") for form in forms}


def all_versions():
    """[(domain, name, version)] of the newest standard, or else of the installed one."""
    folder = os.environ.get("TC_ONNX_NEWEST_NODE_TESTS")
    if folder:
        lines = [
            line.split() for line in (Path(folder).parent / "versions.txt").read_text().splitlines()
        ]
        return [
            ("" if domain == "-" else domain, name, int(version)) for domain, name, version in lines
        ]
    return [
        (schema.domain, schema.name, schema.since_version)
        for schema in onnx.defs.get_all_schemas_with_history()
    ]


def test_every_version_is_known_or_refused():
    versions, sets = known()
    newest = {}
    for domain, name, version in all_versions():
        newest[full_name(domain, name)] = max(version, newest.get(full_name(domain, name), 0))
    named = {
        name: version for name, version in newest.items() if name not in REFUSED or name in versions
    }
    if os.environ.get("TC_ONNX_NEWEST_NODE_TESTS"):
        assert versions == named
        assert sets == {"": 28, "ai.onnx.ml": 5, "ai.onnx.preview": 1}
    else:
        assert all(version <= versions[name] for name, version in named.items())
    for name in named.keys() - set(REFUSED):
        assert name in RESOLVED or name in rows(), (
            f"{name} is neither a row nor resolved nor refused"
        )


def model(op, opset, domain=""):
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])] for name in "xy"
    )
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], "node", domain=domain)], "graph", inputs, outputs
    )
    imports = [
        helper.make_opsetid("", opset if not domain else 20),
        *([helper.make_opsetid(domain, opset)] if domain else []),
    ]
    return helper.make_model(graph, ir_version=10, opset_imports=imports).SerializeToString()


@pytest.mark.parametrize(
    "op, domain, newest, version",
    [("Relu", "", 28, 14), ("Abs", "", 28, 13), ("Binarizer", "ai.onnx.ml", 5, 1)],
)
def test_newer_operator_sets_are_refused(op, domain, newest, version):
    x = np.array([-1.0, 2.0], np.float32)
    assert tc.compile(model(op, newest, domain), log=False)(x).shape == (2,)
    with pytest.raises(
        tc.UnsupportedError,
        match=rf"{op} \(node 'node', opset {newest + 1}\); version {version} of {op} is the newest that is known, as of "
        rf"operator set {newest}, and the model asks for the one of {newest + 1}, which may have changed; convert the "
        rf"model to operator set {newest} with onnx.version_converter",
    ):
        tc.compile(model(op, newest + 1, domain), log=False)


def test_a_new_operator_of_a_newer_set_is_refused():
    with pytest.raises(
        tc.UnsupportedError, match=r"Novel \(node 'node', opset 29\); docs/operators.md"
    ):
        tc.compile(model("Novel", 29), log=False)
