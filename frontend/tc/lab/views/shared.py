"""What several views share."""

import time

from ...reporting import amounts
from ...reporting.markup import element, escaped, joined, paragraph
from ..page import form
from ..query import PLACE, of_place

MOST_ROWS = 100  # of a table
MOST_CHOICES = 200  # of a list of choices


def amount(value, unit):
    """A time of one run in the unit of its device."""
    if not value:
        return amounts.MISSING
    return amounts.seconds(value) if unit == "seconds" else f"{value:,.0f} cycles"


def moment(seconds):
    """A time of day, in UTC."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):  # nobody says that the log's numbers are times
        return amounts.MISSING


def rest(shown, total, what):
    if total <= shown:
        return None
    return paragraph(f"{total - shown:,} more {what} are not shown here.", class_="soft")


def place_words(place):
    return f"{place.target}, {amounts.of(place.threads, 'thread')}, {place.device}"


def no_records(choice):
    return paragraph(
        f"The log {choice.follower.name} has no record that fits; "
        f"`python -m tc tune MODEL --log {choice.follower.name}` makes some."
    )


def place_form(lab, choice, path, query, *more):
    """A form that chooses log, place and report; None where there is nothing to choose."""
    fields, kept = [], {}
    if len(lab.followers) > 1:
        names = [(number, follower.name) for number, follower in enumerate(lab.followers)]
        fields.append(("log", "Log", names, choice.log))
    for name in ("target", "device", "threads"):
        values = sorted({getattr(place, name) for place in choice.state.groups})[:MOST_CHOICES]
        if len(values) > 1 and choice.group:
            chosen = getattr(choice.group.place, name)
            values = values if chosen in values else [chosen, *values]
            named = [(value, escaped(value, 60)) for value in values]
            fields.append((name, name.capitalize(), named, chosen))
    if len(lab.reports) > 1:
        names = [(number, each.title) for number, each in enumerate(lab.reports, 1)]
        fields.append(("report", "Report", names, lab.reports.index(choice.report) + 1))
    fields += more
    if not fields:
        return None
    names = {name for name, *_ in fields}
    kept = {key: value for key, value in query.kept(*PLACE, "report").items() if key not in names}
    return form(path, fields, kept)


def where(choice):
    """A sentence that says of which device the numbers are."""
    others = len(choice.state.groups) - 1
    more = f" {amounts.of(others, 'other place')} can be chosen above." if others else ""
    return paragraph(
        f"Measured on {choice.group.place.device} for {choice.group.place.target} with "
        f"{amounts.of(choice.group.place.threads, 'thread')}.{more}",
        class_="soft",
    )


def failures_words(tally):
    return ", ".join(
        f"{count:,} {outcome}" for outcome, count in sorted(tally.failures.items()) if count
    )


def facts(rows):
    return element(
        "dl",
        [joined(element("dt", key), element("dd", value)) for key, value in rows],
        class_="facts",
    )


def group_values(choice):
    return of_place(choice.group.place, choice.log)
