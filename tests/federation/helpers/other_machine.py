"""Begins studies and is killed, or goes on with them; run as a program, with an environment that stands for a machine.

OPENBLAS_CORETYPE takes the arithmetic of another processor, OPENBLAS_NUM_THREADS another number of threads: sums are
made in another order, and their last bits differ.

    python other_machine.py begin FOLDER      every study dies in its third round, in the middle of a request
    python other_machine.py resume FOLDER     every study goes on to its end
"""

import json
import sys
from pathlib import Path

import numpy as np

from fzoos.algorithms import ALGORITHMS
from fzoos.algorithms.local_steps import LocalSteps
from fzoos.engines import LocalStudy
from fzoos.federation.study import Study
from fzoos.testing.quick import queries_of_a_round

DIM, ROUNDS, STEPS = 100, 4, 5
TABLES = {
    name: {"name": name}
    | ({"local_steps": STEPS} if issubclass(cls, LocalSteps) else {})
    | ({"differences": {"count": 5}} if hasattr(cls(), "differences") else {})
    for name, cls in ALGORITHMS.items()
} | {"fzoos": {"name": "fzoos", "features": 200, "points": 50}}


class Killed(BaseException):
    """The process is gone; nothing of ours catches it."""


def make_study(name):
    settings = {"x0": 0.5, "dim": DIM, "bounds": (-1.0, 2.0), "sites": ("a", "b"), "rounds": ROUNDS, "seed": 3}
    return Study(name, retries=0, algorithm=TABLES[name], **settings)


class Box:
    """A quadratic function of its own; counts, and dies at one of its calls."""

    def __init__(self, site, die_at=None):
        rng = np.random.default_rng(site)
        self._scale, self._centre = rng.uniform(0.5, 3.0, DIM), rng.uniform(-0.5, 0.5, DIM)
        self._die_at, self.count = die_at, 0

    def __call__(self, x):
        if self.count == self._die_at:
            raise Killed
        self.count += 1
        return float(sum(self._scale * (x - self._centre) ** 2))  # term by term: the value is that of every machine


def planned(study, rounds):
    """Queries of a site in its first rounds."""
    return sum(queries_of_a_round(study.algorithm_settings, DIM, r, first=r == 1) for r in range(1, rounds + 1))


def begin(name, folder):
    study = make_study(name)
    boxes = [Box(0), Box(1, die_at=(planned(study, 2) + planned(study, 3)) // 2)]
    try:
        LocalStudy(study, folder, boxes, workers=2).run()
    except Killed:
        return {"asked": [box.count for box in boxes]}
    raise AssertionError("it was to be killed")


def resume(name, folder):
    study = make_study(name)
    boxes = [Box(0), Box(1)]
    result = LocalStudy(study, folder, boxes, workers=2).run(resume=True)
    return {
        "status": result.status,
        "message": result.message,
        "asked": [box.count for box in boxes],
        "planned": planned(study, ROUNDS),
        "paid": list(result.queries_per_client),
        "x": result.x.tolist(),
        "start": float(np.mean([box(study.start) for box in boxes])),
        "end": float(np.mean([box(result.x) for box in boxes])),
    }


if __name__ == "__main__":
    job, top = {"begin": begin, "resume": resume}[sys.argv[1]], Path(sys.argv[2])
    names = sys.argv[3:] or list(TABLES)
    print(json.dumps({name: job(name, top / name) for name in names}))
