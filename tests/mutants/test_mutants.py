"""Broken variants of the compiler: the table fits the sources, and the tests catch each variant."""

import pytest

from tests.mutants import run


def test_the_table_fits_the_sources():
    mutants = run.read_table()
    assert len(mutants) >= 20
    assert run.problems(mutants) == []
    for part in (
        "codegen/",
        "scheduler/",
        "frontend/pipeline/",
        "frontend/import/onnx/",
        "ir/passes/",
        "ir/ops/",
        "runtime/",
    ):
        assert any(mutant.file.startswith(part) for mutant in mutants), part


def test_a_table_that_does_not_fit_is_refused():
    mutant = run.read_table()[0]
    assert "occurs 0 times" in run.problems([mutant._replace(before="no such text")])[0]
    assert "occurs 0 times" in run.problems([mutant._replace(file="codegen/gone.cc")])[0]
    assert "there is no test" in run.problems([mutant._replace(test="//tests:gone_test")])[0]
    assert "changes nothing" in run.problems([mutant._replace(after=mutant.before)])[0]


def test_both_texts_are_in_the_source():
    mutant = run.Mutant("x", "a.cc", "a + 1", "a", "t", "w")
    assert run.both(mutant) == '(tc_mutant("x") ? (a) : (a + 1))'
    assert (
        run.both(mutant._replace(before="f();", after=""))
        == '{ if (tc_mutant("x")) {  } else { f(); } }'
    )


@pytest.mark.full
def test_each_variant_is_caught():
    survivors = [result for result in run.run(run.read_table()) if not result.caught]
    assert survivors == []
