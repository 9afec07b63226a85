"""The contract of an engine: it carries messages and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np

from fzoos.algorithms import FedTrustRegion, FedZO, ScaffoldI
from fzoos.algorithms.base import Algorithm
from fzoos.engines.local_study import LocalStudy
from fzoos.federation.study import Study
from fzoos.result import Result
from fzoos.testing.problem import run_checks
from fzoos.testing.study import SITES, copy_seeds, make_study, objectives_of, queried_points, temporary_folder

__all__ = ["EngineContract", "RunStudy", "check_engine"]

_SAME = 1e-9  # processes with other numbers of BLAS threads add up in another order


class RunStudy(Protocol):
    """A function that runs a study over the engine."""

    def __call__(self, study: Study, folder: Path, *, resume: bool) -> Result:
        """Run a study from its beginning, or resume it.

        Args:
            study: the study; the objective of a site is `SiteObjective(site, folder)`.
            folder: the folder for the result, the journals (*.journal, in any folder of it) and whatever else is
                needed to resume the study.
            resume: whether to resume the study whose files are in the folder.
        """
        ...


class EngineContract:
    """The checks that every engine passes. Each method whose name begins with `test` is one check.

    In a test file, a subclass named `Test...` is all that pytest needs:

        class TestMyEngine(EngineContract):
            def run(self, study, folder, *, resume):
                with my_engine(study, objectives_of(study, folder), folder / "journals") as engine:
                    return run_study(study, engine, folder / "result.db", resume=resume)

    Attributes:
        algorithms: the algorithms that run over the engine; together they have rounds of one and of two exchanges.
    """

    algorithms: Sequence[Algorithm] = (FedZO(), ScaffoldI(), FedTrustRegion())

    def run(self, study: Study, folder: Path, *, resume: bool) -> Result:
        """Run a study over the engine, as `RunStudy` describes."""
        raise NotImplementedError

    def test_numbers(self) -> None:
        """A study ends as it does with all sites in one process, and every query is made once."""
        for algorithm in self.algorithms:
            study = make_study(algorithm)
            with _folders() as (here, there):
                result = self.run(study, there, resume=False)
                assert result.status == "completed"
                expected = _local(study, here, there)
                _same_numbers(result, expected)
                counts = [len(points) for points in queried_points(study, there)]
                assert counts == list(result.queries_per_client)

    def test_resume(self) -> None:
        """One round and then two more are three rounds, without an additional query."""
        algorithm = self.algorithms[-1]
        with _folders() as (here, there):
            first = self.run(make_study(algorithm, rounds=1), there, resume=False)
            assert (first.status, first.rounds) == ("completed", 1)
            result = self.run(make_study(algorithm), there, resume=True)
            expected = _local(make_study(algorithm), here, there)
            _same_numbers(result, expected)
            counts = [len(points) for points in queried_points(make_study(algorithm), there)]
            assert counts == list(expected.queries_per_client)

    def test_a_site_that_fails(self) -> None:
        """Two of three sites suffice: one whose objective raises does not stop the others, and its error message stays
        at the site."""
        study = make_study(self.algorithms[0], min_clients=2)
        with _folders() as (here, there):
            for folder in (here, there):
                objectives_of(study, folder)
                (folder / f"{SITES[1]}.raises").touch()
            result = self.run(study, there, resume=False)
            assert result.status == "completed"
            expected = _local(study, here, there)
            _same_numbers(result, expected)
            assert "no value today" not in result.message


@contextmanager
def _folders() -> Iterator[tuple[Path, Path]]:
    with temporary_folder() as made:
        for name in ("here", "there"):
            (made / name).mkdir()
        yield made / "here", made / "there"


def _local(study: Study, here: Path, there: Path) -> Result:
    """Run the study with all sites in one process and the seeds that are in the journals of the engine's sites."""
    copy_seeds(study, there, here)
    return LocalStudy(study, here, objectives_of(study, here)).run()


def _same_numbers(found: Result, expected: Result) -> None:
    np.testing.assert_allclose(found.x, expected.x, rtol=0.0, atol=_SAME)
    assert found.queries_per_client == expected.queries_per_client
    assert (found.bytes_up, found.bytes_down) == (expected.bytes_up, expected.bytes_down)
    assert [record.queries for record in found.history] == [record.queries for record in expected.history]


def check_engine(run: RunStudy, algorithms: Sequence[Algorithm] | None = None) -> None:
    """Run the whole contract without pytest.

    Args:
        run: the function that runs a study over the engine.
        algorithms: as in `EngineContract`.

    Raises:
        AssertionError: the engine breaks the contract; the message names the check.

    Example:
        >>> from fzoos.engines import LocalStudy
        >>> from fzoos.testing import check_engine, objectives_of
        >>> def run(study, folder, *, resume):
        ...     return LocalStudy(study, folder, objectives_of(study, folder), workers=2).run(resume=resume)
        >>> check_engine(run)
    """

    class Contract(EngineContract):
        def run(self, study: Study, folder: Path, *, resume: bool) -> Result:
            return run(study, folder, resume=resume)

    contract = Contract()
    if algorithms is not None:
        contract.algorithms = algorithms
    run_checks(contract, "the engine")
