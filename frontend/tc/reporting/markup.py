"""HTML and SVG written so that no text from outside becomes markup: whatever is not Markup is
escaped."""

import html

from ..errors import MAX_OF_LINE, MAX_OF_NAME, printable

_MAX_NOTES, _MAX_OF_NOTE, _MAX_OF_CELL = 20, 500, 100  # the latter two in characters
# Elements that have no content and no end tag, and those of SVG that are closed at once where they
# are empty.
_VOID = {"meta", "br"}
_SHAPES = {"rect", "line", "path", "circle", "ellipse", "polygon", "polyline", "use"}


class Markup(str):
    """A text that is HTML already."""


def escaped(text, most=MAX_OF_NAME):
    """Foreign text as HTML: on one line, invisible characters shown as escapes, the middle left out
    where it has more than `most` characters, and nothing in it that a browser takes for markup."""
    return Markup(html.escape(printable(text, most), quote=True))


def joined(*parts):
    """The parts one after the other. Lists are joined too, None is left out, and every text that is
    not Markup is escaped."""
    return Markup("".join(_part(part) for part in parts))


def _part(part):
    if part is None:
        return ""
    if isinstance(part, Markup):
        return part
    if isinstance(part, (list, tuple)):
        return joined(*part)
    return escaped(part)


def element(name, /, *content, **attributes):
    """An element. Of an attribute's name a last underscore is left out (class_) and others become
    hyphens (text_anchor); attributes whose value is None are left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{value if isinstance(value, Markup) else escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    inner = joined(*content)
    if not inner and name in _SHAPES:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{inner}</{name}>")


def paragraph(*sentences, class_=None):
    """A paragraph. Its texts may be longer than names."""
    parts = [each if isinstance(each, Markup) else escaped(each, MAX_OF_LINE) for each in sentences]
    return element("p", parts, class_=class_)


def notes(begin, sentences):
    """A paragraph for each of the first sentences, which may have names in them."""
    left = len(sentences) - _MAX_NOTES
    return [
        *(element("p", escaped(begin + each, _MAX_OF_NOTE)) for each in sentences[:_MAX_NOTES]),
        paragraph(f"{left:,} more are in the report as JSON.") if left > 0 else None,
    ]


def table(caption, heads, rows, kinds=()):
    """A table in a box that scrolls by itself where the page is narrow. `heads` are the columns'
    names; those whose `kinds` is "number" are aligned to the right. The first cell of a row is its
    head."""
    kinds = [*kinds, *[""] * (len(heads) - len(kinds))]
    head = element(
        "tr",
        [element("th", text, scope="col", class_=kind or None) for text, kind in zip(heads, kinds)],
    )
    body = [
        element(
            "tr",
            element("th", _cell(row[0]), scope="row", class_=kinds[0] or None),
            [
                element("td", _cell(cell), class_=kind or None)
                for cell, kind in zip(row[1:], kinds[1:])
            ],
        )
        for row in rows
    ]
    inner = element(
        "table", element("caption", caption), element("thead", head), element("tbody", body)
    )
    return scrolled(caption, inner)


def scrolled(label, content, class_="scrolled"):
    """A region that scrolls by itself, with the keyboard too."""
    return element("div", content, class_=class_, role="region", aria_label=label, tabindex="0")


def _cell(value):
    return value if isinstance(value, Markup) else escaped(value, _MAX_OF_CELL)


def tiles(entries):
    """A list of (name, value, note): a number that is seen at once, and what it is."""
    return element(
        "dl",
        [
            element(
                "div",
                element("dt", name),
                element("dd", value, element("span", note, class_="note") if note else None),
            )
            for name, value, note in entries
        ],
        class_="tiles",
    )


def drawn(label, drawing, *below):
    """A picture with what belongs below it. On a narrow screen the picture scrolls by itself."""
    return element("figure", scrolled(f"{label}: picture", drawing, "scrolled drawn"), *below)


def few_rows(title, rows):
    """A short table for a notebook: `rows` are pairs of a name and a value. It has no style of its
    own, since a page may show several."""
    return str(
        joined(
            element("b", title),
            element(
                "table",
                [element("tr", element("th", key), element("td", value)) for key, value in rows],
            ),
        )
    )
