"""A page of the lab as HTML. Every page can be read without a script."""

import html

from ..reporting.markup import Markup, element, escaped, joined, paragraph
from .query import PLACE, link

# (path, title) of the views, in the order of the navigation.
VIEWS = (
    ("/", "Progress"),
    ("/kernels", "Kernels"),
    ("/failures", "Failures"),
    ("/devices", "Devices"),
    ("/budget", "Budget"),
    ("/roofline", "Roofline"),
    ("/steps", "Steps"),
    ("/memory", "Memory"),
    ("/graph", "Graph"),
    ("/errors", "Errors"),
    ("/history", "History"),
    ("/compare", "Compare"),
    ("/records", "Records"),
)


class Section:
    """A part of a page. Where it is live, the script brings it up to date."""

    def __init__(self, name, heading, *content, live=True):
        self.name, self.heading, self.content, self.live = name, heading, content, live


class Missing(Exception):
    """There is nothing at the address; the text says what there is."""


def page(lab, path, version, found, query):
    """The page of a view; `path` is the one that the navigation marks."""
    title, sections = found
    kept = query.kept(*PLACE, "report")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} – tc lab"),
        Markup('<link rel="stylesheet" href="/lab.css"><link rel="icon" href="/icon.svg">'),
        Markup('<script src="/lab.js" defer></script>'),
    )
    entries = [
        element("li", link(words, to, kept, aria_current="page" if to == path else None))
        for to, words in VIEWS
    ]
    body = element(
        "body",
        element("a", "To the content", href="#content", class_="skip"),
        element(
            "header",
            element("h1", title),
            paragraph(escaped(lab.subtitle(), 1000), class_="soft"),
            element("p", "", id="connection", role="status", class_="bad"),
            element("nav", element("ul", entries), aria_label="Views"),
        ),
        element("main", [_section(each) for each in sections if each], id="content", tabindex="-1"),
    )
    return str(
        joined(
            Markup("<!DOCTYPE html>\n"),
            element("html", head, body, lang="en", data_version=version),
        )
    )


def _section(section):
    heading = f"{section.name}-heading"
    content = element(
        "div",
        element("h2", section.heading, id=heading),
        *section.content,
        data_live=section.name if section.live else None,
    )
    return element("section", content, id=section.name, aria_labelledby=heading)


def form(path, fields, kept=()):
    """A form that changes the address. `fields` are (name, label, [(value, words)], chosen)."""
    parts = [
        element(
            "label",
            label,
            " ",
            element(
                "select",
                [
                    element(
                        "option",
                        words,
                        value=Markup(_value(value)),
                        selected="" if value == chosen else None,
                    )
                    for value, words in choices
                ],
                name=name,
            ),
        )
        for name, label, choices, chosen in fields
    ]
    hidden = [
        Markup(f'<input type="hidden" name="{_value(key)}" value="{_value(value)}">')
        for key, value in dict(kept).items()
    ]
    return element(
        "form",
        hidden,
        parts,
        element("button", "Show"),
        action=path,
        method="get",
        class_="filters",
    )


def _value(text):
    """An attribute that has to come back unchanged, so nothing of it is left out."""
    return html.escape(str(text), quote=True)
