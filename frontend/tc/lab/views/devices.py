"""The tracker's devices."""

from ...reporting import amounts
from ...reporting.markup import Markup, element, escaped, joined, paragraph, table, tiles
from ..page import Section, form
from ..query import link
from .records import record_link
from .shared import rest

_ON_PAGE = 100
# What one looks for first.
_STATES = ("quarantined", "lost", "leased", "free")


def devices(lab, query):
    fleet = lab.fleet
    if fleet is None:
        return "Devices", [
            Section(
                "devices",
                "Devices",
                paragraph(
                    "No tracker was named: `python -m tc lab --tracker HOST:PORT` shows its devices."
                ),
            )
        ]
    state, text = query.text("state"), query.text("text")[:100]
    states = sorted({row["state"] for row in fleet.rows} | ({state} if state else set()))
    fitting = [
        row
        for row in fleet.rows
        if (not state or row["state"] == state) and _has(row, text.lower())
    ]
    fitting.sort(key=lambda row: (_rank(row["state"]), row["name"]))
    begin = query.number("begin")
    shown = fitting[begin : begin + _ON_PAGE]
    fields = [("state", "State", [("", "any"), *((each, each) for each in states)], state)]
    return "Devices", [
        Section("filters", "Filters", form("/devices", fields), live=False),
        Section(
            "devices",
            f"Devices of {escaped(fleet.tracker, 80)}",
            _tiles(fleet),
            paragraph(f"The tracker is not reached at the moment: {fleet.problem}", class_="bad")
            if fleet.problem
            else None,
            _table(lab, shown) if shown else paragraph("No device fits."),
            rest(begin + len(shown), len(fitting), "devices"),
            _pages(begin, len(fitting), query),
        ),
    ]


def _rank(state):
    return _STATES.index(state) if state in _STATES else -1


def _has(row, text):
    return not text or any(
        text in str(row[name]).lower() for name in ("name", "processor", "client")
    )


def _pages(begin, total, query):
    kept = query.kept("state", "text")
    parts = []
    if begin > 0:
        parts.append(link("Devices before", "/devices", kept | {"begin": max(0, begin - _ON_PAGE)}))
    if begin + _ON_PAGE < total:
        parts.append(link("Devices after", "/devices", kept | {"begin": begin + _ON_PAGE}))
    return element("p", joined([(part, Markup(" ")) for part in parts])) if parts else None


def _tiles(fleet):
    counts = {}
    for row in fleet.rows:
        counts[row["state"]] = counts.get(row["state"], 0) + 1
    return tiles(
        [
            ("Devices", f"{len(fleet.rows):,}", ""),
            *(
                (state.capitalize()[:30], link(f"{count:,}", "/devices", {"state": state}), "")
                for state, count in sorted(counts.items())
            ),
            ("Clients that wait", f"{fleet.counters.get('waiting', 0):,}", ""),
            (
                "Measurements",
                f"{sum(fleet.rates.values()):,.0f}" if fleet.rates else amounts.MISSING,
                "a minute",
            ),
        ]
    )


def _table(lab, rows):
    return table(
        "Devices, those with something wrong first",
        [
            "Device",
            "State",
            "Client",
            "Lease",
            "Waiting",
            "Measured",
            "A minute",
            "Heard of",
            "Load",
            "Processor",
            "Last failure of its kind",
        ],
        [
            [
                escaped(row["name"], 60),
                row["state"],
                escaped(row["client"] or amounts.MISSING, 60),
                f"{row['lease_seconds']:.0f} s" if row["state"] == "leased" else amounts.MISSING,
                f"{row['waiting_count']:,}",
                f"{row['measured']:,}",
                f"{lab.fleet.rates[row['name']]:,.0f}"
                if row["name"] in lab.fleet.rates
                else amounts.MISSING,
                f"{row['seconds_since_heartbeat']:.0f} s ago",
                _condition(row),
                escaped(row["processor"] or row["architecture"], 60),
                _last_failure(lab, row["key"]),
            ]
            for row in rows
        ],
        ["", "", "", *["number"] * 6, "some", "wide"],
    )


def _condition(row):
    """Load, temperature and frequency, as far as they are known."""
    parts = [
        text.format(row[key])
        for key, text in (("load", "{:.1f}"), ("celsius", "{:.0f} °C"), ("gigahertz", "{:.1f} GHz"))
        if row[key] is not None
    ]
    return ", ".join(parts) or amounts.MISSING


def _last_failure(lab, key):
    """The log knows the kind of a device, not which board it was."""
    for log, follower in enumerate(lab.followers):
        entry = follower.state.last_of_device.get(key)
        if entry is not None:
            return joined(record_link(entry.outcome, entry, log), " ", escaped(entry.detail, 100))
    return amounts.MISSING
