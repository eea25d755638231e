"""Archives of PyTorch, which can run code when they are read: TorchScript, and what torch.export
saves.

PyTorch's loader runs in a process behind the walls that hold candidates (docs/security.md). That
process describes the model (recorder.py, reader.py); this process first looks into the archive
(contents.py), starts the other one (walls.py), and builds the model from the description that comes
back, which it trusts as little as a file (replay.py). Nothing here needs PyTorch until the
description has arrived."""

_NAMES = ("is_archive", "read", "trusted")


def __getattr__(name):
    # Imported on first use: running a compiled model needs none of this.
    if name not in _NAMES:
        raise AttributeError(f"module 'tc.archives' has no attribute '{name}'")
    from . import reading

    return getattr(reading, name)
