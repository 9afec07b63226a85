"""What the page makes of runs, in a real browser: means over seeds, F*, zoom, files, and changes that ask first."""

import csv
import re

import numpy as np
import pytest

from fzoos import Adam, Auto, FedProx, FedZO, minimize
from fzoos.runs.reader import read, runs_at
from fzoos.runs.report import report
from fzoos.runs.store import Store
from fzoos.testing.problem import with_steps
from fzoos_experiments.tasks import Levy, Quadratic

from .conftest import keep, serving
from .test_browser import PLOT, axes, drawn, has_lines, says, text_of, until

TOKEN = "a-word-that-nobody-guesses"
NASTY = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


def solve(path, task, algorithm, **settings):
    settings = {"rounds": 3, "seed": task.seed} | settings
    algorithm = with_steps(algorithm, 2, Adam(0.01))
    return minimize(task.objectives, task.x0, bounds=task.bounds, vectorized=True, algorithm=algorithm,
                    monitor=task.value, store=path, **settings)  # fmt: skip


def quadratic(seed=0):
    return Quadratic(dim=4, clients=2, seed=seed)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    """Another task, then two algorithms with three seeds each on one; not to be changed."""
    path = tmp_path_factory.mktemp("seeds") / "runs.db"
    solve(path, Levy(dim=3, clients=2), FedZO())
    for algorithm in (FedZO(), FedProx()):
        for seed in range(3):
            solve(path, quadratic(seed), algorithm)
    return path


@pytest.fixture(scope="module")
def url(seeds):
    with serving(seeds) as address:
        yield address


def points(page):
    """The points of the first line, in pixels."""
    path = page.locator(f"{PLOT} .curve").first.get_attribute("d")
    return [tuple(map(float, pair)) for pair in re.findall(r"[ML](\S+) ([^ML]+)", path)]


def saved(page, button):
    """The file that a button saves."""
    with page.expect_download() as download:
        button.click()
    return download.value


