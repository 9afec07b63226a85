"""A study on one machine: the same journals, checkpoints and messages, with all sites in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fzoos.engines.local import LocalEngine
from fzoos.federation.exchange import Outcome
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.messages.message import Message
from fzoos.objectives.box import Objective
from fzoos.result import Record, Result

__all__ = ["LocalStudy"]

_PATIENCE = 5.0  # seconds: an objective that hangs does not keep the study from ending


class LocalStudy:
    """A study with all its sites here.

    Args:
        study: the study's settings.
        folder: the folder for `result.db` and `journals/SITE.journal`.
        objectives: the sites' objectives, in the order of `study.sites`.
        workers: how many sites work at the same time; all, where the study has `enough`.
        site_seed: as for `StudySite`, for all sites; None: each has a secret one in its journal.
        repeat: the result of an asynchronous study: answers are taken in the order in which they came then.
        snapshots: as for `StudySite`: whether a run that is resumed often should not answer its requests again.

    Example:
        >>> import tempfile
        >>> from fzoos.engines import LocalStudy
        >>> from fzoos.federation import Study
        >>> study = Study("demo", x0=0.5, dim=2, bounds=(0, 1), sites=("a", "b"), rounds=2, algorithm={"name": "fedzo"})
        >>> boxes = [lambda x, c=c: float(((x - c) ** 2).sum()) for c in (0.2, 0.4)]
        >>> result = LocalStudy(study, tempfile.mkdtemp(), boxes).run()
        >>> result.status, result.queries
        ('completed', 840)
    """

    def __init__(
        self,
        study: Study,
        folder: str | Path,
        objectives: Sequence[Objective],
        workers: int = 1,
        site_seed: int | None = None,
        *,
        repeat: Result | None = None,
        snapshots: bool = False,
    ) -> None:
        if len(objectives) != len(study.sites):
            raise ValueError(f"objectives has {len(objectives)} entries but the study has {len(study.sites)} sites")
        self._study, self._folder, self._objectives, self._workers = study, Path(folder), objectives, workers
        if study.enough is not None:
            self._workers = max(workers, len(study.sites))
        self._site_seed, self._repeat, self._snapshots = site_seed, repeat, snapshots

    def run(
        self, *, resume: bool = False, progress: bool = False, callback: Callable[[Record], Any] | None = None
    ) -> Result:
        """Run it, or resume it; see `run_study`."""
        study, journals, seed = self._study, self._folder / "journals", self._site_seed
        with ExitStack() as stack:
            sites = [
                stack.enter_context(
                    StudySite(
                        study, i, objective, journals / f"{site}.journal", site_seed=seed, snapshots=self._snapshots
                    )
                )
                for i, (site, objective) in enumerate(zip(study.sites, self._objectives, strict=True))
            ]
            local = stack.enter_context(LocalEngine(sites, self._workers, fail_fast=False, patience=_PATIENCE))
            engine = local if self._repeat is None else _Repeated(local, self._repeat)
            for site in sites:  # one whose time is over makes no further query
                stack.callback(site.abort)
            path = self._folder / "result.db"
            return run_study(study, engine, path, resume=resume, progress=progress, callback=callback)


class _Repeated:
    """An engine that takes answers in the order in which they came before."""

    def __init__(self, engine: LocalEngine, result: Result) -> None:
        self._engine = engine
        self._order = iter([clients for record in result.history for clients in record.arrivals])

    @property
    def queries(self) -> tuple[int, ...]:
        return self._engine.queries

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        return self._engine.exchange(requests, timeout)

    def gather(self, requests: Mapping[int, Message], timeout: float | None, enough: int) -> Outcome:
        clients = next(self._order, None)
        if clients is None:  # it was not longer than this
            return self._engine.gather(requests, timeout, enough)
        return self._engine.gather_from(requests, clients)
