"""What the address of a page asks for: filters, which a shared address keeps."""

import html
import urllib.parse

from ..reporting.markup import Markup, element

# What records can be filtered by; every page keeps the first four.
PLACE = ("log", "target", "device", "threads")
FILTERS = (*PLACE, "build", "outcome", "kernel")
_MOST = 5000  # characters of a value: names of devices and builds have 4096 at most
_MOST_OF_NUMBER = 15  # digits


class Query:
    """The parameters of an address. Whatever is wrong in them is as if it were not there."""

    def __init__(self, pairs=()):
        self._values = {}
        for key, value in pairs:
            if len(value) <= _MOST and value:
                self._values.setdefault(key, value)

    def text(self, name):
        return self._values.get(name, "")

    def number(self, name, default=0):
        value = self._values.get(name, "")
        fits = value.isascii() and value.isdigit() and len(value) <= _MOST_OF_NUMBER
        return int(value) if fits else default

    def kept(self, *names, **more):
        """The values of these parameters, and others; those that are empty are left out."""
        values = {name: self._values[name] for name in names if name in self._values}
        return {key: value for key, value in (values | more).items() if value not in ("", None, 0)}

    @property
    def key(self):
        return tuple(sorted(self._values.items()))


def address(path, values=()):
    """A path of this server with its parameters."""
    encoded = urllib.parse.urlencode(dict(values))
    return f"{path}?{encoded}" if encoded else path


def link(words, path, values=(), **attributes):
    return element("a", words, href=Markup(html.escape(address(path, values))), **attributes)


def of_place(place, log=0):
    """The parameters that name a place."""
    return {
        "log": log or "",
        "target": place.target,
        "device": place.device,
        "threads": place.threads,
    }


def records_link(words, place, log=0, **filters):
    """A number that leads to the records behind it."""
    values = {key: value for key, value in (of_place(place, log) | filters).items() if value}
    return link(words, "/records", values)


def kernel_link(words, kernel, place, log=0, **more):
    values = {key: value for key, value in (of_place(place, log) | more).items() if value}
    return link(words, f"/kernel/{kernel}", values)
