"""The HTML page of a report: one file, without a script and without an address of another."""

import base64

from ..digest import sha256
from . import amounts
from .markup import Markup, element, escaped, joined, paragraph
from .page_sections import SECTIONS
from .style import STYLE

MAX_BYTES = 2_000_000  # what a page is kept below, by bounds of every part

_BESIDE = {"roofline", "memory"}  # sections beside each other on a wide screen


def _policy():
    """Nothing may be loaded and nothing run; this page's own style alone counts."""
    digest = base64.b64encode(sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def page(facts):
    """The report as HTML."""
    title = _title(facts)
    parts = [(name, heading, section(facts)) for name, heading, section in SECTIONS]
    parts = [(name, heading, content) for name, heading, content in parts if content]
    both = _BESIDE <= {name for name, _, _ in parts}
    halves = _BESIDE if both else ()
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=Markup(_policy())),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{title} – tc report"),
        element("style", Markup(STYLE)),
    )
    body = element(
        "body",
        element("a", "To the content", href="#content", class_="skip"),
        element(
            "header",
            element("h1", title),
            paragraph(_subtitle(facts), class_="soft"),
            element(
                "nav",
                element(
                    "ul",
                    [
                        element("li", element("a", heading, href=Markup(f"#{name}")))
                        for name, heading, _ in parts
                    ],
                ),
                aria_label="Sections",
            ),
        ),
        element("main", [_section(*part, part[0] in halves) for part in parts], id="content"),
    )
    return str(
        joined(Markup("<!DOCTYPE html>\n"), element("html", head, body, lang="en"), Markup("\n"))
    )


def _section(name, heading, content, half):
    return element(
        "section",
        element("h2", heading, id=f"{name}-heading"),
        content,
        id=name,
        class_="half" if half else None,
        aria_labelledby=f"{name}-heading",
    )


def _title(facts):
    return facts["summary"]["model"] or "model"


def _subtitle(facts):
    summary = facts["summary"]
    threads = amounts.of(summary["threads"], "thread")
    what = "tuning session" if facts["subject"] == "session" else "report"
    return escaped(f"tc {what} for {summary['target']}, {threads}", 500)
