"""Archives of PyTorch, which run code where they are read: TorchScript, and what torch.export saves.

PyTorch's loader runs in a process behind the walls that hold candidates (docs/security.md). That process describes the model (recorder.py,
reader.py); this one looks into the archive before (contents.py), starts the other (walls.py), and builds the model of what comes back, which
it believes as little as a file (replay.py). Nothing here needs PyTorch until the description is there."""

from .reading import is_archive, read, trusted

__all__ = ["is_archive", "read", "trusted"]
