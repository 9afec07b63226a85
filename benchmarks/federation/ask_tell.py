"""The CPU seconds of one loop of ask and tell after 5, 50, 150 and 300 loops.

    python -m benchmarks.federation.ask_tell [--algorithm auto] [--dim 4] [--clients 2] [--loops 300]

In each loop the run is loaded from its folder, as `fzoos ask` and `fzoos tell` do, and every client is asked for its
points and told their values, which cost nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from fzoos import AskTell
from fzoos._util.arrays import FloatArray
from fzoos._util.table import plain_table

SHOWN = (5, 50, 150, 300)
AROUND = 3  # loops before and after, of which the median is shown


def objective(x: FloatArray, client: int) -> float:
    """Rosenbrock's valley, a little different for each client: a run that is not over after a few rounds."""
    return float(((1.0 - x[:-1]) ** 2 + (100.0 + client) * (x[1:] - x[:-1] ** 2) ** 2).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", default="auto")
    parser.add_argument("--dim", type=int, default=4)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--loops", type=int, default=max(SHOWN))
    options = parser.parse_args()
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        settings = {"rounds": 10_000, "seed": 0, "tolerance": 0.0, "algorithm": {"name": options.algorithm}}
        AskTell([(-2.0, 2.0)] * options.dim, [-0.5] * options.dim, options.clients, folder=folder, **settings)
        while len(seconds) < options.loops + AROUND:
            start = time.process_time()
            for client in range(options.clients):
                run = AskTell.load(folder)
                points = run.ask(client)
                run.tell(client, points, [objective(x, client) for x in points])
            seconds.append(time.process_time() - start)
        queries, size = run.result.queries, sum(path.stat().st_size for path in folder.rglob("*.snapshot"))
    print(
        f"{options.algorithm}, d = {options.dim}, N = {options.clients}: {queries} queries; snapshots {size:,} bytes\n"
    )
    shown = [loop for loop in SHOWN if loop <= options.loops]
    rows = [[str(loop), f"{statistics.median(seconds[loop - 1 - AROUND : loop + AROUND]):.4f}"] for loop in shown]
    print(plain_table(["loop", "CPU s"], rows))


if __name__ == "__main__":
    main()
