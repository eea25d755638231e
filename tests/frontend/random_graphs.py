"""Draws valid ONNX graphs over most operators, and compares what tc makes of them with a reference
in float64.

    python -m tests.frontend.random_graphs [--seeds 0 1000] [--target native] [--keep FOLDER]
                                           [--heap]

A graph is drawn from a seed: inputs, then nodes that each take some values that are there, dead
ends included, with odd sizes, sizes of 0 and of 1, and names in place of sizes. `exact` values are
small multiples of 1/4 (or whole numbers), so that operators which jump (comparisons, rounding,
ArgMax, casts to whole numbers) give one result only. A graph that fails is shrunk: to the first
node that is wrong, and as few nodes before it as make it so. The command compiles and runs them in
processes of their own, so that a crash and a graph of more than a minute are failures of their
seeds like any other; with --heap glibc checks the heap at every call, and a write beyond a tensor
ends the process.
"""

import argparse
import dataclasses
import functools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import onnx
from onnx import helper

from .drawn_graph import BOOL, FLOAT, INT, Graph, error_of, in_doubles, results_of_onnx_runtime
from .random_forms import FORMS
from .random_operators import OPERATORS

TYPES = (
    FLOAT,
    INT,
    BOOL,
    numpy.float64,
    numpy.float16,
    *(numpy.dtype(f"{sign}int{bits}").type for sign in ("", "u") for bits in (8, 16, 32)),
    numpy.uint64,
)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
MAX_ELEMENTS = 1500
SEEDS_OF_A_PROCESS = 50
MAX_SECONDS_OF_A_GRAPH = 60
SHRUNK = "shrunk"
# A size that a run computes is taken for the one that it is combined with, and refused by name
# where it is 1 in that run.
ONE_IN_SOME_RUNS = re.compile(r"has to be '.*'; they are (1 and \d+|\d+ and 1) for these inputs")


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A value of the graph."""

    name: str
    array: numpy.ndarray = dataclasses.field(repr=False)
    exact: bool = True  # no operator that jumps can see a rounding error in it

    @property
    def dtype(self):
        return self.array.dtype.type

    @property
    def shape(self):
        return self.array.shape


class Builder:
    """A graph as it is drawn. Operators ask it for values and add nodes."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)
        self.values, self.nodes, self.constants, self.inputs = [], [], {}, {}
        self.symbols = {}  # size of axis 0 of some inputs: its name
        self.count = 0

    def name(self, stem):
        self.count += 1
        return f"{stem}{self.count}"

    def integer(self, low, high):
        """From low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def chance(self, probability):
        return bool(self.random.random() < probability)

    def choice(self, options):
        options = list(options)
        return options[self.integer(0, len(options) - 1)]

    def shape(self, least=0, most=4):
        rank = self.integer(least, most)
        shape = [self.choice(SIZES) for _ in range(rank)]
        while numpy.prod(shape, dtype=numpy.int64) > MAX_ELEMENTS:
            shape[int(numpy.argmax(shape))] = self.choice(SIZES[:5])
        if shape and self.chance(0.02):
            shape[self.integer(0, rank - 1)] = 0
        return tuple(shape)

    def data(self, dtype, shape, exact=True):
        if dtype == BOOL:
            return self.random.random(shape) < 0.5
        if dtype == INT:
            return self.random.integers(-5, 6, shape)
        if exact:
            return (self.random.integers(-8, 9, shape) / 4).astype(FLOAT)
        return self.random.standard_normal(shape).astype(FLOAT)

    def add_input(self, dtype=FLOAT, shape=None, exact=None):
        exact = self.chance(0.5) if exact is None else exact
        exact = exact or dtype != FLOAT
        shape = self.shape() if shape is None else shape
        value = Drawn(self.name("x"), self.data(dtype, shape, exact), exact)
        self.inputs[value.name] = value.array
        self.values.append(value)
        return value

    def constant(self, array):
        value = Drawn(self.name("c"), numpy.asarray(array))
        self.constants[value.name] = value.array
        return value

    def pick(self, fits):
        """A value that is there and fits, or None; later ones more often."""
        found = [value for value in self.values if fits(value)]
        if not found:
            return None
        place = max(self.integer(0, len(found) - 1), self.integer(0, len(found) - 1))
        return found[place]

    def floats(self, least=0, most=5, exact=False):
        """A value of floats of such a rank, an input if there is none."""
        found = self.pick(
            lambda value: (
                value.dtype == FLOAT
                and least <= len(value.shape) <= most
                and (value.exact or not exact)
            )
        )
        return found or self.add_input(
            FLOAT, self.shape(least, min(most, 4)), True if exact else None
        )

    def of(self, dtype, least=0, most=5):
        found = self.pick(
            lambda value: value.dtype == dtype and least <= len(value.shape) <= most and value.exact
        )
        return found or self.add_input(dtype, self.shape(least, min(most, 4)), True)

    def operand(self, value, exact=True):
        """Another operand that broadcasts against the value: one that is there, or a constant."""

        def fits(other):
            return (
                other.dtype == value.dtype
                and broadcasts(value.shape, other.shape)
                and (other.exact or not exact)
            )

        found = self.pick(fits) if self.chance(0.7) else None
        if found:
            return found
        shape = [size if self.chance(0.6) else 1 for size in value.shape][
            self.integer(0, len(value.shape)) :
        ]
        return self.constant(self.data(value.dtype, tuple(shape)))

    def arrays(self):
        return {**self.constants, **{value.name: value.array for value in self.values}}

    def node(self, op, inputs, exact=False, outputs=1, **attributes):
        """Adds a node, unless ONNX Runtime says that it cannot be, or its results are too many or
        too large numbers."""
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        names = [value.name if value is not None else "" for value in inputs]
        results = [self.name("v") for _ in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(op, names, results, name=results[0], **given)
        feeds = {name: array for name, array in self.arrays().items() if name in names_read(node)}
        found = by_onnx_runtime(
            Graph([node], feeds, {}, {name: (None, exact) for name in results}, {})
        )
        if found is None:
            return
        # NumPy has two types of 64 bits, of which ONNX Runtime gives the other one.
        arrays = [
            numpy.asarray(array).astype(numpy.asarray(array).dtype.name) for array in found.values()
        ]
        for array in arrays:
            if array.size > MAX_ELEMENTS or array.dtype.type not in TYPES:
                return
            if array.dtype != BOOL and array.size and not (numpy.abs(array) <= 1e4).all():
                return
        self.nodes.append(node)
        self.values += [
            Drawn(name, array, exact or array.dtype != FLOAT)
            for name, array in zip(results, arrays)
        ]


def names_read(node):
    """What a node reads of the values outside of it, its subgraphs included."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            inside = {port.name for port in attribute.g.input} | {
                name for each in attribute.g.node for name in each.output
            }
            names |= {name for each in attribute.g.node for name in names_read(each)} - inside
    return names


