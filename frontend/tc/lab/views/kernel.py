"""A kernel: its best schedule, history, failures, statements; and the code of a record."""

from ...errors import Error
from ...reporting import amounts
from ...reporting.markup import element, escaped, joined, paragraph, table, tiles
from ..charts import gain_chart
from ..code import code_of
from ..page import Missing, Section
from ..query import kernel_link, link, records_link
from .comparing import history_rows
from .records import record_link, text_block
from .shared import amount, failures_words, moment, place_form, where

_MOST_BUILDS = 50


def kernel(lab, query, prefix):
    choice = lab.choice(query)
    found = choice.state.kernel(prefix)
    if found is None:
        raise Missing(f"the log {choice.follower.name} has no kernel {prefix}")
    workload = choice.state.workloads[found]
    tally = choice.group.kernels.get(found)
    title = joined("Kernel ", escaped(workload.what, 150))
    chooser = place_form(lab, choice, f"/kernel/{found}", query)
    shown = [Section("choice", "What is shown", chooser, live=False)] if chooser else []
    statements = Section(
        "statements", "Statements", text_block(workload.text, "Statements"), live=False
    )
    if tally is None:
        return title, [
            *shown,
            Section(
                "best",
                "Best schedule",
                paragraph("It has no records there."),
                _places(choice, found),
            ),
            statements,
        ]
    return title, [
        *shown,
        Section(
            "best", "Best schedule", _summary(choice, tally), where(choice), _places(choice, found)
        ),
        Section("decisions", "Decisions", _decisions(choice, tally), live=False),
        Section("curve", "Gain over time", _curve(choice, tally)),
        Section("builds", "History", _history(choice, tally)),
        Section("failed", "Failures", _failures(choice, tally)),
        statements,
    ]


def _summary(choice, tally):
    group, log = choice.group, choice.log
    taken = tally.taken
    failed = tally.failures.total()
    rows = [
        ("Untuned", amount(tally.untuned, group.unit), ""),
        (
            "Now",
            amount(taken.median if taken else None, group.unit),
            joined(
                record_link(f"record {taken.number}", taken, log),
                ", chosen" if taken.chosen else "",
            )
            if taken
            else "",
        ),
        ("Gain", amounts.times(1 / taken.ratio if taken else None), ""),
        ("Limit", amount(choice.limits.get(tally.kernel), group.unit), choice.limit_source),
        ("Records", records_link(f"{tally.records:,}", group.place, log, kernel=tally.kernel), ""),
        (
            "Failed",
            records_link(f"{failed:,}", group.place, log, kernel=tally.kernel, outcome="failed")
            if failed
            else "0",
            "",
        ),
    ]
    return tiles(rows)


def _places(choice, found):
    """Links to the same kernel on other devices."""
    others = [
        group
        for place, group in choice.state.groups.items()
        if found in group.kernels and place != choice.group.place
    ]
    if not others:
        return None
    items = [
        element("li", kernel_link(escaped(_words(each.place), 150), found, each.place, choice.log))
        for each in sorted(others, key=lambda group: -group.records)[:20]
    ]
    return joined(paragraph("It was measured elsewhere, too:"), element("ul", items))


def _words(place):
    return f"{place.target}, {amounts.of(place.threads, 'thread')}, {place.device}"


def _decisions(choice, tally):
    taken = tally.taken
    if taken is None:
        return paragraph("No schedule of it has a time.")
    values = {"record": taken.number} | ({"log": choice.log} if choice.log else {})
    return joined(
        text_block(taken.trace or "(none: the untuned order of the loops)", "Trace"),
        element("p", link("Loops and assembly", f"/kernel/{tally.kernel}/code", values)),
    )


def _curve(choice, tally):
    begin = tally.first
    points = [(0, 1.0)]
    for created, _, ratio in tally.curve:
        points.append((max(points[-1][0], created - begin), 1 / ratio))
    points.append((max(points[-1][0], tally.last - begin), points[-1][1]))
    image = gain_chart("curve", [("this kernel", points)] if tally.curve else [], "gain")
    return image or paragraph("Nothing was measured yet.")


def _history(choice, tally):
    rows = [
        [
            escaped(build, 80),
            moment(each.first),
            records_link(
                f"{each.records:,}",
                choice.group.place,
                choice.log,
                kernel=tally.kernel,
                build=build,
            ),
            amount(each.taken.median if each.taken else None, choice.group.unit),
            amounts.times(1 / each.taken.ratio if each.taken else None),
            mark,
        ]
        for build, each, _, mark in history_rows(tally)[:_MOST_BUILDS]
    ]
    return table(
        "By build of the compiler, oldest first",
        ["Build", "First record, UTC", "Records", "Time", "Gain", "Beside the best before"],
        rows,
        ["", "", "number", "number", "number", ""],
    )


def _failures(choice, tally):
    if not tally.examples:
        return paragraph("No candidate has failed.")
    rows = [
        [
            outcome,
            records_link(
                f"{tally.failures[outcome]:,}",
                choice.group.place,
                choice.log,
                kernel=tally.kernel,
                outcome=outcome,
            ),
            record_link(moment(entry.created), entry, choice.log),
            escaped(entry.detail or "it said nothing", 300),
        ]
        for outcome, entry in sorted(tally.examples.items())
    ]
    return table(
        f"Failures: {failures_words(tally)}",
        ["Class", "Records", "Newest", "What it said"],
        rows,
        ["", "number", "", "wide"],
    )


def code(lab, query, prefix):
    choice = lab.choice(query)
    found = choice.state.kernel(prefix)
    entry = choice.state.entries.get(query.number("record"))
    if found is None or entry is None or entry.kernel != found:
        raise Missing(f"the log {choice.follower.name} has no such record of a kernel {prefix}")
    workload = choice.state.workloads[found]

    def made():
        try:
            return code_of(workload.text, entry.target, entry.trace)
        except Error as error:
            return {"problem": str(error)}

    # A record's code does not change: the version is the record itself.
    texts = lab.made(("code", choice.log, entry.number), (entry.trace, entry.target), made)
    about = element(
        "p",
        "Of ",
        record_link(f"record {entry.number}", entry, choice.log),
        " of the kernel ",
        link(
            escaped(workload.what, 100),
            f"/kernel/{found}",
            {"log": choice.log} if choice.log else {},
        ),
        f", generated by this tc for {entry.target[:100]}.",
    )
    if "problem" in texts:
        sections = [
            Section(
                "code",
                "Loops and assembly",
                about,
                paragraph(f"There is none: {texts['problem']}"),
                live=False,
            )
        ]
    else:
        sections = [
            Section("loops", "Loops", about, text_block(texts["loops"], "Loops"), live=False),
            Section("assembly", "Assembly", text_block(texts["assembly"], "Assembly"), live=False),
        ]
    return "Loops and assembly", sections
