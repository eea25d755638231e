"""Progress (the first page) and the kernels, those with the most to gain first."""

import time

from ...reporting import amounts
from ...reporting.markup import escaped, joined, notes, paragraph, table, tiles
from ...reporting.step_table import bar
from ..charts import elapsed, gain_chart
from ..gain import gain, gain_curve, remaining
from ..page import Section
from ..query import kernel_link, link, records_link
from .shared import (
    MOST_ROWS,
    amount,
    failures_words,
    group_values,
    moment,
    no_records,
    place_form,
    rest,
    where,
)

_FIRST = 8  # kernels of the first page
_MOST_CURVES = 6


def progress(lab, query):
    choice = lab.choice(query)
    chooser = place_form(lab, choice, "/", query)
    shown = [Section("choice", "What is shown", chooser, live=False)] if chooser else []
    if choice.group is None:
        return "Tuning", [*shown, Section("now", "Now", no_records(choice), _problems(choice))]
    return _title(choice), [
        *shown,
        Section("now", "Now", _tiles(lab, choice), where(choice), _problems(choice)),
        Section("gain", "Gain over time", _chart(lab, choice)),
        Section(
            "most",
            "Kernels with the most to gain",
            kernel_table(choice, _FIRST),
            link("All kernels", "/kernels", group_values(choice)),
        ),
    ]


def _title(choice):
    if choice.weights is None:
        return "Tuning"
    return joined("Tuning ", escaped(choice.report.model, 100))


def _since(seconds):
    """How long ago something was, to people."""
    if seconds < 60:
        return "now"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    return f"{elapsed(seconds)[:-3]} h ago" if seconds < 86400 else f"{seconds // 86400} d ago"


def _tiles(lab, choice):
    group = choice.group
    place = group.place
    failed = sum(group.failures.values())
    idle = max(0, int(time.time()) - group.last)
    session = max(group.sessions, key=lambda each: each.end)
    curve = gain_curve(group, choice.weights)
    rows = [
        (
            "Gain",
            amounts.times(gain(group, choice.weights)),
            f"best measured {amounts.times(curve[-1][1] if curve else None)}",
        ),
        (
            "Records",
            records_link(f"{group.records:,}", place, choice.log),
            amounts.of(len(group.kernels), "kernel"),
        ),
        (
            "Failed",
            records_link(f"{failed:,}", place, choice.log, outcome="failed") if failed else "0",
            amounts.percent(failed / group.records),
        ),
        ("Last session", elapsed(session.seconds), f"{session.records:,} records"),
        ("Newest record", _since(idle), f"{moment(group.last)} UTC"),
    ]
    if lab.fleet:
        total = len(lab.fleet.rows)
        busy = link(f"{lab.fleet.busy:,} of {total:,}", "/devices", {})
        rows.append(("Devices busy", busy, "" if not lab.fleet.problem else "not reached"))
    if lab.budget:
        spent = sum(each.seconds for each in group.sessions)
        rows.append(("Time left", elapsed(lab.budget - spent), "of the budget"))
    return tiles(rows)


def _chart(lab, choice):
    group = choice.group
    curves = [("all kernels, each once", gain_curve(group))]
    for report in lab.reports:
        if report.fits(group.place):
            curves.append((report.title, gain_curve(group, report.calls)))
    several = sum(bool(points) for _, points in curves) > 2
    kernels = sorted(group.measured, key=lambda kernel: (kernel.best.ratio, kernel.kernel))[
        : 0 if several else _MOST_CURVES
    ]
    for kernel in kernels:
        points = [(0, 1.0)]
        for created, _, ratio in kernel.curve:
            points.append((max(points[-1][0], created - group.first), max(1.0, 1 / ratio)))
        points.append((max(points[-1][0], group.last - group.first), points[-1][1]))
        curves.append((choice.state.workloads[kernel.kernel].what[:60], points))
    image = gain_chart("gain", curves, "best measured, untuned is 1")
    if image is None:
        return paragraph("Nothing was measured yet.")
    # Curves at 1 lie on the axis, where one does not see them.
    is_flat = all(value <= 1 for _, points in curves for _, value in points)
    still = "No schedule was faster than the untuned one so far: all curves are at 1."
    return joined(paragraph(still) if is_flat else None, image)


