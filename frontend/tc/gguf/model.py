"""A GGUF file, or a folder of transformers, as a model: its graph as a source for the compiler, its
module, and what else generating text needs."""

import functools
import os

from ..errors import Error
from ..language.built import load_built
from ..language.session import Session
from ..module import Module
from ..native import give_back
from ..parser import TOLERANCE
from .chat import ChatTemplate
from .file import open_file
from .network import describe
from .parameters import parameters_of
from .tokenizer import Tokenizer


def _opened(model):
    """The File of a path or of bytes; of a folder's path, its FolderFile."""
    if isinstance(model, (str, os.PathLike)) and os.path.isfile(
        os.path.join(os.fsdecode(model), "config.json")
    ):
        from ..checkpoints import open_folder

        return open_folder(model)
    return open_file(model)


def read(model):
    """The compiler.Source of a path or of bytes."""
    file = _opened(model)
    return describe(file).model.source(file.name)


def read_language(model):
    """(source, module) of a path or of bytes. module(compile_source) makes the model's module.
    compile_source(source, make, sizes, versions) compiles a source for `sizes`, in addition to
    those that the caller has bound, with versions for the sizes `versions`; `make` makes the
    module."""
    file = _opened(model)
    source = describe(file).model.source(file.name)

    def module(compile_source):
        language = Language(
            file,
            _compiled(
                lambda entry, sizes, versions: compile_source(entry, Module, sizes, versions)
            ),
        )
        made = compile_source(source, functools.partial(LanguageModule, language), {})
        made.name = file.name
        return made

    return source, module


def language_of(
    model, threads=None, places=1, target="native", weights="inside", tolerance=TOLERANCE
):
    """The Language of a path or of bytes, whose modules run on `threads` threads and read up to
    `places` sequences in one run; `weights` and `tolerance` as tc.compile has them."""
    from ..compiling import compile

    return Language(
        _opened(model),
        _compiled(
            lambda source, sizes, versions: compile(
                source,
                target,
                shapes=sizes,
                size_versions=versions,
                threads=threads,
                specialise=0,
                weights=weights,
                tolerance=tolerance,
            )
        ),
        places,
    )


def built_language_of(path, threads=None, places=1, tolerance=TOLERANCE):
    """language_of a path whose module another process compiles (tc.language.built), so that this
    process holds no more than its constants and caches."""
    options = {"threads": threads, "places": places, "tolerance": tolerance}
    return Language(_opened(path), lambda _: load_built(path, **options), places)


def _compiled(compile_reader):
    """What Language takes as `reader`, by compile_reader(source, sizes, versions), which compiles
    the source for `sizes`, with versions for the sizes `versions`."""

    def reader(language):
        source = describe(language.file, last_only=True).model.source(language.name)
        if language.places == 1:
            return compile_reader(source, {"batch": 1}, [{"seq": 1}])
        return compile_reader(source, {"batch": (1, language.places)}, [{"batch": 1, "seq": 1}])

    return reader


class Language:
    """What generating text with a model needs: its tokenizer, its chat template and the module that
    reads tokens, which is made on first use."""

    def __init__(self, file, reader, places=1):
        """`reader` gives the module; it is called with this Language."""
        self.file, self.name, self.places = file, file.name, places
        self.parameters = parameters_of(file)
        self._reader = reader

    @functools.cached_property
    def tokenizer(self):
        if self.file.row is None:
            made = Tokenizer(self.file)
        else:
            from ..checkpoints import FolderTokenizer

            made = FolderTokenizer(self.file)
        # Reading a vocabulary takes several times as much memory as the tokenizer keeps.
        self.file.release()
        give_back()
        return made

    @functools.cached_property
    def template(self):
        return ChatTemplate(self.file, self.tokenizer)

    @functools.cached_property
    def prefill(self):
        """The module that reads any number of tokens of up to `places` sequences. It has separate
        steps for one token of one sequence, which read the same weights."""
        return self._reader(self)

    @property
    def decode(self):
        """The module that reads one token: the same, which chooses the steps by the number of
        tokens."""
        return self.prefill


class LanguageModule(Module):
    """The module of a language model: called with `input_ids`, `length` and the caches of keys and
    values. tc.generate takes it as well."""

    # The functions with which the module reads a sequence of tokens, whose state it keeps.
    entries = ("prefill", "decode")

    def __init__(self, language, **arguments):
        super().__init__(**arguments)
        self.language, self._state = language, None

    @property
    def state(self):
        """The sequence that prefill() and decode() go on with: its tokens, and keys and values of
        each. It can be copied, saved, truncated and reset; a copy may be assigned to it, so that
        several sequences take turns."""
        if self._state is None:
            self._state = Session(self.language)
        return self._state

    @state.setter
    def state(self, state):
        if not self.state.fits(state):
            raise Error(f"state is {state!r}; give a copy of the state of this module, {self.name}")
        self._state = state

    def prefill(self, tokens):
        """Reads tokens [count] behind those of the state; returns the logits [tokens of the
        vocabulary] after the last one."""
        return self.state.prefill(tokens)

    def decode(self, token):
        """The same with one token."""
        return self.state.decode(token)

    @property
    def tokenizer(self):
        return self.language.tokenizer