def rows_of(download):
    with open(download.path(), encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_it_opens_with_the_runs_of_one_task(visit, url, seeds):
    """The newest run's: the run on Levy's function is in the list, and not drawn."""
    page = drawn(visit(url))
    has_lines(page, 2)
    assert page.locator("#list .run").count() == 7
    assert page.locator("#list input:checked").count() == 6
    page.locator("#task").select_option(label="levy C=5 d=3 N=2 (1)")
    has_lines(page, 1)
    assert page.locator("#list .run").count() == 1
    assert page.locator("#list input:checked").count() == 1


def test_seeds_are_one_line_with_a_band(visit, url, seeds):
    """The values of the mean, and its standard error, against those of the runs themselves."""
    page = drawn(visit(url))
    has_lines(page, 2)
    assert page.locator(f"{PLOT} .band").count() == 2
    assert page.locator(".legend li").all_inner_texts() == ["FedZO (3 seeds)", "FedProx (3 seeds)"]
    table = rows_of(saved(page, page.get_by_label("Save Convergence as CSV")))
    assert table[0] == ["line", "rounds", "F − F*", "lower", "upper"]
    shown = np.array([[float(cell) for cell in row[1:]] for row in table[1:] if row[0] == "FedZO (3 seeds)"])
    values = []
    for seed in range(3):
        task, kept = quadratic(seed), read(f"{seeds}:{2 + seed}").result
        values.append([task.value(task.x0), *(record.monitor for record in kept.history)])
    excess = np.array(values) - np.array([[quadratic(seed).minimum] for seed in range(3)])
    mean, error = excess.mean(axis=0), excess.std(axis=0, ddof=1) / np.sqrt(3)
    assert shown[:, 0].tolist() == [0, 1, 2, 3]
    assert np.allclose(shown[:, 1:], np.stack([mean, mean - error, mean + error], axis=1), rtol=1e-9)
    page.get_by_label("Single runs").check()
    has_lines(page, 6)
    assert page.locator(f"{PLOT} .band").count() == 0
    page.reload()
    has_lines(page, 6)  # the choice is in the address


def test_a_log_axis_shows_the_best_values(visit, tmp_path):
    """F* = -0.025 + 0.1/d is below zero: with it stored, the curve is F - F*, from x0 on, and no value is left out."""
    solve(tmp_path / "runs.db", quadratic(), Auto(), rounds=12)
    assert read(str(tmp_path)).result.fun - quadratic().minimum < 1e-4
    with serving(tmp_path) as url:
        page = drawn(visit(url))
        assert axes(page)[0] == "F − F*, log scale"
        assert len(points(page)) == 13
        assert points(page)[0][0] == min(x for x, _ in points(page))
        assert text_of(page, f"{PLOT} .note") == ""
        page.locator("#reference").fill("0")
        until(page, lambda: axes(page)[0].startswith("F") and "F*" not in axes(page)[0])


def test_zoom(visit, url):
    """A rectangle is looked at closely: its corners become those of the plot; the button shows all again."""
    page = drawn(visit(url))
    has_lines(page, 2)
    before = points(page)
    box = page.locator(f"{PLOT} svg").first.bounding_box()
    x = [box["x"] + before[i][0] for i in (1, 2)]
    page.mouse.move(x[0], box["y"] + 60)
    page.mouse.down()
    page.mouse.move((x[0] + x[1]) / 2, box["y"] + 62)
    page.mouse.move(x[1], box["y"] + 64)
    assert page.locator(".choosing").count() == 1
    page.mouse.up()
    after = points(page)
    left, right = before[0][0], before[3][0]
    assert after[1][0] == pytest.approx(left, abs=1.5)
    assert after[2][0] == pytest.approx(right, abs=1.5)
    page.get_by_role("button", name="Whole plot").first.click()
    assert points(page) == before
    page.locator(f"{PLOT} svg").first.dblclick(position={"x": 200, "y": 100})
    assert points(page) != before
    page.get_by_label("Queries", exact=True).check()
    says(page, "queries of all clients")
    assert page.get_by_role("button", name="Whole plot").count() == 0  # another axis: all of it


def test_a_plot_is_saved_as_a_picture(visit, url, tmp_path):
    """PNG, as wide as two pixels for one of the page, with something drawn on it in colours of the lines."""
    page = drawn(visit(url, color_scheme="dark"))
    has_lines(page, 2)
    download = saved(page, page.get_by_label("Save Convergence as PNG"))
    assert download.suggested_filename == "fzoos-convergence-round.png"
    body = download.path().read_bytes()
    assert body.startswith(b"\x89PNG\r\n\x1a\n")
    width = int.from_bytes(body[16:20], "big")
    assert width == 2 * page.locator(f"{PLOT} .chart").evaluate("node => node.clientWidth")
    pytest.importorskip("matplotlib")
    from matplotlib.image import imread

    download.save_as(tmp_path / "plot.png")
    pixels = imread(tmp_path / "plot.png")[:, :, :3]
    stroke = page.locator(f"{PLOT} .curve").last.evaluate("""node => {
        const canvas = document.createElement("canvas").getContext("2d");
        canvas.fillStyle = getComputedStyle(node).stroke;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }""")
    near = np.abs(pixels - np.array(stroke) / 255).max(axis=2) < 0.02
    assert near.sum() > 500


def test_a_csv_file_has_no_formulas(visit, tmp_path):
    """A spreadsheet would run a name that begins like one."""
    keep(tmp_path / "runs.db", rounds=1, name='=HYPERLINK("x"), "y"')
    with serving(tmp_path) as url:
        page = drawn(visit(url))
        table = rows_of(saved(page, page.get_by_label("Save Convergence as CSV")))
        assert table[1][0] == '\'=HYPERLINK("x"), "y"'


@pytest.fixture
def editable(tmp_path):
    """Three runs that may be changed."""
    path = tmp_path / "runs.db"
    for name in ("first", "second", "third"):
        keep(path, rounds=2, name=name)
    with serving(path, token=TOKEN, edit=True) as address:
        yield path, f"{address}?token={TOKEN}"


def test_rename_tag_and_delete(visit, editable):
    path, url = editable
    page = drawn(visit(url))
    page.get_by_role("button", name="Rename").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("a better name")
    page.keyboard.press("Enter")
    until(page, lambda: page.locator("h1").inner_text() == "a better name")
    page.get_by_role("button", name="Tags").click()
    dialog.get_by_label("Tags").fill("kept, noisy")
    dialog.get_by_role("button", name="Save").click()
    until(page, lambda: page.locator("#head .chip").all_inner_texts() == ["kept", "noisy"])
    page.locator("#filter").fill("noisy")
    until(page, lambda: page.locator("#list .run").count() == 1)
    page.locator("#filter").fill("")
    assert [(run.name, run.tags) for run in runs_at(path)][-1] == ("a better name", ("kept", "noisy"))
    # Deleting asks; not saying yes leaves everything, and the question names the run.
    page.get_by_role("button", name="Delete").click()
    assert "a better name" in dialog.inner_text()
    assert "cannot be undone" in dialog.inner_text()
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    page.keyboard.press("Enter")
    until(page, lambda: dialog.count() == 0)
    page.get_by_role("button", name="Delete").click()
    page.keyboard.press("Escape")
    until(page, lambda: dialog.count() == 0)
    assert len(runs_at(path)) == 3
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete run 3").click()
    until(page, lambda: page.locator("#list .run").count() == 2)
    has_lines(page, 2)
    assert [run.name for run in runs_at(path)] == ["first", "second"]


def test_texts_stay_texts_wherever_they_are_shown(visit, editable, tmp_path):
    """Names and tags with HTML in them, given by the page itself: in list, head, legend, tables, dialogs and menus."""
    path, url = editable
    with Store(path, create=False) as editor:
        for run in editor.runs[:2]:
            editor.rename(run.id, run.started, NASTY)
            editor.tag(run.id, run.started, ["<b>bold</b>", "<img src=x onerror=alert(1)>"])
    solve(path, Levy(dim=3, clients=2), FedZO(), rounds=1, name=NASTY)
    page = drawn(visit(url))
    page.on("dialog", lambda dialog: pytest.fail("a script of a name was run"))
    page.get_by_role("button", name="Rename").click()
    page.get_by_role("dialog").get_by_label("Name").fill(NASTY + "!")
    page.keyboard.press("Enter")
    until(page, lambda: page.locator("h1").inner_text() == NASTY + "!")
    page.get_by_role("button", name="All", exact=True).click()
    until(page, lambda: page.locator("#table-comparison tbody tr").count() == 4)
    page.get_by_role("button", name="Delete").click()
    assert NASTY in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    assert "<b>bold</b>" in page.locator("#list").inner_text()
    assert page.locator("img, #list b, #head b, .legend b").count() == 0
    assert page.locator("script:not([src])").count() == 0
    saved(page, page.get_by_label("Save Convergence as PNG"))
    assert page.title() == f"{NASTY}! · fzoos"
    file = tmp_path / "report.html"
    file.write_text(report([read(f"{path}:{run.id}") for run in runs_at(path)]), encoding="utf-8")
    page = drawn(visit(file.as_uri()))
    assert "<b>bold</b>" in page.locator("#list").inner_text()
    assert page.locator("img").count() == 0
    assert page.title().startswith("<img")
