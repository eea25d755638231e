"""A report as a browser shows it: at three sizes, light and dark, with the keyboard, on paper."""

import importlib.util
import shutil

import pytest

import tc

from .pages import array, small_network

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
MISSING = [
    name
    for name, there in (
        ("the program chromium", CHROMIUM),
        ("the package playwright", importlib.util.find_spec("playwright")),
    )
    if not there
]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"no browser: {', '.join(MISSING)} missing")
SIZES = {"desktop": (1400, 900), "tablet": (820, 1100), "phone": (390, 844)}


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    made = small_network()
    for node in made.graph.node:
        node.name = f"/model/encoder/a rather long name of a layer/{node.name}<b>"
    module = tc.compile(made, threads=1, log=False)
    verification = tc.verify(made, threads=1, log=False)
    path = tmp_path_factory.mktemp("page") / "report.html"
    module.report(path, seconds=0.02, verification=verification)
    return path


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield opened
        opened.close()


def opened(browser, path, size="desktop", scheme="light", **options):
    """(the page, what its console said, what it asked for)."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, **options
    )
    page, messages, requests = context.new_page(), [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    return page, messages, requests


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_at_each_size(browser, page_file, size, scheme):
    page, messages, requests = opened(browser, page_file, size, scheme)
    assert messages == [] and requests == [page_file.as_uri()]
    widths = page.locator("html").evaluate("e => [e.scrollWidth, e.clientWidth]")
    assert widths[0] <= widths[1], "the page as a whole does not scroll sideways"
    back, ink = page.locator("section").first.evaluate(
        "e => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
    )
    assert _brightness(back) > 200 > 100 > _brightness(ink) or scheme == "dark"
    assert _brightness(back) < 60 < 180 < _brightness(ink) or scheme == "light"
    assert page.locator("svg.picture").first.bounding_box()["width"] > 300
    page.context.close()


def _brightness(colour):
    numbers = [int(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(numbers) / 3


def test_it_reads_the_same_without_scripts(browser, page_file):
    with_scripts, _, _ = opened(browser, page_file)
    without, messages, _ = opened(browser, page_file, java_script_enabled=False)
    assert with_scripts.locator("section").count() == without.locator("section").count() == 8
    assert messages == []


def test_the_keyboard_reaches_links_and_wide_tables(browser, page_file):
    page, _, _ = opened(browser, page_file)
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "To the content"
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        focus = page.locator(":focus")
        if focus.count() == 0:
            break
        reached.append(focus.get_attribute("href") or focus.get_attribute("aria-label"))
    assert reached[0] == "#summary" and "#provenance" in reached
    assert any(name and name.startswith("Times, work and limits") for name in reached)


def test_a_link_leads_to_its_section(browser, page_file):
    page, _, _ = opened(browser, page_file, "phone")
    page.get_by_role("link", name="Where this comes from").click()
    assert page.url.endswith("#provenance")
    assert page.locator("#provenance").bounding_box()["y"] < 844


def test_on_paper_nothing_is_cut(browser, page_file):
    page, messages, _ = opened(browser, page_file)
    page.emulate_media(media="print")
    boxes = page.locator(".scrolled").evaluate_all(
        "all => all.map(e => getComputedStyle(e).overflow)"
    )
    assert boxes and set(boxes) == {"visible"}
    assert not page.locator("nav").is_visible()
    assert len(page.pdf()) > 10_000 and messages == []


def test_accessibility(browser, page_file):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for size, scheme in (("desktop", "light"), ("phone", "dark")):
        # axe is a script, which the page's own policy refuses.
        page, _, _ = opened(browser, page_file, size, scheme, bypass_csp=True)
        found = axe.Axe().run(page)
        assert [
            (each["id"], [node["target"] for node in each["nodes"]][:3])
            for each in found.response["violations"]
        ] == []


def test_the_policy_refuses_what_is_slipped_in(browser, page_file, tmp_path):
    """Were something not escaped, it still would not run."""
    text = page_file.read_text(encoding="utf-8")
    path = tmp_path / "slipped.html"
    path.write_text(
        text.replace(
            "<main", "<script>document.title = 'ran'</script><img src='http://127.0.0.1:9/x'><main"
        ),
        encoding="utf-8",
    )
    page, messages, _ = opened(browser, path)
    assert page.title().endswith("– tc report") and len(messages) >= 2
    assert all("Content Security Policy" in message for message in messages)


def test_a_notebooks_tables_have_no_markup_of_names(browser, tmp_path):
    made = small_network()
    module = tc.compile(made, threads=1, log=False)
    module.name = "<img src=x onerror=document.title='ran'>"
    report = module.report(inputs={"x": array((1, 8, 24, 24))}, seconds=0.01)
    path = tmp_path / "cell.html"
    path.write_text(
        f"<title>cell</title>{module._repr_html_()}{report._repr_html_()}", encoding="utf-8"
    )
    page, messages, requests = opened(browser, path)
    assert page.title() == "cell" and messages == [] and len(requests) == 1
