"""History over sessions and builds, and two logs or builds side by side."""

import difflib
import math

from ...errors import MAX_OF_LINE
from ...reporting import amounts
from ...reporting.markup import Markup, element, escaped, joined, paragraph, table
from ..charts import elapsed
from ..page import Section, form
from ..query import kernel_link, records_link
from .records import record_link
from .shared import MOST_ROWS, amount, moment, no_records, place_form, rest, where

_MOST_LINES = 60  # of the decisions of a kernel that differ
_MOST_DIFFERENCES = 20  # kernels whose decisions are shown
_LEAST = 0.02  # a difference below that share is none, whatever the spreads


def differs(before, after):
    """How the time of one record differs from another's: -1 faster, 1 slower, 0 within the
    spread. Two medians differ if they are further apart than three times their spread."""
    spread = math.hypot(before.spread, after.spread)
    change = after.median / before.median - 1
    if abs(change) <= max(_LEAST, 3 * spread):
        return 0
    return 1 if change > 0 else -1


def history_rows(tally):
    """[(build, its tally, 1 where it is slower than the best build before, words on that)], oldest
    build first."""
    rows, best = [], None
    for build, each in sorted(tally.builds.items(), key=lambda pair: (pair[1].first, pair[0])):
        mark, way = joined(""), 0
        if best is not None and each.taken is not None:
            way = differs(best, each.taken)
            change = amounts.percent(abs(each.taken.median / best.median - 1))
            if way > 0:
                mark = element("span", f"regression: {change} slower", class_="bad")
            elif way < 0:
                mark = element("span", f"{change} faster", class_="good")
            else:
                mark = joined("the same")
        if each.taken is not None and (best is None or each.taken.median < best.median):
            best = each.taken
        rows.append((build, each, way, mark))
    return rows


def history(lab, query):
    choice = lab.choice(query)
    chooser = place_form(lab, choice, "/history", query)
    shown = [Section("choice", "What is shown", chooser, live=False)] if chooser else []
    if choice.group is None:
        return "History", [*shown, Section("sessions", "Sessions", no_records(choice))]
    return "History", [
        *shown,
        Section("sessions", "Sessions", where(choice), _sessions(choice)),
        Section("builds", "Builds of the compiler", _builds(choice)),
        Section("regressions", "Regressions", _regressions(choice)),
    ]


def _sessions(choice):
    ordered = sorted(choice.group.sessions, key=lambda each: -each.end)
    rows = [
        [
            moment(each.begin),
            elapsed(each.seconds),
            f"{each.records:,}",
            amounts.percent(each.failed / each.records),
            escaped(", ".join(each.builds), 100),
        ]
        for each in ordered[:MOST_ROWS]
    ]
    return joined(
        paragraph("Records that follow each other within half an hour count as one session."),
        table(
            "Sessions, newest first",
            ["Begin, UTC", "Took", "Records", "Failed", "Builds"],
            rows,
            ["", "number", "number", "number", "wide"],
        ),
        rest(len(rows), len(ordered), "sessions"),
    )


def _builds(choice):
    group = choice.group
    ordered = sorted(group.builds.items(), key=lambda each: (each[1][0], each[0]))
    rows = [
        [
            escaped(build, 80),
            moment(first),
            moment(last),
            records_link(f"{count:,}", group.place, choice.log, build=build),
        ]
        for build, (first, last, count) in ordered[-MOST_ROWS:]
    ]
    return table(
        "Builds, oldest first",
        ["Build", "First record, UTC", "Last record, UTC", "Records"],
        rows,
        ["", "", "", "number"],
    )


def _regressions(choice):
    rows = []
    for tally in choice.group.measured:
        for build, each, way, mark in history_rows(tally):
            if way > 0:
                name = choice.state.workloads[tally.kernel].what
                rows.append(
                    [
                        kernel_link(
                            escaped(name, 80), tally.kernel, choice.group.place, choice.log
                        ),
                        escaped(build, 60),
                        amount(each.taken.median, choice.group.unit),
                        mark,
                    ]
                )
    if not rows:
        return paragraph(
            "None: in no build is a kernel slower than in one before it by more than the spread."
        )
    return joined(
        table(
            "Kernels that became slower from one build to a later one",
            ["Kernel", "Build", "Time", "Beside the best before"],
            rows[:MOST_ROWS],
            ["", "", "number", ""],
        ),
        rest(MOST_ROWS, len(rows), "regressions"),
    )


class Side:
    """One of the two that are compared: a log, or what one build wrote in it."""

    def __init__(self, lab, value, default):
        log, _, build = (value or default).partition(":")
        fits = log.isascii() and log.isdigit() and len(log) < 3
        self.log = min(int(log), len(lab.followers) - 1) if fits else 0
        self.state = lab.followers[self.log].state
        self.build = build
        self.value = f"{self.log}:{self.build}"

    def best(self, place):
        """{kernel: the record that a build would take}."""
        group = self.state.groups.get(place)
        if group is None:
            return {}
        found = {}
        for kernel, tally in group.kernels.items():
            each = tally.builds.get(self.build) if self.build else tally
            if each is not None and each.taken is not None:
                found[kernel] = each.taken
        return found


