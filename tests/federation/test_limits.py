"""What ends a run early: seconds, bytes, a target, patience; and a budget that allows no round."""

from __future__ import annotations

import time

import numpy as np
import pytest

from fzoos import FedZO, FiniteDifferences, Stop, minimize

CHEAP = FedZO(local_steps=2, differences=FiniteDifferences(count=4))
ROUND = 2 * 2 * (4 + 1)  # queries of two clients, T = 2, Q = 4
D = 3


def f(x):
    return float(np.sum((x - 0.25) ** 2))


def run(objective=f, **changes):
    settings = {"bounds": (-1, 1), "algorithm": CHEAP, "rounds": 9, "seed": 0}
    return minimize([objective, objective], np.full(D, 0.9), **(settings | changes))


def test_seconds():
    """A round takes 20 queries of 5 ms: after 0.15 s at least one round is over, and far fewer than nine."""
    result = run(lambda x: time.sleep(0.005) or f(x), stop=Stop(max_seconds=0.15))
    assert result.status == "budget"
    assert 1 <= result.rounds <= 2
    assert "seconds have passed, the budget is 0.15" in result.message


def test_bytes():
    """FedZO sends x down and x and two numbers up: 8 (2 D + 2) bytes for each of two clients and round."""
    one = 2 * 8 * (2 * D + 2)
    for budget, rounds in ((3 * one, 3), (3 * one + 1, 3), (4 * one - 1, 3), (4 * one, 4)):
        result = run(stop=Stop(max_bytes=budget))
        assert (result.status, result.rounds) == ("budget", rounds)
        assert result.bytes_up + result.bytes_down == rounds * one


def test_target():
    """The first round whose value is low enough is the last."""
    values = [record.monitor for record in run(monitor=f).history]
    target = values[4] + 1e-12
    assert min(values[:4]) > target
    result = run(monitor=f, stop=Stop(target=target))
    assert (result.status, result.rounds, result.success) == ("stopped", 5, True)
    assert result.fun <= target


def test_patience():
    """A value that is not below the lowest for three rounds."""
    heights = iter([5.0, 4.0, 4.5, 3.0, 3.0, 3.1, 9.0, 1.0])
    result = run(monitor=lambda x: next(heights), stop=Stop(patience=3))
    assert (result.status, result.rounds) == ("stopped", 7)
    assert "F(x) has not been below 3 for 3 rounds" in result.message


def test_a_budget_below_one_round_says_so(caplog):
    """Not even one local step of both clients, which is half a round, can be made."""
    budget = ROUND // 2 - 1
    result = run(max_queries=budget)
    assert (result.status, result.rounds) == ("budget", 0)
    assert result.message == f"no round was run, x is x0: the first round needs {ROUND} queries, the budget is {budget}"
    assert result.message in caplog.text
    assert run(max_queries=ROUND // 2).rounds == 1
    assert run(max_queries=ROUND).history[0].cut == 0


@pytest.mark.parametrize("name", ["target", "patience"])
def test_values_are_needed(name):
    with pytest.raises(ValueError, match=rf"Stop\({name}=...\) needs F: give a monitor"):
        run(stop=Stop(**{name: 1}))
