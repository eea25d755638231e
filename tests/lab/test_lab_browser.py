"""The lab as a browser shows it: at three sizes, light and dark, with the keyboard, live."""

import pytest

for package in "starlette", "uvicorn":
    pytest.importorskip(package, reason=f"{package} is not installed")
from ..reporting import test_report_browser as reports  # noqa: E402
from ..reporting.test_report_browser import MISSING, SIZES, browser  # noqa: E402, F401
from .labs import BEGAN, Server, add, addresses_in, row, some_rows  # noqa: E402
from .test_lab import PATHS  # noqa: E402

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"no browser: {', '.join(MISSING)} missing")
LONG = "a-name-" * 30


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("lab") / "log.db"
    add(path, some_rows())
    for number in range(3, 60):
        add(path, [row(number, 0.5 + number / 200, build=f"0.3.0 {LONG}", created=BEGAN + number)])
    add(path, [row(9, 0, outcome="crash", detail="x" * 3000, trace=["y" * 3000])])
    return path


@pytest.fixture(scope="module")
def server(log):
    with Server("--log", log, "--against", log) as running:
        yield running


class Viewer:
    """A browser's page, what its console said and what it asked for."""

    def __init__(self, browser, server, size="desktop", scheme="light", **options):
        width, height = SIZES[size]
        self._has_scripts = options.get("java_script_enabled", True)
        self._url = server.url
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, **options
        )
        name, _, value = server.cookie.partition("=")
        self.context.add_cookies([{"name": name, "value": value, "url": server.url}])
        self.page, self.messages, self.requests = self.context.new_page(), [], []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path):
        self.page.goto(self._url + path)
        if self._has_scripts:
            self.page.locator("html[data-script]").wait_for()
        return self.page

    def check(self, path):
        assert self.messages == [], path
        assert all(each.startswith(self._url + "/") for each in self.requests), path


def opened(browser, server, path, *size, **options):
    viewer = Viewer(browser, server, *size, **options)
    return viewer.open(path), viewer.messages, viewer.requests


def every_page(server):
    kernel = next(each for each in addresses_in(server.page("/kernels")) if "/kernel/" in each)
    code = next(each for each in addresses_in(server.page(kernel)) if "/code" in each)
    return [*PATHS, kernel, code, "/record/1", "/records?outcome=failed"]


# A small page and a large one; --full: all combinations.
QUICK = {("phone", "dark"), ("desktop", "light")}


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(size, scheme, marks=[] if (size, scheme) in QUICK else pytest.mark.full)
        for size in SIZES
        for scheme in ("light", "dark")
    ],
)
def test_at_each_size(browser, server, size, scheme):  # noqa: F811
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    viewer = Viewer(browser, server, size, scheme)
    # axe is a script, which the page's own policy refuses: it looks at a page that has none.
    looked_at = Viewer(browser, server, size, scheme, bypass_csp=True)
    for path in every_page(server):
        page = viewer.open(path)
        widths = page.locator("html").evaluate("e => [e.scrollWidth, e.clientWidth]")
        assert widths[0] <= widths[1], f"{path} scrolls sideways as a whole"
        back = page.locator("section").first.evaluate("e => getComputedStyle(e).backgroundColor")
        assert (reports._brightness(back) > 200) == (scheme == "light")
        viewer.check(path)
        found = axe.run(looked_at.open(path))
        assert [
            (each["id"], [node["target"] for node in each["nodes"]][:3])
            for each in found.response["violations"]
        ] == [], path
    viewer.context.close()
    looked_at.context.close()


def test_the_keyboard_reaches_every_view(browser, server):  # noqa: F811
    page, messages, _ = opened(browser, server, "/")
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "To the content"
    reached = []
    for _ in PATHS:
        page.keyboard.press("Tab")
        reached.append(page.locator(":focus").get_attribute("href").partition("?")[0])
    assert reached == list(PATHS)
    page.keyboard.press("Enter")
    page.locator("h1", has_text="Records").wait_for()
    for _ in range(len(PATHS) + 2):  # past the views, to the first filter
        page.keyboard.press("Tab")
    assert page.locator(":focus").get_attribute("name") == "log"
    assert messages == []


def test_filters_change_the_address(browser, server):  # noqa: F811
    page, messages, _ = opened(browser, server, "/records")
    page.get_by_label("Outcome").select_option("failed")
    page.get_by_role("button", name="Show").click()
    page.locator("h2", has_text="3 records").wait_for()
    assert "outcome=failed" in page.url and messages == []
    page.reload()
    assert page.get_by_label("Outcome").input_value() == "failed"


def test_it_reads_the_same_without_scripts(browser, server):  # noqa: F811
    viewer = Viewer(browser, server, java_script_enabled=False)
    for path in PATHS:
        assert viewer.open(path).locator("section").count() >= 1
        viewer.check(path)
    viewer.context.close()


def test_a_link_with_the_token_opens_the_page(browser, server):  # noqa: F811
    page = browser.new_context().new_page()
    page.goto(f"{server.url}/?token={server.token}")
    assert page.url == f"{server.url}/" and page.title() == "Tuning – tc lab"


def test_the_page_is_live_and_keeps_focus(browser, tmp_path):  # noqa: F811
    path = tmp_path / "log.db"
    add(path, [row(0, 1.0)])
    with Server("--log", path) as running:
        page, messages, requests = opened(browser, running, "/")
        link = page.locator("#now dd a").first
        assert link.inner_text() == "1"
        page.get_by_role("link", name="All kernels").focus()
        for number in range(2, 5):
            add(path, [row(0, 1 - number / 10, created=BEGAN + number)])
            page.locator("#now dd a", has_text=f"{number}").first.wait_for(timeout=5000)
        assert page.locator(":focus").inner_text() == "All kernels"
        assert "1.67×" in page.locator("#gain").inner_text()
        assert messages == [] and all(each.startswith(running.url + "/") for each in requests)
        address = page.url
        status = page.get_by_role("status")
        assert status.inner_text() == "", "it does not speak at every record"
    page.locator("#connection", has_text="does not answer").wait_for(timeout=5000)
    assert page.url == address


def test_a_name_runs_nowhere(browser, tmp_path):  # noqa: F811
    name = "<img src=x onerror=document.title='ran'><script>document.title='ran'</script>"
    path = tmp_path / "log.db"
    add(path, [row(0, 0.5, device=name, build=name, workload=f"kernel k\n{name}", trace=[name])])
    add(path, [row(0, 0, outcome="crash", detail=name, device=name, build=name)])
    with Server("--log", path) as running:
        viewer = Viewer(browser, running)
        for address in every_page(running)[:-3] + ["/record/1", "/record/2"]:
            assert "ran" not in viewer.open(address).title().split()
            viewer.check(address)
