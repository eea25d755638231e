"""Where a compiled model goes wrong: the first node that by itself exceeds the error budget, or the
fewest nodes that do so together, as a small model that still fails."""

import dataclasses
import functools

from .comparing import FLOATS, compared, numbers, overflows
from .errors import Error
from .verifying_pipeline import as_input, evaluate

# The most models that a search compiles; it then answers with the best found so far.
MAX_BUILDS = 250
# The error of a compiled model counts as rounding if it is at most so many times the interpreter's.
MAX_ROUNDING = 10


@dataclasses.dataclass
class Case:
    """A part of a model and the values of its inputs."""

    nodes: frozenset  # the part's nodes, by their numbers in the whole model
    data: bytes
    values: dict  # {input: (element type, array)}
    outputs: list
    reference: bytes  # the model with which it is compared


class Subject:
    """A model, its inputs, and what all its values should be. `against` is the file of a model that
    should compute the same; without it the model itself is the reference."""

    def __init__(self, pipeline, file, values, budget, against=None):
        self.pipeline, self.file, self.budget = pipeline, file, budget
        self.progress = lambda *_: None  # called with (phase, done, total)
        self.values, self.against = values, against or file
        self.compares_models = against is not None
        graph = pipeline.imported(file.data())
        made = graph.made
        if self.compares_models:
            known = pipeline.imported(against.data()).made
            made = {name: dtype for name, dtype in made.items() if name in known}
        # Values made by nodes of the file's main graph, in the order of the nodes.
        self.made = {
            name: made[name] for node in file.nodes for name in node.outputs if name in made
        }
        self.types = {name: dtype for name, (dtype, _) in values.items()} | self.made
        self.reference, self.wide = self._references(
            self.against.data(), values, [*self.made, *file.outputs]
        )
        self._builds = 0

    def _references(self, data, values, names):
        return evaluate(self.pipeline.imported(data), values, dict.fromkeys(names))

    def dtype_of(self, name):
        return self.types.get(name) or {"float64": "f64", "int64": "i64", "bool": "bool"}.get(
            self.reference[name].dtype.name, "f64"
        )

    @functools.cached_property
    def known(self):
        """The reference's values as the model would store them."""
        return {
            name: as_input(self.reference[name], dtype) for name, dtype in self.made.items()
        } | self.values

    def reads_floats(self, name):
        number = self.file.maker.get(name)
        return number is not None and any(
            self.types.get(each) in FLOATS for each in self.file.nodes[number].reads
        )

    def difference(self, name, typed, reference):
        dtype, array = typed
        return compared(
            name, dtype, numbers(array, dtype), reference, self.budget, self.reads_floats(name)
        )

    def differences(self, found, reference=None):
        """Differences, in the order of the nodes, of a build's results {name: (element type,
        array)}."""
        reference = self.reference if reference is None else reference
        names = [
            *(name for name in self.made if name in found),
            *(name for name in found if name not in self.made),
        ]
        return [self.difference(name, found[name], reference[name]) for name in names]

    def case(self, nodes, known, outputs):
        """A Case of these nodes. Their operands are given where `known` has them; otherwise the
        nodes that make them are added."""
        nodes, waiting = set(nodes), list(nodes)
        while waiting:
            for name in self.file.nodes[waiting.pop()].reads:
                number = self.file.maker.get(name)
                if number is not None and number not in nodes and name not in known:
                    nodes.add(number)
                    waiting.append(number)
        made = {name for number in nodes for name in self.file.nodes[number].outputs}
        read = dict.fromkeys(
            name
            for number in sorted(nodes)
            for name in self.file.nodes[number].reads
            if name not in made
        )
        values = {name: known[name] for name in read if name in known}
        values |= {
            name: self.values[name] for name in read if name in self.values and name not in values
        }
        declared = {name: (dtype, array.shape) for name, (dtype, array) in values.items()}
        types = {name: self.dtype_of(name) for name in outputs}
        data = self.file.data(nodes, declared, types)
        reference = data
        if self.compares_models:
            reference = self.against.data(self.against.needed(outputs, values), declared, types)
        return Case(frozenset(nodes), data, values, list(outputs), reference)

    def expected(self, case):
        return self._references(case.reference, case.values, case.outputs)[0]

    def judge(self, case, **options):
        """The differences of a case's outputs, or None where the case cannot be compiled by
        itself."""
        self._builds += 1
        try:
            found = self.pipeline.build(case.data, **options).run(case.values)
            return self.differences(found, self.expected(case))
        except Error:
            return None

    def fails(self, case):
        found = self.judge(case)
        return found is not None and not all(each.within for each in found)

    @property
    def exhausted(self):
        return self._builds >= MAX_BUILDS

    def local(self, name, found):
        """How far a node's value is from what the reference computes for the node's actual
        operands; None where that cannot be computed."""
        try:
            case = self.case([self.file.maker[name]], found | self.values, [name])
            return self.difference(name, found[name], self.expected(case)[name])
        except (Error, KeyError):
            return None

    def explains(self, name, typed):
        """Whether outputs exceed the budget where every value but this one is right."""
        if name in self.file.outputs:
            return True
        rest = self.against.needed(self.file.outputs, [name])
        types = {output: self.dtype_of(output) for output in self.file.outputs}
        try:
            data = self.against.data(rest, {name: (typed[0], typed[1].shape)}, types)
            values = {name: typed} | self.values
            results, _ = self._references(data, values, self.file.outputs)
        except Error:
            return True
        return not all(
            compared(
                output, types[output], results[output], self.reference[output], self.budget
            ).within
            for output in self.file.outputs
        )


