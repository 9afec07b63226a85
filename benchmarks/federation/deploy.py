"""Studies as `fzoos scaffold` leaves them, run as their READMEs say: servers and sites as processes, with TLS.

    python -m benchmarks.federation.deploy flare --sites 10 [--rounds 12]

Prints how long a round takes. Used by overhead.py and recovery.py; the ports are those of the templates.
"""

from __future__ import annotations

import argparse
import os
import re
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
from benchmarks.federation.deployment import provision
from fzoos.runs.store import StoreError

NAME = "overhead"
STUDY = """
name = "overhead"
x0 = 0.5
dim = {dim}
bounds = [0.0, 1.0]
rounds = {rounds}
sites = {sites}
[algorithm]
name = "fzoos"
local_steps = 2
features = {features}
active = false
initial = 5
refresh = {{ candidates = 5, picks = 2 }}
"""
OBJECTIVE = "def objective(x):\n    return float(x[0])\n"
Start = Callable[..., subprocess.Popen[bytes]]


def names(count: int) -> list[str]:
    return [f"site-{i + 1}" for i in range(count)]


@contextmanager
def scaffolded(engine: str, study: str, objective: str, sites: list[str]) -> Iterator[tuple[Path, Start]]:
    """A study's folder, and how to start a process in it; all of them are ended."""
    folder = Path(tempfile.mkdtemp()) / NAME
    program = str(Path(sys.executable).parent / "fzoos")
    subprocess.run([program, "scaffold", engine, str(folder)], check=True, capture_output=True)
    (folder / "study.toml").write_text(study)
    (folder / "site" / "objective.py").write_text(objective)
    _name_sites(folder, sites)
    processes: list[subprocess.Popen[bytes]] = []
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def start(*command: str, wait: bool = False) -> subprocess.Popen[bytes]:
        with (folder / "log").open("ab") as log:
            made = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        processes.append(made)
        if wait and made.wait() != 0:
            raise RuntimeError((folder / "log").read_text()[-2000:])
        return made

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


def _name_sites(folder: Path, sites: list[str]) -> None:
    """The templates name three; put these in their place."""
    if (folder / "project.yml").exists():
        text = (folder / "project.yml").read_text()
        entry = "  - name: {}\n    type: client\n    org: {}\n"
        text = re.sub(r"  - name: site-\d.*\n    type: client\n    org: .*\n", "", text)
        clients = "".join(entry.format(site, site.replace("-", "_")) for site in sites)
        (folder / "project.yml").write_text(text.replace("  - name: lead@", f"{clients}  - name: lead@"))
    if (folder / "make_keys.sh").exists():
        text = (folder / "make_keys.sh").read_text()
        (folder / "make_keys.sh").write_text(text.replace("in site-1 site-2 site-3;", f"in {' '.join(sites)};"))


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


@contextmanager
def running_flare(study: str, objective: str, sites: list[str]) -> Iterator[tuple[Path, dict[str, int]]]:
    """A study that runs on FLARE: its folder, and the ids of the server's and the sites' processes."""
    with scaffolded("flare", study, objective, sites) as (folder, start):
        provision(folder)
        processes = {"server": start("./start_server.sh").pid}
        for site in sites:
            processes[site] = start("./start_site.sh", f"kits/{NAME}/prod_00/{site}").pid
        time.sleep(15 + 5 * len(sites))
        start(sys.executable, "run.py")
        yield folder, processes


@contextmanager
def running_flower(study: str, objective: str, sites: list[str]) -> Iterator[tuple[Path, dict[str, int], Start]]:
    """The same on Flower, and how to start another process there."""
    with scaffolded("flower", study, objective, sites) as (folder, start):
        start("./make_keys.sh", wait=True)
        processes = {"server": start("./start_server.sh").pid}
        time.sleep(20)
        for site in sites:
            start("sh", "-c", f". ./env.sh; flwr supernode register keys/{site}.pub --name {site}", wait=True)
        for site in sites:
            processes[site] = start("./start_site.sh", site).pid
        time.sleep(15 + 3 * len(sites))
        start("sh", "-c", ". ./env.sh; flwr run .", wait=True)
        yield folder, processes, start


def flare(dim: int, features: int, rounds: int, sites: int = 3) -> str:
    text = STUDY.format(dim=dim, features=features, rounds=rounds, sites=names(sites))
    with running_flare(text, OBJECTIVE, names(sites)) as (folder, _):
        return per_round(finished(lambda: next(folder.glob("*.result"), None)))


def flower(dim: int, features: int, rounds: int, sites: int = 3) -> str:
    text = STUDY.format(dim=dim, features=features, rounds=rounds, sites=names(sites))
    with running_flower(text, OBJECTIVE, names(sites)) as (folder, _, _):
        return per_round(finished(lambda: folder / "result.db"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=["flare", "flower"])
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--features", type=int, default=10_000)
    chosen = parser.parse_args()
    engine = {"flare": flare, "flower": flower}[chosen.engine]
    print(f"{chosen.engine}, {chosen.sites} sites: {engine(300, chosen.features, chosen.rounds, chosen.sites)}")


if __name__ == "__main__":
    main()
