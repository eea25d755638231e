"""Models of PyTorch for the tests: compiled, saved, and in the forms in which people have them."""

import contextlib
import warnings

import torch

from tc.torch.backend import CompiledGraph


def assert_close(actual, expected, tolerance=1e-5):
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def saved(folder, script, name="model.pt"):
    path = folder / name
    script.save(str(path))
    return path


def roads(module, examples, folder):
    """The module in the forms in which people have it."""
    exported = torch.export.export(module, examples, strict=False)
    torch.export.save(exported, str(folder / "exported.pt2"))
    yield "live", module, examples
    yield "exported", exported, None
    yield "pt2", folder / "exported.pt2", None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(module, examples)
        yield "archive", saved(folder, traced), examples
        with contextlib.suppress(Exception):  # not every module can be scripted
            yield "scripted", torch.jit.script(module), examples


def captured(module, examples):
    """What torch.compile gives its back end, as that compiles it; nothing where it breaks the
    module into several graphs, as it does at torch.nn.GRU."""
    found = []

    def keep(graph_module, inputs):
        found.append((CompiledGraph(graph_module, {}), inputs))
        return graph_module.forward

    # Networks before met other sizes: their code would leave the sizes of this one open.
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(module, backend=keep)(*examples)
    if len(found) == 1:
        graph, inputs = found[0]
        yield "torch.compile", *graph.bound(inputs)
