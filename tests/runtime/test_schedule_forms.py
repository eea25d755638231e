"""Methods of tc.Schedule: how arguments become a primitive's text form."""

import pytest

tc = pytest.importorskip("tc")

from tc.kernel import _fill_form, _parse_form  # noqa: E402


def line(form, *arguments, **named):
    return _fill_form(form, _parse_form(form), arguments, named)


@pytest.mark.parametrize("form, arguments, named, expected", [
    ("split LOOP SIZE as OUTER INNER", ("x", 14, "xo", "xi"), {}, "split x 14 as xo xi"),
    ("split LOOP SIZE as OUTER INNER", ("x", 14), {"inner": "xi", "outer": "xo"},
     "split x 14 as xo xi"),
    ("order LOOP LOOP ...", ("a", "b", "c"), {}, "order a b c"),
    ("order LOOP LOOP ...", (["a", "b"],), {}, "order a b"),
    ("compute_at STATEMENT ... at LOOP", ("init", "tail", "xo"), {}, "compute_at init tail at xo"),
    ("compute_at STATEMENT ... at LOOP", ("init",), {"loop": "xo"}, "compute_at init at xo"),
    ("fuse LOOP LOOP ... as NAME", ("i", "j", "k", "n"), {}, "fuse i j k as n"),
    ("unroll LOOP [COPIES]", ("i",), {}, "unroll i"),
    ("unroll LOOP [COPIES]", ("i", 4), {}, "unroll i 4"),
    ("parallel LOOP [LOOP]", ("f", "y"), {}, "parallel f y"),
    ("pack BUFFER : ITERATOR ...", ("K", "fo", "c"), {}, "pack K : fo c"),
    ("register_tile LOOP|root", ("root",), {}, "register_tile root"),
    ("merge STATEMENT_OUTER STATEMENT_INNER as NAME", ("S_i", "S_j", "n"), {}, "merge S_i S_j as n"),
])
def test_fills_the_form(form, arguments, named, expected):
    assert line(form, *arguments, **named) == expected


@pytest.mark.parametrize("arguments, named, text", [
    (("x", 14, "xo"), {}, "'inner' is missing"),
    (("x", 14, "xo", "xi", "xj"), {}, "'xj' is one too many"),
    (("x", 14, "xo", "xi"), {"factor": 2}, "there is no argument 'factor'"),
])
def test_says_what_is_wrong(arguments, named, text):
    form = "split LOOP SIZE as OUTER INNER"
    with pytest.raises(tc.ScheduleError) as raised:
        line(form, *arguments, **named)
    assert str(raised.value) == f"{text}; the form is: {form}"
