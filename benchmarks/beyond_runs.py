"""A run: the record that names it, how it is made, and the line of a file that is left of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from beyond_problems import Built, Problem, build
from beyond_settings import SETTINGS, Setting

from fzoos import FZooS, KnownNoise, minimize
from fzoos._util.arrays import FloatArray
from fzoos.result import Record

LOCAL_STEPS = 10  # T


@dataclass(frozen=True)
class Run:
    """What is run, and until when.

    Args:
        part: of the benchmark.
        problem: the task.
        label: of the setting, in `SETTINGS`.
        seed: of the task and of the run; an attack's image.
        rounds: at most.
        target: the run ends when the value is below this, or is this; None: it does not.
    """

    part: str
    problem: Problem
    label: str
    seed: int
    rounds: int
    target: float | None = None

    @property
    def key(self) -> str:
        """Everything that the outcome depends on."""
        return json.dumps([asdict(self), repr(SETTINGS[self.label])], sort_keys=True)

    def __str__(self) -> str:
        return f"{self.part}: {self.problem}: {self.label}: seed {self.seed}"


@dataclass(frozen=True)
class Found:
    """What came of a run; sequences have one number per round, counts and seconds are totals so far.

    `values` are F - F* of the synthetic functions, F of the metric, the margin of the attack; `start` is the one at x0,
    `recommended` that of the recommended x at the end. `bytes` are those of all clients, up and down. `seconds` leave
    out the monitoring, `wall` is the whole run with the making of the task.
    """

    start: float
    values: Sequence[float]
    queries: Sequence[int]
    bytes: Sequence[int]
    seconds: Sequence[float]
    clients: int
    recommended: float
    wall: float
    made: str  # the command and the machine

    @property
    def bytes_per_client_and_round(self) -> float:
        """Both ways together, mean over the rounds."""
        return self.bytes[-1] / len(self.bytes) / self.clients

    def first_below(self, target: float) -> int | None:
        """The first round, from 1, after which the value is at most the target."""
        return next((r for r, value in enumerate(self.values, 1) if value <= target), None)


FoundRuns = Mapping[Run, Found]


def make(run: Run, device: str, made: str) -> Found:
    """Make a run."""
    started = time.perf_counter()
    setting, built = SETTINGS[run.label], build(run.problem, run.seed, device)
    found = _exact(run, setting, built, made) if setting.algorithm is None else _minimize(run, setting, built, made)
    return replace(found, wall=time.perf_counter() - started)


def _minimize(run: Run, setting: Setting, built: Built, made: str) -> Found:
    task, algorithm = built.task, setting.algorithm
    assert algorithm is not None
    if setting.knows_noise and isinstance(algorithm, FZooS):
        algorithm = replace(algorithm, noise=KnownNoise(task.sigma))

    def reached(record: Record) -> bool:
        return run.target is not None and record.monitor is not None and record.monitor <= run.target

    result = minimize(
        task.objectives,
        task.x0,
        bounds=task.bounds,
        algorithm=algorithm,
        rounds=run.rounds,
        local_steps=LOCAL_STEPS,
        optimizer=setting.optimizer,
        precision=setting.precision,
        vectorized=True,
        monitor=built.value,
        callback=reached,
        seed=run.seed,
    )
    return Found(
        start=built.value(task.x0),
        values=[float(record.monitor) for record in result.history if record.monitor is not None],
        queries=[record.queries for record in result.history],
        bytes=[record.bytes_up + record.bytes_down for record in result.history],
        seconds=[record.seconds for record in result.history],
        clients=built.clients,
        recommended=built.value(result.recommended),
        wall=0.0,
        made=made,
    )


def _exact(run: Run, setting: Setting, built: Built, made: str) -> Found:
    """The same loop with the true gradient of F: all clients would do the same, so that one is enough."""
    task, optimizer = built.task, setting.optimizer
    low, high = task.bounds
    width = high - low
    started, x = time.perf_counter(), (task.x0 - low) / width
    values: list[float] = []
    seconds: list[float] = []
    while len(values) < run.rounds and not (values and run.target is not None and values[-1] <= run.target):
        state = optimizer.init(len(x))
        for _ in range(LOCAL_STEPS):
            gradient: FloatArray = task.gradient(low + width * x) * width  # in the unit cube
            state, step = optimizer.step(state, gradient)
            x = np.clip(x - step, 0.0, 1.0)
        values.append(built.value(low + width * x))
        seconds.append(time.perf_counter() - started)
    nothing = [0] * len(values)
    return Found(built.value(task.x0), values, nothing, nothing, seconds, built.clients, values[-1], 0.0, made)


def read(runs: Iterable[Run], folder: Path) -> dict[Run, Found]:
    """Those of the runs that the folder has."""
    wanted = {run.key: run for run in runs}
    found: dict[Run, Found] = {}
    for path in sorted({folder / f"{run.part}.jsonl" for run in wanted.values()}):
        for line in path.read_text().splitlines() if path.exists() else ():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue  # half a line, of a command that was killed
            if entry["key"] in wanted:
                found[wanted[entry["key"]]] = Found(**entry["found"])
    return found


def append(run: Run, found: Found, folder: Path) -> None:
    """Keep a finished run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.part}.jsonl"
    torn = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write(("\n" if torn else "") + json.dumps({"key": run.key, "found": asdict(found)}) + "\n")
