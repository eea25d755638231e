"""The steps of a plan as an ONNX file for viewers such as Netron. Each step is a node whose
operator is its kind, in a domain of tc's own: the file shows what runs in which order on which
values, and is no model that a runtime could run."""

import re

from ..errors import Error, printable
from .facts import edges

DOMAIN = "tc.step"
_TYPE = re.compile(r"(\w+)\[(.*)\]")
_ONNX_TYPES = {
    "f32": "FLOAT",
    "f64": "DOUBLE",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "i8": "INT8",
    "i16": "INT16",
    "i32": "INT32",
    "i64": "INT64",
    "u8": "UINT8",
    "u16": "UINT16",
    "u32": "UINT32",
    "u64": "UINT64",
    "bool": "BOOL",
}


def onnx_graph(facts):
    """The file's bytes."""
    try:
        from onnx import helper
    except ImportError:
        raise Error("writing ONNX files needs the package onnx: pip install onnx") from None
    steps = [step for step in facts["steps"] if step.get("runs", True)]
    if not any(step["reads"] or step["writes"] for step in steps):
        raise Error(
            f"the plan of '{facts['summary']['model']}' is not known: a loaded artefact has the names of "
            "its steps alone; make the report from the model"
        )
    sources = {}
    for writer, reader in edges(steps):
        sources.setdefault(reader, []).append(writer)
    by_number = {step["step"]: step for step in steps}
    nodes, values = [], {}
    for step in steps:
        nodes.append(_node(helper, step, sources.get(step["step"], ()), by_number, values))
    inputs, outputs = _ends(steps, values)
    graph = helper.make_graph(
        nodes,
        printable(facts["summary"]["model"]),
        [_value(helper, name, values[name]) for name in inputs],
        [_value(helper, name, values[name]) for name in outputs],
        value_info=[
            _value(helper, name, kind)
            for name, kind in values.items()
            if name not in inputs and name not in outputs
        ],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(DOMAIN, 1)],
        producer_name="tc",
        producer_version=facts["provenance"]["tc"],
        doc_string=f"The steps of a plan for {facts['summary']['target']}, to be looked at: no runtime has these operators.",
    )
    return model.SerializeToString()


def _written(step, use):
    """The name of what a step writes: a place may be written several times."""
    name = printable(use["name"])
    return name if use["where"] == "output" else f"{name} of step {step['step']}"


def _node(helper, step, writers, by_number, values):
    reads = []
    for use in step["reads"]:
        known = [
            _written(by_number[writer], written)
            for writer in writers
            for written in by_number[writer]["writes"]
            if (written["where"], written["index"]) == (use["where"], use["index"])
        ]
        for name in known or [printable(use["name"])]:
            values.setdefault(name, use)
            reads.append(name)
    writes = []
    for use in step["writes"]:
        name = _written(step, use)
        values[name] = use
        writes.append(name)
    attributes = {
        key: step[key] for key in ("step", "seconds", "flops", "bytes") if step.get(key) is not None
    }
    return helper.make_node(
        re.sub(r"\W+", "_", step["kind"]),
        reads,
        writes,
        name=printable(step["label"]),
        domain=DOMAIN,
        **attributes,
    )


def _ends(steps, values):
    """Names of the model's inputs and outputs that steps use, in their order."""

    def of(field, where):
        found = {}
        for step in steps:
            for use in step[field]:
                if use["where"] == where:
                    found[use["index"]] = printable(use["name"])
        return [found[index] for index in sorted(found) if found[index] in values]

    return of("reads", "input"), of("writes", "output")


def _value(helper, name, use):
    from onnx import TensorProto

    found = _TYPE.fullmatch(use["type"])
    kind = _ONNX_TYPES.get(found[1]) if found else None
    if kind is None:  # bytes, or a type that ONNX lacks
        return helper.make_tensor_value_info(name, TensorProto.UINT8, [use["bytes"]])
    sizes = [int(size) for size in found[2].split(",") if size.strip()]
    return helper.make_tensor_value_info(name, getattr(TensorProto, kind), sizes)
