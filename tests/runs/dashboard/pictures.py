"""The pictures of the dashboard in docs/figures: python -m tests.runs.dashboard.pictures docs/figures"""

import os
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from fzoos import Auto, FedProx, FedZO, ScaffoldII, minimize
from fzoos.runs.store import Store
from fzoos_experiments.tasks import Levy, Quadratic

from .conftest import CHROMIUM, serving

SIZES = {
    "light": {"viewport": {"width": 1280, "height": 1000}},
    "dark": {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}


def fill(path: Path) -> None:
    """Four algorithms with three seeds each on one task, and one run on another."""
    levy = Levy(dim=5, clients=3, seed=0)
    tasks = [(levy, FedZO(), 8)]
    tasks += [
        (Quadratic(dim=20, clients=5, seed=seed), algorithm, 15)
        for algorithm in (FedZO(), FedProx(), ScaffoldII(), Auto())
        for seed in range(3)
    ]
    for task, algorithm, rounds in tasks:
        name = f"{algorithm.label} {task.name} C={task.heterogeneity:g} d={task.dim} N={task.clients}"
        minimize(task.objectives, task.x0, bounds=task.bounds, vectorized=True, algorithm=algorithm, rounds=rounds,
                 seed=task.seed, monitor=task.value, store=path, name=name)  # fmt: skip
    with Store(path, create=False) as editor:
        last = editor.runs[-1]
        editor.tag(last.id, last.started, ["for the paper"])


def main(folder: Path) -> None:
    """Take the pictures."""
    folder, path = folder.resolve(), Path("runs.db")
    os.chdir(tempfile.mkdtemp())
    fill(path)
    token = "a-word-for-the-pictures"
    with serving(path, token=token, edit=True) as url, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, size in SIZES.items():
            page = browser.new_context(**size).new_page()
            page.goto(f"{url}?token={token}")
            page.wait_for_selector("#plot-coordinates .line path", state="attached", timeout=60000)
            page.wait_for_timeout(500)
            page.screenshot(path=folder / f"dashboard-{name}.png")
            page.screenshot(path=Path(tempfile.gettempdir()) / f"dashboard-{name}-whole.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
