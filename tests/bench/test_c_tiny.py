"""The comparison of C sources: tc's rows, and that max_flash makes code smaller."""

import os
import sys
from pathlib import Path

import pytest

from tests.bench import c_tiny

FILE = Path(os.environ.get("TC_MODELS", ""), "mlperf_tiny", "str_ww_ref_model.tflite")


@pytest.mark.skipif(not FILE.exists(), reason="set TC_MODELS to the folder of the models")
def test_rows_of_a_file(capsys, monkeypatch):
    # A module of this folder is called like the package tflite, by which tc reads the file.
    own = Path(__file__).parent
    monkeypatch.setattr(sys, "path", [place for place in sys.path if Path(place) != own])
    compiler = c_tiny.SMALL["x86-64"]
    monkeypatch.setattr(c_tiny, "SMALL", {"x86-64": compiler})
    assert c_tiny.main([str(FILE), "--rounds", "1"]) == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()[:3]]
    assert head == ["file", "by", "us", "x86-64", "RAM"]
    assert [row[:2] for row in rows] == [[FILE.stem, "tc"], [FILE.stem, "small"]]
    fast, small = ([float(cell.replace(",", "")) for cell in row[2:]] for row in rows)
    assert 0 < fast[0] < small[0]
    # Code of plain loops, and constants without padding.
    assert small[1] < 0.85 * fast[1]


def test_a_wrong_result_is_told():
    numpy = c_tiny.numpy
    wanted = numpy.array([100, -100], numpy.int8)
    assert not c_tiny.differ(wanted + numpy.int8(1), wanted)
    assert c_tiny.differ(wanted + numpy.int8(2), wanted)
    reals = numpy.array([1.0, 2.0], numpy.float32)
    assert not c_tiny.differ(reals * numpy.float32(1.00001), reals)
    assert c_tiny.differ(reals * numpy.float32(1.001), reals)
