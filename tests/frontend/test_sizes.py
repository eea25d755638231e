"""Sizes with units: what is taken, and what is refused."""

import argparse

import numpy
import pytest

import tc
from tc.sizes import bytes_of, kilobytes, size_argument, size_option


@pytest.mark.parametrize(
    "text, count",
    [
        ("1", 1),
        ("4096", 4096),
        ("4096B", 4096),
        ("256KB", 256_000),
        ("256kb", 256_000),
        ("256 KiB", 1 << 18),
        ("1MB", 10**6),
        ("1MiB", 1 << 20),
        (" 2 GB ", 2 * 10**9),
        ("1.5GiB", 3 << 29),
        ("0.5MB", 500_000),
        ("0.0015KB", 1),
        ("1TiB", 1 << 40),
        (f"{(1 << 63) - 1}", (1 << 63) - 1),
        ("0.1GB", 10**8),
        (262144, 1 << 18),
        (1e6, 10**6),
        (numpy.int64(77), 77),
        (numpy.float32(64), 64),
    ],
)
def test_taken(text, count):
    assert bytes_of(text) == count


@pytest.mark.parametrize(
    "value",
    [
        "",
        "KB",
        "0",
        "0KB",
        "0.0001KB",
        "-1",
        "-1KB",
        "1e6",
        "256 K",
        "256KiBs",
        "256KBit",
        "0x100",
        "1,000",
        "1.KB",
        ".5MB",
        "nan",
        "inf",
        "9" * 80,
        f"{1 << 63}",
        "10000000TiB",
        "٣KB",
        0,
        -5,
        1.5,
        float("nan"),
        float("inf"),
        True,
        None,
        [1],
        b"1KB",
        1 << 63,
    ],
)
def test_refused(value):
    assert bytes_of(value) is None


def test_what_is_said():
    assert size_option("max_ram", None, "half of this machine's memory") == 0
    assert size_option("max_ram", "1KiB", "half of this machine's memory") == 1024
    with pytest.raises(tc.Error) as raised:
        size_option("max_ram", "256 kilobytes", "half of this machine's memory")
    assert str(raised.value) == (
        "max_ram is '256 kilobytes'; give a number of bytes, alone or with a unit (256KB, 1MiB), or None for half "
        "of this machine's memory"
    )
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        size_argument("12Q")
    assert (
        str(refused.value) == "'12Q' is not a number of bytes, alone or with a unit (256KB, 1MiB)"
    )
    assert (kilobytes(91_456), kilobytes(0)) == ("91.5 KB", "0.0 KB")
