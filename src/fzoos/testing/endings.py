"""Contract of an algorithm: how a run ends, and what objectives that fail do to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.objectives.box import Objective
from fzoos.result import ObjectiveError, Record
from fzoos.testing.problem import DIM, TARGETS, Checks, Recorder, bowl, bowls, close, same

__all__ = ["EndingChecks"]


class EndingChecks(Checks):
    """Whatever ends a run, what it reached is there; a query that failed is left out."""

    def test_callback(self) -> None:
        """The run stops after the round for which the callback returns True, and equals a shorter run."""
        records: list[Record] = []

        def callback(record: Record) -> bool:
            records.append(record)
            return record.round == 2

        result = self.run(rounds=5, callback=callback)
        assert (result.status, result.rounds) == ("stopped", 2)
        assert "callback" in result.message
        assert tuple(records) == result.history
        assert np.array_equal(result.x, self.run(rounds=2).x)

    def test_callback_that_goes_on(self) -> None:
        """Anything but True goes on."""
        for answer in (None, False, 0):
            assert self.run(callback=lambda record, answer=answer: answer).status == "completed"

    def test_budget(self) -> None:
        """The budget is never exceeded, never left unused by a whole round, and a stopped run equals a shorter run, but
        for a last round that is cut."""
        for participation in (1.0, 2):
            full = self.run(rounds=4, participation=participation)
            needs = [record.queries for record in full.history]
            for budget in (0, needs[0] - 1, needs[0], needs[1] - 1, needs[1] + 1, needs[3] - 1, needs[3], needs[3] + 1):
                recorder = Recorder(bowls())
                result = self.run(recorder.objectives, rounds=4, participation=participation, max_queries=budget)
                affordable = sum(need <= budget for need in needs)
                assert len(recorder.points) == result.queries <= budget
                whole = [record for record in result.history if not record.cut]
                assert len(whole) == affordable
                assert result.rounds - affordable in (0, 1)
                assert result.status == ("completed" if affordable == 4 else "budget")
                if affordable < 4:
                    assert str(budget) in result.message
                if affordable:
                    assert whole[-1].queries == needs[affordable - 1]
                if result.rounds > affordable:
                    assert result.queries > (whole[-1].queries if whole else 0)

    def test_monitor(self) -> None:
        """The monitor is called once a round with the server's x, is recorded, and is neither counted nor an influence,
        even if it writes into its argument."""
        seen: list[FloatArray] = []

        def monitor(x: FloatArray) -> Any:
            seen.append(x.copy())
            value = np.array(np.sum(x))
            x[:] = 1e9
            return value

        plain, watched = self.run(), self.run(monitor=monitor)
        assert np.array_equal(plain.x, watched.x)
        assert plain.queries == watched.queries
        assert [record.monitor for record in watched.history] == [float(np.sum(x)) for x in seen]
        assert len(seen) == watched.rounds
        assert np.array_equal(seen[-1], watched.x)
        assert all(record.monitor is None for record in plain.history)

    def test_skip(self) -> None:
        """With on_failure = "skip" failed queries count, are left out, and the run goes on and still descends."""
        for bad in (float("nan"), float("inf"), -float("inf")):
            calls = {"count": 0, "failed": 0}

            def sometimes(f: Objective, calls: dict[str, int] = calls, bad: float = bad) -> Objective:
                def objective(x: FloatArray) -> Any:
                    calls["count"] += 1
                    if calls["count"] % 4 == 0:
                        calls["failed"] += 1
                        return bad
                    return f(x)

                return objective

            result = self.run([sometimes(bowl(0.8)), sometimes(bowl(0.9))], on_failure="skip", rounds=8)
            assert result.status == "completed"
            assert result.queries == calls["count"] > calls["failed"] > 0
            assert np.all(result.x > 0.1)

    def test_skip_everything(self) -> None:
        """Where every query fails there is no gradient: x stays, the queries count, the run completes."""
        x0 = np.full(DIM, 0.25)
        one_by_one: Objective = lambda x: float("nan")  # noqa: E731
        batches: Objective = lambda x: np.full(len(x), np.nan)  # noqa: E731
        for vectorized in (False, True):
            recorder = Recorder([batches if vectorized else one_by_one] * 2)
            result = self.run(recorder.objectives, x0, on_failure="skip", vectorized=vectorized)
            assert result.status == "completed"
            close(result.x, x0, 1e-12)
            assert result.queries == sum(len(np.atleast_2d(x)) for _, _, x in recorder.points) > 0

    def test_skip_one_client(self) -> None:
        """A client whose every query fails stays at the server's x; the others still move it."""
        result = self.run([lambda x: float("nan"), bowl(0.9)], on_failure="skip", rounds=5)
        assert result.status == "completed"
        assert np.all(result.x > 0.05)

    def test_skip_without_failures(self) -> None:
        """on_failure changes nothing where nothing fails."""
        assert same(self.run(), self.run(on_failure="skip"))

    def test_raising_objective(self) -> None:
        """An objective that raises in round 3 ends the run with client, round, cause, and the two rounds before."""
        if not self.queries_later(3):
            return  # asks nothing in round 3
        for workers in (1, 2):
            error = self._failure(workers)
            expected = "client 1 raised OSError: the laboratory is on fire in round 3"
            assert expected in str(error)
            assert (error.client, error.round) == (1, 3)
            assert isinstance(error.__cause__, OSError)
            assert error.x.shape == (DIM,)
            assert error.result is not None
            assert (error.result.status, error.result.rounds) == ("failed", 2)
            assert np.array_equal(error.result.x, self.run(rounds=2).x)

    def _failure(self, workers: int) -> ObjectiveError:
        objectives, recorder = _until_round_3(OSError("the laboratory is on fire"))
        try:
            self.run(objectives, rounds=5, callback=recorder.next_round, workers=workers)
        except ObjectiveError as error:
            return error
        raise AssertionError("an objective raised, and the run did not")

    def test_interrupt(self) -> None:
        """Ctrl-C inside an objective in round 3 returns the two complete rounds."""
        if not self.queries_later(3):
            return
        for workers in (1, 2):
            objectives, recorder = _until_round_3(KeyboardInterrupt())
            result = self.run(objectives, rounds=5, callback=recorder.next_round, workers=workers)
            assert (result.status, result.rounds, len(result.history)) == ("interrupted", 2, 2)
            assert "round 3" in result.message
            assert np.array_equal(result.x, self.run(rounds=2).x)
            assert result.queries == sum(result.queries_per_client)


def _until_round_3(error: BaseException) -> tuple[list[Objective], Recorder]:
    """Objectives of which the second raises in round 3, and who counts the rounds."""
    recorder = Recorder([])

    def raising(x: FloatArray) -> float:
        if recorder.round == 3:
            raise error
        return bowl(TARGETS[1])(x)

    return [bowl(TARGETS[0]), raising, bowl(TARGETS[2])], recorder
