"""A folder as a file of tc.gguf."""

import dataclasses
import os
import typing

import numpy as np

from ..errors import ModelError, printable
from ..gguf.file import File, Tensor
from ..gguf.weights import floats_in
from .configuration import Configuration
from .tensors import MAX_JSON, files_of, gguf_name, read_json, tensors_of

CONFIGURATION = "config.json"


@dataclasses.dataclass(frozen=True)
class FolderFile(File):
    """A folder's model in the form of a GGUF file: fields and tensors have the names that such
    files give them. `contents` has the bytes of the tensors, `path` is the folder."""

    kind: typing.ClassVar[str] = "folder of a model"

    path: str = ""
    contents: dict = dataclasses.field(default_factory=dict)  # {name: bytes}

    def bytes_of(self, tensor):
        return np.frombuffer(self.contents[tensor.name], np.uint8)


def open_folder(path):
    """The FolderFile of a folder."""
    path = os.path.abspath(os.fsdecode(path))
    name = os.path.basename(path)
    configuration = Configuration(
        printable(name), read_json(os.path.join(path, CONFIGURATION), "configuration of a model")
    )
    fields, more = configuration.fields()
    tensors, contents = {}, {}

    def add(own, kind, shape, content):
        if own in tensors:
            raise ModelError(f"'{printable(name)}' has the tensor '{printable(own)}' twice")
        tensors[own] = Tensor(own, kind, shape, 0, len(content))
        contents[own] = content

    for file in files_of(path):
        for theirs, (kind, shape, content) in tensors_of(os.path.join(path, file)).items():
            if theirs == "lm_head.weight" and configuration.values.get("tie_word_embeddings"):
                continue  # the embedding's
            own = gguf_name(theirs, configuration.row.post_norms) or theirs
            if configuration.row.scaled_embedding and own.endswith("norm.weight"):
                # Gemma's norms multiply by one more than their weights.
                numbers = floats_in(np.frombuffer(content, np.uint8), kind) + np.float32(1)
                kind, content = "F32", memoryview(numbers).cast("B")
            add(own, kind, shape, content)
    for own, numbers in more.items():
        add(own, "F32", numbers.shape, memoryview(numbers).cast("B"))
    fields["tokenizer.chat_template"] = _template(path)
    if fields["tokenizer.chat_template"] is None:
        del fields["tokenizer.chat_template"]
    return FolderFile(
        name=name,
        fields=fields,
        tensors=tensors,
        data=memoryview(b""),
        path=path,
        contents=contents,
        row=configuration.row,
    )


def _template(path):
    """The template for chats: a file of its own, or a part of the tokenizer's configuration."""
    separate = os.path.join(path, "chat_template.jinja")
    if os.path.isfile(separate):
        with open(separate, "rb") as file:
            data = file.read(MAX_JSON)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ModelError("'chat_template.jinja' is no text in UTF-8") from None
    settings = os.path.join(path, "tokenizer_config.json")
    if not os.path.isfile(settings):
        return None
    return read_json(settings, "configuration of a tokenizer").get("chat_template")
