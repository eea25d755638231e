"""The command that makes the pictures of README."""

import re
import shutil

import pytest

from ..support import ROOT

for package in "starlette", "uvicorn":
    pytest.importorskip(package, reason=f"{package} is not installed")
from . import pictures  # noqa: E402


def size_of(path):
    """Width and height, which the first part of a PNG file has."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR", path
    return tuple(int.from_bytes(data[at : at + 4], "big") for at in (16, 20))


def test_readme_shows_what_the_command_makes():
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert shown == ["docs/lab.png", "docs/report.png"]
    for name in shown:
        assert size_of(ROOT / name) == tuple(pictures.SIZE.values())
        assert (ROOT / name).stat().st_size < 100_000


def test_what_is_missing_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pictures, "MISSING", ["the program chromium"])
    assert pictures.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        "the pictures need the program chromium; install what is missing\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.full
@pytest.mark.skipif(bool(pictures.MISSING), reason=f"{', '.join(pictures.MISSING)} missing")
@pytest.mark.skipif(not shutil.which("qemu-riscv64"), reason="qemu-riscv64 is not installed")
def test_the_pictures_are_made(tmp_path):
    pytest.importorskip("PIL", reason="pillow is not installed")
    assert pictures.main([str(tmp_path), "--trials", "8"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.png", "report.png"]
    for path in tmp_path.iterdir():
        assert size_of(path) == tuple(pictures.SIZE.values())
        assert path.stat().st_size > 10_000
