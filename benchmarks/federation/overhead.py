"""The cost of federation: a round on each engine compared with the local one, bytes, journal, recovery.

    python -m benchmarks.federation.overhead [--deploy]

d = 300, M = 10 000, three clients and ten; objectives cost nothing, so that a round is all overhead and arithmetic.
With `--deploy` FLARE and Flower also run as servers and sites of their own, with TLS, on this machine (some minutes).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe
from fzoos.engines.local import LocalEngine
from fzoos.federation.exchange import Outcome
from fzoos.federation.journal import Journal
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import decode, encode
from fzoos.messages.message import Message
from fzoos.minimize import minimize
from fzoos.result import Result

DIM, FEATURES, ROUNDS = 300, 10_000, 8
"""Rounds: the first has one exchange and no payload; the median of the others is shown."""


def study(clients: int, name: str = "overhead") -> Study:
    settings = {"name": "fzoos", "features": FEATURES, "active": False, "local_steps": 2}
    settings |= {"initial": 5, "refresh": {"candidates": 5, "picks": 2}}
    sites = tuple(f"site-{i + 1}" for i in range(clients))
    return Study(name, x0=0.5, dim=DIM, bounds=(0.0, 1.0), sites=sites, rounds=ROUNDS, algorithm=settings)


def objective(x: np.ndarray) -> float:
    return float(x[0])


def per_round(result: Result) -> float:
    """Milliseconds of a round of two exchanges."""
    seconds = [record.seconds for record in result.history]
    return 1e3 * statistics.median(np.diff(seconds))


def with_minimize(clients: int) -> Result:
    s = study(clients)
    boxes = [objective] * clients
    settings = {"algorithm": s.algorithm_settings, "rounds": ROUNDS, "seed": 0}
    return minimize(boxes, np.full(DIM, 0.5), bounds=(0.0, 1.0), **settings)  # type: ignore[arg-type]


class Wire:
    """Counts the bytes of messages as they would travel."""

    def __init__(self, engine: LocalEngine, study: Study) -> None:
        self._engine, self._id = engine, study.id
        self.bytes = 0

    def exchange(self, requests: dict[int, Message], timeout: float | None) -> Outcome:
        self.bytes += sum(len(encode(request, self._id)) for request in requests.values())
        outcome = self._engine.exchange(requests, timeout)
        for i, reply in outcome.replies.items():
            data = encode(reply, self._id)
            self.bytes += len(data)
            outcome.replies[i] = decode(data, self._id)
        return outcome


def with_journals(clients: int) -> tuple[Result, int, float]:
    """The result, the bytes on the wire, and the seconds to make a client again from its journal."""
    s, folder = study(clients), Path(tempfile.mkdtemp())
    sites = [StudySite(s, i, objective, folder / f"{i}.journal") for i in range(clients)]
    with LocalEngine(sites, fail_fast=False) as engine:
        wire = Wire(engine, s)
        result = run_study(s, wire, folder / "result.db")  # type: ignore[arg-type]
    for site in sites:
        site.close()
    started = time.perf_counter()
    with StudySite(s, 0, objective, folder / "0.journal") as site:
        site._restore()
    return result, wire.bytes, time.perf_counter() - started


def journal_cost() -> None:
    """A query by itself, and batches of 50: as one array, or value by value as they come."""
    print("\n| journal, d = 300 | ms a query |\n| --- | --- |")
    for label, sizes in {"by itself": [1], "in a batch of 50": [50], "in a batch of 50, one by one": [1] * 50}.items():
        with Journal(Path(tempfile.mkdtemp()) / "journal", "study", "site") as journal:
            request, batches, last = journal.begin(b"request"), 1000 // sum(sizes), len(sizes) - 1
            started = time.perf_counter()
            for _ in range(batches):
                for i, n in enumerate(sizes):
                    journal.record(request, np.zeros((n, DIM)), np.zeros(n), 1, 1, "active", more=i < last)
            print(f"| {label} | {time.perf_counter() - started:.3f} |")


def disk_waits() -> None:
    """How often a site waits for its disk in a round, T = 10: its objective takes batches, or single points."""
    print("\n| waits for the disk, a site and round | batches | single points | queries |\n| --- | --- | --- | --- |")
    tables: dict[str, dict[str, Any]] = {
        "FedTrustRegion, d = 10": {"dim": 10, "algorithm": {"name": "auto"}},
        "FedLineSearch, d = 100": {"dim": 100, "algorithm": {"name": "auto"}},
        "FZooS": {"dim": 100, "algorithm": {"name": "fzoos", "features": 100}},
        "FedZO": {"dim": 100, "algorithm": {"name": "fedzo"}},
    }
    for label, settings in tables.items():
        waits = []
        for vectorized in (True, False):
            s = Study("waits", x0=0.3, bounds=(0.0, 1.0), sites=("a",), rounds=5, vectorized=vectorized, **settings)
            folder = Path(tempfile.mkdtemp())
            with StudySite(s, 0, bowl, folder / "a.journal") as site, LocalEngine([site]) as engine:
                result = run_study(s, engine, folder / "result.db")
                waits.append(site._journal.flushes / result.rounds)
        print(f"| {label} | {waits[0]:.1f} | {waits[1]:.1f} | {result.queries / result.rounds:.0f} |")


def bowl(x: np.ndarray) -> Any:
    return np.sum((x - 0.6) ** 2, axis=-1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--deploy", action="store_true")
    arguments = parser.parse_args()
    print(describe())
    print("\n| engine | clients | ms a round | bytes, accounting | bytes, wire | more |")
    print("| --- | --- | --- | --- | --- | --- |")
    for clients in (3, 10):
        plain = with_minimize(clients)
        counted = plain.bytes_up + plain.bytes_down
        print(f"| minimize | {clients} | {per_round(plain):.1f} | {counted:,} | | |")
        result, wire, again = with_journals(clients)
        total = result.bytes_up + result.bytes_down
        print(
            f"| local, with journals | {clients} | {per_round(result):.1f} | {total:,} | {wire:,} | "
            f"{100 * (wire / total - 1):.2f} %; a client again from its journal: {again:.2f} s |"
        )
    journal_cost()
    disk_waits()
    if arguments.deploy:
        from benchmarks.federation import deploy

        print("\nDeployed with TLS on this machine, a server and three sites:")
        print("FLARE:", deploy.flare(DIM, FEATURES, rounds=12), flush=True)
        print("Flower:", deploy.flower(DIM, FEATURES, rounds=4), flush=True)


if __name__ == "__main__":
    main()
