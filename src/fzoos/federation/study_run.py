"""The server's side of a study: rounds through any engine, with a checkpoint after every exchange."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.files import FileLock
from fzoos.federation.asynchronous import AsynchronousServer
from fzoos.federation.exchange import AsynchronousEngine, Dropouts, Engine
from fzoos.federation.privacy import Releases
from fzoos.federation.rounds import RoundLoop
from fzoos.federation.server import Server
from fzoos.federation.server_state import ServerState
from fzoos.federation.study import Study
from fzoos.messages.codec import pack, unpack
from fzoos.messages.message import Message
from fzoos.messages.rounding import Rounding
from fzoos.result import Record, Result, Status, ValuePending
from fzoos.runs.store import Store, StoreError

__all__ = ["run_study"]

_NO_LIMIT = 2**40  # a checkpoint is our own file

log = logging.getLogger("fzoos")


def run_study(
    study: Study,
    engine: Engine,
    path: str | Path,
    *,
    resume: bool = False,
    progress: bool = False,
    callback: Callable[[Record], Any] | None = None,
) -> Result:
    """Run a study, or resume it, and store the result in a file that `fzoos.load` reads.

    Args:
        study: its settings.
        engine: carries messages to the sites.
        path: the file of runs in which the result is stored.
        resume: continue from the file's last checkpoint, if there is one; otherwise a new run is begun.
        progress: show a progress bar.
        callback: called after each round; a true return value ends the run.

    Returns:
        The result. Its status is "completed", "converged", "stopped", "budget", "interrupted" or "failed" (too few
        sites replied); all but the first two can be resumed.

    Raises:
        StoreError: the file cannot be used, or is of another study.
    """
    path = Path(path)
    lock = FileLock(path.with_name(path.name + ".lock"))
    try:
        mine = lock.acquire()
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}") from None
    if not mine:
        raise StoreError(f"{path} is in use by another process: the study is running already")
    try:
        with Store(path) as store:
            return _StudyRun(study, engine, store, resume).run(progress, callback)
    finally:
        lock.release()


class _StudyRun:
    def __init__(self, study: Study, engine: Engine, store: Store, resume: bool) -> None:
        self._study, self._store, self._engine = study, store, engine
        self._logged: set[tuple[int, str]] = set()  # why a site did not reply: each reason is logged once
        if study.privacy_settings is not None:
            study.privacy_settings.check(study.algorithm_settings)
        self._releases = Releases(study.half, len(study.sites))
        needed = study.min_clients or study.enough or study.participants
        self._server = _server_for(study, engine)(
            study.algorithm_settings,
            study.box.to_cube(study.start),
            weights=study.omega,
            participants=study.participants,
            shared_seed=study.seeds.shared,
            rng=np.random.default_rng(study.seeds.server),
            dropouts=Dropouts(
                needed,
                study.timeout,
                study.retries,
                study.max_queries,
                frozenset(map(study.sites.index, study.lost_journals)),
            ),
            combine=study.aggregate,
            rounding=Rounding(study.precision, study.seeds.server),
            privacy=study.privacy_settings,
            share_values=study.share_values,
            on_failure=self._failed,
            before_sending=self._account_for_privacy,
        )
        last = store.last if resume else None
        if last is None:
            self._run = store.begin(study.name, study.settings, study.start, len(study.sites))
            return
        body = store.last_checkpoint(last)
        store.check(last)
        self._check_same(last)
        self._run = last
        self._releases.restore(store.extra(last))
        if body is not None:
            self._restore(body)

    def run(self, progress: bool, callback: Callable[[Record], Any] | None) -> Result:
        study = self._study
        self._store.resume(self._run)
        loop = RoundLoop(
            server=self._server,
            box=study.box,
            recorder=self,
            rounds=study.rounds,
            max_queries=study.max_queries,
            stop=study.stop,
            history=self._store.result(self._run).history,
            callback=callback,
            progress=progress,
        )
        return loop.run()

    def after_exchange(self, record: Record | None, x: FloatArray) -> None:
        """Store the checkpoint and the record in one transaction."""
        values, arrays = self._server.state.save()
        body = pack({"state": json.dumps(values), "study": self._study.id}, arrays)
        self._store.checkpoint(self._run, body, self._server.state.queries, record, x)

    def violation(self, round: int) -> None:
        """Return None, because values of constraints stay at the sites."""

    def finish(self, status: Status, message: str) -> Result:
        extra = self._extra()
        if "epsilon" in extra:
            message += f"; epsilon = {extra['epsilon']:.3g} at delta = {extra['delta']:g} for each site"
        without = ", ".join(self._study.sites[client] for client in self._server.state.without_value)
        message += f"; no query had a value at {without}" if without else ""
        reported = self._server.state.queries
        counted = getattr(self._engine, "queries", reported)  # with those of failed requests, where the engine knows
        queries = [max(pair) for pair in zip(counted, reported, strict=True)]
        self._store.finish(self._run, status, message, extra, queries)
        return self._store.result(self._run)

    def _account_for_privacy(self, requests: Mapping[int, Message]) -> None:
        """Store what a private study may release before it is released."""
        if self._study.privacy_settings is not None and self._releases.record(requests):
            self._store.finish(self._run, "running", "", self._extra())

    def _restore(self, body: bytes) -> None:
        header, arrays = unpack(body, _NO_LIMIT, _NO_LIMIT, _NO_LIMIT)
        if header["study"] != self._study.id:  # the same settings, but the algorithm's version is another one
            raise StoreError(
                f"{self._store.path} was begun with another version of {self._study.algorithm_settings.label}: "
                "continue with that one, or begin a new run"
            )
        self._server.state = ServerState.load(json.loads(header["state"]), arrays)

    def _check_same(self, run: int) -> None:
        try:
            found = Study(**self._store.settings(run))
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{self._store.path} holds a run with settings unknown to this version ({error}): continue with "
                "the version that wrote it, or begin a new run"
            ) from None
        if found.id != self._study.id:
            raise StoreError(
                f"{self._store.path} holds a run of other settings (study {found.id}, not {self._study.id}): "
                "resume with those, or begin a new run"
            )

    def _failed(self, client: int, round: int, error: Exception) -> None:
        if isinstance(error.__cause__, ValuePending):
            return
        site = self._study.sites[client]
        if (client, str(error)) not in self._logged:
            self._logged.add((client, str(error)))
            log.warning("round %d: no answer of %s: %s", round, site, error)
        self._store.fail(self._run, round, client, f"{site}: {error}")

    def _extra(self) -> dict[str, Any]:
        privacy, failed = self._study.privacy_settings, sum(self._server.state.failed.values())
        if privacy is None:
            return {"failed": failed} if failed else {}
        return {"epsilon": privacy.epsilon(self._releases.most), "delta": privacy.delta, **self._releases.state}


def _server_for(study: Study, engine: Engine) -> Callable[..., Server]:
    """Return a server that lacks only its settings: an asynchronous one where `enough` is given."""
    if study.enough is None:
        return partial(Server, engine)
    if not isinstance(engine, AsynchronousEngine):
        raise ValueError(
            f"enough is {study.enough}, but late replies cannot be used here: a secure sum is over the "
            "replies of one round, and not every engine lets requests outlast an exchange. Leave enough out"
        )
    return partial(AsynchronousServer, engine, enough=study.enough)
