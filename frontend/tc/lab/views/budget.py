"""What tuning has cost, and what more of it promises."""

from ...reporting import amounts
from ...reporting.markup import joined, paragraph, table, tiles
from ..charts import elapsed
from ..gain import forecast, gain_curve
from ..page import Section
from ..query import records_link
from .shared import no_records, place_form, where


def budget(lab, query):
    choice = lab.choice(query)
    chooser = place_form(lab, choice, "/budget", query)
    shown = [Section("choice", "What is shown", chooser, live=False)] if chooser else []
    if choice.group is None:
        return "Budget", [*shown, Section("spent", "Spent", no_records(choice))]
    return "Budget", [
        *shown,
        Section("spent", "Spent and left", _spent(lab, choice), where(choice)),
        Section("forecast", "The next per cent", _forecast(choice)),
        Section("wasted", "Where tries went", _tries(choice)),
    ]


def _spent(lab, choice):
    group = choice.group
    spent = sum(session.seconds for session in group.sessions)
    rate = 60 * group.records / spent if spent else None
    left = None if not lab.budget else max(0, lab.budget - spent)
    return joined(
        tiles(
            [
                ("Spent", elapsed(spent), f"in {amounts.of(len(group.sessions), 'session')}"),
                (
                    "Left",
                    elapsed(left) if left is not None else amounts.MISSING,
                    f"of {elapsed(lab.budget)}" if lab.budget else "no --budget was given",
                ),
                (
                    "Records",
                    records_link(f"{group.records:,}", group.place, choice.log),
                    f"{rate:,.1f} a minute" if rate else "",
                ),
                (
                    "At this rate",
                    f"{rate * left / 60:,.0f}" if rate and left else amounts.MISSING,
                    "more records within the budget",
                ),
            ]
        ),
        paragraph(
            "Spent is the time from the first to the last record of each session; what a session did before its first "
            "record is not in the log."
        ),
    )


def _forecast(choice):
    points = gain_curve(choice.group, choice.weights)
    needed = forecast(points)
    last = [value for _, value in points]
    # Where a per cent was gained at all.
    since = (
        next(points[-1][0] - at for at, value in points if value >= last[-1] / 1.01)
        if last and last[-1] >= 1.01
        else None
    )
    said = (
        f"If the gain goes on to grow with the logarithm of time as in the second half of the curve, the next per cent "
        f"takes {elapsed(needed)} (hours, minutes, seconds)."
        if needed is not None
        else "In the second half of the curve nothing was gained: more of the same search promises nothing."
        if len(points) >= 3
        else "There is too little to tell."
    )
    return joined(
        tiles(
            [
                ("Gain", amounts.times(last[-1] if last else None), ""),
                (
                    "Last per cent",
                    elapsed(since) if since is not None else amounts.MISSING,
                    "was gained so long before the last record"
                    if since is not None
                    else "not one was gained so far",
                ),
                ("Next per cent", elapsed(needed) if needed is not None else amounts.MISSING, ""),
            ]
        ),
        paragraph(said),
    )


def _tries(choice):
    group = choice.group
    rows = [
        [
            "ok",
            records_link(f"{count:,}", group.place, choice.log, outcome="ok"),
            amounts.percent(count / group.records),
        ]
        for count in [group.records - group.failures.total()]
    ]
    rows += [
        [
            outcome,
            records_link(f"{count:,}", group.place, choice.log, outcome=outcome),
            amounts.percent(count / group.records),
        ]
        for outcome, count in group.failures.most_common()
    ]
    return table(
        "Records by outcome", ["Outcome", "Records", "Of all"], rows, ["", "number", "number"]
    )
