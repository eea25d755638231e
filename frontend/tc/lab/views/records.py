"""Records by filters, a record, and failures by class."""

import itertools

from ...errors import MAX_OF_LINE
from ...reporting import amounts
from ...reporting.markup import Markup, element, escaped, joined, paragraph, table
from ..page import Missing, Section, form
from ..query import FILTERS, kernel_link, link, of_place, records_link
from .shared import MOST_CHOICES, amount, facts, moment, no_records, place_form, rest, where

_ON_PAGE = 100
_OUTCOMES = ("", "ok", "failed", "chosen")
_MOST_OF_TRACE = 70_000  # characters


def matching(choice, query):
    """The records that the address asks for, newest first."""
    wanted = {name: query.text(name) for name in ("target", "device", "build") if query.text(name)}
    threads, outcome = query.number("threads"), query.text("outcome")
    kernel = choice.state.kernel(query.text("kernel")) if query.text("kernel") else None
    if query.text("kernel") and kernel is None:
        return
    for entry in reversed(choice.state.entries.values()):
        if kernel and entry.kernel != kernel:
            continue
        if threads and entry.threads != threads:
            continue
        if outcome and not _has(entry, outcome):
            continue
        if all(getattr(entry, name) == value for name, value in wanted.items()):
            yield entry


def _has(entry, outcome):
    if outcome == "failed":
        return entry.outcome != "ok"
    return entry.chosen if outcome == "chosen" else entry.outcome == outcome


def records(lab, query):
    choice = lab.choice(query)
    begin = query.number("begin")
    kept = query.kept(*FILTERS)
    if kept.keys() <= {"log"}:  # all of them: there is no need to look at each
        total = len(choice.state.entries)
        newest = reversed(choice.state.entries.values())
        found = list(itertools.islice(newest, min(begin, total), min(begin + _ON_PAGE, total)))
    else:
        found, total = [], 0
        for total, entry in enumerate(matching(choice, query), 1):
            if begin < total <= begin + _ON_PAGE:
                found.append(entry)
    return "Records", [
        Section("filters", "Filters", _filters(lab, choice, query), live=False),
        Section(
            "records",
            amounts.of(total, "record"),
            record_table(choice, found, f"Records {begin + 1:,} to {begin + len(found):,}")
            if found
            else paragraph("No record fits these filters."),
            _pages(begin, total, kept),
        ),
    ]


def _pages(begin, total, kept):
    parts = []
    if begin > 0:
        earlier = max(0, begin - _ON_PAGE)
        parts.append(
            link("Newer records", "/records", kept | ({"begin": earlier} if earlier else {}))
        )
    if begin + _ON_PAGE < total:
        parts.append(link("Older records", "/records", kept | {"begin": begin + _ON_PAGE}))
    return element("p", list(itertools.chain(*((part, " ") for part in parts)))) if parts else None


def _filters(lab, choice, query):
    outcomes = sorted({name for group in choice.state.groups.values() for name in group.failures})
    builds = sorted({name for group in choice.state.groups.values() for name in group.builds})
    fields = []
    if len(lab.followers) > 1:
        names = [(number, follower.name) for number, follower in enumerate(lab.followers)]
        fields.append(("log", "Log", names, choice.log))
    for name in ("target", "device", "threads"):
        values = sorted({getattr(place, name) for place in choice.state.groups})
        fields.append(
            (name, name.capitalize(), _choices(values, query.text(name)), query.text(name))
        )
    fields.append(("build", "Build", _choices(builds, query.text("build")), query.text("build")))
    names = [
        (value, value or "any")
        for value in dict.fromkeys([*_OUTCOMES, *outcomes, query.text("outcome")])
    ]
    fields.append(("outcome", "Outcome", names, query.text("outcome")))
    kernel = choice.state.kernel(query.text("kernel")) or ""
    kernels = [(each, work.what[:60]) for each, work in choice.state.workloads.items()]
    kernels = sorted(kernels, key=lambda each: each[1])[:MOST_CHOICES]
    if kernel and kernel not in dict(kernels):
        kernels.append((kernel, choice.state.workloads[kernel].what[:60]))
    fields.append(("kernel", "Kernel", [("", "any"), *kernels], kernel))
    return form("/records", fields)


def _choices(values, chosen):
    values = [str(value) for value in values[:MOST_CHOICES]]
    if chosen and chosen not in values:
        values.append(chosen)
    return [("", "any"), *((value, escaped(value, 60)) for value in values)]


def record_link(words, entry, log):
    return link(words, f"/record/{entry.number}", {"log": log} if log else {})


def record_table(choice, entries, caption):
    return table(
        caption,
        ["Record", "When, UTC", "Kernel", "Outcome", "Time", "Gain", "Spread", "Threads", "Device"],
        [
            [
                *_of_which_kernel(choice, entry),
                joined(entry.outcome, " (chosen)" if entry.chosen else None),
                amount(entry.median, entry.unit),
                amounts.times(1 / entry.ratio if entry.is_measured else None),
                amounts.percent(entry.spread) if entry.is_measured else amounts.MISSING,
                f"{entry.threads}",
                escaped(entry.device, 60),
            ]
            for entry in entries
        ],
        ["brief", "", "", "", "number", "number", "number", "number", ""],
    )


