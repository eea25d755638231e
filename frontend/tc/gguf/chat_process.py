"""The process that fills in a chat template (chat.py): JSON in, JSON out. It is run as a separate
program, with the folders of packages as its argument."""

import datetime
import json
import math
import os
import resource
import sys

_MAX_MEMORY = 1 << 29  # bytes that the process may map


def bound(seconds):
    """Limits what the process may use from here on."""
    for kind, most in (
        (resource.RLIMIT_CPU, math.ceil(seconds)),
        (resource.RLIMIT_AS, _MAX_MEMORY),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def environment():
    from jinja2.exceptions import TemplateError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message):
        raise TemplateError(message)

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    made.filters["tojson"] = lambda value, indent=None: json.dumps(
        value, ensure_ascii=False, indent=indent
    )
    made.globals.update(
        raise_exception=refuse, strftime_now=lambda form: datetime.datetime.now().strftime(form)
    )
    return made


def text_of(given):
    """The template's text, made piece by piece so that an endless one is noticed."""
    pieces, length = [], 0
    template = environment().from_string(given["template"])
    for piece in template.generate(
        messages=given["messages"],
        add_generation_prompt=True,
        bos_token=given["bos_token"],
        eos_token=given["eos_token"],
    ):
        pieces.append(piece)
        length += len(piece)
        if length > given["longest"]:
            raise ValueError(f"its text has more than {given['longest']} characters")
    return "".join(pieces)


def main():
    sys.path += sys.argv[1].split(os.pathsep)
    given = json.load(sys.stdin)
    import jinja2.sandbox  # noqa: F401 - imported before memory is bounded

    bound(given["seconds"])
    try:
        result = {"text": text_of(given)}
    except Exception as error:  # noqa: BLE001 - a template may raise any exception
        result = {"error": f"{type(error).__name__}: {error}"[:1000]}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
