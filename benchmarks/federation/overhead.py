"""What federation costs: a round on each engine beside the local one, bytes, journal, recovery.

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

import numpy as np

from benchmarks.machine import describe
from fzoos.engines.local import LocalEngine
from fzoos.federation.conductor import conduct
from fzoos.federation.exchange import Outcome
from fzoos.federation.journal import Journal
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study
from fzoos.messages.codec import decode, encode
from fzoos.messages.message import Message
from fzoos.minimize import minimize
from fzoos.result import Result

DIM, FEATURES, ROUNDS = 300, 10_000, 8
"""Rounds: the first has one exchange and no payload; the median of the others is shown."""


def study(clients: int, name: str = "overhead") -> Study:
    settings = {"name": "fzoos", "preset": "weights", "features": FEATURES, "active": False}
    settings |= {"initial": {"points": 5, "radius": 0.01}, "refresh": {"candidates": 5, "picks": 2}}
    sites = tuple(f"site-{i + 1}" for i in range(clients))
    return Study(
        name, x0=0.5, dim=DIM, bounds=(0.0, 1.0), sites=sites, rounds=ROUNDS, local_steps=2, algorithm=settings
    )


def objective(x: np.ndarray) -> float:
    return float(x[0])


def per_round(result: Result) -> float:
    """Milliseconds of a round of two exchanges."""
    seconds = [record.seconds for record in result.history]
    return 1e3 * statistics.median(np.diff(seconds))


def with_minimize(clients: int) -> Result:
    s = study(clients)
    boxes = [objective] * clients
    settings = {"algorithm": s.algorithm_settings, "rounds": ROUNDS, "local_steps": 2, "seed": 0}
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
    with LocalEngine(sites, together=False) as engine:
        wire = Wire(engine, s)
        result = conduct(s, wire, folder / "result.db")  # type: ignore[arg-type]
    for site in sites:
        site.close()
    started = time.perf_counter()
    with StudySite(s, 0, objective, folder / "0.journal") as site:
        site._restore()
    return result, wire.bytes, time.perf_counter() - started


def journal_cost() -> None:
    print("\n| journal, one query | ms |\n| --- | --- |")
    for dim in (10, 300):
        with Journal(Path(tempfile.mkdtemp()) / "journal", "study", "site") as journal:
            request, x = journal.begin(b"request"), np.zeros((1, dim))
            started = time.perf_counter()
            for _ in range(1000):
                journal.record(request, x, np.zeros(1), 1, 1, "active")
            print(f"| d = {dim}, committed to the disk | {time.perf_counter() - started:.2f} |")


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
    if arguments.deploy:
        from benchmarks.federation import deploy

        print("\nDeployed with TLS on this machine, a server and three sites:")
        print("FLARE:", deploy.flare(DIM, FEATURES, rounds=12), flush=True)
        print("Flower:", deploy.flower(DIM, FEATURES, rounds=4), flush=True)


if __name__ == "__main__":
    main()
