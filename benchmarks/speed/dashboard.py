"""What the dashboard's server does for each viewer: the list of 10 000 runs, and the news of a run of 100 000 rounds.

python -m benchmarks.speed.dashboard
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe
from fzoos.result import Record
from fzoos.runs.dashboard.index import RunIndex
from fzoos.runs.store import Store

RUNS, ROUNDS, VIEWERS = 10_000, 100_000, 50


def fill(path: Path, runs: int, rounds: int) -> None:
    """Runs that are alike."""
    settings = {"rounds": rounds, "algorithm": {"type": "FedZO"}, "bounds": [[0, 1]] * 10}
    record = Record(1, 10, 100, 70, 0.5, 0.25, 1.0, {"correction_length": 1.0}, (3, 3, 4), (0.5, None, 0.1))
    with Store(path) as store:
        run = store.begin("demo", settings, np.zeros(10), clients=3)
        store.record(run, record, np.zeros(10))
        store.finish(run, "completed", "", {})
        db = store._db
        db.execute("BEGIN")
        for table, key, last in (("rounds", "round", rounds), ("runs", "id", runs)):
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
            names = ", ".join("number" if name == key else f"{table}.{name}" for name in columns)
            numbers = (
                f"WITH RECURSIVE n(number) AS (SELECT 2 UNION ALL SELECT number + 1 FROM n WHERE number < {last}) "
            )
            if last > 1:
                db.execute(f"INSERT INTO {table} {numbers}SELECT {names} FROM n, {table} WHERE {table}.{key} = 1")
        db.execute("COMMIT")


def seconds(what: Callable[[], Any], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        started = time.process_time()
        what()
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    print(describe())
    folder = Path(tempfile.mkdtemp())
    fill(folder / "many.db", RUNS, 1)
    fill(folder / "long.db", 1, ROUNDS)
    print("\n| | seconds of CPU |\n| --- | --- |")
    with RunIndex(folder / "many.db") as index:
        made = seconds(lambda: RunIndex(folder / "many.db").listing())
        again = seconds(lambda: [index.listing() for _ in range(VIEWERS)])
        print(f"| the list of {RUNS:,} runs, made | {made:.3f} |")
        print(f"| the same for {VIEWERS} viewers, where nothing has changed | {again:.4f} |")
        print(f"| one run of them | {seconds(lambda: index.details('many.db:77')):.4f} |")
    with RunIndex(folder / "long.db") as index:
        print(f"| a run of {ROUNDS:,} rounds, all of it | {seconds(lambda: index.details('long.db:1')):.3f} |")
        print(f"| its last 10 rounds | {seconds(lambda: index.details('long.db:1', ROUNDS - 10)):.4f} |")


if __name__ == "__main__":
    main()
