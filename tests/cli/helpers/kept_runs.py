"""Runs in a file, by hand and of `minimize`."""

import numpy as np

from fzoos import FedZO, Record, minimize
from fzoos.runs.store import Store


def keep(path, name="a run", values=(5.0, 4.0, 3.0, 2.0), queries=10, bytes=100, settings=None, clients=2):
    """A run whose every round costs the same; bytes go up and down in halves."""
    with Store(path) as store:
        run = store.begin(name, {"seed": 0} if settings is None else settings, np.zeros(2), clients=clients)
        for r, value in enumerate(values, start=1):
            each = (queries * r // clients,) * clients
            record = Record(r, queries * r, bytes * r // 2, bytes * r // 2, 0.5 * r, 0.1, value,
                            {"correction_length": 1.0}, each, (0.25, None)[:clients])  # fmt: skip
            store.record(run, record, np.array([0.5, -0.5]))
        store.finish(run, "completed", "all rounds are done", {})
    return run


def real_run(path, **more):
    f = lambda x: float(x @ x)
    settings = {"algorithm": FedZO(local_steps=2), "rounds": 3, "seed": 0, "monitor": f, "store": path}
    return minimize([f, f], np.ones(3), bounds=(-1, 1), **(settings | more))
