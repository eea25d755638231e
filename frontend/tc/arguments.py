"""Checks the options of the calls and turns them into the compiler's own."""

import dataclasses
import itertools
import os

import numpy as np

from .accelerator import load_for
from .composites import forms_in, set_forms
from .errors import Error, ShapeError, UnsupportedError
from .native import compiler
from .parser import TOLERANCE
from .ports import BIT_TYPES, NUMPY_NAMES
from .sizes import size_option
from .sources import source_of

# Meanings of a quantised network: what evaluating each node in floats gives ("exact"), or sums
# scaled in fixed point ("fast").
MEANINGS = ("exact", "fast")
# Which numbers of float16 and bfloat16 are rounded to their type: those that are stored or cast, or
# the result of every operator.
ROUNDINGS = ("stored", "each")
# Where an artefact has its weights: inside, or in a file beside it.
WEIGHTS = ("inside", "separate")


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of tc.compile; its docstring says what each may be."""

    target: str = "native"
    shapes: dict | None = None
    size_versions: dict | list | None = None
    threads: int | None = None
    build_threads: int | None = None
    tolerance: float = TOLERANCE
    seed: int = 0
    dump: str | None = None  # name of a graph pass, or "all"
    max_ram: int | str | None = None
    max_flash: int | str | None = None
    quantised: str = "exact"
    rounding: str = "stored"
    weights: str = "inside"
    states: tuple = ()  # as StatefulModule takes them
    open_initializers: tuple = ()
    data_folders: tuple = ()
    max_nodes: int | None = None
    compile_time_limit: float | None = None


def options_of(options=Options()):
    """The options as the compiler takes them, checked."""
    result = compiler.Options()
    if not isinstance(options.target, str):
        raise Error(
            f"target is {options.target!r}; give a name of tc.targets(), or leave it out for this machine's processor"
        )
    load_for(options.target)
    if not _is_whole(options.seed) or not 0 <= options.seed < 1 << 64:
        raise Error(f"seed is {options.seed!r}; give a whole number from 0 to 2^64 - 1")
    result.target, result.seed, result.dump = options.target, int(options.seed), options.dump or ""
    forms, shapes = forms_in(shapes_option(options.shapes))
    result.symbols, result.input_shapes = _sizes_of(shapes)
    set_forms(result, forms)
    result.size_versions = size_versions_of(options.size_versions)
    for name in "threads", "build_threads":
        setattr(result, name, thread_count(name, getattr(options, name)))
    if (
        not isinstance(options.tolerance, (int, float, np.integer, np.floating))
        or not options.tolerance >= 0
    ):
        raise Error(f"tolerance is {options.tolerance!r}; give a number of at least 0")
    result.tolerance = float(options.tolerance)
    result.max_ram = size_option("max_ram", options.max_ram, "half of this machine's memory")
    result.max_flash = size_option("max_flash", options.max_flash, "constants as a part of max_ram")
    if options.quantised not in MEANINGS:
        raise Error(
            f"quantised is {options.quantised!r}; give {' or '.join(repr(name) for name in MEANINGS)}"
        )
    result.quantised = options.quantised
    if options.rounding not in ROUNDINGS:
        raise Error(
            f"rounding is {options.rounding!r}; give {' or '.join(repr(name) for name in ROUNDINGS)}"
        )
    result.rounding = options.rounding
    if options.weights not in WEIGHTS:
        raise Error(
            f"weights is {options.weights!r}; give {' or '.join(repr(name) for name in WEIGHTS)}"
        )
    result.weights = options.weights
    if options.max_nodes is not None:
        if not _is_whole(options.max_nodes) or not 1 <= options.max_nodes < 1 << 31:
            raise Error(
                f"max_nodes is {options.max_nodes!r}; give a whole number from 1 to 2^31 - 1, or None for {result.max_nodes}"
            )
        result.max_nodes = int(options.max_nodes)
    if options.compile_time_limit is not None:
        if not _is_number(options.compile_time_limit) or not options.compile_time_limit > 0:
            raise Error(
                f"compile_time_limit is {options.compile_time_limit!r}; give a number of seconds above 0, or None for any"
            )
        result.compile_time_limit = float(options.compile_time_limit)
    for name, before, behind, initial in options.states:
        value = b"" if initial is None else np.ascontiguousarray(initial).tobytes()
        result.add_state(name, before, behind, value if value.strip(b"\0") else b"")
    result.open_initializers = set(_names("open_initializers", options.open_initializers))
    result.data_folders = [
        os.fspath(folder) for folder in _names("data_folders", options.data_folders)
    ]
    return result


def _names(option, given):
    """The option's list of names or paths, checked."""
    if given is None:
        return []
    if isinstance(given, (str, bytes, os.PathLike)) or not all(
        isinstance(each, (str, os.PathLike)) for each in given
    ):
        raise Error(
            f"{option} is {given!r}; give a list of {'folders' if option == 'data_folders' else 'names'}"
        )
    return list(given)


