"""Turns the messages of a chat into text of the form that the model was trained with: the template
of its file, filled in by jinja2.

A template is a program, written by whoever made the file. It runs in jinja2's sandbox, which keeps
it away from the process's objects, and in a separate process (chat_process.py), which bounds its
time, its memory and the length of its text.
"""

import importlib.util
import json
import os
import subprocess
import sys

from ..errors import Error, ModelError, UnsupportedError, printable

_LONGEST_TEMPLATE = 1 << 20  # characters
_LONGEST_TEXT = 1 << 24
_MAX_SECONDS = 10  # of processor time
_MAX_WAIT = 60  # seconds of waiting for the process
ROLES = ("system", "user", "assistant", "tool")
_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat_process.py")


class ChatTemplate:
    """The template of a file; `text` is None where the file has none."""

    def __init__(self, file, tokenizer):
        self.name, self.text = file.name, file.fields.get("tokenizer.chat_template")
        self._names = {
            key: "" if token is None else tokenizer.tokens[token]
            for key, token in (("bos_token", tokenizer.begin), ("eos_token", tokenizer.end))
        }
        if self.text is not None and (
            not isinstance(self.text, str) or len(self.text) > _LONGEST_TEMPLATE
        ):
            raise ModelError(
                f"'{file.name}' is a damaged {file.kind}: its template for chat is no text of at "
                f"most {_LONGEST_TEMPLATE} characters; "
                "fetch or convert it again"
            )

    def fill(self, messages):
        """The text of [{"role", "content"}], up to where the model's answer begins."""
        if self.text is None:
            raise UnsupportedError(
                f"{self.name} has no template for chat (field 'tokenizer.chat_template'); give "
                f"the prompt as text"
            )
        if importlib.util.find_spec("jinja2") is None:
            raise Error(
                "templates for chat are filled in by the package jinja2, which is not installed "
                "here: pip install 'tc-compiler[gguf]'"
            )
        given = json.dumps(
            {
                "template": self.text,
                "messages": checked(messages),
                "longest": _LONGEST_TEXT,
                "seconds": _MAX_SECONDS,
                **self._names,
            }
        )
        # The search path leaves out the current folder, where a file might be called jinja2.py;
        # packages are found where this process finds them.
        path = os.pathsep.join(each for each in sys.path if each)
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", _PROGRAM, path],
                input=given.encode(),
                capture_output=True,
                timeout=_MAX_WAIT,
            )
        except subprocess.TimeoutExpired:
            raise ModelError(
                f"{self.name}: its template for chat takes more than {_MAX_WAIT} seconds; give "
                f"the prompt as text"
            ) from None
        try:
            result = json.loads(done.stdout)
        except ValueError:  # the process was ended at one of its bounds
            raise ModelError(
                f"{self.name}: its template for chat takes more than {_MAX_SECONDS} seconds of a "
                "processor or too much memory; give the prompt "
                "as text"
            ) from None
        if "error" in result:
            raise ModelError(
                f"{self.name}: its template for chat refuses these messages: "
                f"{printable(result['error'])}"
            )
        return result["text"]


def checked(messages):
    """The messages of a chat, as templates take them."""
    if not isinstance(messages, (list, tuple)) or not messages:
        raise Error('a chat is a list of messages, [{"role": "user", "content": "..."}]')
    for message in messages:
        is_one = isinstance(message, dict) and message.get("role") in ROLES
        if not is_one or not isinstance(message.get("content"), str):
            raise Error(
                "a message of a chat is "
                f'{{"role": one of {", ".join(ROLES)}, "content": text}}, not '
                f"{printable(repr(message), 80)}"
            )
    return [{"role": message["role"], "content": message["content"]} for message in messages]