def broadcasts(shape, other):
    return len(other) <= len(shape) and all(
        a == b or 1 in (a, b) for a, b in zip(reversed(shape), reversed(other))
    )


def draw(seed, most=12):
    """The graph of a seed."""
    builder = Builder(seed)
    for _ in range(builder.integer(1, 3)):
        builder.add_input()
    wanted = builder.integer(2, most)
    for _ in range(20 * wanted):
        if len(builder.nodes) >= wanted:
            break
        builder.choice(FORMS if builder.chance(0.2) else OPERATORS)(builder)
    read = {name for node in builder.nodes for name in names_read(node)}
    made = [value for value in builder.values if value.name not in builder.inputs]
    ends = [value for value in made if value.name not in read]
    # Some ends are dead, some values in between are results as well.
    kept = [
        value for value in made if (value in ends and builder.chance(0.8)) or builder.chance(0.1)
    ] or ends[-1:]
    symbols = {}
    if builder.chance(0.3):
        name, array = list(builder.inputs.items())[0]
        if array.ndim:
            symbols[name, 0] = "n"
    used = {name: array for name, array in builder.inputs.items() if name in read}
    symbols = {key: value for key, value in symbols.items() if key[0] in used}
    return Graph(
        builder.nodes,
        used,
        builder.constants,
        {value.name: (value.dtype, value.exact) for value in kept},
        symbols,
    )


