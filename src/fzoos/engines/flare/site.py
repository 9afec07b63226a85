"""A site's half: one object in the site's process, which passes requests to its `StudySite`."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, wait
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.collab import collab

from fzoos.engines.daemon_threads import DaemonThreads
from fzoos.engines.flare.settings import PREVIOUS_JOB, Factory, SiteSettings, factory_name
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study
from fzoos.messages import codec

__all__ = ["Closed", "Overtaken", "SerialWorker", "Site", "client_app"]

_log = logging.getLogger("fzoos")


class Site:
    """What FLARE constructs in the site's process from a job's text.

    `factory` names the job's objective factory; it is empty if the job has none.
    """

    def __init__(self, study: dict[str, Any], factory: str = "") -> None:
        self.study, self.factory = study, factory  # FLARE writes the attributes named like arguments into the job
        self._worker: SerialWorker | None = None
        self._objective: Any = None
        self._site: StudySite | None = None

    @collab.init  # type: ignore[untyped-decorator]
    def open(self) -> None:
        """Accept requests. The first of them opens the journal: an error here would end the job."""
        self._worker = SerialWorker()
        self._name, self._folder = collab.site_name, Path(collab.workspace.get_root_dir())
        study = Study(**self.study)
        self._id, self._patience = study.id, study.timeout * (1 + study.retries)

    @collab.publish  # type: ignore[untyped-decorator]
    def answer(self, data: bytes) -> bytes:
        """Answer one request of the server; other sites, which can call this as well, are refused.

        The reason for a missing reply omits the objective's own message, which stays in the site's log.
        """
        if collab.caller != "server" or self._worker is None:
            raise PermissionError(f"requests come from the server, this one came from {collab.caller}")
        if self._worker.busy > self._patience:  # otherwise every further exchange would last until its time-out
            reason = f"is busy with a request for {self._worker.busy:.0f} s: its objective seems to hang"
            return codec.encode_failure(f"{self._name} {reason}", self._id)
        try:
            return self._worker.run(lambda: (self._site or self._open_site()).answer(data))
        except Overtaken:
            reason = "was busy until the next request came"
        except Exception as error:
            _log.exception("%s cannot answer", self._name)
            reason = f"cannot answer: {type(error).__name__} (its log says more)"
        return codec.encode_failure(f"{self._name} {reason}", self._id)

    @collab.publish  # type: ignore[untyped-decorator]
    def ping(self) -> bool:
        """Return a sign of life, also while a request is being answered."""
        return True

    @collab.final  # type: ignore[untyped-decorator]
    def close(self) -> None:
        """Close the journal and the objective, after the running query if it does not take long."""
        if self._site is not None:
            self._site.stop()
        if self._worker is not None:
            self._worker.close(last=self._close_site)
        if hasattr(self._objective, "close"):
            self._objective.close()

    def _close_site(self) -> None:
        if self._site is not None:
            self._site.close()

    def _open_site(self) -> StudySite:
        settings = SiteSettings(self._name, self._folder, Study(**self.study), self.factory)
        self._id = settings.study.id
        client = settings.study.sites.index(self._name)
        self._objective = settings.objective()
        self._site = StudySite(
            settings.study,
            client,
            self._objective,
            settings.journal,
            max_epsilon=settings.max_epsilon,
            prior=settings.prior,
            wait=PREVIOUS_JOB,
            site_seed=settings.site_seed,
        )
        return self._site


def client_app(study: Study, objective_factory: Factory | str | None = None) -> Site:
    """Return a site's half, for the argument `client` of a `CollabRecipe`.

    Args:
        study: the study; a site that has its own copy answers only if both agree.
        objective_factory: makes the objective from the site's settings if those do not name one; a function that the
            sites can import, or its name "module:function".

    Example:
        >>> from fzoos.engines.flare import client_app
        >>> from fzoos.federation.study import Study
        >>> study = Study("demo", x0=0.5, dim=3, bounds=(0.0, 1.0), sites=("site-1", "site-2"))
        >>> client = client_app(study, "my_package.black_box:make")
    """
    return Site(study.settings, factory_name(objective_factory))


class Overtaken(Exception):
    """A newer request has replaced this one in the queue."""


class Closed(Exception):
    """The worker was closed before the reply was ready."""


class SerialWorker:
    """Runs work in a thread of its own, since a journal belongs to one thread.

    Work that waited while newer work arrived is skipped: the server has continued without it. Otherwise a site that was
    slow once would answer expired requests from then on.
    """

    def __init__(self) -> None:
        self._threads, self._lock = DaemonThreads(1, "fzoos-worker"), threading.Lock()
        self._newest = 0  # the number of the last request
        self._open: set[Future[bytes]] = set()
        self._since: float | None = None  # when the running work was started

    def run(self, work: Callable[[], bytes]) -> bytes:
        """Run the work when it is its turn, and return its result.

        Raises:
            Overtaken: newer work arrived first.
            Closed: the worker was closed first.
        """
        with self._lock:
            self._newest += 1
            reply = self._threads.submit(partial(self._run, self._newest, work))
            self._open.add(reply)
        try:
            return reply.result()
        finally:
            self._open.discard(reply)

    @property
    def busy(self) -> float:
        """Seconds since the running work was started; 0 if there is none."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def close(self, last: Callable[[], None] = lambda: None, patience: float = 5.0) -> None:
        """Run `last` after the queued work, and after `patience` seconds release callers that still wait."""
        wait([self._threads.submit(last)], patience)
        for reply in list(self._open):
            with contextlib.suppress(InvalidStateError):
                reply.set_exception(Closed())
        self._threads.close(0.0)

    def _run(self, number: int, work: Callable[[], bytes]) -> bytes:
        if number != self._newest:
            raise Overtaken
        self._since = time.monotonic()
        try:
            return work()
        finally:
            self._since = None
