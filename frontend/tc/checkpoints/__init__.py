"""Language models in folders as the package transformers writes them: config.json, safetensors
files, tokenizer.json. They are read as if they were GGUF files: by the same table of architectures
(tc.gguf.architectures), in the same graphs."""

from .folder import open_folder
from .tokenizer import FolderTokenizer

__all__ = ["FolderTokenizer", "open_folder"]
