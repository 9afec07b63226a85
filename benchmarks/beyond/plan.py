"""What is to be run, by the names in the tables, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.beyond.problems import Problem
from benchmarks.beyond.settings import SETTINGS
from fzoos import FixedFZooS
from fzoos.experiments.run import Row, Run
from fzoos.experiments.store import Store

LOCAL_STEPS = 10  # T


@dataclass(frozen=True)
class Planned:
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

    def run(self, device: str = "cpu") -> Run:
        """The run, kept by the names above: a label that gets other settings must become another label."""
        setting = SETTINGS[self.label]
        return Run(
            self.problem.task(self.seed, device),
            setting.algorithm,
            self.rounds,
            LOCAL_STEPS,
            self.seed,
            image=self.seed if self.problem.kind == "attack" else -1,
            quantity="value",
            optimizer=setting.optimizer,
            precision=setting.precision,
            target=self.target,
            knows_noise=setting.knows_noise,
            name=json.dumps(asdict(self), sort_keys=True),
        )

    @property
    def cost(self) -> float:
        """About how many seconds the run takes on one core: the algorithm's arithmetic, and the queries."""
        algorithm, kind = SETTINGS[self.label].algorithm, self.problem.kind
        queries = {"metric": 3.0 if self.problem.samples is None else 0.3, "attack": 0.2}.get(kind, 0.01)
        if not isinstance(algorithm, FixedFZooS):
            return self.rounds * queries
        arithmetic = 1.0 + (algorithm.features / 10_000 if algorithm.sends == "weights" else 0.0)
        return self.rounds * (arithmetic * {"metric": 4.0, "attack": 3.0}.get(kind, 1.0) + queries / 2.0)

    def __str__(self) -> str:
        return f"{self.part}: {self.problem}: {self.label}: seed {self.seed}"


@dataclass(frozen=True)
class Found:
    """What came of a run; sequences have one number per round, counts and seconds are totals so far.

    `values` are F - F* of the synthetic functions, F of the metric, the margin of the attack; `start` is the one at x0,
    `recommended` that of the recommended x at the end. `bytes` are those of all clients, up and down.
    """

    rows: Sequence[Row]
    clients: int
    made: str  # the command and the machine

    @property
    def start(self) -> float:
        return self.rows[0]["value"]

    @property
    def values(self) -> Sequence[float]:
        return [row["value"] for row in self.rows[1:]]

    @property
    def queries(self) -> Sequence[int]:
        return [int(row["queries"]) for row in self.rows[1:]]

    @property
    def bytes(self) -> Sequence[int]:
        """Early runs kept the sum of both ways only."""
        return [int(sum(n for name, n in row.items() if name.startswith("bytes"))) for row in self.rows[1:]]

    @property
    def seconds(self) -> Sequence[float]:
        return [row["seconds"] for row in self.rows[1:]]

    @property
    def recommended(self) -> float:
        return self.rows[-1]["recommended"]

    @property
    def bytes_per_client_and_round(self) -> float:
        """Both ways together, mean over the rounds."""
        return self.bytes[-1] / len(self.bytes) / self.clients

    def first_below(self, target: float) -> int | None:
        """The first round, from 1, after which the value is at most the target."""
        return next((r for r, value in enumerate(self.values, 1) if value <= target), None)


FoundRuns = Mapping[Planned, Found]


def read(plan: Iterable[Planned], folder: Path) -> dict[Planned, Found]:
    """Those of the runs that the folder has."""
    store, found = Store(folder), {}
    for planned in plan:
        run = planned.run()
        rows = store.load(run)
        if rows is not None:
            found[planned] = Found(rows, planned.problem.clients, store.made_with([run])[0]["made"])
    return found
