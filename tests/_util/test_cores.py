"""Work on several cores: at the same time, each item once, and what it raises."""

from __future__ import annotations

import threading

import pytest

from fzoos._util import cores
from fzoos._util.cores import on_cores


def test_each_item_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for count in (1, 2, 5):
        monkeypatch.setattr(cores, "_cores", lambda count=count: count)
        cores._pool.cache_clear()
        done: list[int] = []
        on_cores(done.append, range(7))
        assert sorted(done) == list(range(7))
    on_cores(done.append, [])


def test_it_is_at_the_same_time_and_what_is_raised_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both must be there at once to pass the barrier."""
    monkeypatch.setattr(cores, "_cores", lambda: 2)
    cores._pool.cache_clear()
    barrier = threading.Barrier(2, timeout=10)

    def work(i: int) -> int:
        barrier.wait()
        return 10 // i

    with pytest.raises(ZeroDivisionError):
        on_cores(work, [0, 5])
