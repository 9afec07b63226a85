"""Whether two states of the code give the same x, bit for bit: runs of every algorithm, recorded and compared.

    python -m benchmarks.same_bits record before.json
    python -m benchmarks.same_bits compare before.json

Each run is one line of the file: what it was, a digest of x after every round, and what was counted. A run that raises
is recorded with its error, since errors are to stay as they are, too.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe
from fzoos import FedZO, FiniteDifferences, FZooS, Measured, Study, minimize
from fzoos.algorithms import ALGORITHMS
from fzoos.engines import LocalStudy
from fzoos.result import Result
from fzoos.testing import make_quick
from fzoos.testing.quick import as_table

SITES = ("a", "b", "c")
CENTRES = (0.2, 0.45, 0.8)


def objective(centre: float, seed: int, kind: str) -> Callable[[Any], Any]:
    """A client's function: curved differently in each coordinate, with what the kind of run adds."""
    rng = np.random.default_rng(seed)

    def value(x: Any) -> Any:
        curvature = 1.0 + np.arange(len(x)) % 5
        f = float(np.mean(curvature * (x - centre) ** 2) + 0.1 * np.mean(np.cos(6.0 * x)))
        if kind == "noise":
            f += 0.01 * float(rng.standard_normal())
        if kind == "fails" and rng.random() < 0.1:
            return float("nan")
        if kind == "steps":
            f = round(f, 2)
        if kind == "constraints":
            return f, float(x[0] + x[-1] - 0.9)
        return f

    return value


def settings() -> Iterator[tuple[str, Any]]:
    """Every algorithm with few local steps, and settings that take other paths."""
    for name, kind in ALGORITHMS.items():
        if name != "auto":
            yield name, make_quick(kind(), limit=24)
    quick: Any = make_quick(FZooS())
    yield "fzoos without active queries", replace(quick, active=None, refresh=None, local_steps=4)
    yield "fzoos measured", replace(quick, length=Measured(), local_steps=3)
    yield "fzoos fixed vector, nearest", replace(quick, vector="fixed", points=20, feature_points=30, local_steps=3)
    yield "fedzo one step", FedZO(local_steps=1, differences=FiniteDifferences(2))


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "long": {"rounds": 25},
    "noise": {"rounds": 12},
    "steps": {},
    "fails": {"on_failure": "skip", "rounds": 12},
    "constraints": {"rounds": 12},
    "part": {"participation": 2, "rounds": 10},
    "weights": {"weights": [1.0, 2.0, 0.0]},
    "budget": {"max_queries": 211, "rounds": 40},
    "float16": {"precision": "float16"},
    "stochastic": {"precision": "stochastic"},
    "values": {"monitor": "clients"},
    "open": {"bounds": None, "scale": 0.5},
    "one": {"clients": 1},
}
DIMENSIONS = {"plain": (1, 2, 7, 60), "long": (2, 7, 60), "noise": (3, 60), "constraints": (2, 60)}


def minimised(algorithm: Any, kind: str, dim: int) -> dict[str, Any]:
    """One run of `minimize`."""
    path: list[Any] = []

    def monitor(x: Any) -> float:
        path.append(x)
        return 0.0

    options: dict[str, Any] = {"bounds": (0.0, 1.0), "rounds": 6, "rng": 7, "monitor": monitor} | KINDS[kind]
    count = options.pop("clients", 3)
    functions = [objective(c, i, kind) for i, c in enumerate(CENTRES[:count])]
    return digest(minimize(functions, np.full(dim, 0.6), algorithm=algorithm, **options), path)


STUDIES: dict[str, dict[str, Any]] = {
    "study": {},
    "study trimmed": {"aggregate": "trimmed"},
    "study values": {"share_values": True},
    "study private": {"privacy": {"clip": 1.0, "noise": 0.5, "delta": 1e-5}},
    "study part": {"participation": 2},
}


def studied(algorithm: Any, kind: str, dim: int) -> dict[str, Any]:
    """One run of a study on this machine."""
    study = Study(
        "bits", 0.6, (0.0, 1.0), SITES, dim=dim, rounds=5, seed=3, algorithm=as_table(algorithm), **STUDIES[kind]
    )
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        functions = [objective(c, i, "plain") for i, c in enumerate(CENTRES)]
        return digest(LocalStudy(study, folder, functions, site_seed=11).run(), [])


def runs() -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """All runs with their names."""
    for label, algorithm in settings():
        for kind in KINDS:
            for dim in DIMENSIONS.get(kind, (4,)):
                yield f"{label} | {kind} | d = {dim}", partial(minimised, algorithm, kind, dim)
        for kind in STUDIES:
            for dim in (3, 55) if kind == "study" else (3,):
                yield f"{label} | {kind} | d = {dim}", partial(studied, algorithm, kind, dim)


def digest(result: Result, path: list[Any]) -> dict[str, Any]:
    """What is compared of a run, given x after each round where that is known."""
    if "epsilon" in result.message:  # the noise of privacy comes from the operating system
        return {"status": result.status}
    points = np.array([*path, result.x])
    rounds = [[r.queries, r.bytes_up, r.bytes_down, r.cut, r.monitor] for r in result.history]
    body = points.astype("<f8").tobytes()
    return {
        "x": hashlib.sha256(body).hexdigest()[:16],
        "rounds": hashlib.sha256(json.dumps(rounds).encode()).hexdigest()[:16],
        "queries": result.queries,
        "status": result.status,
    }


def record(only: str) -> dict[str, dict[str, Any]]:
    """All runs, with progress."""
    found: dict[str, dict[str, Any]] = {}
    started = time.perf_counter()
    for name, run in runs():
        if only not in name:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = run()
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}
        if sys.stderr.isatty():
            print(f"\r{len(found)} runs, {time.perf_counter() - started:.0f} s", end="", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="runs whose name contains this")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # of points that fail
    found = record(options.only)
    if options.action == "record":
        options.file.write_text(json.dumps({"machine": describe(), "runs": found}, indent=1) + "\n")
        print(f"{len(found)} runs, {sum('error' in run for run in found.values())} of them raised")
        return
    before = {name: run for name, run in json.loads(options.file.read_text())["runs"].items() if options.only in name}
    for name in before | found:
        was, now = before.get(name), found.get(name)
        if was != now:
            keys = sorted(k for k in {*(was or {}), *(now or {})} if (was or {}).get(k) != (now or {}).get(k))
            print(f"{name}: " + "; ".join(f"{k} {(was or {}).get(k)} -> {(now or {}).get(k)}" for k in keys))
    same = sum(before.get(name) == run for name, run in found.items())
    print(f"{same} of {len(before | found)} runs are the same, bit for bit")
    sys.exit(same < len(before | found))


if __name__ == "__main__":
    main()
