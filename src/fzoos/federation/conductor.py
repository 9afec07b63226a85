"""The server's side of a study: rounds through any engine, with a checkpoint after every exchange."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.lock import FileLock
from fzoos.federation.exchange import Engine, Outcome
from fzoos.federation.privacy import Releases
from fzoos.federation.server import Dropouts, Plan, Server, TooFewClients
from fzoos.federation.study import Study
from fzoos.messages.codec import pack, unpack
from fzoos.messages.message import Message
from fzoos.messages.rounding import Rounding
from fzoos.result import NotAsked, Record, Result, Status
from fzoos.runs.progress import RoundProgress
from fzoos.runs.store import Store, StoreError

__all__ = ["conduct"]

_NO_LIMIT = 2**40  # a checkpoint is our own file

log = logging.getLogger("fzoos")


def conduct(
    study: Study,
    engine: Engine,
    path: str | Path,
    *,
    resume: bool = False,
    progress: bool = False,
    callback: Callable[[Record], Any] | None = None,
) -> Result:
    """Run a study, or go on with it, and leave the result in a file that `fzoos.load` reads.

    Args:
        study: what to do.
        engine: carries messages to the sites.
        path: of the file of runs.
        resume: go on from the file's last checkpoint, if there is one; otherwise a new run is begun.
        progress: show a progress bar.
        callback: called after each round; a true return value ends the run.

    Returns:
        The result. Its status is "completed", "stopped", "budget", "interrupted" or "failed" (too few sites answered);
        all but the first can be taken up again with `resume`.

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
            return _Conductor(study, engine, store, resume).run(progress, callback)
    finally:
        lock.release()


class _Conductor:
    def __init__(self, study: Study, engine: Engine, store: Store, resume: bool) -> None:
        self._study, self._store = study, store
        if study.privacy_settings is not None:
            study.privacy_settings.check(study.algorithm_settings)
        self._releases = Releases(study.algorithm_settings, len(study.sites))
        needed = study.participants if study.min_clients is None else study.min_clients
        self._server = Server(
            engine if study.privacy_settings is None else _Announced(engine, self._ask),
            study.algorithm_settings,
            study.box.to_cube(study.start),
            local_steps=study.local_steps,
            weights=study.omega,
            participants=study.participants,
            shared_seed=study.seeds.shared,
            rng=np.random.default_rng(study.seeds.server),
            optimizer=study.optimizer_settings,
            dropouts=Dropouts(needed, study.timeout, study.retries),
            combine=study.aggregate,
            rounding=Rounding(study.precision, study.seeds.server),
            after_exchange=self._keep,
            on_failure=self._failed,
        )
        self._seconds, self._started = 0.0, time.perf_counter()
        self._x = study.start  # after the last complete round
        self._record: Record | None = None
        last = store.last
        body = store.last_checkpoint(last) if resume and last is not None else None
        if last is not None and resume:
            self._check_same(last)
            self._run = last
            self._releases.restore(store.extra(last))
        else:
            self._run = store.begin(study.name, study.settings, study.start, len(study.sites))
        if body is not None:
            self._restore(body)

    def run(self, progress: bool, callback: Callable[[Record], Any] | None) -> Result:
        self._store.take(self._run)
        status: Status
        with RoundProgress(self._study.rounds, enabled=progress) as bar:
            try:
                status, message = self._rounds(bar, callback)
            except KeyboardInterrupt:
                status, message = "interrupted", f"interrupted in round {self._server.round + 1}"
            except TooFewClients as error:
                waiting = [str(e.__cause__) for e in error.failures.values() if isinstance(e.__cause__, NotAsked)]
                if len(waiting) == len(error.failures):
                    status, message = "stopped", "; ".join(waiting)
                else:
                    status, message = "failed", f"{error}; the study can be resumed"
            except BaseException as error:
                self._store.finish(self._run, "failed", f"{type(error).__name__}: {error}", self._extra())
                raise
        extra = self._extra()
        if extra:
            message += f"; epsilon = {extra['epsilon']:.3g} at delta = {extra['delta']:g} for each site"
        self._store.finish(self._run, status, message, extra)
        return self._store.result(self._run)

    def _rounds(self, bar: RoundProgress, callback: Callable[[Record], Any] | None) -> tuple[Status, str]:
        server, study = self._server, self._study
        while server.round < study.rounds:
            plan = server.plan()
            if study.max_queries is not None and sum(server.queries) + self._still(plan) > study.max_queries:
                return "budget", f"the next round needs {plan.queries} queries, the budget is {study.max_queries}"
            server.run(plan)
            assert self._record is not None
            bar.show(self._record)
            if callback is not None and callback(self._record):
                return "stopped", f"the callback stopped the run after round {server.round}"
        return "completed", f"all {study.rounds} rounds are done"

    def _still(self, plan: Plan) -> int:
        """What a round will cost; one that has begun was allowed when it did."""
        return 0 if self._server.begun else plan.queries

    def _keep(self) -> None:
        """After each exchange."""
        server, study = self._server, self._study
        x = study.box.from_cube(server.x)
        self._record = None
        if not server.begun:
            seconds = self._seconds + time.perf_counter() - self._started
            self._record = Record(
                round=server.round,
                queries=sum(server.queries),
                bytes_up=server.bytes_up,
                bytes_down=server.bytes_down,
                seconds=seconds,
                step=float(np.linalg.norm(x - self._x)),
                monitor=None,
                diagnostics=server.diagnostics,
                queries_per_client=tuple(server.queries),
                distances=tuple(server.distances),
            )
            self._x = x
        self._store.checkpoint(self._run, self._body(), server.queries, self._record, x)

    def _ask(self, requests: Mapping[int, Message]) -> None:
        """Before each exchange of a private study: what may be lost is on the disk before it is."""
        if self._releases.ask(requests):
            self._store.finish(self._run, "running", "", self._extra())

    def _body(self) -> bytes:
        values, arrays = self._server.state
        seconds = self._seconds + time.perf_counter() - self._started
        text = json.dumps({"server": values, "seconds": seconds})
        return pack({"state": text, "study": self._study.id}, {**arrays, "user_x": self._x})

    def _restore(self, body: bytes) -> None:
        header, arrays = unpack(body, limit=_NO_LIMIT, max_header=_NO_LIMIT)
        state = json.loads(header["state"])
        self._x = arrays.pop("user_x")
        self._seconds = state["seconds"]
        self._server.restore(state["server"], arrays)

    def _check_same(self, run: int) -> None:
        found = Study(**self._store.study(run))
        if found.id != self._study.id:
            raise StoreError(
                f"{self._store.path} holds a run of other settings (study {found.id}, not {self._study.id}): "
                "resume with those, or begin a new run"
            )

    def _failed(self, client: int, round: int, error: Exception) -> None:
        if isinstance(error.__cause__, NotAsked):
            return
        site = self._study.sites[client]
        log.warning("round %d: no answer of %s: %s", round, site, error)
        self._store.fail(self._run, round, client, f"{site}: {error}")

    def _extra(self) -> dict[str, Any]:
        privacy = self._study.privacy_settings
        if privacy is None:
            return {}
        return {"epsilon": privacy.epsilon(self._releases.most), "delta": privacy.delta, **self._releases.state}


class _Announced:
    """An engine that says what it will send before it does."""

    def __init__(self, engine: Engine, announce: Callable[[Mapping[int, Message]], None]) -> None:
        self._engine, self._announce = engine, announce

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        self._announce(requests)
        return self._engine.exchange(requests, timeout)
