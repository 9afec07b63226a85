"""The page in a real browser. None of the pages that are opened here may put an error on the console."""

import re
from itertools import pairwise

import pytest

from fzoos.runs.reader import read
from fzoos.runs.report import report

from .conftest import keep, serving, wait_for

PLOT = "#plot-convergence"
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
PATIENCE = 30000  # milliseconds: the machine may be busy


@pytest.fixture(scope="module")
def url(kept):
    with serving(kept) as address:
        yield address


def drawn(page):
    """The page, once there is a curve."""
    page.wait_for_selector(f"{PLOT} .line path", state="attached", timeout=PATIENCE)
    return page


def lines(page, plot=PLOT):
    """The identifiers of the lines in a plot."""
    return page.locator(f"{plot} .line").evaluate_all("groups => groups.map((group) => group.dataset.id)")


def until(page, condition):
    """Wait for it; the page's own policy forbids what Playwright would do to wait inside of it."""

    def look():
        page.wait_for_timeout(50)
        return condition()

    wait_for(look)


def has_lines(page, count, plot=PLOT):
    until(page, lambda: len(lines(page, plot)) == count)


def curve(page):
    return page.locator(f"{PLOT} .line path").first.get_attribute("d")


def grows(page, by):
    """Wait until the first curve has so many points more than now."""
    wanted = len(re.findall("[ML]", curve(page))) + by
    until(page, lambda: len(re.findall("[ML]", curve(page))) >= wanted)


def axes(page, plot=PLOT):
    """The titles of the vertical and the horizontal axis."""
    return page.locator(f"{plot} .axis-title").all_text_contents()


def text_of(page, where):
    return page.locator(where).first.text_content()


def says(page, text, where=PLOT):
    until(page, lambda: text in text_of(page, where))


def scale(page, name):
    page.locator(f"{PLOT} fieldset").last.get_by_label(name).check()


def wide(page):
    """Whether the page has to be moved sideways to be read."""
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_the_page_shows_the_runs(visit, url):
    page = drawn(visit(url))
    has_lines(page, 3)
    assert page.title() == "FZooS · fzoos"
    assert page.locator("#list .run .name").all_inner_texts() == ["FZooS", "FedProx", "FedZO"]
    assert lines(page) == ["runs.db:1", "runs.db:2", "runs.db:3"]
    assert len(lines(page, "#plot-correction_length")) == 3
    assert len(lines(page, "#plot-distances")) == 3
    assert "6\nof 6" in page.locator(".tiles").inner_text()
    assert page.locator("#table-clients tbody tr").count() == 3
    assert page.locator("#table-comparison tbody tr").count() == 3
    assert "algorithm.features" in page.locator("#table-settings").inner_text()
    assert "None" in page.locator("#table-failures").inner_text()
    assert page.locator("#live").inner_text() == "Live"
    assert not wide(page)


def test_the_horizontal_axis(visit, url):
    page = drawn(visit(url))
    assert axes(page)[1] == "rounds"
    for name, title in (("Queries", "queries of all clients"), ("Bytes", "bytes, up and down"), ("Seconds", "seconds")):
        page.get_by_label(name, exact=True).check()
        says(page, title)
        assert axes(page)[1] == axes(page, "#plot-correction_length")[1] == axes(page, "#plot-distances")[1] == title
    before = curve(page)
    page.locator("#across").get_by_label("Log").check()
    says(page, "seconds, log scale")
    assert curve(page) != before


def test_log_and_linear(visit, tmp_path):
    """F = 1, 0.1, 0.01 at x0 and in rounds 1 and 2: on a log axis the steps are equal, on a linear one 10 to 1."""
    values = iter([1.0, 0.1, 0.01])
    keep(tmp_path / "runs.db", rounds=2, monitor=lambda x: next(values, 0.0))

    def steps():
        heights = [float(y) for y in re.findall(r"[ML]\S+ (\S+?)(?=[ML]|$)", curve(page))]
        return [b - a for a, b in pairwise(heights)]

    with serving(tmp_path) as url:
        page = drawn(visit(url))
        assert axes(page)[0] == "F, log scale"  # chosen by itself: the values span two orders of magnitude
        first, second = steps()
        assert first == pytest.approx(second, abs=0.2)
        scale(page, "Linear")
        until(page, lambda: axes(page)[0] == "F")
        first, second = steps()
        assert first == pytest.approx(10 * second, abs=1)
        scale(page, "Log")
        says(page, "F, log scale")


