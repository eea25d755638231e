"""Checks whether a compiled model computes what its file says: compares every value with the
project's interpreter in float64 and, where it is installed, with ONNX Runtime. Where they differ,
finds which node and which part of the compiler are to blame."""

import dataclasses
import json
import os
import typing

import numpy as np

from . import archives
from .comparing import compared, overflows
from .errors import MAX_OF_LINE, Error, ShapeError, UnsupportedError, bounded, printable
from .files import make_folder, write, write_array
from .seeded import seeded_array
from .native import compiler
from .onnx_file import OnnxFile
from .ports import BIT_TYPES, TC_NAMES, ports_of, shape_text
from .progress import Progress
from .sources import described, source_of
from .verifying_culprit import Found, Subject, find_first, find_together, is_rounding, whole_case
from .verifying_diagnosis import Diagnosis, diagnose
from .verifying_pipeline import Peer, Pipeline
from .verifying_report import report_text, rows_of


@dataclasses.dataclass
class Verification:
    """What tc.verify found. `right` is whether the outputs of the compiled model are within the
    budget and no node is wrong by itself; `outputs` are Differences of the build as it is, `values`
    of a build that has every value as an output; `culprit` is None or has `node`, `part` ("pass",
    "schedule", "fusion", …), `name`, `detail` and `confirmed`."""

    model: str
    target: str
    budget: float
    outputs: list
    values: list
    right: bool = True
    culprit: typing.Optional[dict] = None
    warnings: list = dataclasses.field(default_factory=list)
    peer: typing.Optional[dict] = (
        None  # ONNX Runtime: its version, its outputs' differences, or why there are none
    )
    reference: str = "float64"
    minimal: typing.Optional[bytes] = None
    minimal_inputs: dict = dataclasses.field(default_factory=dict)
    minimal_reference: typing.Optional[bytes] = None
    files: list = dataclasses.field(default_factory=list)
    quantised: str = ""  # the meaning of a quantised network, "exact" or "fast"

    def to_dict(self):
        plain = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if not field.name.startswith("minimal") and field.name not in ("outputs", "values")
        }
        return plain | {"outputs": rows_of(self.outputs), "values": rows_of(self.values)}

    def __str__(self):
        return report_text(self)

    def __repr__(self):
        verdict = (
            "right"
            if self.right
            else f"wrong: {self.culprit['part']} '{self.culprit['name']}'"
            if self.culprit
            else "wrong"
        )
        return printable(
            f"<tc.Verification of {printable(self.model)} for {self.target}: {verdict}>",
            MAX_OF_LINE,
        )

    def _repr_html_(self):
        from .reporting.notebook import verification_table

        return verification_table(self)

    def write(self, folder):
        """Writes the minimal model, its inputs as .npy files and the report into a folder; returns
        the files."""
        if self.minimal is None:
            return []
        make_folder(folder)
        self.files = [_written(folder, "minimal.onnx", self.minimal)]
        if self.minimal_reference not in (None, self.minimal):
            self.files.append(_written(folder, "reference.onnx", self.minimal_reference))
        for number, array in enumerate(self.minimal_inputs.values()):
            path = os.path.join(folder, f"input_{number}.npy")
            write_array(path, array)
            self.files.append(path)
        self.files.append(_written(folder, "report.json", json.dumps(self.to_dict(), indent=1)))
        return self.files


def _written(folder, name, data):
    path = os.path.join(folder, name)
    write(path, data)
    return path


def _file_of(model, inputs, shapes):
    """(the model as an OnnxFile, its name, the shapes to bind)."""
    folder = None
    if isinstance(model, (str, os.PathLike)):
        folder = os.path.dirname(os.path.abspath(os.fspath(model)))
    source, shapes = described(model, inputs, shapes)
    source = source_of(source)
    return OnnxFile(compiler.onnx_of(source), source.name, folder), source.name, shapes or {}


def _typed(port, array, name):
    """(element type, array) of the array that is given for an input."""
    dtype = TC_NAMES[port.dtype]
    wanted = np.dtype(BIT_TYPES.get(port.dtype, port.dtype))
    array = np.asarray(array)
    if array.dtype.name == port.dtype and array.dtype != wanted:
        array = array.view(wanted)
    if array.dtype != wanted:
        raise ShapeError(
            f"input '{port.name}' of {name} is {array.dtype}; expected {shape_text(port)}"
        )
    return dtype, np.asarray(array, order="C")


