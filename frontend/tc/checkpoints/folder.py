"""A folder as a file of tc.gguf."""

import dataclasses
import os
import typing

import numpy as np

from ..errors import ModelError, printable
from ..gguf.file import File, Tensor
from ..gguf.weights import floats_in
from .configuration import Configuration
from .tensors import MAX_JSON, expert_of, files_of, gguf_name, read_json, tensors_of

CONFIGURATION = "config.json"


@dataclasses.dataclass(frozen=True)
class FolderFile(File):
    """A folder's model in the form of a GGUF file: fields and tensors have the names that such
    files give them. `contents` has the bytes of the tensors, `path` is the folder."""

    kind: typing.ClassVar[str] = "folder of a model"

    path: str = ""
    # {name: parts of its bytes, of which experts have one each}
    contents: dict = dataclasses.field(default_factory=dict)

    def bytes_of(self, tensor):
        parts = [np.frombuffer(part, np.uint8) for part in self.contents[tensor.name]]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def open_folder(path):
    """The FolderFile of a folder."""
    path = os.path.abspath(os.fsdecode(path))
    name = os.path.basename(path)
    configuration = Configuration(
        printable(name), read_json(os.path.join(path, CONFIGURATION), "configuration of a model")
    )
    fields, more = configuration.fields()
    tensors, contents, experts = {}, {}, {}

    def add(own, kind, shape, *parts):
        if own in tensors:
            raise ModelError(f"'{printable(name)}' has the tensor '{printable(own)}' twice")
        tensors[own] = Tensor(own, kind, shape, 0, sum(map(len, parts)))
        contents[own] = parts

    for file in files_of(path):
        for theirs, (kind, shape, content) in tensors_of(os.path.join(path, file)).items():
            if theirs == "lm_head.weight" and configuration.values.get("tie_word_embeddings"):
                continue  # the embedding's
            if (expert := expert_of(theirs)) is not None:
                experts.setdefault(expert[0], []).append((expert[1], kind, shape, content))
                continue
            own = gguf_name(theirs, configuration.row.post_norms) or theirs
            if own.endswith("gate_inp_shexp.weight"):
                shape = shape[-1:]  # of one row, which GGUF files have as a vector
            if configuration.row.scaled_embedding and own.endswith("norm.weight"):
                # Gemma's norms multiply by one more than their weights.
                numbers = floats_in(np.frombuffer(content, np.uint8), kind) + np.float32(1)
                kind, content = "F32", memoryview(numbers).cast("B")
            add(own, kind, shape, content)
    for own, found in experts.items():
        found.sort(key=lambda each: each[0])
        numbers, kinds, shapes, parts = zip(*found)
        if numbers != tuple(range(len(found))) or len({*zip(kinds, shapes)}) > 1:
            raise ModelError(
                f"'{printable(name)}' is damaged: experts of '{own}' are missing, there twice, or of "
                "several shapes; fetch the folder again"
            )
        add(own, kinds[0], (len(found), *shapes[0]), *parts)
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
