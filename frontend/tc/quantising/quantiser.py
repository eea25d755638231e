"""tc.quantize: the steps of a quantisation and what each measures."""

import contextlib
import dataclasses
import itertools
import sys
import time
import typing

import numpy as np

from ..errors import Error, UnsupportedError, bounded, lines_text, printable
from ..files import write
from ..progress import Line
from . import prepare
from .floating import floating_layers, floats_text
from .network import Network, attribute
from .ranges import METHODS, Range, numbers_of
from .rounding import (
    MOVES_ONLY,
    Places,
    Rounded,
    float_values,
    sums_of,
    weight_scales,
    whole_weights,
)
from .samples import samples_of

# The number of samples on which the error of a single layer is measured.
MEASURED = 16


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer that is a sum of products. `error` is that of the outputs where only this layer is
    rounded, relative to their size; None where it was not measured."""

    node: str
    op: str
    error: typing.Optional[float]
    integers: bool
    why: str


@dataclasses.dataclass
class Quantised:
    """A quantised network: `model` is the ONNX file's bytes. `error` (relative root mean square),
    `cosine` (the smallest of all samples) and `agreement` (share of samples with the same largest
    element; None where the first output has no classes) are those on the given samples."""

    model: bytes
    error: float
    cosine: float
    agreement: typing.Optional[float]
    samples: int
    layers: list
    equalised: int
    # Layers of kinds that cannot be computed in integers.
    floats: list = dataclasses.field(default_factory=list)

    def save(self, path):
        write(path, self.model)

    def to_dict(self):
        rows = [dataclasses.asdict(layer) for layer in self.layers]
        return {
            "error": self.error,
            "cosine": self.cosine,
            "agreement": self.agreement,
            "samples": self.samples,
            "layers": rows,
            "floats": [dataclasses.asdict(layer) for layer in self.floats],
            "equalised": self.equalised,
        }

    def __str__(self):
        whole = sum(layer.integers for layer in self.layers)
        agreement = (
            "" if self.agreement is None else f", the same class for {100 * self.agreement:.2f} %"
        )
        lines = [
            f"{whole} of {len(self.layers)} layers are integers; on {self.samples} samples the error is {self.error:.2e} of the outputs, "
            f"the least cosine {self.cosine:.6f}{agreement}"
        ]
        for layer in self.layers:
            error = "" if layer.error is None else f"  error alone {layer.error:.2e}"
            lines.append(
                f"  {'integers' if layer.integers else 'floats  '}  {layer.op} '{printable(layer.node)}'{error}"
                + (f"  ({layer.why})" if layer.why else "")
            )
        return lines_text(lines + floats_text(self.floats))

    def __repr__(self):
        return f"<tc.Quantised of {len(self.model) / 1e6:.3f} MB, error {self.error:.2e} on {self.samples} samples>"

    def _repr_html_(self):
        from ..reporting.notebook import quantised_table

        return quantised_table(self)


@contextlib.contextmanager
def _steps(progress):
    """A function that begins a phase of so many steps and returns a function to call after each
    step."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if callable(progress) or not terminal or progress is False:
        tell = progress if callable(progress) else None
        if progress is True and sys.stderr is not None:
            tell = Line(sys.stderr)
        began = time.monotonic()

        def begin(phase, total):
            done = itertools.count(1)

            def step():
                if tell:
                    seconds = time.monotonic() - began
                    told = {"phase": phase, "done": next(done), "total": total, "seconds": seconds}
                    tell(told)

            return step

        yield begin
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as shown:

        def begin(phase, total):
            task = shown.add_task(phase, total=total)
            return lambda: shown.advance(task)

        yield begin


