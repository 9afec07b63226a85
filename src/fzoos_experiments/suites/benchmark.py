"""Runs of rivals on a suite's problems, stored as soon as they are finished, so that a later call continues."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from fzoos import __version__, minimize
from fzoos.algorithms import Algorithm
from fzoos_experiments.runs import Records, results_of
from fzoos_experiments.suites.bbob import FUNCTIONS, bbob
from fzoos_experiments.suites.least_squares import PROBLEMS, least_squares
from fzoos_experiments.suites.mujoco import ROBOTS, mujoco
from fzoos_experiments.suites.problem import SuiteProblem
from fzoos_experiments.suites.rivals import Pooled, find_rival

__all__ = ["SUITES", "TUNING", "SuiteRun", "execute", "problem_of"]

TUNING = range(1, 4)
"""The instances for choosing settings and rules; results are reported on others."""

SUITES: dict[str, tuple[str, ...]] = {
    "bbob": tuple(map(str, FUNCTIONS)),
    "largescale": tuple(map(str, FUNCTIONS)),
    "ls": tuple(map(str, range(1, len(PROBLEMS) + 1))),
    "ls-noisy": tuple(map(str, range(1, len(PROBLEMS) + 1))),
    "ls-absolute": tuple(map(str, range(1, len(PROBLEMS) + 1))),
    "mujoco": tuple(ROBOTS),
}
"""The names of each suite's problems."""


@dataclass(frozen=True)
class SuiteRun:
    """A run of a rival on a problem.

    Args:
        suite: one of `SUITES`.
        problem: one of the suite's problems.
        dim: d, for bbob and largescale; 0 where the problem has its own.
        instance: of the problem.
        rival: a name for `find_rival`.
        seed: the seed of x0, of the noise and of the rival.
        clients: N.
        heterogeneity: C.
        noise: of each query, as a share of F(x0) - F*; mujoco: any positive number for random starts.
        budget: queries per client and dimension.
    """

    suite: str
    problem: str
    dim: int
    instance: int
    rival: str
    seed: int = 0
    clients: int = 4
    heterogeneity: float = 1.0
    noise: float = 0.0
    budget: int = 100

    @property
    def key(self) -> str:
        """All fields, and the version of an algorithm of the library, as text."""
        rival = find_rival(self.rival)
        version = {"version": rival.version} if isinstance(rival, Algorithm) else {}
        return json.dumps(asdict(self) | version, sort_keys=True)


def problem_of(run: SuiteRun) -> SuiteProblem:
    """The problem of a run.

    Example:
        >>> from fzoos_experiments.suites.benchmark import SuiteRun, problem_of
        >>> problem_of(SuiteRun("ls", "7", dim=0, instance=4, rival="bobyqa")).dim
        2
    """
    shared: Any = {"clients": run.clients, "heterogeneity": run.heterogeneity, "seed": run.seed}
    if run.suite in ("bbob", "largescale"):
        large = run.suite == "largescale"
        return bbob(int(run.problem), run.dim, run.instance, noise=run.noise, large=large, **shared)
    if run.suite == "mujoco":
        return mujoco(run.problem, run.instance, noise=run.noise > 0.0, **shared)
    if run.noise:
        raise ValueError(f"noise is for bbob, largescale and mujoco; the noise of ls-noisy is fixed: got {run.noise}")
    variant: Any = run.suite.removeprefix("ls").removeprefix("-") or "smooth"
    return least_squares(int(run.problem), run.instance, variant=variant, **shared)


def make(run: SuiteRun, report: object = None) -> dict[str, Any]:
    """Make a run: its record with the trace of (queries, F) at x0 and after each round.

    The trace of a pooled method has an entry for each point whose average was the lowest so far.
    """
    problem, rival, started = problem_of(run), find_rival(run.rival), time.process_time()
    budget = run.budget * problem.dim * run.clients
    status = ""
    with threadpool_limits(1):
        if isinstance(rival, Algorithm):
            result = minimize(
                problem.objectives,
                problem.x0,
                bounds=problem.bounds,
                algorithm=rival,
                rounds=budget,
                max_queries=budget,
                monitor=problem.value,
                on_failure="skip",
                rng=run.seed,
            )
            trace = [(0, problem.value(problem.x0))]
            trace += [(record.queries, record.monitor) for record in result.history if record.monitor is not None]
            trace.append((result.queries, problem.value(result.x)))
            status = result.status
        else:
            trace = Pooled(problem, budget).run(rival, run.seed)
    return {
        "key": run.key,
        "dim": problem.dim,
        "minimum": problem.minimum,
        "queries": budget,
        "status": status,
        "seconds": round(time.process_time() - started, 3),
        "fzoos": __version__,
        "trace": [[queries, float(f"{value:.12g}")] for queries, value in trace],
    }


def execute(
    runs: Iterable[SuiteRun],
    folder: Path,
    jobs: int = 1,
    progress: Callable[[SuiteRun, int, str], None] = lambda run, left, error: None,
) -> dict[SuiteRun, dict[str, Any]]:
    """Make the runs that a folder does not have yet, and return the records of all of them that have not failed.

    Args:
        runs: the runs.
        folder: where finished runs are stored immediately.
        jobs: the number of runs that are made at the same time, each in its own process.
        progress: called after each run, with the number of runs that are left and an error message, empty on success.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from fzoos_experiments.suites.benchmark import SuiteRun, execute
        >>> run = SuiteRun("ls", "7", dim=0, instance=4, rival="nelder-mead", clients=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = execute([run], Path(folder))
        >>> found[run]["trace"][-1][1] < 1e-9
        True
    """
    wanted, records = list(dict.fromkeys(runs)), Records(folder)
    missing = [run for run in wanted if not records.find(run.key)]
    for left, (run, made) in enumerate(results_of(make, missing, jobs), start=1 - len(missing)):
        if isinstance(made, Exception):
            progress(run, -left, f"{type(made).__name__}: {made}")
            continue
        records.add(made)
        progress(run, -left, "")
    return {run: records.find(run.key)[0] for run in wanted if records.find(run.key)}