class Found:
    """A culprit: the value that is wrong and the nodes that cause it."""

    def __init__(self, subject, case, difference):
        self.case, self.difference, self.file = case, difference, subject.file
        self.value = difference.name
        self.nodes = [
            subject.file.nodes[number]
            for number in sorted(case.nodes)
            if not subject.file.nodes[number].is_constant
        ]
        # The node that computes the value.
        self.node = subject.file.nodes[subject.file.maker[self.value]]
        self.overflow = overflows(difference)


def find_first(subject, found, differences, wrong_outputs):
    """(the first node that is wrong by itself, or None; values that exceed the budget though their
    nodes are right).

    `found` are all values of one build, `wrong_outputs` those of the build without further
    outputs."""
    drifted = []
    for number, difference in enumerate(differences, 1):
        subject.progress("comparing values", number, len(differences))
        if difference.within or difference.name not in subject.made:
            continue
        local = subject.local(difference.name, found)
        # When two models are compared, other nodes may compute the value of the same name.
        if local.within if local is not None else not subject.compares_models:
            drifted.append(difference)
            continue
        if wrong_outputs and not subject.explains(difference.name, found[difference.name]):
            continue
        case = subject.case(
            [subject.file.maker[difference.name]], found | subject.values, [difference.name]
        )
        if subject.fails(case):
            return Found(subject, case, difference), drifted
    return None, drifted


def _failing_prefix(subject, output):
    """The earliest value, found by bisection, such that the model cut off after it fails; and that
    model."""
    names = {}
    for number in sorted(subject.file.needed([output])):
        for name in subject.file.nodes[number].outputs:
            if name in subject.made:
                names[number] = name
    names = [*(name for name in names.values() if name != output), output]

    def prefix(position):
        return subject.case(
            subject.file.needed([names[position]]), subject.values, [names[position]]
        )

    if not subject.fails(prefix(len(names) - 1)):
        return output, None
    right, wrong = -1, len(names) - 1
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if subject.fails(prefix(middle)):
            wrong = middle
        else:
            right = middle
    return names[wrong], prefix(wrong)


def _by_distance(file, name):
    """The nodes from which a value is computed, nearest first."""
    order, waiting = [], [file.maker[name]]
    while waiting:
        number = waiting.pop(0)
        if number in order:
            continue
        order.append(number)
        waiting += sorted(
            {file.maker[each] for each in file.nodes[number].reads if each in file.maker},
            reverse=True,
        )
    return order


def shrink(subject, name, case):
    """The fewest nodes found with which the value is still wrong, when the other values are taken
    from the reference."""
    order = _by_distance(subject.file, name)
    size, best = 1, case
    while size < len(order) and not subject.exhausted:
        tried = subject.case(order[:size], subject.known, [name])
        if subject.fails(tried):
            best = tried
            break
        size *= 2
    for number in reversed(order):
        if (
            subject.exhausted
            or number not in best.nodes
            or len(best.nodes) == 1
            or number == subject.file.maker[name]
        ):
            continue
        tried = subject.case(best.nodes - {number}, subject.known, [name])
        if len(tried.nodes) < len(best.nodes) and subject.fails(tried):
            best = tried
    return best


def find_together(subject, wrong_output):
    """The fewest nodes that are wrong only together (because passes or fusion combine them), found
    with builds that have only the model's outputs; None where the model is wrong only as a
    whole."""
    name, case = _failing_prefix(subject, wrong_output)
    if case is None:
        return None
    case = shrink(subject, name, case)
    differences = subject.judge(case) or []
    wrong = next((each for each in differences if not each.within), None)
    return Found(subject, case, wrong) if wrong else None


def is_rounding(subject, case, differences):
    """Whether the interpreter, if it stores each value in its type, differs from float64 about as
    much as these outputs."""
    if not subject.wide:
        return False
    stored, _ = evaluate(
        subject.pipeline.imported(case.data), case.values, case.outputs, wide=False
    )
    expected = subject.expected(case)
    for each in differences:
        rounded = compared(
            each.name, each.dtype, stored[each.name], expected[each.name], subject.budget
        )
        # A value of another shape, or an integer, cannot be compared so.
        if not each.within and (
            each.ulp is None
            or rounded.relative is None
            or each.relative > MAX_ROUNDING * rounded.relative
        ):
            return False
    return True


def whole_case(subject):
    """The whole model as a Case."""
    return Case(
        frozenset(range(len(subject.file.nodes))),
        subject.file.data(),
        subject.values,
        list(subject.file.outputs),
        subject.against.data(),
    )