def test_everything_is_reached_with_the_keyboard(visit, url):
    page = drawn(visit(url))
    name = "e.id || e.name || e.getAttribute('aria-label') || e.className"
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(f"(() => {{ const e = document.activeElement; return {name}; }})()"))
    controls = [
        "skip",
        "theme",
        "filter",
        "all",
        "none",
        "order",
        "Draw FZooS",
        "open",
        "against",
        "across",
        "reference",
        "metric",
    ]
    controls += ["scale-convergence", "F against rounds", "scale-correction_length"]
    at = [next((i for i, one in enumerate(reached) if control in one), None) for control in controls]
    assert None not in at, dict(zip(controls, at, strict=True))
    assert at == sorted(at), "the order is that of the page"
    # Arrows choose among options, and read values off a plot.
    page.locator("#against input").first.focus()
    page.keyboard.press("ArrowRight")
    says(page, "queries of all clients")
    page.locator(f"{PLOT} svg").first.focus()
    page.keyboard.press("Home")
    tip = page.locator(f"{PLOT} .tip")
    first = tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert tip.inner_text() != first
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    # So does the zoom.
    before = curve(page)
    page.keyboard.press("+")
    assert curve(page) != before
    page.keyboard.press("0")
    assert curve(page) == before


def test_every_control_has_a_name(visit, url):
    page = drawn(visit(url))
    named = "e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.[0]?.textContent.trim()"
    controls = (
        "document.querySelectorAll('input, button, fieldset, summary, [role=img], [role=region], [tabindex=\"0\"]')"
    )
    assert page.evaluate(f"[...{controls}].filter((e) => !({named})).map((e) => e.outerHTML)") == []


def test_light_and_dark(visit, url):
    """As the system says, unless the switch says otherwise; the choice survives a reload."""

    def brightness():
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765

    page = drawn(visit(url))
    assert brightness() > 0.9
    page = drawn(visit(url, color_scheme="dark"))
    assert brightness() < 0.2
    page.locator("#theme").get_by_label("Light").check()
    assert brightness() > 0.9
    page.reload()
    drawn(page)
    assert brightness() > 0.9
    page.locator("#theme").get_by_label("Auto").check()
    assert brightness() < 0.2


def test_on_a_phone(visit, url):
    page = drawn(visit(url, **PHONE))
    assert not wide(page)
    assert not page.locator("#list").is_visible()
    page.locator("summary").tap()
    page.get_by_label("Draw FedZO, run 1").tap()
    has_lines(page, 2)
    assert not wide(page)
    page.locator(f"{PLOT} svg").first.tap()
    page.locator(f"{PLOT} .tip").wait_for()
    assert not wide(page)


def test_a_run_appears_and_its_curve_grows_without_a_reload(visit, tmp_path, going_on):
    with serving(tmp_path) as url:
        page = visit(url)
        page.wait_for_selector("#empty:not([hidden])")
        assert "No runs yet" in page.locator("#empty").inner_text()
        page.evaluate("window.untouched = true")
        process = going_on(tmp_path / "runs.db")
        page.wait_for_selector("#list .pill.running", timeout=PATIENCE)
        drawn(page)
        grows(page, 2)
        assert re.fullmatch(r"\d+/500 going on · fzoos", page.title())
        # Whoever reads is not disturbed: what has the focus keeps it.
        page.get_by_label("Draw going on, run 1").focus()
        grows(page, 1)
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Draw going on, run 1"
        process.kill()
        process.wait()
        page.wait_for_selector("#list .pill.interrupted", timeout=PATIENCE)
        says(page, "its process is gone", "#head")
        keep(tmp_path / "runs.db", rounds=2, name="a second one")
        has_lines(page, 2)
        assert page.evaluate("window.untouched")


def test_the_report_opens_from_a_file(visit, kept, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(report([read(f"{kept}:{run}") for run in (1, 2, 3)]), encoding="utf-8")
    page = drawn(visit(path.as_uri()))
    has_lines(page, 3)
    assert len(lines(page, "#plot-correction_length")) == 3
    assert "Made with fzoos" in page.locator("#foot").inner_text()
    page.get_by_label("Queries", exact=True).check()
    says(page, "queries of all clients")
    page.get_by_label("Draw FedZO, run 1").uncheck()
    has_lines(page, 2)
    assert not wide(page)
    assert not wide(drawn(visit(path.as_uri(), color_scheme="dark", **PHONE)))