def _sides(lab):
    """[(value, words)] of what can be compared."""
    choices = []
    for log, follower in enumerate(lab.followers):
        choices.append((f"{log}:", escaped(follower.name, 80)))
        builds = {}
        for group in follower.state.groups.values():
            for build, (first, _, _) in group.builds.items():
                builds[build] = min(first, builds.get(build, first))
        named = len(lab.followers) > 1
        for build in sorted(builds, key=lambda each: (builds[each], each))[-50:]:
            suffix = f" of log {log + 1}" if named else ""
            choices.append((f"{log}:{build}", escaped(f"build {build}{suffix}", 80)))
    return choices


def _defaults(lab, choices):
    """Two logs where there are two, else the two newest builds."""
    if len(lab.followers) > 1:
        return "1:", "0:"
    builds = [value for value, _ in choices if not value.endswith(":")]
    return (builds[-2], builds[-1]) if len(builds) > 1 else ("0:", "0:")


def compare(lab, query):
    choices = _sides(lab)
    defaults = _defaults(lab, choices)
    left, right = (
        Side(lab, query.text(name), default) for name, default in zip(("left", "right"), defaults)
    )
    choice = lab.choice(query)
    fields = []
    for name, label, side in (("left", "Before", left), ("right", "After", right)):
        known = [*choices]
        if side.value not in dict(known):
            known.append((side.value, escaped(side.value, 80)))
        fields.append((name, label, known, side.value))
    chooser = form("/compare", fields, query.kept("target", "device", "threads"))
    shown = [Section("choice", "What is compared", chooser, live=False)]
    if choice.group is None:
        return "Compare", [*shown, Section("kernels", "Kernels", no_records(choice))]
    rows = _rows(left, right, choice.group.place)
    return "Compare", [
        *shown,
        Section(
            "kernels",
            "Kernels won and lost",
            where(choice),
            _won_and_lost(choice, left, right, rows),
        ),
        Section("decisions", "Decisions that differ", _decisions(choice, left, right, rows)),
    ]


def _rows(left, right, place):
    """[(change of the time, 1 slower or -1 faster or 0, kernel, before, after)], slowest first."""
    before, after = left.best(place), right.best(place)
    rows = []
    for kernel in before.keys() & after.keys():
        one, two = before[kernel], after[kernel]
        rows.append((two.median / one.median - 1, differs(one, two), kernel, one, two))
    return sorted(rows, key=lambda row: (-abs(row[1]), -row[0], row[2]))


def _won_and_lost(choice, left, right, rows):
    place, unit = choice.group.place, choice.group.unit
    counts = [sum(row[1] == way for row in rows) for way in (-1, 1, 0)]
    alone = [
        len(one.best(place).keys() - two.best(place).keys())
        for one, two in ((left, right), (right, left))
    ]
    cells = [
        [
            kernel_link(escaped(right.state.workloads[kernel].what, 80), kernel, place, right.log),
            _time(one, left, unit),
            _time(two, right, unit),
            f"{100 * change:+.1f} %",
            _word(way),
            "the same" if one.trace == two.trace else "differ",
        ]
        for change, way, kernel, one, two in rows[:MOST_ROWS]
    ]
    said = paragraph(
        f"{counts[0]} won, {counts[1]} lost, {counts[2]} within the spread; {alone[0]} only before, {alone[1]} only "
        "after. A kernel is won or lost if the medians differ by more than three times their spread, and by more "
        "than 2 %."
    )
    if not cells:
        return said
    return joined(
        said,
        table(
            "Kernels of both, lost ones first",
            ["Kernel", "Before", "After", "Change", "Result", "Decisions"],
            cells,
            ["", "number", "number", "number", "", ""],
        ),
        rest(len(cells), len(rows), "kernels"),
    )


def _time(entry, side, unit):
    return record_link(amount(entry.median, unit), entry, side.log)


def _word(way):
    if way == 0:
        return "within the spread"
    return element("span", "lost" if way > 0 else "won", class_="bad" if way > 0 else "good")


def _decisions(choice, left, right, rows):
    if not rows:
        return paragraph("No kernel was measured in both at this place.")
    differing = [row for row in rows if row[3].trace != row[4].trace]
    if not differing:
        return paragraph("None: the schedules of all kernels of both are the same.")
    parts = []
    for number, (_, way, kernel, one, two) in enumerate(differing[:_MOST_DIFFERENCES], 1):
        name = escaped(right.state.workloads[kernel].what, 100)
        label = f"Decisions that differ, kernel {number}"
        parts += [element("h3", name, ": ", _word(way)), _difference(one.trace, two.trace, label)]
    return joined(parts, rest(_MOST_DIFFERENCES, len(differing), "kernels"))


def _difference(before, after, label):
    """The lines of two traces that differ, with their signs: - before, + after."""
    lines = [
        line
        for line in difflib.unified_diff(
            before.split("\n")[:500], after.split("\n")[:500], lineterm="", n=1
        )
        if not line.startswith(("---", "+++"))
    ]
    classes = {"-": "removed", "+": "added"}
    shown = [
        joined(
            element("span", escaped(line, MAX_OF_LINE), class_=classes[line[0]])
            if line[:1] in classes
            else escaped("…" if line.startswith("@@") else line, MAX_OF_LINE),
            Markup("\n"),
        )
        for line in lines[:_MOST_LINES]
    ]
    return joined(
        element("pre", shown, tabindex="0", role="region", aria_label=label),
        rest(_MOST_LINES, len(lines), "lines"),
    )
