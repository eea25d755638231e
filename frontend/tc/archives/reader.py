"""The sandboxed program ("behind walls"): opens the archive with PyTorch's own loader, describes
the model, and writes the description.

Any code that runs here may come from the archive. What this process may do is decided by its walls
(runtime/agent/walls_main.cc) and by the limits that it gives itself before it opens the archive."""

import importlib
import json
import mmap
import os
import resource
import sys
import tempfile

ARCHIVE = "/candidate"
# File descriptors of the memory for tensors, and of the answer.
STORE, ANSWER = 10, 11
READY = b"ready\n"


def main():
    """Reads the request from standard input, reports when PyTorch is imported, and then writes the
    result."""
    request = json.load(sys.stdin)
    # PyTorch wants a user and a home folder, which do not exist here; and reading uses one thread.
    os.environ.update(OMP_NUM_THREADS="1", USER="nobody", HOME="/", TORCHINDUCTOR_CACHE_DIR="/")
    tempfile.tempdir = "/"
    _import_all(request["packages"])
    _limit(request["memory"], request["seconds"])
    os.write(ANSWER, READY)
    answer = json.dumps(_answered(request)).encode()
    while answer:
        answer = answer[os.write(ANSWER, answer) :]


def _import_all(packages):
    """Imports everything that reading needs before limits are set, so that the memory and time of
    the imports do not count for the model."""
    from ..native import compiler
    from . import recorder

    for kind in "DescribedNode", "GraphDescription", "ModelDescription":
        setattr(compiler, kind, getattr(recorder, kind))
    for name in (
        "torch",
        *packages,
        "torch.export",
        "torch.export._trace",
        "torch._export.serde.serialize",
        "torch._inductor.cpp_builder",
    ):
        importlib.import_module(name)
    importlib.import_module("..torch.models", __package__)


def _limit(memory, seconds):
    """Limits the process to so many bytes of address space in addition to the present ones, and to
    so many seconds of processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    end = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (end, end))
    most = _address_space() + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _address_space():
    """The size of this process's address space. /proc, which would tell it, does not exist here, so
    this searches for the lowest limit under which one more page can be mapped."""
    page, low, high = mmap.PAGESIZE, 0, 1 << 47
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    while high - low > page:
        middle = (low + high) // 2
        resource.setrlimit(resource.RLIMIT_AS, (middle, hard))
        try:
            mmap.mmap(-1, page).close()
            high = middle
        except (OSError, MemoryError):
            low = middle
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    return high


def _answered(request):
    """The answer: the description of the model, or an error."""
    from ..errors import Error
    from .contents import is_of_memory, sentence_of

    try:
        return _described(request)
    except Error as error:
        return {"error": [type(error).__name__, str(error), list(getattr(error, "problems", ()))]}
    except MemoryError:
        return {"error": ["MemoryError", "", []]}
    except BaseException as error:  # noqa: BLE001 - whatever its code raises, exits included
        if is_of_memory(error):
            return {"error": ["MemoryError", "", []]}
        return {
            "error": [
                "ModelError",
                f"{request['name']} cannot be read: {type(error).__name__}: {sentence_of(error)}",
                [],
            ]
        }


def _described(request):
    from ..torch.archive import open_archive
    from ..torch.models import ExportedModel, ScriptModel
    from . import values
    from .recorder import ModelDescription, Store

    ModelDescription.store = Store(STORE, request["store"])
    _leave_out_sample_inputs()
    name = request["name"]
    loaded = open_archive(ARCHIVE, name, request["kind"])
    given = {
        key: values.read(request[key], _example) for key in ("inputs", "shapes", "call", "state")
    }
    if request["kind"] == "torch.export":
        model = ExportedModel(loaded, name, given["shapes"])
        return _answer(model.program, {})
    model = ScriptModel(
        loaded, name, given["inputs"], given["shapes"], again=(given["call"], given["state"])
    )
    arguments = [
        [each.name, each.type, each.has_default, values.written(each.default, _stored)]
        for each in model.arguments
    ]
    program = model.program_of_artefact() if request["artefact"] else model.program
    return _answer(
        program, {"arguments": arguments, "state": values.written(model.first_state, _stored)}
    )


def _leave_out_sample_inputs():
    """Makes PyTorch skip the sample inputs, which are a pickle and not needed for the model."""
    from torch.export.pt2_archive import _package

    read = _package.PT2ArchiveReader.read_bytes
    _package.PT2ArchiveReader.read_bytes = lambda self, name: (
        b"" if name.startswith("data/sample_inputs/") else read(self, name)
    )


def _example(row):
    """An example input of this type and shape. Its numbers are random: the user's own are not sent
    here."""
    import torch

    name, shape, strides = row
    dtype = getattr(torch, name)
    count = (
        1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if all(shape) else 0
    )
    numbers = (
        torch.randn(count).to(dtype)
        if dtype.is_floating_point or dtype.is_complex
        else torch.zeros(count, dtype=dtype)
    )
    return numbers.as_strided(shape, strides)


def _stored(tensor):
    """A tensor of the model for the answer: its numbers go into the shared memory."""
    import torch

    from ..torch.describe import array_of
    from .recorder import ModelDescription

    tensor = torch.as_tensor(tensor)
    numbers = (
        torch.view_as_real(tensor.detach().cpu().resolve_conj())
        if tensor.dtype.is_complex
        else tensor
    )
    return [
        str(tensor.dtype).removeprefix("torch."),
        list(tensor.shape),
        ModelDescription.store.add(array_of(numbers)),
    ]


def _answer(program, further):
    from torch.utils import _pytree as pytree

    from . import values

    def plain(value):
        return values.written(value, _stored)

    def structure(spec):
        return plain(pytree.tree_unflatten([0] * spec.num_leaves, spec))

    return {
        **further,
        "model": program.source.written(),
        "inputs": program.inputs,
        "leaves": program.leaves,
        "fixed": plain(program.fixed),
        "takes": structure(program.in_spec),
        "gives": structure(program.out_spec),
        "results": [[kind, plain(what)] for kind, what in program.results],
        "writes": [list(each) for each in program.writes],
        "buffers": plain(program.buffers),
        "dtypes": plain(program.dtypes),
        "complex": plain(program.complex_inputs),
        "started": plain(program.started),
        "after": plain(program.after),
    }