def _problems(choice):
    return notes("Refused: ", choice.follower.problems)


def kernel_table(choice, most):
    group = choice.group
    place, log = group.place, choice.log
    rows = remaining(group, choice.weights, choice.limits)
    cells = [
        [
            kernel_link(_label(choice, row.tally.kernel), row.tally.kernel, place, log),
            amounts.percent(row.possible),
            amounts.percent(row.share),
            f"{row.calls:,}",
            amount(row.tally.untuned, group.unit),
            amount(row.tally.taken.median, group.unit),
            amounts.times(1 / row.tally.taken.ratio),
            amounts.MISSING
            if row.of_limit is None
            else joined(amounts.percent(row.of_limit), bar(row.of_limit)),
            records_link(f"{row.tally.records:,}", place, log, kernel=row.tally.kernel),
            _failed(row.tally, place, log),
        ]
        for row in rows[:most]
    ]
    unmeasured = len(group.kernels) - len(group.measured)
    return joined(
        table(
            "Kernels, the largest possible gain first",
            [
                "Kernel",
                "Possible",
                "Share",
                "Calls",
                "Untuned",
                "Now",
                "Gain",
                "Of limit",
                "Records",
                "Failed",
            ],
            cells,
            ["", *["number"] * 9],
        )
        if cells
        else paragraph("No kernel has a time yet."),
        rest(len(cells), len(rows), "kernels"),
        paragraph(f"{amounts.of(unmeasured, 'kernel')} of this place have failures alone.")
        if unmeasured
        else None,
    )


def _label(choice, kernel):
    labels = choice.report.labels.get(kernel) if choice.report else None
    what = choice.state.workloads[kernel].what
    if not labels or choice.weights is None:
        return escaped(what, 100)
    more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
    return joined(labels[0], more, ": ", escaped(what, 80))


def _failed(tally, place, log):
    count = sum(tally.failures.values())
    if not count:
        return "0"
    return records_link(f"{count:,}", place, log, kernel=tally.kernel, outcome="failed")


def kernels(lab, query):
    choice = lab.choice(query)
    chooser = place_form(lab, choice, "/kernels", query)
    shown = [Section("choice", "What is shown", chooser, live=False)] if chooser else []
    if choice.group is None:
        return "Kernels", [*shown, Section("kernels", "Kernels", no_records(choice))]
    counted = (
        "Each kernel counts once, since no report of a model was given that calls them."
        if choice.weights is None
        else f"Kernels count as often as {choice.report.model} calls them."
    )
    return "Kernels", [
        *shown,
        Section(
            "kernels",
            "Kernels",
            where(choice),
            paragraph(
                f"{counted} Possible: the share of all kernels' time that would be gained if the kernel reached its "
                f"limit. The limits are {choice.limit_source or 'not known'}."
            ),
            kernel_table(choice, MOST_ROWS),
        ),
        Section("failing", "Kernels that fail most", _failing(choice)),
    ]


def _failing(choice):
    rows = sorted(
        (tally for tally in choice.group.kernels.values() if tally.failures.total()),
        key=lambda tally: (-tally.failures.total(), tally.kernel),
    )
    place, log = choice.group.place, choice.log
    if not rows:
        return paragraph("No candidate has failed.")
    return joined(
        table(
            "Kernels by failures",
            ["Kernel", "Failed", "Of records", "How"],
            [
                [
                    kernel_link(_label(choice, tally.kernel), tally.kernel, place, log),
                    _failed(tally, place, log),
                    amounts.percent(tally.failures.total() / tally.records),
                    escaped(failures_words(tally), 200),
                ]
                for tally in rows[:20]
            ],
            ["", "number", "number", "wide"],
        ),
        rest(20, len(rows), "kernels"),
    )
