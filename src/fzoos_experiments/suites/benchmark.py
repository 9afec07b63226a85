"""Runs of rivals on a suite's problems: in parallel, a line per finished run in a file that a later call continues."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from fzoos import __version__, minimize
from fzoos.algorithms import Algorithm
from fzoos_experiments.paper.runner import end_with_parent
from fzoos_experiments.suites.bbob import FUNCTIONS, bbob
from fzoos_experiments.suites.least_squares import PROBLEMS, least_squares
from fzoos_experiments.suites.mujoco import ROBOTS, mujoco
from fzoos_experiments.suites.problem import SuiteProblem
from fzoos_experiments.suites.rivals import Pooled, find_rival

__all__ = ["SUITES", "TUNING", "SuiteRun", "execute", "load", "problem_of"]

TUNING = range(1, 4)
"""The instances on which settings and rules may be chosen; results are reported on others."""

SUITES: dict[str, tuple[str, ...]] = {
    "bbob": tuple(map(str, FUNCTIONS)),
    "largescale": tuple(map(str, FUNCTIONS)),
    "ls": tuple(map(str, range(1, len(PROBLEMS) + 1))),
    "ls-noisy": tuple(map(str, range(1, len(PROBLEMS) + 1))),
    "ls-absolute": tuple(map(str, range(1, len(PROBLEMS) + 1))),
    "mujoco": tuple(ROBOTS),
}
"""Each suite's problems, by name."""


@dataclass(frozen=True)
class SuiteRun:
    """A run of a rival on a problem; its fields are those of the table and of the file.

    Args:
        suite: one of `SUITES`.
        problem: one of the suite's.
        dim: d, for bbob and largescale; 0 where the problem has its own.
        instance: of the problem.
        rival: a name that `find_rival` knows.
        seed: of x0, noise and the rival.
        clients: N.
        heterogeneity: C.
        noise: of each query, as a share of F(x0) - F*; mujoco: whether there is any.
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
        """All fields, and the version of the library's algorithm, as text."""
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


def make(run: SuiteRun) -> dict[str, Any]:
    """Make a run: what it was, and the trace of (queries, F) at x0 and after each round.

    A pooled method has an entry for each point whose average was the lowest so far.
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
                seed=run.seed,
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


def load(path: Path) -> dict[SuiteRun, dict[str, Any]]:
    """The finished runs of a file; an unfinished last line is ignored, and so are runs of other versions."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:  # empty or unfinished
            continue
        fields = json.loads(record["key"])
        fields.pop("version", None)
        run = SuiteRun(**fields)
        if run.key == record["key"]:
            found[run] = record
    return found


def execute(
    runs: Iterable[SuiteRun],
    path: Path,
    jobs: int = 1,
    progress: Callable[[SuiteRun, int, str], None] = lambda run, left, error: None,
) -> dict[SuiteRun, dict[str, Any]]:
    """Make the runs that a file does not have yet, and return all of them that have not failed.

    Args:
        runs: the runs.
        path: the file. A line is added as soon as a run is finished.
        jobs: the number of runs that are made at the same time, each in a process of its own.
        progress: called after each run, with the number of runs that are left and what went wrong, or an empty text.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from fzoos_experiments.suites.benchmark import SuiteRun, execute
        >>> run = SuiteRun("ls", "7", dim=0, instance=4, rival="nelder-mead", clients=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = execute([run], Path(folder) / "runs.jsonl")
        >>> found[run]["trace"][-1][1] < 1e-9
        True
    """
    wanted, found = list(dict.fromkeys(runs)), load(path)
    missing = [run for run in wanted if run not in found]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n" if missing and file.tell() else "")  # ends a line that an interrupted call has begun
        for left, (run, record, error) in enumerate(_results(missing, jobs), start=1 - len(missing)):
            if record is not None:
                file.write(json.dumps(record) + "\n")
                file.flush()
                found[run] = record
            progress(run, -left, error)
    return {run: found[run] for run in wanted if run in found}


def _results(runs: Sequence[SuiteRun], jobs: int) -> Iterator[tuple[SuiteRun, dict[str, Any] | None, str]]:
    """Each run with its record, or with what went wrong, in the order in which they finish."""
    if jobs == 1:
        for run in runs:
            yield run, *_attempt(run)
        return
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # read when a worker imports NumPy: runs share the cores
        os.environ.setdefault(name, "1")
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin_worker) as pool:
        pending = {pool.submit(_attempt, run): run for run in runs}
        try:
            for done in as_completed(pending):
                yield pending[done], *done.result()
        except BaseException:
            for process in list(pool._processes.values()):
                process.terminate()
            pool.shutdown(cancel_futures=True)
            raise


def _attempt(run: SuiteRun) -> tuple[dict[str, Any] | None, str]:
    try:
        return make(run), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends the workers
    threading.Thread(target=end_with_parent, daemon=True).start()
