"""The server's side of a study: checkpoints and budgets; every run can be taken up again."""

from dataclasses import replace

import pytest
from fault_jobs import CENTRES, Box, logged, make_study, receive
from study_runs import run
from wire import Wire

import fzoos
from fzoos import FedZO
from fzoos.federation.study_run import run_study
from fzoos.runs.store import Store, StoreError
from fzoos.testing.study import same_history

# Checkpoints


def test_converged_at_every_exchange(folder):
    """A study of the default whose server ends after each exchange and is made anew converges in the same round as the
    undisturbed one, and does so again when it is taken up afterwards; with another tolerance it goes on."""
    study = make_study("auto", rounds=12, tolerance=0.2)
    whole, _ = run(study, folder / "whole")
    assert whole.status == "converged"
    assert 3 <= whole.rounds < 12
    result = None

    class Once(Wire):
        left = 1

        def exchange(self, requests, timeout):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            return super().exchange(requests, timeout)

    starts = 0
    while result is None or result.status == "interrupted":
        starts += 1
        with Once(study, folder) as engine:
            result = run_study(study, engine, folder / "result.db", resume=True)
    assert starts == 2 * whole.rounds
    assert result.status == "converged"
    same_history(result, whole)
    again, _ = run(study, folder, resume=True)
    assert (again.status, again.rounds) == ("converged", whole.rounds)
    more, _ = run(replace(study, tolerance=0.0, rounds=whole.rounds + 1), folder, resume=True)
    assert (more.status, more.rounds) == ("completed", whole.rounds + 1)


def test_more_rounds(folder):
    """Two rounds and then three more are five; and a run that is complete stays as it is."""
    whole, _ = run(make_study(rounds=5), folder / "whole")
    first, _ = run(make_study(rounds=2), folder)
    assert (first.status, first.rounds) == ("completed", 2)
    result, _ = run(make_study(rounds=5), folder, resume=True)
    same_history(result, whole)
    again, engine = run(make_study(rounds=5), folder, resume=True)
    assert again.status == "completed"
    assert engine.sent == []
    same_history(again, whole)


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"table": {"local_steps": 3}}, {"algorithm": "fedzo"}, {"sites": ("a", "c")}]
)
def test_other_settings(folder, changes):
    """What changes numbers is another study: refused, in one line that says so, and the file is as it was."""
    run(make_study(rounds=2), folder)
    before = (folder / "result.db").read_bytes()
    other = make_study(**{"rounds": 3} | changes)
    with pytest.raises(StoreError, match=rf"holds a run of other settings \(study .*, not {other.id}\)") as caught:
        run_study(other, Lonely(), folder / "result.db", resume=True)
    assert "\n" not in str(caught.value)
    assert (folder / "result.db").read_bytes() == before


class Lonely:
    """Nobody is there, and nobody may be asked."""

    def exchange(self, requests, timeout):
        raise AssertionError("asked")


def test_callback_and_interrupt(folder):
    """Stopped by the callback, and by Ctrl-C inside an objective: resumable, and the undisturbed run in the end."""
    study = make_study(rounds=4)
    whole, _ = run(study, folder / "whole")
    stopped, _ = run(study, folder, callback=lambda record: record.round == 1)
    assert (stopped.status, stopped.rounds) == ("stopped", 1)

    class Interrupted(Box):
        def __call__(self, x):
            if self.count == 2:
                raise KeyboardInterrupt
            return super().__call__(x)

    boxes = [Interrupted(CENTRES[0], folder / "a.log"), Box(CENTRES[1], folder / "b.log")]
    interrupted, _ = run(study, folder, resume=True, objectives=boxes)
    assert interrupted.status == "interrupted"
    assert "round 2" in interrupted.message
    same_history(run(study, folder, resume=True)[0], whole)


@pytest.mark.parametrize("unknown", [{"colour": "red"}, {"rounds": "many"}, {"algorithm": {"name": "future"}}])
def test_settings_of_a_newer_version(folder, unknown):
    """A run whose settings this version does not know is refused in words when it is resumed."""
    study = make_study("fedzo")
    run(study, folder)
    with Store(folder / "result.db") as store:
        store.resume(store.last, store.settings(store.last) | unknown)
    with pytest.raises(StoreError, match="settings unknown to this version"):
        run(study, folder, resume=True)


def test_in_use(folder, nursery):
    """Two servers of one file: the second is refused in one line. When the first is killed the next can go on."""
    child = nursery.start("server", folder=str(folder), settings={})
    assert receive(child.line) is not None  # its first request
    with pytest.raises(StoreError, match="is in use by another process: the study is running already"):
        run_study(make_study(), Lonely(), folder / "result.db", resume=True)
    assert fzoos.load(folder).status == "running"
    assert child.kill() == -9
    assert fzoos.load(folder).status == "interrupted"
    assert run(make_study(), folder, resume=True)[0].status == "completed"


# Budgets


def test_budget_of_the_run(folder):
    """2 x 7 queries in the first round and 2 x 6 in the next: a budget of 30 is two rounds, also in two parts, and with
    more it goes on."""
    study = make_study(max_queries=30, rounds=5)
    first, _ = run(replace(study, rounds=1), folder)
    assert first.queries == 14
    result, _ = run(study, folder, resume=True)
    assert (result.status, result.rounds, result.queries) == ("budget", 2, 26)
    assert result.message == "the next round needs 12 queries, the budget is 30"
    again, engine = run(study, folder, resume=True)
    assert (again.status, engine.sent) == ("budget", [])
    whole, _ = run(replace(study, max_queries=None), folder / "whole")
    more, _ = run(replace(study, max_queries=None), folder, resume=True)
    same_history(more, whole)


def test_another_version_of_the_algorithm(folder, monkeypatch):
    """A run begun when the same settings meant other numbers is not resumed by mistake."""
    run(make_study("fedzo"), folder)
    monkeypatch.setattr(FedZO, "version", FedZO.version + 1)
    with pytest.raises(StoreError, match=r"was begun with another version of FedZO: .*begin a new run"):
        run(make_study("fedzo"), folder, resume=True)


def test_budget_of_the_sites(folder):
    """No site goes beyond its own, over any number of restarts; without enough of them the run stops, resumable."""
    study = make_study(max_queries_per_client=14, rounds=5, retries=0)
    for _ in range(3):
        result, _ = run(study, folder, resume=True)
        assert (result.status, result.rounds) == ("failed", 2)
        assert "round 3 needs 6 queries; 13 of the site's 14 are spent" in result.message
    assert [len(logged(folder, site)) for site in "ab"] == [13, 13]
    whole, _ = run(make_study(rounds=5), folder / "whole")
    more, _ = run(replace(study, max_queries_per_client=31), folder, resume=True)
    same_history(more, whole)