def record(lab, query, number):
    choice = lab.choice(query)
    entry = choice.state.entries.get(number)
    if entry is None:
        raise Missing(f"the log {choice.follower.name} has no record {number}")
    values = of_place(entry.place, choice.log)
    measured = entry.is_measured
    rows = [
        (
            "Kernel",
            kernel_link(
                choice.state.workloads[entry.kernel].what, entry.kernel, entry.place, choice.log
            ),
        ),
        ("Outcome", entry.outcome + (", chosen by a session" if entry.chosen else "")),
        ("Time, median", amount(entry.median, entry.unit) if measured else amounts.MISSING),
        ("Time, least", amount(entry.minimum, entry.unit) if measured else amounts.MISSING),
        ("Spread", amounts.percent(entry.spread) if measured else amounts.MISSING),
        ("Samples", f"{entry.samples:,}"),
        ("Gain", amounts.times(1 / entry.ratio if measured else None)),
        ("Largest error", f"{entry.worst_error:.2e}" if measured else amounts.MISSING),
        ("Target", escaped(entry.target, 500)),
        ("Threads", f"{entry.threads}"),
        ("Device", escaped(entry.device, 500)),
        ("Build", link(escaped(entry.build, 500), "/records", values | {"build": entry.build})),
        ("When, UTC", moment(entry.created)),
        ("Seed", f"{entry.seed}"),
    ]
    code = {"record": number} | ({"log": choice.log} if choice.log else {})
    return f"Record {number}", [
        Section("record", "Record", facts(rows), live=False),
        Section("detail", "What it said", text_block(entry.detail, "Detail"), live=False)
        if entry.detail
        else None,
        Section(
            "trace",
            "Decisions",
            text_block(entry.trace or "(none: the untuned order of the loops)", "Trace"),
            element("p", link("Loops and assembly", f"/kernel/{entry.kernel}/code", code)),
            live=False,
        ),
    ]


def text_block(text, label):
    """Foreign text of several lines."""
    lines = text[:_MOST_OF_TRACE].split("\n")
    shown = joined(*((escaped(line, MAX_OF_LINE), Markup("\n")) for line in lines))
    more = paragraph("The rest is not shown.") if len(text) > _MOST_OF_TRACE else None
    return joined(
        element("pre", shown, tabindex="0", role="region", aria_label=f"{label}: text"), more
    )


def failures(lab, query):
    choice = lab.choice(query)
    chooser = place_form(lab, choice, "/failures", query)
    shown = [Section("choice", "What is shown", chooser, live=False)] if chooser else []
    group = choice.group
    if group is None:
        return "Failures", [*shown, Section("classes", "Failures", no_records(choice))]
    rows = [
        [
            outcome,
            records_link(f"{count:,}", group.place, choice.log, outcome=outcome),
            escaped(group.examples[outcome].detail or "it said nothing", 300),
            record_link(
                moment(group.examples[outcome].created), group.examples[outcome], choice.log
            ),
            amounts.percent(count / group.records),
        ]
        for outcome, count in group.failures.most_common()
    ]
    tried = records_link(f"{group.records:,}", group.place, choice.log)
    content = (
        table(
            "Failures by class, with the newest example",
            ["Class", "Records", "What it said", "Newest", "Of all"],
            rows,
            ["brief", "number", "wide", "", "number"],
        )
        if rows
        else paragraph("No candidate has failed.")
    )
    newest = _newest_failures(choice)
    return "Failures", [
        *shown,
        Section(
            "classes", "Failures by class", where(choice), element("p", tried, " tried."), content
        ),
        Section(
            "newest",
            "Newest failures",
            _failure_table(choice, newest) if newest else paragraph("None."),
            rest(len(newest), sum(group.failures.values()), "failures"),
            link("All failures", "/records", _failed_values(choice)),
        ),
    ]


def _of_which_kernel(choice, entry):
    """The first cells of a record: its number, when it was made, and the kernel."""
    what = escaped(choice.state.workloads[entry.kernel].what, 60)
    return (
        record_link(f"{entry.number}", entry, choice.log),
        moment(entry.created),
        kernel_link(what, entry.kernel, entry.place, choice.log),
    )


def _failure_table(choice, entries):
    return table(
        "What the candidates said that failed last",
        ["Record", "Outcome", "What it said", "Kernel", "When, UTC"],
        [
            [number, entry.outcome, escaped(entry.detail or "it said nothing", 300), kernel, when]
            for entry in entries
            for number, when, kernel in [_of_which_kernel(choice, entry)]
        ],
        ["brief", "", "wide", "some", ""],
    )


def _failed_values(choice):
    values = of_place(choice.group.place, choice.log) | {"outcome": "failed"}
    return {key: value for key, value in values.items() if value}


def _newest_failures(choice):
    place = choice.group.place
    fitting = (
        entry
        for entry in reversed(choice.state.entries.values())
        if entry.outcome != "ok" and entry.place == place
    )
    return list(itertools.islice(fitting, 20))
