"""Runs of studies over bytes, and what is kept of them."""

from dataclasses import replace

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


def same_history(one, two):
    """All that a run leaves, but for the time it took."""
    for mine, yours in zip(one.history, two.history, strict=True):
        assert replace(mine, seconds=0.0) == replace(yours, seconds=0.0)
    assert one.x.tobytes() == two.x.tobytes()
    assert (one.queries_per_client, one.bytes_up, one.bytes_down) == (
        two.queries_per_client,
        two.bytes_up,
        two.bytes_down,
    )