def shapes_option(shapes):
    """The dictionary that a call was given as `shapes`, checked."""
    if shapes is not None and not isinstance(shapes, dict):
        raise ShapeError(
            f"shapes is {shapes!r}; give a dictionary: {{'batch': 1}} for a symbol, {{'input': (1, 3, 224, 224)}} for an input"
        )
    return shapes or {}


def thread_count(name, count):
    """The number of threads that an option asks for; 0 where it leaves that open."""
    if count is not None and not (_is_whole(count) and 1 <= count <= 1024):
        raise Error(
            f"{name} is {count!r}; give a whole number from 1 to 1024, or None for all cores"
        )
    return int(count or 0)


def _is_whole(value):
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_number(value):
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _sizes_of(shapes):
    """{symbol: size} and {input: sizes} from what the user gave as `shapes`; -1 leaves a size
    open."""
    symbols, inputs = {}, {}
    for name, value in shapes.items():
        if isinstance(value, (int, np.integer)):
            symbols[name] = int(value)
            continue
        try:
            inputs[name] = [-1 if size is None else int(size) for size in value]
        except (TypeError, ValueError):
            raise ShapeError(
                f"shapes: '{name}' is {value!r}; give a number for a symbol, or a tuple "
                "of numbers (None leaves one open) for an input"
            ) from None
    for name, size in [(n, s) for n, s in symbols.items()] + [
        (n, s) for n, sizes in inputs.items() for s in sizes
    ]:
        if size < (0 if name in symbols else -1):
            raise ShapeError(f"shapes: '{name}' has the size {size}")
    return symbols, inputs


def size_versions_of(given):
    """[{symbol: size}] from what the user gave as `size_versions`: for a dictionary one for each
    combination of its sizes; a list is returned as it is."""
    if isinstance(given, dict):
        sizes = [[size] if _is_whole(size) else size for size in given.values()]
        if any(isinstance(each, (str, bytes)) or not hasattr(each, "__iter__") for each in sizes):
            raise _wrong_versions(given)
        versions = [dict(zip(given, each)) for each in itertools.product(*sizes)] if given else []
    else:
        versions = given
    if versions is None:
        return []
    if not isinstance(versions, (list, tuple)) or not all(
        isinstance(each, dict) and each for each in versions
    ):
        raise _wrong_versions(given)
    for each in versions:
        if not all(
            isinstance(name, str) and _is_whole(size) and 0 <= size < 1 << 31
            for name, size in each.items()
        ):
            raise _wrong_versions(given)
    return [{name: int(size) for name, size in each.items()} for each in versions]


def _wrong_versions(given):
    return ShapeError(
        f"size_versions is {given!r}; give the sizes of symbols, {{'tokens': [1]}}, or a list of versions, [{{'batch': 1, 'frames': 1}}, {{'frames': 1}}]"
    )


def set_values(options, model, values):
    """Makes the inputs in `values` constants of the model that is compiled with the options."""
    if not values:
        return
    source = source_of(model)
    try:
        given = compiler.signature(source, options)[1]
    except UnsupportedError as error:
        if error.strings:
            raise UnsupportedError(
                f"{source.name} works on strings, and values= is not supported for such models; make the inputs "
                f"constants of the file: {', '.join(values)}"
            ) from None
        raise
    declared = {name: (dtype, shape, kind) for name, dtype, shape, kind in given}
    for name, value in values.items():
        if name not in declared:
            raise ShapeError(
                f"values: '{name}' is no input of {source.name}; its inputs are {', '.join(declared)}"
            )
        dtype, shape, kind = declared[name]
        if kind != "tensor":
            raise UnsupportedError(
                f"values: input '{name}' of {source.name} is no tensor ({kind}); give the shapes of its tensors "
                f"with shapes={{'{name}': [...]}}"
            )
        wanted = np.dtype(BIT_TYPES.get(NUMPY_NAMES[dtype], NUMPY_NAMES[dtype]))
        array = np.asarray(value)
        if shape == () and array.size == 1:
            array = array.reshape(())
        if not hasattr(value, "dtype") and np.can_cast(array.dtype, wanted, "same_kind"):
            array = array.astype(wanted)
        if array.dtype != wanted:
            raise ShapeError(
                f"values: '{name}' is {array.dtype}; input '{name}' of {source.name} takes {wanted}"
            )
        options.set_value(name, dtype, list(array.shape), array.tobytes())