BY_ONNX_RUNTIME = "run by ONNX Runtime"
BY_REFERENCE = (
    "evaluated by onnx's reference"  # which takes a minute for a LayerNormalization over four axes
)


def tell(doing):
    """Called with what is done with a graph; a process that was given many prints it."""


def by_onnx_runtime(graph):
    """Results of ONNX Runtime, or None where it has no kernel."""
    tell(BY_ONNX_RUNTIME)
    try:
        return results_of_onnx_runtime(graph)
    finally:
        tell("compared")


def what_is_wrong(graph, target="native"):
    """A sentence, or None. Refusals by name count as right."""
    import tc

    model = graph.model().SerializeToString()
    begin = time.perf_counter()
    try:
        module = tc.compile(model, target, threads=1, tolerance=0, log=False)
        compiled = time.perf_counter() - begin
        results = module.run(graph.inputs)
    except tc.UnsupportedError:
        return None
    except tc.Error as error:
        if ONE_IN_SOME_RUNS.search(str(error)):
            return None
        if graph.symbols:
            # Constants of the graph may fit this size only, so that it is no graph of any size.
            return what_is_wrong(dataclasses.replace(graph, symbols={}), target)
        # What onnx's reference takes need not be valid: a window that is larger than its image.
        return f"{type(error).__name__}: {error}" if by_onnx_runtime(graph) else None
    if compiled > 60:
        return f"compiling took {compiled:.0f} s"
    runtime = None
    try:
        tell(BY_REFERENCE)
        expected = in_doubles(graph)
        tell("compared")
    except Exception:  # onnx's reference has no such form
        expected = runtime = by_onnx_runtime(graph)
        if expected is None:
            return None
    for name, (dtype, exact) in graph.outputs.items():
        problem = difference(results[name], numpy.asarray(expected[name]), dtype, exact)
        if problem is None:
            continue
        # The reference has mistakes of its own, and of an ill-conditioned graph the errors of
        # others are large as well.
        runtime = runtime or by_onnx_runtime(graph) or {}
        if name in runtime:
            other = numpy.asarray(runtime[name])
            if difference(results[name], other, dtype, exact) is None:
                continue
            if dtype == FLOAT and error_of(results[name], expected[name]) <= 10 * error_of(
                other, expected[name]
            ):
                continue
        return f"{name} {problem}"
    return None


def difference(found, expected, dtype, exact):
    """In words, or None."""
    if found.shape != expected.shape:
        return f"has shape {found.shape}, not {expected.shape}"
    if dtype != FLOAT:
        wrong = int((found != expected).sum())
        return f"is wrong at {wrong} of {found.size} places" if wrong else None
    error = error_of(found, expected)
    return f"has an error of {error:.2g}" if error > (1e-6 if exact else 1e-4) else None


def shrink(graph, fails):
    """A smaller part of the graph that still fails: one result, and the nodes without which it does
    not, last ones first."""
    for name, kind in graph.outputs.items():
        alone = dataclasses.replace(graph, outputs={name: kind})
        if fails(alone):
            graph = alone
            break
    changed = True
    while changed:
        changed = False
        for place in reversed(range(len(graph.nodes))):
            for smaller in without(graph, place):
                try:
                    failed = fails(smaller)
                except Exception:  # a part that is no graph
                    failed = False
                if failed:
                    graph, changed = smaller, True
                    break
            if changed:
                break
    return graph


def without(graph, place):
    """Graphs without a node: with its outputs as inputs, or, where nothing reads them, without
    them."""
    node = graph.nodes[place]
    rest = graph.nodes[:place] + graph.nodes[place + 1 :]
    read = {name for other in rest for name in names_read(other)}
    outputs = {name: kind for name, kind in graph.outputs.items() if name not in node.output}
    if not outputs:
        return
    inputs = dict(graph.inputs)
    if read & set(node.output):
        values = evaluated(graph, place)
        inputs.update(
            {name: values[name] for name in node.output if name in read and name in values}
        )
    used, constants = (
        {name: array for name, array in arrays.items() if name in read}
        for arrays in (inputs, graph.constants)
    )
    yield Graph(rest, used, constants, outputs, {})


