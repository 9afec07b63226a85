"""Runs to look at, a server that shows them, and a browser."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import uvicorn

from fzoos import FedProx, FedZO, FZooS, minimize
from fzoos.runs.dashboard.index import RunIndex
from fzoos.runs.dashboard.server import application

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def site(target):
    return lambda x: float(np.sum((x - target) ** 2))


SITES = [site(0.2), site(0.4), site(0.6)]


def F(x):
    """The mean of the sites' objectives."""
    return float(np.mean([f(x) for f in SITES]))


def keep(path, **settings):
    """A quick run in a file."""
    settings = {"algorithm": FedZO(local_steps=2), "rounds": 4, "monitor": F, "seed": 0} | settings
    return minimize(SITES, np.zeros(2), bounds=(-1, 1), store=path, **settings)


@pytest.fixture(scope="session")
def kept(tmp_path_factory) -> Path:
    """A file with three runs, the last one with a surrogate; not to be changed."""
    path = tmp_path_factory.mktemp("kept") / "runs.db"
    keep(path)
    keep(path, algorithm=FedProx(local_steps=2), seed=1)
    keep(path, algorithm=FZooS(features=50, initial=5), rounds=6)
    return path


# A run that goes on until it is killed, or until there is a file "stop" beside its own.
SLOW = """
import sys, time
import numpy as np
from pathlib import Path
from fzoos import FedZO, minimize

store = Path(sys.argv[1])

def f(x):
    return float(np.sum((x - 0.3) ** 2))

def pause(record):
    time.sleep(0.3)
    return (store.parent / "stop").exists()

minimize([f, f], np.zeros(2), bounds=(-1, 1), algorithm=FedZO(local_steps=1), rounds=500, seed=0, monitor=f,
         store=store, name="going on", callback=pause)
"""


@pytest.fixture
def going_on():
    """Starts runs in processes of their own; they are ended with the test."""
    processes = []

    def start(path):
        process = subprocess.Popen([sys.executable, "-c", SLOW, str(path)], env=os.environ | {"OMP_NUM_THREADS": "1"})
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@contextlib.contextmanager
def serving(path, **settings):
    """The page of the runs at a path, on a port of this machine."""
    with RunIndex(path) as index, socket.create_server(("127.0.0.1", 0)) as listener:
        app = application(index, stopping=lambda: server.should_exit, **settings)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, ws="none", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(timeout=10)
        assert not thread.is_alive()


def wait_for(condition, seconds=30.0):
    """What a condition gives as soon as it is true; a busy machine may take its time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen")


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by Playwright, of which a process can have one at a time: the next file may want its own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


class Visit:
    """A page in the browser, with everything that it complained about."""

    def __init__(self, browser, **settings):
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | settings))
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", self._not_loaded)

    def _not_loaded(self, request):
        if not request.url.endswith("/events"):  # a stream that ends when the page is left
            self.complaints.append(f"not loaded: {request.url}")


@pytest.fixture
def visit(browser):
    """Opens pages; at the end none of them may have complained."""
    visits = []

    def open_page(url, **settings):
        visits.append(Visit(browser, **settings))
        visits[-1].page.goto(url)
        return visits[-1].page

    yield open_page
    complaints = [complaint for one in visits for complaint in one.complaints]
    for one in visits:
        one.context.close()
    assert complaints == []
