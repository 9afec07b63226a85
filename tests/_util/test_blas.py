"""BLAS threads: one for our own small matrices, all for the objective, large ones left alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # so that SciPy's BLAS is there before the user's two threads are set
from threadpoolctl import threadpool_info, threadpool_limits

from fzoos import minimize
from fzoos._util.blas import LARGE, objective_threads, one_blas_thread, share_blas_threads


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_threads():
    """The tests' own limit is one: here the user has two."""
    with threadpool_limits(2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("this BLAS has one thread only")
        yield


def test_our_own_arithmetic_has_one_thread_and_the_objective_within_it_two() -> None:
    with one_blas_thread():
        assert threads() == {1}
        with objective_threads():
            assert threads() == {2}
        assert threads() == {1}
    assert threads() == {2}


def test_large_matrices_are_left_alone() -> None:
    with one_blas_thread(LARGE):
        assert threads() == {2}


def test_clients_on_threads_share_them() -> None:
    """Two of two have one each, for their arithmetic and for their objectives; whatever was entered before."""
    with one_blas_thread(), share_blas_threads(2):
        assert threads() == {1}
        with objective_threads():
            assert threads() == {1}
    assert threads() == {2}
    with threadpool_limits(8, user_api="blas"):
        there = min(threads())  # a BLAS may have been built for fewer
        with share_blas_threads(2), one_blas_thread(), objective_threads():
            assert threads() == {there // 2}
        with share_blas_threads(3), share_blas_threads(there):
            assert threads() == {1}
        with share_blas_threads(100):
            assert threads() == {1}
        assert threads() == {there}


def test_an_error_puts_the_threads_back() -> None:
    with pytest.raises(ZeroDivisionError), one_blas_thread(), objective_threads():
        raise ZeroDivisionError
    assert threads() == {2}


@pytest.mark.parametrize(("workers", "share"), [(1, 2), (2, 1)])
def test_an_objective_of_minimize_has_its_share_of_the_threads(workers, share) -> None:
    seen = set()

    def objective(x):
        seen.update(threads())
        return float(np.sum(x**2))

    minimize([objective] * 2, np.zeros(3), bounds=(-1, 1), rounds=2, seed=0, workers=workers)
    assert seen == {share}
    assert threads() == {2}


def test_results_do_not_depend_on_the_threads_that_the_process_was_given() -> None:
    """Bit for bit, as our own arithmetic always has one."""
    code = (
        "import numpy as np, fzoos\n"
        "f = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in (0.1, 0.3)]\n"
        "print(fzoos.minimize(f, np.zeros(150), bounds=(-1, 1), rounds=2, seed=1).x.tobytes().hex())\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"OPENBLAS_NUM_THREADS": n, "PATH": ""}, capture_output=True, check=True
        ).stdout
        for n in ("1", "2")
    }
    assert len(outputs) == 1
