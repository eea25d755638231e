"""Options of the command line that say which model is meant, for which machine, sizes and inputs;
and what a command makes of them."""

import numpy as np

from .arguments import MEANINGS, ROUNDINGS, WEIGHTS
from .compiling import compile, load
from .errors import ModelError, ShapeError
from .file_options import add_file_options, bounds, file_options, size_versions, states_of
from .formats import takes_examples
from .given_files import begin_of, read_array
from .kinds import kind_row
from .parser import add_running, number
from .placement import places_of
from .ports import BIT_TYPES, NUMPY_NAMES
from .seeded import seeded_array
from .sizes import flash_limit, size_argument

MODEL = "a model's file; `formats` lists those that are read"
MODEL_OR_ARTEFACT = "a model's file, or an artefact (.so)"


def shapes_of(arguments):
    """{name: number or tuple} from --shape NAME=1,3,224,224 and --shape SYMBOL=1; for inputs that
    are no tensors a list from --shape NAME=2,3;4,3, and None from --shape NAME=none."""

    def of(sizes):
        return tuple(
            None if size == "?" else int(size) for size in sizes.removesuffix(",").split(",")
        )

    shapes = {}
    for text in arguments.shape:
        name, equals, sizes = text.rpartition("=")
        if equals and sizes == "none":
            shapes[name] = None
            continue
        try:
            values = (
                [of(part) for part in sizes.removesuffix(";").split(";")]
                if ";" in sizes
                else of(sizes)
            )
        except ValueError:
            values = None
        if not equals or values is None:
            raise ShapeError(f"--shape takes NAME=1,3,224,224 or SYMBOL=1, not '{text}'")
        if isinstance(values, list):
            shapes[name] = values
            continue
        # One number is a symbol's value; "NAME=5," is the shape of an input of rank 1.
        shapes[name] = values[0] if len(values) == 1 and not sizes.endswith(",") else values
    return shapes


def values_of(arguments):
    """{input: numbers} from --value NAME=1,2."""
    values = {}
    for text in arguments.value:
        name, equals, numbers = text.rpartition("=")
        try:
            values[name] = [
                float(number) if set(number) & set(".en") else int(number)
                for number in numbers.split(",")
                if number
            ]
        except ValueError:
            equals = ""
        if not equals:
            raise ShapeError(f"--value takes NAME=1,2, not '{text}'")
    return values


def examples_of(arguments):
    """Example inputs of a model of PyTorch: --input NAME=1,3,224,224:f32 is seeded data,
    NAME=FILE.npy the array in the file, NAME=3 a number. None where none are given or the model
    takes none."""
    given = getattr(arguments, "input", [])
    if not given or not takes_examples(arguments.model):
        return None
    random = np.random.default_rng(getattr(arguments, "seed", 0))
    examples = {}
    for text in given:
        name, _, value = text.partition("=")
        sizes, _, dtype = value.partition(":")
        try:
            if value.endswith(".npy"):
                examples[name] = array_in(name, value)
            elif dtype or "," in sizes:
                shape = [int(size) for size in sizes.split(",") if size]
                examples[name] = seeded_array(random, NUMPY_NAMES.get(dtype or "f32", dtype), shape)
            else:
                examples[name] = int(value) if value.lstrip("-").isdigit() else float(value)
        except (ValueError, TypeError):
            raise ShapeError(
                f"--input takes NAME=1,3,224,224:f32, NAME=FILE.npy or NAME=3 of a model of PyTorch, not '{text}'"
            ) from None
    return examples


def array_in(name, path):
    try:
        return read_array(path)
    except ModelError as error:
        raise ModelError(f"input '{name}': {error}") from None


def is_artefact(path):
    return begin_of(path, 4) == b"\x7fELF"


def progress_of(arguments):
    """A command's value for progress=: True (a line on a terminal, in a pipe a line each ten
    seconds), or False where the command prints JSON."""
    return not arguments.json


def verify_options(arguments):
    """What a command passes to verify() besides model, target and inputs."""
    return {
        "shapes": shapes_of(arguments),
        "threads": arguments.threads,
        "tolerance": arguments.tolerance,
        "seed": arguments.seed,
        "log": arguments.log or None,
        "max_ram": arguments.max_ram,
        "quantised": arguments.quantised,
        "rounding": arguments.rounding,
        "examples": examples_of(arguments),
        "progress": progress_of(arguments),
        **bounds(arguments),
    }


def module_of(arguments):
    """The module of the command: the artefact loaded, or the model compiled."""
    if is_artefact(arguments.model):
        return load(arguments.model, threads=arguments.threads)
    tuning = {"log": arguments.log or None}
    if getattr(arguments, "tune", False):
        tuning = {"tune": True, **tuning_options(arguments)}
    kind = getattr(arguments, "kind", None)
    threads = 1 if kind and kind_row(kind)["one_thread"] else arguments.threads
    module = compile(
        arguments.model,
        arguments.target,
        inputs=examples_of(arguments),
        shapes=shapes_of(arguments),
        size_versions=size_versions(arguments),
        values=values_of(arguments),
        threads=threads,
        tolerance=arguments.tolerance,
        seed=arguments.seed,
        max_ram=getattr(arguments, "max_ram", None),
        max_flash=flash_limit(arguments),
        quantised=arguments.quantised,
        rounding=arguments.rounding,
        weights=getattr(arguments, "weights", "inside"),
        place=places_of(arguments),
        states=states_of(arguments),
        **file_options(arguments),
        **{"progress": progress_of(arguments), **tuning},
    )
    # Files hold tensors, so sequences are read and written as an artefact does it: as tensors
    # "NAME[0]", ...
    return module.of_tensors()