class _Work:
    """The state of one quantisation: the network, the samples and what has been measured."""

    def __init__(self, network, samples, options, begin):
        self.network, self.samples, self.options, self.begin = network, samples, options, begin
        self.shapes = {name: array.shape for name, array in samples[0].items()}
        self.is_float = float_values(network)
        self.sums = sums_of(network)
        if not self.sums:
            others = floating_layers(network, [], self.is_float)
            told = "; ".join(f"{node.op_type} '{node.name}': {why}" for node, why in others[:8]) + (
                f"; and {len(others) - 8} more" if len(others) > 8 else ""
            )
            raise UnsupportedError(
                f"{network.name} has no Conv, ConvTranspose, Gemm or MatMul by constants in float32: nothing would become "
                f"integers{f' ({told})' if told else ''}"
            )
        self.numbers, self.biases, self.expected = {}, {}, None

    def run(self, data, phase, samples=None):
        """The outputs for each sample, as lists of arrays."""
        from ..compiling import compile

        module = compile(
            data, self.options.target, shapes=self.shapes, threads=self.options.threads, log=False
        )
        samples = self.samples if samples is None else samples
        step = self.begin(phase, len(samples)) if phase else lambda: None
        for sample in samples:
            results = module.run(sample)
            step()
            yield results

    def measure_ranges(self):
        values = sorted(Places(self.network, self.sums, self.is_float).values)
        taken = [name for name in values if name in self.shapes]
        computed = [name for name in values if name not in self.shapes]
        ranges = {name: Range() for name in values}
        data = self.network.data(outputs=computed) if computed else None
        for phase, see in (
            ("ranges", lambda name, array: ranges[name].see_ends(array)),
            (
                "numbers",
                lambda name, array: ranges[name].see_numbers(array, self._axis(name, array)),
            ),
        ):
            found = self.run(data, phase) if computed else [{} for _ in self.samples]
            for sample, results in zip(self.samples, found):
                for name in values:
                    see(name, sample[name] if name in taken else results[name])
        for name, each in ranges.items():
            if not each.is_finite:
                raise UnsupportedError(
                    f"value '{name}' of {self.network.name} becomes NaN or infinite on the samples: no range follows; "
                    "python -m tc verify names the node"
                )
            self.numbers[name] = numbers_of(
                *each.ends(self.options.method, self.options.percentile)
            )
        # In the network's order, so that chains of such nodes get one scale.
        for node in self.network.nodes:
            if node.op_type in MOVES_ONLY and node.input[0] in self.numbers:
                self.numbers.update(
                    {
                        name: self.numbers[node.input[0]]
                        for name in node.output
                        if name in self.numbers
                    }
                )
        return ranges

    def _axis(self, name, array):
        """The axis of the value along which its readers' input channels are: the last axis for
        matrix products."""
        product = any(
            node.op_type in ("Gemm", "MatMul") and node.input[0] == name for node in self.sums
        )
        return array.ndim - 1 if product else min(1, array.ndim - 1)

    def correct_biases(self, ranges):
        """Subtracts from each layer's bias the average error that rounded weights add to its
        results."""
        for node in self.sums:
            if (
                node.op_type not in ("Conv", "Gemm")
                or attribute(node, "group", 1) != 1
                or ranges[node.input[0]].mean is None
            ):
                continue
            weights, bias = self.network.constant(node, 1), self.network.constant(node, 2)
            if len(node.input) > 2 and node.input[2] and (bias is None or bias.ndim != 1):
                continue
            scales, axis = weight_scales(node, weights, self.options.per_channel)
            wrong = whole_weights(weights, np.asarray(scales, np.float32), axis)[1] - weights
            wrong = wrong.reshape(*wrong.shape[:2], -1).sum(2) if node.op_type == "Conv" else wrong
            means = ranges[node.input[0]].means()
            rows = wrong if axis == 0 else wrong.T
            if rows.shape[1] != len(means):
                continue
            added = rows @ means
            self.biases[node.name] = ((0 if bias is None else bias) - added).astype(np.float32)

    def rounded(self, names):
        sums = [node for node in self.sums if node.name in names]
        return Rounded(
            self.network,
            Places(self.network, sums, self.is_float),
            self.numbers,
            self.options.per_channel,
            self.biases,
        ).data()

    def compare(self, names, phase, samples=None):
        """(error, smallest cosine, agreement) of the network in which these sums are computed in
        integers."""
        if self.expected is None:
            self.expected = list(self.run(self.network.data(), "floats"))
        wrong = size = 0.0
        least, same, counted = 1.0, 0, 0
        for results, expected in zip(self.run(self.rounded(names), phase, samples), self.expected):
            for number, (name, real) in enumerate(expected.items()):
                if real.dtype.kind != "f" or real.size == 0:
                    continue
                made, real = results[name].astype(np.float64), real.astype(np.float64)
                wrong, size = (
                    wrong + float(((made - real) ** 2).sum()),
                    size + float((real**2).sum()),
                )
                norms = np.linalg.norm(made) * np.linalg.norm(real)
                least = min(
                    least,
                    float((made * real).sum() / norms)
                    if norms
                    else float(np.linalg.norm(made) == np.linalg.norm(real)),
                )
                if number == 0 and real.ndim == 2 and real.shape[1] > 1:
                    same, counted = (
                        same + int((made.argmax(1) == real.argmax(1)).sum()),
                        counted + len(real),
                    )
        return (
            float(np.sqrt(wrong / size)) if size else float(wrong > 0),
            least,
            same / counted if counted else None,
        )

    def sensitivities(self):
        """{sum: error of the outputs where only this sum is rounded}."""
        step, found = self.begin("layers", len(self.sums)), {}
        for node in self.sums:
            found[node.name] = self.compare({node.name}, None, self.samples[:MEASURED])[0]
            step()
        return found

    def fewest_floats(self, ranked, most_error):
        """Which of the ranked sums stay in floats: the fewest of the worst that bring the error
        below the limit, or all where nothing does. Sums that are not ranked stay in floats
        anyway."""
        names = set(ranked)

        def enough(count):
            return (
                self.compare(names - set(ranked[:count]), f"{count} layers in floats")[0]
                <= most_error
            )

        low, high = 0, len(ranked)
        if enough(0):
            return set()
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return set(ranked[:high])


