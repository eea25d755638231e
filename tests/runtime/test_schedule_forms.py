"""Methods of tc.Schedule: how arguments become a primitive's text form."""

import pytest

tc = pytest.importorskip("tc")

from tc.kernel import line_of  # noqa: E402
from tc.native import compiler  # noqa: E402

ROWS = {row["name"]: row for row in compiler.primitives()}


@pytest.mark.parametrize(
    "name, arguments, named, expected",
    [
        ("split", ("x", 14, "xo", "xi"), {}, "split x 14 as xo xi"),
        ("split", ("x", 14), {"inner": "xi", "outer": "xo"}, "split x 14 as xo xi"),
        ("order", ("a", "b", "c"), {}, "order a b c"),
        ("order", (["a", "b"],), {}, "order a b"),
        ("compute_at", ("init", "tail", "xo"), {}, "compute_at init tail at xo"),
        ("compute_at", ("init",), {"loop": "xo"}, "compute_at init at xo"),
        ("fuse", ("i", "j", "k", "n"), {}, "fuse i j k as n"),
        ("unroll", ("i",), {}, "unroll i"),
        ("unroll", ("i", 4), {}, "unroll i 4"),
        ("parallel", ("f", "y"), {}, "parallel f y"),
        ("parallel", ("f",), {"inner": "y"}, "parallel f y"),
        ("pack", ("K", "fo", "c"), {}, "pack K : fo c"),
        ("register_tile", ("root",), {}, "register_tile root"),
        ("merge", ("S_i", "S_j", "n"), {}, "merge S_i S_j as n"),
        ("winograd", ("macc", 4, 3, 2, 14), {}, "algorithm macc winograd 4 3 2 14"),
        ("bf16x3", ("macc", 1, 2, 2, 2), {"rows": 16}, "algorithm macc bf16x3 1 2 2 2 16"),
    ],
)
def test_fills_the_form(name, arguments, named, expected):
    assert line_of(ROWS[name], arguments, named) == expected


@pytest.mark.parametrize(
    "arguments, named, text",
    [
        (("x", 14, "xo"), {}, "'inner' is missing"),
        (("x", 14, "xo", "xi", "xj"), {}, "'xj' is one too many"),
        (("x", 14, "xo", "xi"), {"factor": 2}, "there is no argument 'factor'"),
    ],
)
def test_says_what_is_wrong(arguments, named, text):
    with pytest.raises(tc.ScheduleError) as raised:
        line_of(ROWS["split"], arguments, named)
    assert str(raised.value) == f"{text}; the form is: split LOOP SIZE as OUTER INNER"


def test_every_row_is_a_method():
    for name, row in ROWS.items():
        method = getattr(tc.Schedule, name)
        assert row["signature"] in method.__doc__
        for argument in row["arguments"]:
            if argument["kind"] != "keyword":
                assert f"{argument['name'].lower()}: {argument['description']}" in method.__doc__
