"""What the pictures of the benchmarks share."""


def bars(panel, names, series, label, title, styles=None):
    """Bars side by side for each name on a panel of matplotlib, on a logarithmic axis with a line
    at 1; None leaves a bar out.

    `series` maps a peer to its values, one for each name; `styles` maps some of the peers to
    arguments of their bars.
    """
    for number, (peer, values) in enumerate(series.items()):
        there = [
            (place + (number + 0.5) * 0.8 / len(series) - 0.4, value)
            for place, value in enumerate(values)
            if value is not None
        ]
        panel.bar(
            [at for at, _ in there],
            [value for _, value in there],
            0.8 / len(series),
            label=peer,
            color=f"C{number % 10}",
            **(styles or {}).get(peer, {}),
        )
    panel.axhline(1, color="black", linewidth=0.5)
    panel.set_yscale("log")
    panel.set_ylabel(label)
    panel.set_title(title)
    panel.set_xticks(range(len(names)), names, rotation=30, ha="right")