@dataclasses.dataclass(frozen=True)
class Options:
    """How tc.quantize rounds.

    method         how ranges follow from the numbers that were seen: "minmax", "percentile" or
                   "entropy"
    percentile     of "percentile": the share of numbers, in percent, that is inside
    per_channel    a scale for each channel of the weights
    equalise       balance the weights of neighbouring layers first
    correct_bias   take what rounded weights add on average from the biases
    most_error     mixed precision: the largest error of the outputs, relative; as few of the most
                   sensitive layers as bring it below stay floats
    floats         names of nodes that stay floats
    sensitivity    measure each layer's error alone; None does so where most_error is given
    target         for which the network is compiled to be measured, as in tc.compile
    threads        likewise"""

    method: str = "percentile"
    percentile: float = 99.99
    per_channel: bool = True
    equalise: bool = True
    correct_bias: bool = True
    most_error: typing.Optional[float] = None
    floats: typing.Sequence[str] = ()
    sensitivity: typing.Optional[bool] = None
    target: str = "native"
    threads: typing.Optional[int] = None

    @classmethod
    def of(cls, given):
        """The options from keyword arguments; a TypeError names an unknown one."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            if name not in known:
                raise TypeError(
                    f"quantize() got an unexpected option '{name}'; the options are {', '.join(known)}"
                )
        options = cls(**given)
        if options.method not in METHODS:
            raise Error(f"method is '{options.method}'; the methods are {', '.join(METHODS)}")
        if not 50 < options.percentile <= 100:
            raise Error(f"percentile is {options.percentile}; give a number over 50, at most 100")
        if options.most_error is not None and not options.most_error > 0:
            raise Error(
                f"most_error is {options.most_error}; give a number over 0, as 0.01 for one hundredth of the outputs"
            )
        return options


@bounded
def quantize(model, data, *, progress=None, **options):
    """Turns an ONNX network of floats into one of 8-bit integers (QDQ: u8 activations, i8 weights),
    whose ranges are measured on samples.

    data      samples: an array of them, or a list of arrays, tuples or dicts {input: array}; some
              hundred are usual
    progress  a callable that gets a dict now and then, True or False; default: a bar on a terminal
    options   those of tc.quantising.Options

    Returns a Quantised: .model, .save(path), its error, cosine and agreement on the samples, and
    its layers, the most sensitive first."""
    chosen = Options.of(options)
    network = Network(model)
    samples = samples_of(network, data)
    with _steps(progress) as begin:
        prepare.fold_normalisations(network)
        equalised = prepare.equalise(network) if chosen.equalise else 0
        work = _Work(network, samples, chosen, begin)
        names = {node.name for node in work.sums}
        for name in chosen.floats:
            if name not in names:
                raise Error(
                    f"floats: '{name}' is no Conv, ConvTranspose, Gemm or MatMul by constants of {network.name}"
                )
        ranges = work.measure_ranges()
        if chosen.correct_bias:
            work.correct_biases(ranges)
        mixed = chosen.most_error is not None
        errors = (
            work.sensitivities()
            if chosen.sensitivity or (chosen.sensitivity is None and mixed)
            else {}
        )
        ranked = sorted(names, key=lambda name: (-errors.get(name, 0), name))
        why = {name: "as asked for" for name in chosen.floats}
        if mixed:
            left = work.fewest_floats(
                [name for name in ranked if name not in why], chosen.most_error
            )
            why |= {name: f"the error would be over {chosen.most_error:g}" for name in left}
        error, cosine, agreement = work.compare(names - set(why), "result")
        result = work.rounded(names - set(why))
    layers = [
        Layer(
            node.name,
            node.op_type,
            errors.get(node.name),
            node.name not in why,
            why.get(node.name, ""),
        )
        for node in sorted(
            work.sums, key=lambda node: (-errors.get(node.name, 0), node.name) if errors else (0,)
        )
    ]
    others = [
        Layer(node.name, node.op_type, None, False, why)
        for node, why in floating_layers(network, work.sums, work.is_float)
    ]
    return Quantised(result, error, cosine, agreement, len(samples), layers, equalised, others)
