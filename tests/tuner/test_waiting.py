"""What a tuner says while it waits for a device that somebody else has."""

import re

import tc
from tc import fleet

from .tuning import Tuner, wait_until
from .test_tune_killed import model  # noqa: F401


def test_who_has_the_device_is_told(tmp_path, model):  # noqa: F811
    with fleet.Local(["--name", "board"]) as programs:
        options = {"model": str(model), "tracker": programs.address, "trials": 2000}
        other = Tuner(tmp_path, 0, log=str(tmp_path / "other.db"), **options)
        try:
            wait_until(
                lambda: fleet.devices(programs.address, insecure=True)[0]["state"] == "leased",
                60,
                "the other tuner leases nothing",
            )
            said = []

            def progress(raw):
                said.append(raw["doing"])
                if raw["doing"].startswith("waiting") and other.process.poll() is None:
                    other.kill()

            found = tc.tune(
                str(model),
                threads=1,
                trials=1,
                log=tmp_path / "own.db",
                tracker=programs.address,
                insecure=True,
                progress=progress,
            )
        finally:
            if other.process.poll() is None:
                other.kill()
    assert re.fullmatch(
        r"waiting for a device: 'board' is leased by \S+@\S+ since \d+ s; clients that wait: 1",
        said[0],
    )
    assert found.measured >= 1
