"""Views of a model, of which a report was given: roofline, steps, memory, graph, errors."""

from ...reporting.markup import element, escaped, joined, paragraph
from ..page import Section
from ..query import kernel_link
from .shared import place_form

# {path: (title, [(section of the report, heading)], what a report needs to have it)}
_VIEWS = {
    "/roofline": ("Roofline", [("roofline", "Roofline"), ("kinds", "Kinds of steps")], ""),
    "/steps": ("Steps", [("steps", "Steps, most time first"), ("summary", "Summary")], ""),
    "/memory": ("Memory", [("memory", "Memory over the steps")], ""),
    "/graph": ("Graph", [("graph", "Graph with fusions")], ""),
    "/errors": ("Errors", [("errors", "Error by layer")], " --verify"),
}
PATHS = tuple(_VIEWS)
_MOST_LINKS = 30


def model_view(path):
    title, parts, option = _VIEWS[path]

    def view(lab, query):
        choice = lab.choice(query)
        chooser = place_form(lab, choice, path, query)
        shown = [Section("choice", "What is shown", chooser, live=False)] if chooser else []
        if choice.report is None:
            return title, [*shown, Section("none", title, _how(option), live=False)]
        report = choice.report
        about = paragraph(
            escaped(f"From the report {report.path} on {report.title}.", 500), class_="soft"
        )
        sections = [
            Section(name, heading, about, report.sections[name], live=False)
            for name, heading in parts
            if report.sections[name]
        ]
        if not sections:
            sections = [
                Section(
                    "none",
                    title,
                    about,
                    paragraph("The report does not have it."),
                    _how(option),
                    live=False,
                )
            ]
        if path in ("/steps", "/roofline"):
            sections.append(Section("kernels", "Kernels of the steps", _kernels(choice)))
        return title, [*shown, *sections]

    return view


def _how(option):
    return joined(
        paragraph("A log has no models. A report has them, which is given to the lab as a file:"),
        element(
            "pre",
            f"python -m tc report MODEL --log LOG{option} --json > model.json",
            tabindex="0",
            role="region",
            aria_label="How to write a report",
        ),
        paragraph("and then `python -m tc lab --log LOG --report model.json`."),
    )


def _kernels(choice):
    """Links from a model's steps to the kernels of the log."""
    if choice.group is None:
        return paragraph("The log has no record.")
    known = [kernel for kernel in choice.report.calls if kernel in choice.state.workloads]
    if not known:
        return paragraph("The log has no record of this model's kernels.")
    known.sort(key=lambda kernel: -choice.report.calls[kernel])
    items = [
        element(
            "li",
            kernel_link(
                joined(
                    choice.report.labels[kernel][0],
                    ": ",
                    escaped(choice.state.workloads[kernel].what, 80),
                ),
                kernel,
                choice.group.place,
                choice.log,
            ),
        )
        for kernel in known[:_MOST_LINKS]
    ]
    return joined(
        paragraph("Each leads to its decisions, loops, assembly and history in the log."),
        element("ul", items),
        paragraph(f"{len(known) - _MOST_LINKS} more are among all kernels.")
        if len(known) > _MOST_LINKS
        else None,
    )