def _values(file, name, pipeline, given, shapes):
    """{input: (element type, array)}: the given arrays, and seeded data for the other inputs."""
    try:
        signature = compiler.signature(compiler.Source(file.data(), name), pipeline.options())
    except UnsupportedError as error:
        if error.strings:
            raise UnsupportedError(
                f"{name} works on strings, and verify takes models of numbers alone; take the part behind them"
            ) from None
        raise
    ports = ports_of(signature[1])
    random = np.random.default_rng(pipeline.seed)
    wrong = [each for each in given if each not in {port.name for port in ports}]
    if wrong:
        raise ShapeError(
            f"'{wrong[0]}' is no input of {name}; its inputs are {', '.join(port.name for port in ports)}"
        )
    values = {}
    for port in ports:
        if port.kind != "tensor":
            raise UnsupportedError(
                f"input '{port.name}' of {name} is no tensor ({port.kind}); verify takes models of tensors alone"
            )
        if port.name in given:
            values[port.name] = _typed(port, given[port.name], name)
            continue
        wanted = (
            shapes[port.name] if isinstance(shapes.get(port.name), (tuple, list)) else port.shape
        )
        if wanted is None:
            raise ShapeError(
                f"input '{port.name}' of {name} has no shape; give an array, or its sizes with shapes={{'{port.name}': (…)}}"
            )
        sizes = [
            shapes.get(size, size) if isinstance(size, str) else declared if size is None else size
            for size, declared in zip(wanted, port.shape or wanted)
        ]
        if not all(isinstance(size, (int, np.integer)) for size in sizes):
            raise ShapeError(
                f"input '{port.name}' of {name} is {shape_text(port)}; verify runs the model, so give arrays, or sizes "
                "(shapes={'symbol': 1}, --shape SYMBOL=1)"
            )
        values[port.name] = _typed(port, seeded_array(random, port.dtype, sizes), name)
    return values


def _bound(file, values, shapes, pipeline):
    """(the file, the remaining values): inputs that decide the structure are made constants, and
    inputs get the sizes that the user binds."""
    values, constants = dict(values), {}
    while True:
        declared = (
            {name: (dtype, array.shape) for name, (dtype, array) in values.items()}
            if shapes
            else {}
        )
        data = file.data(inputs=declared, constants=constants)
        try:
            pipeline.imported(data)
            return OnnxFile(data, file.name), values
        except UnsupportedError as error:
            # Each time there is one more constant, until no input decides the structure.
            names = [name for name in error.inputs if name in values]
            if not names:
                raise
            for name in names:
                dtype, array = values.pop(name)
                constants[name] = (dtype, array.shape, array.tobytes())


@dataclasses.dataclass(frozen=True)
class Question:
    """The options of verify that do not concern compiling; see its docstring."""

    shapes: dict | None = None
    examples: object = None
    against: object = None
    budget: float | None = None
    progress: object = None


@bounded
def verify(model, target="native", inputs=None, *, budget=None, **options):
    """Compares every value of a compiled model with the interpreter in float64, its outputs with
    ONNX Runtime too where that is installed, and looks for the culprit where they differ. Returns a
    Verification: print it, or ask `.right`.

    model    as tc.compile takes it
    inputs   {name: array}; what is not given is seeded data of normal distribution
    budget   largest error of a value, relative to its largest magnitude; default: the tolerance
    options  against, another model with values of the same names, from which this one was made, as
             the reference; progress, threads, tolerance, seed, log, max_ram, max_nodes and
             compile_time_limit (of each compilation) as of tc.compile; shapes, which give the sizes
             of what is not given ({"batch": 1}, {"input": (1, 3, 224, 224)}); examples, which are
             `inputs` of tc.compile for a model of PyTorch, and trust_archive
    """
    model = archives.trusted(model) if options.pop("trust_archive", False) else model
    asked = {
        name: options.pop(name)
        for name in ("shapes", "examples", "against", "progress")
        if name in options
    }
    return verify_by(
        Pipeline(target=target, **options), model, inputs, Question(budget=budget, **asked)
    )


@bounded
def verify_by(pipeline, model, inputs=None, question=Question()):
    """Like verify, with a given pipeline."""
    with Progress(question.progress) as progress:
        return _verify(pipeline, model, inputs, question, progress)


