"""The interruption of a study when one of its processes is killed: seconds until sites are queried again.

    python -m benchmarks.federation.recovery [flare] [flower]

A study of three sites, deployed on this machine with TLS, whose round takes about a second. With `kill -9` end: a site
with all that it has started; and the server's half of the study. Both are started again by the scripts of
`fzoos scaffold`; on Flower the server and the run are started again here, as its README says, as soon as possible.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.federation.deploy import Start, names, running_flare, running_flower
from benchmarks.federation.deployment import descendants
from benchmarks.machine import describe

SITES = names(3)
STUDY = f"""
name = "overhead"
x0 = 0.5
dim = 10
bounds = [0.0, 1.0]
rounds = 100000
min_clients = 3
timeout = 300.0
sites = {SITES}
algorithm = {{ name = "fedzo", local_steps = 2, differences = {{ count = 4 }} }}
"""
OBJECTIVE = """
import os, time
from pathlib import Path

def objective(x):
    with open(Path(__file__).parent / (os.environ["SITE"] + ".times"), "a") as log:
        print(time.time(), file=log, flush=True)
    time.sleep(0.05)
    return float(((x - 0.3) ** 2).sum())
"""
QUIET = 3.0  # seconds in which requests that are under way come to their end


def queried(folder: Path, site: str) -> list[float]:
    """The times of the queries of a site's objective."""
    path = folder / "site" / f"{site}.times"
    return [float(line) for line in path.read_text().split()] if path.exists() else []


def wait(true: Callable[[], bool], limit: float = 400.0) -> None:
    end = time.monotonic() + limit
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("the study stands still")
        time.sleep(0.05)


def end(processes: list[int]) -> float:
    """kill -9; when that was."""
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return time.time()


def begun(folder: Path, queries: int = 30) -> None:
    """Three rounds are over."""
    wait(lambda: all(len(queried(folder, site)) > queries for site in SITES))


def until_asked(folder: Path, site: str, killed: float, quiet: float = 0.0) -> float:
    """Seconds from the kill until the site is queried again."""
    wait(lambda: queried(folder, site)[-1] > killed + quiet)
    return next(at for at in queried(folder, site) if at > killed + quiet) - killed


def jobs(process: int) -> list[int]:
    """The processes that a participant of FLARE has for its job."""
    found = list(descendants(process))
    return [pid for pid in found if b"r_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def flare() -> None:
    with running_flare(STUDY, OBJECTIVE, SITES) as (folder, processes):
        begun(folder)
        killed = end(jobs(processes["site-2"]))
        print(f"| FLARE | a site's process of the job | {until_asked(folder, 'site-2', killed):.1f} |", flush=True)
        begun(folder, len(queried(folder, "site-2")) + 30)
        killed = end(list(descendants(processes["site-2"])))
        print(f"| FLARE | a site, with all that it runs | {until_asked(folder, 'site-2', killed):.1f} |", flush=True)
        begun(folder, len(queried(folder, "site-2")) + 30)
        killed = end(jobs(processes["server"]))
        print(f"| FLARE | the server's process of the job | {until_asked(folder, 'site-1', killed, QUIET):.1f} |")


def flower() -> None:
    with running_flower(STUDY, OBJECTIVE, SITES) as (folder, processes, start):
        begun(folder)
        killed = end(list(descendants(processes["site-2"])))
        print(f"| Flower | a site, with all that it runs | {until_asked(folder, 'site-2', killed):.1f} |", flush=True)
        begun(folder, len(queried(folder, "site-2")) + 10)
        killed = end([*descendants(processes["server"]), processes["server"]])
        _begin_again(start, folder, killed)
        print(f"| Flower | the server, with all that it runs | {until_asked(folder, 'site-1', killed, QUIET):.1f} |")


def _begin_again(start: Start, folder: Path, killed: float) -> None:
    """Restart the server, and resume the run as soon as it accepts one."""
    time.sleep(QUIET)
    start("./start_server.sh")
    command = """. ./env.sh; until flwr run . --run-config 'resume=true'; do sleep 2; done"""
    start("sh", "-c", command)


def main() -> None:
    print(describe())
    print("\n| engine | killed | seconds until the next request |\n| --- | --- | --- |", flush=True)
    chosen = sys.argv[1:] or ["flare", "flower"]
    for name in chosen:
        {"flare": flare, "flower": flower}[name]()


if __name__ == "__main__":
    main()
