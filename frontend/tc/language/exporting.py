"""A language model as a program: one static executable that generates from numbers of tokens, and
from texts with the file of a tokenizer (runtime/generate.cc)."""

import os

from ..errors import Error, bounded
from ..files import replaced
from .generating import WHAT_GENERATES, generates_text
from .tokenizer_file import tokenizer_bytes


@bounded
def export_program(model, path, tokenizer=None, **options):
    """Writes the program of a model's path, and where `tokenizer` is a path, the file of its
    tokenizer; returns the model's name. The options are those of gguf.language_of."""
    if not generates_text(model):
        raise Error(f"{WHAT_GENERATES}; give the path of one, not '{os.fsdecode(model)}'")
    from ..gguf import language_of

    language = language_of(model, **options)
    # Before the long part: not every tokenizer can be written.
    data = None if tokenizer is None else tokenizer_bytes(language.tokenizer)
    language.prefill.export(path, kind="executable")
    if data is not None:
        with replaced(os.fsdecode(tokenizer)) as place, open(place, "wb") as file:
            file.write(data)
    return language.name
