"""A real Dask cluster on this machine as the executor, and one of its workers killed in the middle."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from fzoos import Auto, minimize
from fzoos.objectives.parallel import ExecutorPool

# Another test of the same process may have ended the tracker of Python's own multiprocessing, which Dask starts again.
pytestmark = pytest.mark.filterwarnings("ignore:resource_tracker:UserWarning")
distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'fzoos[dask]'")


def slow(x, centre=0.3):
    time.sleep(0.005)
    return float(np.sum((x - centre) ** 2))


def other(x):
    return slow(x, 0.5)


@pytest.fixture(scope="module")
def client():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(host="127.0.0.1", **settings) as cluster, distributed.Client(cluster) as made:
        made.upload_file(__file__)
        yield made


def run(**changes):
    return minimize([slow, other], np.zeros(4), bounds=(-1, 1), algorithm=Auto(), rounds=3, seed=0, **changes)


def test_same_bits_as_one_by_one(client):
    serial, parallel = run(), run(workers=client.get_executor())
    assert np.array_equal(serial.x, parallel.x)
    assert serial.queries_per_client == parallel.queries_per_client


def test_a_worker_that_is_killed(client):
    """Dask gives its tasks to others; nothing is lost, nothing counted twice, and the bits are the same."""
    serial = run()
    pid = next(iter(client.run(os.getpid).values()))
    timer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    timer.start()
    parallel = run(workers=client.get_executor(retries=3))
    timer.join()
    assert np.array_equal(serial.x, parallel.x)
    assert serial.queries_per_client == parallel.queries_per_client


def test_equal_points_are_evaluated_separately(client):
    """Dask remembers results of pure functions; an objective may be noisy."""
    pool = ExecutorPool(client.get_executor())
    values = [returned.value for _ in range(2) for returned in pool.submit(os.urandom, [8, 8])]
    assert len(set(values)) == 4
