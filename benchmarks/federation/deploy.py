"""Studies as `fzoos scaffold` leaves them, run as their READMEs say: servers and sites as processes, with TLS.

Used by overhead.py; the ports are those of the templates.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import fzoos
from fzoos.runs.store import StoreError

NAME = "overhead"
STUDY = """
name = "overhead"
x0 = 0.5
dim = {dim}
bounds = [0.0, 1.0]
rounds = {rounds}
local_steps = 2
sites = ["site-1", "site-2", "site-3"]
[algorithm]
name = "fzoos"
preset = "weights"
features = {features}
active = false
initial = {{ points = 5, radius = 0.01 }}
refresh = {{ candidates = 5, picks = 2 }}
"""
OBJECTIVE = "def objective(x):\n    return float(x[0])\n"
SITES = ("site-1", "site-2", "site-3")


@contextmanager
def scaffolded(engine: str, dim: int, features: int, rounds: int) -> Iterator[tuple[Path, Callable[..., None]]]:
    """A study's folder, and how to start a process in it; all of them are ended."""
    folder = Path(tempfile.mkdtemp()) / NAME
    program = str(Path(sys.executable).parent / "fzoos")
    subprocess.run([program, "scaffold", engine, str(folder)], check=True, capture_output=True)
    (folder / "study.toml").write_text(STUDY.format(dim=dim, features=features, rounds=rounds))
    (folder / "site" / "objective.py").write_text(OBJECTIVE)
    processes: list[subprocess.Popen[bytes]] = []
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def start(*command: str, wait: bool = False) -> None:
        with (folder / "log").open("ab") as log:
            made = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        processes.append(made)
        if wait and made.wait() != 0:
            raise RuntimeError((folder / "log").read_text()[-2000:])

    try:
        yield folder, start
    finally:
        for process in reversed(processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        time.sleep(2)
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(folder.parent, ignore_errors=True)


def per_round(path: Path) -> str:
    seconds = np.diff([record.seconds for record in fzoos.load(path).history])
    return f"{1e3 * statistics.median(seconds):,.0f} ms a round (smallest {1e3 * min(seconds):,.0f})"


def finished(find: Callable[[], Path | None], limit: float = 900.0) -> Path:
    """Wait until a study is complete."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        time.sleep(1.0)
        path = find()
        try:
            if path is not None and fzoos.load(path).status == "completed":
                return path
        except StoreError:
            continue
    raise TimeoutError("the study did not end")


def flare(dim: int, features: int, rounds: int) -> str:
    with scaffolded("flare", dim, features, rounds) as (folder, start):
        start("nvflare", "provision", "-p", "project.yml", "-w", "kits", wait=True)
        kits = f"kits/{NAME}/prod_00"
        start("./start_server.sh")
        for site in SITES:
            start("./start_site.sh", f"{kits}/{site}")
        time.sleep(20)
        start(sys.executable, "run.py")
        return per_round(finished(lambda: next(folder.glob("*.result"), None)))


def flower(dim: int, features: int, rounds: int) -> str:
    with scaffolded("flower", dim, features, rounds) as (folder, start):
        start("./make_keys.sh", wait=True)
        start("./start_server.sh")
        time.sleep(15)
        for site in SITES:
            start("sh", "-c", f". ./env.sh; flwr supernode register keys/{site}.pub --name {site}", wait=True)
        for site in SITES:
            start("./start_site.sh", site)
        time.sleep(15)
        start("sh", "-c", ". ./env.sh; flwr run .", wait=True)
        return per_round(finished(lambda: folder / "result.db"))