def given_inputs(module, arguments):
    """{input: array} from --input NAME=FILE.npy."""
    arrays = {}
    names = {port.name: port for port in module.inputs}
    for text in arguments.input:
        fitting = [name for name in names if text.startswith(name + "=")]
        if not fitting and takes_examples(arguments.model):
            continue  # a number
        if not fitting:
            raise ShapeError(
                f"--input takes NAME=FILE.npy, not '{text}'; the inputs are {', '.join(names)}"
            )
        name = max(fitting, key=len)
        path = text[len(name) + 1 :]
        if not path.endswith(".npy") and takes_examples(arguments.model):
            continue  # an example, from which the model was compiled
        arrays[name] = array_in(name, path)
        bits = np.dtype(BIT_TYPES.get(names[name].dtype, object))
        if (
            arrays[name].dtype.kind == "V"
            and arrays[name].dtype.itemsize == bits.itemsize
            and not bits.hasobject
        ):
            arrays[name] = arrays[name].view(bits)  # ml_dtypes' types are written as raw bytes
    return arrays


def seeded_inputs(module, arguments, but=()):
    """Seeded data for all inputs except those that are given; --shape binds symbols and shapes."""
    random = np.random.default_rng(arguments.seed)
    shapes = shapes_of(arguments)
    arrays = {}
    for port in module.inputs:
        wanted = shapes.get(port.name)
        wanted = wanted if isinstance(wanted, tuple) else port.shape
        sizes = [shapes.get(size, size) if isinstance(size, str) else size for size in wanted]
        if port.name in but:
            continue
        for size in sizes:
            if not isinstance(size, int):
                raise ShapeError(
                    f"input '{port.name}' has the open size '{size}'; bind it with --shape {size}=1"
                )
        arrays[port.name] = seeded_array(random, port.dtype, sizes)
    return arrays


def tuning_options(arguments):
    return {
        "trials": arguments.trials,
        "time_limit": arguments.time_limit,
        "log": arguments.log,
        "tracker": arguments.tracker,
        "credentials": arguments.credentials,
        "insecure": arguments.insecure,
        "builders": arguments.builders,
        "progress": not arguments.json,
    }


def add_compiling(added):
    """Gives a command's parser the options that say how a model is compiled."""
    added.add_argument("--target", default="native", help="see `targets`; default: native")
    added.add_argument(
        "--cpu",
        metavar="CORE",
        default="",
        help="plan for this core (docs/targets.md): cortex-a53, sifive-x280, znver4 ...; without --target also for what it has",
    )
    added.add_argument(
        "--accelerator",
        metavar="FILE",
        help="the target has the accelerator that this file describes, which is executed (docs/accelerators.md)",
    )
    add_running(added, "error budget, relative to an output's largest magnitude")
    added.add_argument("--seed", type=number(int, 0, "a whole number"), default=0)
    added.add_argument(
        "--max-ram",
        type=size_argument,
        metavar="SIZE",
        help="memory that the model may use (256KB, 1MiB); default: half of this machine's",
    )
    added.add_argument(
        "--quantised",
        choices=MEANINGS,
        default="exact",
        help="networks of integers: as the unfused evaluation in floats (exact), or scaled in fixed point (fast)",
    )
    added.add_argument(
        "--rounding",
        choices=ROUNDINGS,
        default="stored",
        help="float16 and bfloat16: rounded where they are stored or cast (stored), or the result of every operator (each)",
    )
    added.add_argument(
        "--log",
        metavar="FILE",
        help="path or URL of tuning records; default: $TC_LOG, else the user's cache folder",
    )


def add_weights(added):
    """Gives a command's parser the option that says where the artefact has its weights."""
    added.add_argument(
        "--weights",
        choices=WEIGHTS,
        default="inside",
        help="inside the artefact, or in a file beside it that artefacts and processes share (separate)",
    )


def add_model(added, which):
    """Gives a command's parser the model, and the options that any command takes that reads one."""
    added.add_argument("model", help=which)
    added.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="bind a symbol (batch=1) or an input's shape (x=1,3,224,224)",
    )
    added.add_argument(
        "--trust-archive",
        action="store_true",
        help="of a file of PyTorch: run what is in it, unheld",
    )


def add_examples(added):
    """Gives a command's parser the option that examples_of() and given_inputs() read."""
    added.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an array; of a model of PyTorch also an example, NAME=1,3,224,224:f32, or a number, NAME=3",
    )


def add_values(added):
    """Gives a command's parser the options of files, and the one that values_of() reads."""
    add_file_options(added).add_argument(
        "--value",
        action="append",
        default=[],
        metavar="NAME=NUMBERS",
        help="make an input a constant",
    )


def add_inputs(added):
    """Gives a command's parser all options of what is put into the model."""
    add_values(added)
    add_examples(added)
