"""Operators are known by the traits of their rows: outside of ir/ops no source file has the name of
one in quotes, or asks for a row's category, but for the lines listed here."""

import re

from ..support import ROOT

FOLDERS = [
    "ir",
    "frontend/import",
    "frontend/pipeline",
    "frontend/profile",
    "scheduler",
    "codegen",
    "tuner",
    "runtime",
]

# The operators that a file may name, and why.
ALLOWED = {
    "ir/passes/block_weights.cc": (
        {"BlockMatMul", "DequantizeLinear", "MatMul", "Transpose"},
        "makes the first of a pattern that is written with the others",
    ),
    "ir/passes/counted_loops.cc": ({"Range", "Scan"}, "the pass makes them"),
    "ir/passes/divide_joins.cc": (
        {"Div", "Max", "Mean", "Min", "Sum"},
        "makes several of one that has many operands, and of a mean sums and a quotient",
    ),
    "ir/passes/fixed_point.cc": (
        {"Add", "BitShift", "Cast", "Clip", "Max", "Min", "Mul", "Relu", "Sub"},
        "makes all but two, which in front of a rounding are its ends",
    ),
    "ir/passes/fold_batch_norm.cc": ({"Add", "Mul"}, "the pass makes them"),
    "ir/passes/group.cc": (
        {"BitwiseXor", "Cast"},
        "asks for the steps between bytes that unsigned_numbers makes: a transpose takes them",
    ),
    "ir/passes/half_types.cc": (
        {"BlockDot", "BlockGather", "BlockMatMul", "Cast", "CastLike", "ExpertDot", "ExpertMatMul"},
        "makes casts, and asks for both kinds: those that a model asks for are its own roundings; the others take scales in the "
        "type that their format says",
    ),
    "ir/passes/integer_products.cc": (
        {"Add", "Cast", "Identity", "IntegerGlobalPool", "Mul", "Pad", "Squeeze", "Transpose"},
        "the pass makes them",
    ),
    "ir/passes/merge.cc": (
        {"Cast", "CumSum", "Gather", "GatherND", "Reshape"},
        "makes the others of the second; narrows a sum between two casts",
    ),
    "ir/passes/quantised.cc": (
        {"Clip", "Mul", "Resize", "Round"},
        "makes all but Resize, which chooses elements where its tables have one column",
    ),
    "ir/passes/recover_normalizations.cc": (
        {"AveragePool", "LRN", "LayerNormalization", "Pad", "ReduceMean"},
        "makes the second and third of patterns that are written with the others",
    ),
    "ir/passes/share_transposed.cc": ({"Transpose"}, "the pass makes it"),
    "ir/passes/simplify.cc": ({"Reshape"}, "the pass makes it"),
    "ir/passes/unsigned_numbers.cc": (
        {"Add", "BitwiseXor", "Cast", "Gather", "Identity", "Sub"},
        "makes all but Gather, which reads a table where it chooses from a constant",
    ),
    "ir/passes/wide_products.cc": (
        {"Cast", "WideProduct"},
        "makes the second of a cast that is multiplied",
    ),
    "frontend/pipeline/block_products.cc": (
        {"BlockDot", "BlockMatMul", "BlockQuantize", "ExpertDot", "ExpertMatMul"},
        "makes three of them of the others",
    ),
    "frontend/pipeline/layout.cc": ({"Reorder"}, "the layout's changes are nodes that it makes"),
    "frontend/pipeline/plan_loop.cc": ({"Add"}, "a loop counts its iterations"),
    "frontend/import/onnx/class_names.cc": (
        {"LabelEncoder", "LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"},
        "operators of the file format whose classes are texts, which the host gives",
    ),
    "frontend/import/onnx/computed_sizes.cc": (
        {"Concat", "Div", "Equal", "Gather", "Max", "ReduceProd", "Reshape", "Where"},
        "the importer makes them",
    ),
    "frontend/import/onnx/flex_attention.cc": (
        {"MatMul", "Mul", "Reshape", "Softmax", "Transpose"},
        "the importer makes them",
    ),
    "frontend/import/onnx/importer.cc": (
        {"Constant", "Identity", "Loop"},
        "an operator of the file format without a node, one that it makes, and one whose body "
        "may have to be repeated, which is asked before there is a row",
    ),
    "frontend/import/onnx/input_shapes.cc": (
        {"Attention", "Concat", "GroupQueryAttention", "MultiHeadAttention"},
        "reads the file before there are rows: which inputs are caches that a node puts what is new behind",
    ),
    "frontend/import/onnx/known_operators.cc": (
        {"Constant"},
        "an operator of the file format without a row",
    ),
    "frontend/import/onnx/outputs.cc": ({"Identity"}, "the importer makes them"),
    "frontend/import/onnx/scan_forms.cc": (
        {"Concat", "Gather", "Scan", "Transpose", "Unsqueeze"},
        "turns forms of one operator of the file format into others",
    ),
    "frontend/import/onnx/sequences.cc": (
        {"Concat", "Split", "Squeeze", "Unsqueeze"},
        "operators on sequences become these",
    ),
    "frontend/import/onnx/string_shapes.cc": (
        {
            "ArrayFeatureExtractor",
            "Cast",
            "Concat",
            "Constant",
            "Equal",
            "Flatten",
            "Gather",
            "Identity",
            "LabelEncoder",
            "OneHotEncoder",
            "Reshape",
            "Shape",
            "Size",
            "Squeeze",
            "Transpose",
            "Unsqueeze",
            "Where",
        },
        "operators of the file format that may run on the host, on strings, where there are no rows",
    ),
    "frontend/import/onnx/strings.cc": (
        {"Cast", "Constant", "LabelEncoder"},
        "operators of the file format that take or make strings",
    ),
    "frontend/import/onnx/unrolled_loop.cc": ({"Concat", "Unsqueeze"}, "the importer makes them"),
}


def operators():
    """Names of all rows, from the page that is generated of the op table."""
    page = (ROOT / "docs/operators.md").read_text()
    return set(re.findall(r"^\| (\w+) \|", page, re.MULTILINE)) - {"op"}


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix in (".cc", ".h") and not name.startswith("ir/ops/"):
                yield name, re.sub(r"//.*", "", path.read_text())


def test_no_pass_names_an_operator():
    known = operators()
    assert {"Conv", "MatMul", "Einsum"} <= known
    named = {}
    for file, text in sources():
        found = set(re.findall(r'"(\w+)"', text)) & known
        if found:
            named[file] = found
    assert named == {file: names for file, (names, _) in ALLOWED.items()}


def test_the_category_is_for_the_docs():
    assert [file for file, text in sources() if re.search(r"(\.|->)category\b", text)] == []
