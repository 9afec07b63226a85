"""Runs of studies over bytes, and what is kept of them."""

import numpy as np
from wire import Wire

from fzoos.federation.study_run import run_study
from fzoos.runs.store import Store

THREE = ("a", "b", "c")


def run(study, folder, *, resume=False, callback=None, **wire):
    """One run over bytes, with the result in the folder."""
    folder.mkdir(exist_ok=True)
    with Wire(study, folder, **wire) as engine:
        return run_study(study, engine, folder / "result.db", resume=resume, callback=callback), engine


def failures(folder):
    with Store(folder / "result.db") as store:
        return store.failures(store.last)


def bowls(counts=None):
    """Objectives of three sites; their queries are counted in a list."""

    def bowl(centre):
        def f(x):
            if counts is not None:
                counts.append(centre)
            return float(np.sum((x - centre) ** 2))

        return f

    return [bowl(centre) for centre in (0.3, 0.4, 0.1)]
