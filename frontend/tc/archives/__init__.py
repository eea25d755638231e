"""Archives of PyTorch, which run code where they are read: TorchScript, and what torch.export saves.

PyTorch's loader runs in a process behind the walls that hold candidates (docs/security.md). That process describes the model (recorder.py,
reader.py); this one looks into the archive before (contents.py), starts the other (walls.py), and builds the model of what comes back, which
it believes as little as a file (replay.py). Nothing here needs PyTorch until the description is there."""

_NAMES = ("is_archive", "read", "trusted")


def __getattr__(name):
    # Running a compiled model needs none of it.
    if name not in _NAMES:
        raise AttributeError(f"module 'tc.archives' has no attribute '{name}'")
    from . import reading

    return getattr(reading, name)