def evaluated(graph, place):
    """What a node gives, in the types of the graph."""
    needed = graph.nodes[: place + 1]
    part = Graph(
        needed,
        graph.inputs,
        graph.constants,
        {name: (None, False) for name in needed[-1].output if name},
        {},
    )
    return by_onnx_runtime(part) or {}


def describe(graph):
    return onnx.printer.to_text(graph.model())


def check(seed, target, keep):
    """Prints what is wrong with a graph, and how the smallest part of it that fails reads; false
    where nothing is."""
    tell("drawn")
    graph = draw(seed)
    tell("compiled and run")
    wrong = what_is_wrong(graph, target)
    if wrong is None:
        return False
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        onnx.save(graph.model(), keep / f"{seed}.onnx")
    print(f"seed {seed}: {wrong}", flush=True)
    tell(SHRUNK)
    small = shrink(graph, lambda part: what_is_wrong(part, target) is not None)
    print(describe(small), flush=True)
    if keep:
        onnx.save(small.model(), keep / f"{seed}.onnx")
    return True


class Child:
    """A process that checks the seeds from `first` on, and tells before each what it does with
    it."""

    def __init__(self, first, options):
        environment = dict(os.environ)
        if options.heap:
            environment |= {
                "LD_PRELOAD": "libc_malloc_debug.so.0",
                "GLIBC_TUNABLES": "glibc.malloc.check=3",
            }
        last = min(first + SEEDS_OF_A_PROCESS, options.seeds[1])
        command = [
            sys.executable,
            "-m",
            __spec__.name,
            "--seeds",
            str(first),
            str(last),
            "--target",
            options.target,
            "--here",
        ]
        self.last = last
        self.process = subprocess.Popen(
            command + (["--keep", str(options.keep)] if options.keep else []),
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.told, self.since = [f"{first} drawn"], time.monotonic()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            if line.split(" ")[0].isdigit():
                self.told.append(line.strip())
                self.since = time.monotonic()

    def ended(self):
        """How it ended, where not by itself: a signal, or the limit of time for one seed."""
        while self.process.poll() is None:
            if time.monotonic() - self.since > MAX_SECONDS_OF_A_GRAPH:
                self.process.kill()
                self.process.wait()
                return f"took more than {MAX_SECONDS_OF_A_GRAPH} s"
            time.sleep(0.05)
        self.reader.join()
        code = self.process.returncode
        return (
            None
            if code in (0, 1)
            else f"ended the process: {signal.Signals(-code).name if code < 0 else code}"
        )


def check_in_processes(options):
    """The number of seeds that failed."""
    failures, first = 0, options.seeds[0]
    while first < options.seeds[1]:
        child = Child(first, options)
        ended = child.ended()
        failures += sum(line.endswith(f" {SHRUNK}") for line in child.told)
        first = child.last
        if ended:
            seed, what = child.told[-1].split(" ", maxsplit=1)
            print(f"seed {seed}: {ended} when it was {what}", flush=True)
            # What the others cannot do is not judged, and what fails was counted before it was
            # shrunk.
            failures += (
                what not in (BY_ONNX_RUNTIME, BY_REFERENCE) and f"{seed} {SHRUNK}" not in child.told
            )
            first = int(seed) + 1
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 1000))
    parser.add_argument("--target", default="native")
    parser.add_argument("--keep", type=Path, help="folder for models that fail")
    parser.add_argument("--heap", action="store_true", help="glibc checks the heap")
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.here:
        failures = 0
        global tell
        for seed in range(*options.seeds):
            tell = functools.partial(
                lambda seed, doing: print(f"{seed} {doing}", file=sys.stderr, flush=True), seed
            )
            failures += check(seed, options.target, options.keep)
    else:
        failures = check_in_processes(options)
        print(f"{failures} of {options.seeds[1] - options.seeds[0]} graphs failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
