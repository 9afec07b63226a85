"""The cost of messages at a site that is restarted for every message, as on Flower, with and without snapshots.

    python -m benchmarks.federation.messages [--algorithm auto] [--dim 10] [--messages 500]

One site of three is opened, answers and is closed, in CPU seconds. Without snapshots it answers all of its journal once
more: the same journal is opened so, just before messages 5, 50, 200 and 500. A process of Flower's own comes on top.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from fzoos._util.arrays import FloatArray
from fzoos._util.table import plain_table
from fzoos.algorithms import find_algorithm
from fzoos.federation.exchange import Outcome
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import decode, encode
from fzoos.messages.message import Message

SHOWN = (5, 50, 200, 500)
AROUND = 4  # messages before and after, of which the median is shown


def objective(x: FloatArray) -> float:
    """Rosenbrock's valley: a run that is not over after a few rounds."""
    return float(((1.0 - x[:-1]) ** 2 + 100.0 * (x[1:] - x[:-1] ** 2) ** 2).sum())


class OneRestarted:
    """An engine whose first site is restarted and timed for every message."""

    def __init__(self, study: Study, folder: Path) -> None:
        self._study, self._folder = study, folder
        self._others = {i: self._site(i, folder) for i in range(1, len(study.sites))}
        self.seconds: list[float] = []  # CPU seconds of each message
        self.replayed: dict[int, float] = {}

    def _site(self, client: int, folder: Path, *, snapshots: bool = False) -> StudySite:
        path = folder / f"{self._study.sites[client]}.journal"
        return StudySite(self._study, client, objective, path, site_seed=0, snapshots=snapshots)

    def _timed(self, data: bytes, folder: Path, *, snapshots: bool) -> tuple[bytes, float]:
        start = time.process_time()
        with self._site(0, folder, snapshots=snapshots) as site:
            reply = site.answer(data)
        return reply, time.process_time() - start

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        outcome = Outcome()
        for client, request in requests.items():
            if client:
                outcome.replies[client] = self._others[client].handle(request)
                continue
            data, number = encode(request, self._study.id), len(self.seconds) + 1
            before = None
            if number in SHOWN:
                with tempfile.TemporaryDirectory() as copy:
                    for path in self._folder.glob("a.journal*"):
                        shutil.copy(path, copy)
                    before, self.replayed[number] = self._timed(data, Path(copy), snapshots=False)
            reply, seconds = self._timed(data, self._folder, snapshots=True)
            if before not in (None, reply):
                raise AssertionError(f"message {number}: the snapshot's answer is not the replay's")
            self.seconds.append(seconds)
            outcome.replies[0] = decode(reply, self._study.id)
        return outcome

    def close(self) -> None:
        for site in self._others.values():
            site.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", default="auto")
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--messages", type=int, default=max(SHOWN))
    options = parser.parse_args()
    exchanges = len(find_algorithm(options.algorithm)().at(options.dim).server(options.dim).exchanges(2))
    study = Study(
        "messages",
        x0=-0.5,
        dim=options.dim,
        bounds=(-2.0, 2.0),
        sites=("a", "b", "c"),
        algorithm={"name": options.algorithm},
        rounds=-(-(options.messages + AROUND) // exchanges),
        tolerance=0.0,
        seed=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        engine = OneRestarted(study, Path(folder))
        run_study(study, engine, Path(folder) / "result.db")
        engine.close()
        size = (Path(folder) / "a.journal.snapshot").stat().st_size
    rows = []
    for number, replayed in engine.replayed.items():
        restored = statistics.median(engine.seconds[max(0, number - 1 - AROUND) : number + AROUND])
        rows.append([str(number), f"{replayed:.3f}", f"{restored:.3f}", f"{replayed / restored:.0f}"])
    print(f"{study.algorithm_settings.label}, d = {options.dim}; the snapshot has {size:,} bytes\n")
    print(plain_table(["message", "s, from the journal", "s, from the snapshot", "ratio"], rows))
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fzoos.engines.flower"], check=True)
    print(f"\na process that imports the Flower engine and does nothing: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
