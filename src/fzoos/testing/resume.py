"""The contract of resumption: a study that is stopped anywhere ends as an undisturbed one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Algorithm
from fzoos.engines.local_study import LocalStudy
from fzoos.federation.exchange import Outcome
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import decode, encode
from fzoos.messages.message import Message
from fzoos.minimize import minimize
from fzoos.result import Result
from fzoos.testing.problem import run_checks
from fzoos.testing.study import (
    SiteObjective,
    make_study,
    objectives_of,
    queried_points,
    registered,
    same_history,
    temporary_folder,
)

__all__ = ["ResumeContract", "check_resume"]


class Crash(BaseException):
    """The end of a process, which nothing in the library catches."""


class ResumeContract:
    """The checks that make studies of an algorithm resumable. Each method whose name begins with `test` is one check.

        class TestMineResumes(ResumeContract):
            algorithm = MyAlgorithm()

    A site is restored by answering all its requests again with the values from its journal, or from a snapshot. So an
    algorithm must draw from its context's generator only, query through its context only, and return everything that
    later requests depend on from `state()` of its client half.

    Attributes:
        algorithm: the settings to check, made quicker where that is needed (`make_quick`).
    """

    algorithm: Algorithm

    def test_the_same_as_minimize(self) -> None:
        """A study through sites, journals and bytes is the run of `minimize` with the same settings."""
        with _Trial(self.algorithm) as trial:
            study = trial.study
            plain = minimize(
                objectives_of(study, trial.folder("plain")),
                study.start,
                bounds=study.bounds,
                algorithm=study.algorithm_settings,
                rounds=study.rounds,
                participation=study.participation,
                seed=study.seed,
            )
            same_history(trial.whole, plain)

    def test_sites_restarted_for_every_message(self) -> None:
        """Sites that are started again for each message give the same run, with no more queries."""
        with _Trial(self.algorithm) as trial:
            folder = trial.folder("restarted")
            trial.compare(run_study(trial.study, _Restarting(trial.study, folder), folder / "result.db"), folder)

    def test_sites_restarted_from_snapshots(self) -> None:
        """The same with snapshots: all that a client half needs for later requests is in its `state()`."""
        with _Trial(self.algorithm) as trial:
            folder = trial.folder("kept")
            engine = _Restarting(trial.study, folder, snapshots=True)
            trial.compare(run_study(trial.study, engine, folder / "result.db"), folder)

    def test_server_stopped_in_every_exchange(self) -> None:
        """A server that ends before and after the sites work, and is started again, gives the same run, with no more
        queries."""
        with _Trial(self.algorithm) as trial:
            folder, count = trial.folder("stopped"), itertools.count(1)

            def stop(worked: bool) -> None:
                if not worked:
                    trial.exchange = next(count)
                if trial.exchange % 3 == (2 if worked else 1):
                    raise Crash

            engine = _Restarting(trial.study, folder, stop)
            trial.compare(
                _until_done(lambda: run_study(trial.study, engine, folder / "result.db", resume=True)), folder
            )

    def test_crash_in_every_third_query(self) -> None:
        """The query in flight at a crash is repeated, and no other."""
        with _Trial(self.algorithm) as trial:
            folder, crashes = trial.folder("crashed"), [0]

            def attempt() -> Result:
                count = itertools.count(1)

                def fragile(box: SiteObjective) -> Callable[[FloatArray], float]:
                    def objective(x: FloatArray) -> float:
                        if next(count) % 4 == 0:
                            crashes[0] += 1
                            raise Crash
                        return box(x)

                    return objective

                boxes = [fragile(box) for box in objectives_of(trial.study, folder)]
                return LocalStudy(trial.study, folder, boxes, site_seed=trial.study.seed).run(resume=True)

            trial.compare(_until_done(attempt), folder)
            assert crashes[0] >= 2


def _until_done(attempt: Callable[[], Result]) -> Result:
    while True:
        try:
            return attempt()
        except Crash:
            continue


class _Trial:
    """An undisturbed study of the algorithm, with which others are compared."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm, self._stack = algorithm, ExitStack()
        self.exchange = 0

    def __enter__(self) -> _Trial:
        self._stack.enter_context(registered(self._algorithm))
        self._path = self._stack.enter_context(temporary_folder())
        self.study = make_study(self._algorithm, rounds=4, participation=2)
        folder = self.folder("whole")
        self.whole = LocalStudy(self.study, folder, objectives_of(self.study, folder), site_seed=self.study.seed).run()
        assert self.whole.status in ("completed", "converged")
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def folder(self, name: str) -> Path:
        path = self._path / name
        path.mkdir()
        return path

    def compare(self, result: Result, folder: Path) -> None:
        """Check that it is the same run, with the same queries in the same order."""
        same_history(result, self.whole)
        assert queried_points(self.study, folder) == queried_points(self.study, self._path / "whole")


class _Restarting:
    """An engine that encodes its messages, with a new site for every message."""

    def __init__(
        self,
        study: Study,
        folder: Path,
        stop: Callable[[bool], None] = lambda worked: None,
        *,
        snapshots: bool = False,
    ) -> None:
        self._study, self._folder, self._stop, self._snapshots = study, folder, stop, snapshots
        self._boxes = objectives_of(study, folder)

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        outcome = Outcome()
        self._stop(False)
        for client, request in requests.items():
            journal = self._folder / f"{self._study.sites[client]}.journal"
            try:
                box, seed = self._boxes[client], self._study.seed
                with StudySite(self._study, client, box, journal, site_seed=seed, snapshots=self._snapshots) as site:
                    reply = site.answer(encode(request, self._study.id))
                outcome.replies[client] = decode(reply, self._study.id)
            except Exception as error:
                outcome.failures[client] = error
        self._stop(True)
        return outcome


def check_resume(algorithm: Algorithm) -> None:
    """Crash and resume studies of an algorithm without pytest.

    Args:
        algorithm: as in `ResumeContract`.

    Raises:
        AssertionError: a study that was stopped ends differently; the message names the check.

    Example:
        >>> from fzoos import FedZO
        >>> from fzoos.testing import check_resume
        >>> check_resume(FedZO())
    """
    contract = ResumeContract()
    contract.algorithm = algorithm
    run_checks(contract, algorithm.label)
