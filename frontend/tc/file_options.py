"""Options of the command line that say how a model's file is read, and that bound its nodes and
compile time."""

from .errors import ShapeError
from .parser import number


def add_file_options(added):
    """Gives a command's parser the options; returns the parser."""
    added.add_argument(
        "--open-initializer",
        action="append",
        default=[],
        metavar="NAME",
        help="have the model take an input that has an initializer too, which is a constant otherwise",
    )
    added.add_argument(
        "--data-folder",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a further folder into which symbolic links to external data may lead",
    )
    return add_bounds(added)


def add_bounds(added):
    """Adds only the options that bound nodes and compile time."""
    added.add_argument(
        "--max-nodes",
        type=number(int, 1, "a whole number"),
        metavar="COUNT",
        help="nodes that the model may have where functions stand in the place of their calls; default: 262144",
    )
    added.add_argument(
        "--compile-time-limit",
        type=number(float, 0, "a number"),
        metavar="SECONDS",
        help="give up where compiling takes longer; default: never",
    )
    return added


def add_size_versions(added):
    """Gives a command's parser the option that size_versions() reads."""
    added.add_argument(
        "--size-version",
        action="append",
        default=[],
        metavar="SIZES",
        help="compile steps of their own for runs of these sizes (tokens=1 or batch=1,tokens=1), into the same artefact",
    )


def add_states(added):
    """Gives a command's parser the option that states_of() reads."""
    added.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="INPUT=OUTPUT",
        help="an output that is this input of the next run: kinds 'bare' and 'c' keep it in their arena",
    )


def states_of(arguments):
    """{input: output} from --state INPUT=OUTPUT, as tc.compile takes it."""
    states = {}
    for text in getattr(arguments, "state", []):
        before, _, behind = text.partition("=")
        if not before or not behind:
            raise ShapeError(f"--state takes INPUT=OUTPUT, not '{text}'")
        states[before] = behind
    return states


def size_versions(arguments):
    """[{symbol: size}] from --size-version batch=1,tokens=1, as tc.compile takes it."""
    versions = []
    for text in getattr(arguments, "size_version", []):
        pairs = [each.partition("=") for each in text.split(",")]
        if not all(name and size.isascii() and size.isdigit() for name, _, size in pairs):
            raise ShapeError(f"--size-version takes SYMBOL=1 or SYMBOL=1,SYMBOL=4, not '{text}'")
        versions.append({name: int(size) for name, _, size in pairs})
    return versions


def file_options(arguments):
    """The options as tc.compile and tc.check take them."""
    return {
        "open_initializers": arguments.open_initializer,
        "data_folders": arguments.data_folder,
        **bounds(arguments),
    }


def bounds(arguments):
    """The options of add_bounds, as tc.compile, tc.tune, tc.verify and tc.kernels take them."""
    return {"max_nodes": arguments.max_nodes, "compile_time_limit": arguments.compile_time_limit}
