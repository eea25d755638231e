"""The pictures of README: `python -m tests.lab.pictures [FOLDER] [--trials N]`.

A step of NsNet2 is tuned on the simulated board, which gives the same schedules each time, and the
lab's first page on this log is written to FOLDER (docs) as lab.png; report.png is the top of the
report of SqueezeNet on this machine. Both are as Chromium shows them.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import tc
from tc import fleet
from tests import zoo
from tests.lab.labs import Server
from tests.reporting.test_report_browser import CHROMIUM, MISSING

SIZE = {"width": 1280, "height": 960}
COLOURS = 64  # of a picture, which is text on plain areas


def shrink(path):
    """Writes the picture anew in few colours: a fifth of the bytes."""
    from PIL import Image

    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(COLOURS)
    few.save(path, optimize=True)


def tune(trials, log):
    """Tries so many schedules of the step of NsNet2."""
    with fleet.Local(["--name", "board", "--runner", "qemu", "--vector-bits", "256"]) as programs:
        tc.tune(
            zoo.export("nsnet2_step"),
            "rv64gcv",
            shapes=zoo.shapes("nsnet2_step"),
            threads=1,
            trials=trials,
            log=log,
            tracker=programs.address,
            insecure=True,
            progress=False,
        )


def take(folder, work):
    """Writes the two pictures; `work` has the log models.db and report.html."""
    from playwright.sync_api import sync_playwright

    server = Server("--log", "models.db")
    server.folder = work  # so that the page says no path
    with server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        context = browser.new_context(viewport=SIZE, color_scheme="light")
        name, _, value = server.cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "url": server.url}])
        page = context.new_page()
        page.goto(server.url + "/")
        page.locator("html[data-script]").wait_for()
        page.screenshot(path=folder / "lab.png")
        page.goto((work / "report.html").as_uri())
        page.screenshot(path=folder / "report.png")
        browser.close()
    for name in "lab.png", "report.png":
        shrink(folder / name)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("docs"), metavar="FOLDER")
    parser.add_argument("--trials", type=int, default=150)
    arguments = parser.parse_args(words)
    if MISSING:
        print(f"the pictures need {', '.join(MISSING)}; install what is missing", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        tune(arguments.trials, work / "models.db")
        network = "squeezenet1_1"
        module = tc.compile(zoo.export(network), shapes=zoo.shapes(network), threads=1, log=False)
        module.report(work / "report.html", seconds=1)
        take(arguments.folder, work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