def _verify(pipeline, model, inputs, question, progress):
    budget = pipeline.tolerance if question.budget is None else question.budget
    file, name, shapes = _file_of(model, question.examples, question.shapes)
    pipeline.model = name
    values = _values(file, name, pipeline, dict(inputs or {}), shapes)
    file, values = _bound(file, values, shapes, pipeline)
    other = _file_of(question.against, None, None)[0] if question.against is not None else None
    subject = Subject(pipeline, file, values, budget, other)
    subject.progress = progress
    return _verified(subject, name)


def _verified(subject, name):
    pipeline, file = subject.pipeline, subject.file
    outputs = subject.differences(pipeline.build(file.data()).run(subject.values))
    types = {each: None for each in file.outputs} | {
        each: dtype for each, dtype in subject.made.items() if each not in file.outputs
    }
    every = file.data(outputs=types)
    build = pipeline.build(every)
    found = build.run(subject.values)
    values = subject.differences({each: found[each] for each in subject.made})
    result = Verification(
        name, compiler.resolve_target(pipeline.target)[0], subject.budget, outputs, values
    )
    result.quantised = build.quantised
    result.reference = (
        "float64"
        if subject.wide
        else "float64 within an operator, stored in the types of the model"
    )
    wrong = next((each for each in outputs if not each.within), None)
    peer = _ask_peer(subject, result, every, types)
    culprit, drifted = find_first(subject, found, values, wrong is not None)
    where = "a build that gives every value"
    rounding = (
        wrong is not None and not culprit and is_rounding(subject, whole_case(subject), outputs)
    )
    if wrong and not culprit and not rounding:
        culprit, where = (
            find_together(subject, wrong.name),
            "builds of parts of the model, with no outputs but the part's",
        )
    if wrong and not culprit and not rounding:
        culprit = Found(subject, whole_case(subject), wrong)
    _judge(subject, result, culprit, where, wrong, drifted)
    if peer and result.culprit is None:
        _judge_reference(subject, result, peer)
    return result


def _judge(subject, result, culprit, where, wrong, drifted):
    """Fills in the verdict from what was found."""
    if culprit and culprit.overflow and not wrong and not subject.compares_models:
        result.warnings.append(
            f"{culprit.difference.why}: {_node_text(culprit.node)} overflows as '{culprit.value}' is stored. The compiled "
            "model's outputs are right, for it keeps the value in float32; others may not"
        )
        culprit = None
    if wrong and not culprit:
        first = drifted[0] if drifted else wrong
        result.right = False
        result.culprit = {
            "part": "rounding",
            "name": first.name,
            "node": None,
            "difference": rows_of([first])[0],
            "trials": [],
            "where": where,
            "detail": [
                f"no node is wrong by itself: '{first.name}' is the first value that leaves the budget, by the rounding of "
                "all before it"
            ],
            "confirmed": None,
        }
        return
    if not culprit:
        return
    result.right = False
    if culprit.overflow:
        diagnosis = Diagnosis("overflow", culprit.difference.dtype, [culprit.difference.why])
    elif subject.compares_models:
        diagnosis = Diagnosis("model", culprit.value, _unlike(subject, culprit))
    else:
        diagnosis = diagnose(subject, culprit.case)
    result.culprit = {
        "part": diagnosis.part,
        "name": diagnosis.name,
        "node": _node_row(culprit.node),
        "nodes": [_node_row(node) for node in culprit.nodes],
        "value": culprit.value,
        "difference": rows_of([culprit.difference])[0],
        "inputs": {
            each: [dtype, list(array.shape)] for each, (dtype, array) in culprit.case.values.items()
        },
        "detail": diagnosis.detail,
        "line": diagnosis.line,
        "kernel": diagnosis.kernel,
        "where": where,
        "trials": [{"change": change, "right": right} for change, right in diagnosis.trials],
        "confirmed": _confirmed(subject, diagnosis, culprit, wrong),
    }
    result.minimal, result.minimal_reference = culprit.case.data, culprit.case.reference
    result.minimal_inputs = {each: array for each, (_, array) in culprit.case.values.items()}


def _confirmed(subject, diagnosis, culprit, wrong):
    """A sentence on whether the whole model, as tc.compile builds it, is right without the
    culprit."""
    if not wrong:
        return "the outputs of the model as it is compiled are within the budget on these inputs: what is wrong there is hidden"
    if not diagnosis.without:
        explained = culprit.value in subject.made and culprit.value not in subject.file.outputs
        return (
            f"the outputs of the model as it is compiled are wrong, and become so from '{culprit.value}' on"
            if explained
            else "this is an output of the model as it is compiled"
        )
    try:
        found = diagnosis.without(subject.file.data()).run(subject.values)
    except Error as error:
        return f"the whole model cannot be compiled without it ({error})"
    if all(
        each.within
        for each in subject.differences({name: found[name] for name in subject.file.outputs})
    ):
        return "the whole model, compiled without it, is right"
    return "the whole model, compiled without it, is still wrong: this is not the only culprit"


