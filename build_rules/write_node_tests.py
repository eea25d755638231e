"""write_node_tests.py FOLDER: writes the node tests that the imported package onnx generates, as
FOLDER/node/NAME/model.onnx and test_data_set_0, and FOLDER/versions.txt with a line `DOMAIN
OPERATOR VERSION` for each version of each operator ('-': the default domain)."""

import sys
from pathlib import Path

# Images as the package has them, not as the library that is installed here encodes them.
sys.modules["PIL"] = None

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def message(value, port):
    """The message of a value that a model's input or output has."""
    if isinstance(value, onnx.TensorProto):
        return value
    if port.type.HasField("sequence_type"):
        return numpy_helper.from_list(value, port.name)
    if port.type.HasField("optional_type"):
        return numpy_helper.from_optional(value, port.name)
    return numpy_helper.from_array(value, port.name)


def write(case, folder):
    ((inputs, outputs),) = case.data_sets
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for kind, ports, values in (
        ("input", case.model.graph.input, inputs),
        ("output", case.model.graph.output, outputs),
    ):
        for number, (port, value) in enumerate(zip(ports, values)):
            (data / f"{kind}_{number}.pb").write_bytes(message(value, port).SerializeToString())


def main(folder):
    np.random.seed(0)  # the package draws its vectors anew each time
    for case in collect_testcases(None):
        write(case, folder / "node" / case.name)
    versions = {
        f"{schema.domain or '-'} {schema.name} {schema.since_version}"
        for schema in onnx.defs.get_all_schemas_with_history()
    }
    (folder / "versions.txt").write_text("".join(f"{line}\n" for line in sorted(versions)))


main(Path(sys.argv[1]))
