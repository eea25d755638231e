"""The table and the picture of networks on variants of an accelerator."""

import json
import shutil
from xml.etree import ElementTree

import pytest

from ..bench import accelerators
from ..support import models_folder

NETWORK = models_folder() / "mlperf_tiny" / "ad01_int8.tflite"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.skipif(not NETWORK.exists(), reason="the models are not here: see $TC_MODELS")
def test_table_and_picture(tmp_path, capsys):
    data, picture = tmp_path / "rows.json", tmp_path / "picture.svg"
    variants = ["outputs64", "inputs64"]
    accelerators.main(
        [str(NETWORK), "--variants", *variants, "--json", str(data), "--svg", str(picture)]
    )
    lines = capsys.readouterr().out.splitlines()
    rows = json.loads(data.read_text())
    assert [row["variant"] for row in rows] == variants
    for row, line in zip(rows, lines[1:]):
        assert all(f"{row['cycles'][each]:,.0f}" in line for each in accelerators.SCENARIOS)
        assert row["cycles"]["placed"] <= min(row["cycles"].values())
        assert row["simulated"] + row["on_core"] == row["cycles"]["placed"]
    space = "{http://www.w3.org/2000/svg}"
    bars = ElementTree.parse(picture).getroot().findall(f"{space}rect/{space}title")
    assert len(bars) == len(rows) * len(accelerators.SCENARIOS)
    assert bars[0].text == f"outputs64, core: {rows[0]['cycles']['core']:,.0f} cycles"
    # A bar is higher where there are more cycles.
    heights = {
        shape.find(f"{space}title").text: float(shape.get("height"))
        for shape in ElementTree.parse(picture).getroot().findall(f"{space}rect")
        if shape.find(f"{space}title") is not None
    }
    most = max(rows, key=lambda row: row["cycles"]["core"])
    assert max(heights, key=heights.get).startswith(most["variant"] + ", core")