def _unlike(subject, culprit):
    """How the two models' nodes that make the value differ."""
    number, twin = subject.file.maker[culprit.value], subject.against.maker[culprit.value]
    mine, other = subject.file.nodes[number], subject.against.nodes[twin]
    if (mine.op_type, mine.domain) != (other.op_type, other.domain):
        return [
            f"it is made by {_node_text(mine)} here and by {_node_text(other)} in the reference"
        ]
    result = []
    for one, two in zip(mine.reads, other.reads):
        left, right = subject.file.initializer(one), subject.against.initializer(two)
        if left is not None and right is not None and left != right:
            result.append(
                f"the constant '{one}' is another than"
                + (" in the reference" if one == two else f" '{two}' of the reference")
            )
    if not result and subject.file.node_bytes(number) != subject.against.node_bytes(twin):
        result.append("its attributes or operands are others than in the reference")
    return result or [
        "the node is the same as in the reference, and computes something else: verify each model on its own"
    ]


def _node_row(node):
    return {
        "name": node.name,
        "operator": f"{node.domain}.{node.op_type}"
        if node.domain not in ("", "ai.onnx")
        else node.op_type,
    }


def _node_text(node):
    return f"node '{node.name}' ({_node_row(node)['operator']})"


def _ask_peer(subject, result, every, types):
    """ONNX Runtime's values, where it can run the model. Adds to the result how far its outputs are
    from the reference."""
    if subject.compares_models:
        return None
    peer = Peer()
    found = peer.run(every, subject.values, list(types))
    if found is None:
        # It may refuse some values as outputs of the model.
        found = peer.run(subject.file.data(), subject.values, subject.file.outputs)
    result.peer = {"runs": found is not None, "why_not": "" if found is not None else peer.why_not}
    if found is None:
        return None
    rows = [_against_peer(subject, name, found[name]) for name in subject.file.outputs]
    result.peer["outputs"] = rows_of(rows)
    return found


def _against_peer(subject, name, array):
    reference = subject.reference[name]
    dtype = subject.dtype_of(name)
    return compared(name, dtype, array, reference, subject.budget, subject.reads_floats(name))


def _judge_reference(subject, result, peer):
    """For the case that tc agrees with its own interpreter but ONNX Runtime with neither: then the
    definition of an operator is in question."""
    if all(_against_peer(subject, name, peer[name]).within for name in subject.file.outputs):
        return
    for name in subject.made:
        if name not in peer:
            continue
        difference = _against_peer(subject, name, peer[name])
        if difference.within:
            continue
        case = subject.case([subject.file.maker[name]], subject.known, [name])
        alone = Peer().run(case.data, case.values, [name])
        if alone is None:
            continue
        local = compared(
            name,
            difference.dtype,
            alone[name],
            subject.expected(case)[name],
            subject.budget,
            subject.reads_floats(name),
        )
        node = subject.file.nodes[subject.file.maker[name]]
        if local.within:
            continue
        if overflows(local):
            result.warnings.append(
                f"ONNX Runtime's outputs leave the budget, tc's do not: {_node_text(node)} overflows as '{name}' is stored "
                f"({local.why})"
            )
            return
        result.right = False
        result.culprit = {
            "part": "definition",
            "name": node.op_type,
            "node": _node_row(node),
            "nodes": [_node_row(node)],
            "value": name,
            "difference": rows_of([local])[0],
            "trials": [],
            "line": None,
            "kernel": None,
            "where": "ONNX Runtime",
            "inputs": {
                each: [dtype, list(array.shape)] for each, (dtype, array) in case.values.items()
            },
            "detail": [
                "tc agrees with its own interpreter, ONNX Runtime with neither: one of both reads the operator's "
                "specification in another way"
            ],
            "confirmed": None,
        }
        result.minimal, result.minimal_reference = case.data, case.reference
        result.minimal_inputs = {each: array for each, (_, array) in case.values.items()}
        return
    result.warnings.append("ONNX Runtime's outputs leave the budget, by the rounding of many nodes")
