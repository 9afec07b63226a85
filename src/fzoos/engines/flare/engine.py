"""The server's side: calls to all sites, and their replies within the time-out."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from nvflare.collab import CollabCallError, collab
from nvflare.collab.api.exceptions import RunAborted

from fzoos.federation.exchange import Gathering, Outcome, Undelivered
from fzoos.federation.study import Study
from fzoos.messages import codec
from fzoos.messages.message import Message

__all__ = ["PATIENCE", "FlareEngine"]

PATIENCE = 60.0  # seconds: a network may be down for a moment

_THREADS = 16  # per site: an abandoned call holds its thread until FLARE abandons it too
_POLL = 1.0  # seconds between two checks of who is still connected
_SLACK = 1.0  # seconds by which FLARE's time-out exceeds ours, so that an earlier failure of a call is no time-out
_NO_LIMIT = 30 * 24 * 3600.0  # seconds
_SETTLE = 10.0  # seconds within which FLARE ends the job, if a call failed because the site's process died


@dataclass
class _Call:
    """A request to one site that is under way."""

    client: int
    reply: Future[Any]
    end: float  # when it expires
    ping: Future[Any] | None = None  # the last ping of the site
    pinged: float = field(default_factory=time.monotonic)  # when that was


class FlareEngine:
    """Carries messages through FLARE's Collab API.

    A message is sent as bytes, which FLARE sends unchanged. FLARE would offer arrays for download to their receivers,
    which takes several times as long and has no time-out.

    FLARE's own time-out restarts when a message starts to arrive, and a call to a site that is gone takes the whole
    time-out. So this engine measures the time itself, and pings a working site every now and then; the site answers
    immediately, since its objective runs in another thread.

    If a site's process dies, FLARE ends the whole job a few seconds later. Such an exchange has no outcome: the next
    job repeats it from the checkpoint.

    Args:
        study: the study's settings.
        patience: seconds without a sign of life after which a site is left out of this exchange. Its work so far is
            in its journal.

    Raises:
        RunAborted: FLARE ended the job during an exchange.

    Example:
        >>> from nvflare.collab import collab
        >>> from fzoos.engines.flare import FlareEngine
        >>> from fzoos.federation import Study, run_study
        >>> class Server:
        ...     @collab.main
        ...     def run(self):
        ...         study = Study.load("study.toml")
        ...         run_study(study, FlareEngine(study), "my-study.result")
    """

    def __init__(self, study: Study, *, patience: float = PATIENCE) -> None:
        self._study, self._patience = study, patience
        self._job = collab.context  # of the function with @collab.main
        self._parent = os.getppid()  # all calls pass through this process
        self._proxies = {proxy.name: proxy for proxy in collab.clients}
        self._pool = ThreadPoolExecutor(_THREADS * len(study.sites), thread_name_prefix="fzoos-call")
        self._under_way: list[_Call] = []
        self._state: dict[str, Any] = {"round": 0, "exchange": "", "waiting": [], "failed": {}}

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        """Send each client its request; return the replies and failures within the time-out."""
        return self._carry(requests, timeout, lambda outcome, under_way: math.inf if under_way else 0.0)

    def gather(self, requests: Mapping[int, Message], timeout: float | None, enough: int) -> Outcome:
        """Send each client its request; return when `enough` have replied, while other calls continue."""
        return self._carry(requests, timeout, Gathering(requests, enough).left)

    def _carry(
        self,
        requests: Mapping[int, Message],
        timeout: float | None,
        left: Callable[[Outcome, Collection[int]], float],
    ) -> Outcome:
        outcome = Outcome()
        sent = (self._send(client, request, timeout, outcome) for client, request in requests.items())
        self._under_way += [call for call in sent if call is not None]
        while (longer := left(outcome, [call.client for call in self._under_way])) > 0.0:
            self._show(requests, self._under_way, outcome)
            until = min(call.end for call in self._under_way) - time.monotonic()
            wait([call.reply for call in self._under_way], max(min(longer, until, _POLL), 0.0), FIRST_COMPLETED)
            for call in self._under_way:
                self._collect(call, outcome, late=time.monotonic() >= call.end, timeout=timeout)
            answered = outcome.replies.keys() | outcome.failures.keys()
            self._under_way = [call for call in self._under_way if call.client not in answered]
        self._show(requests, self._under_way, outcome)
        if any(isinstance(error, CollabCallError) for error in outcome.failures.values()):
            self._settle()
        return outcome

    def state(self) -> dict[str, Any]:
        """Return the state of the exchange: its round, its kind, which sites are pending, which failed and why."""
        return dict(self._state)

    def close(self) -> None:
        """Make no further call; running calls end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _send(self, client: int, request: Message, timeout: float | None, outcome: Outcome) -> _Call | None:
        site = self._study.sites[client]
        if site not in self._proxies:
            outcome.failures[client] = Undelivered(f"{site} is not part of this job: it was not connected")
            return None
        longer = None if timeout is None else timeout + _SLACK
        call = self._proxies[site](timeout=longer).answer
        end = time.monotonic() + (_NO_LIMIT if timeout is None else timeout)
        return _Call(client, self._pool.submit(call, codec.encode(request, self._study.id)), end)

    def _collect(self, call: _Call, outcome: Outcome, *, late: bool, timeout: float | None) -> None:
        """Store a reply, or the reason why there will be none."""
        site = self._study.sites[call.client]
        if call.reply.done():
            try:
                outcome.replies[call.client] = self._read(call.reply.result())
            except Exception as error:
                self._raise_if_aborted()
                outcome.failures[call.client] = error
        elif late:
            outcome.failures[call.client] = TimeoutError(f"{site} has not answered within {timeout:g} seconds")
        elif self._is_gone(call):
            outcome.failures[call.client] = ConnectionError(f"{site} gave no sign for {self._patience:g} seconds")

    def _read(self, reply: Any) -> Message:
        if not isinstance(reply, bytes):
            raise codec.MessageError(f"a reply must be bytes, got {type(reply).__name__}")
        return codec.decode(reply, self._study.id)

    def _is_gone(self, call: _Call) -> bool:
        """Return whether the site has left a ping unanswered; ping it again if it is time."""
        if call.ping is not None and call.ping.done() and call.ping.exception() is not None:
            self._raise_if_aborted()
            return True
        answered = call.ping is None or call.ping.done()
        if answered and time.monotonic() - call.pinged > self._patience / 3:
            proxy = self._proxies[self._study.sites[call.client]]
            call.ping, call.pinged = self._pool.submit(proxy(timeout=self._patience).ping), time.monotonic()
        return False

    def _settle(self) -> None:
        """Wait until FLARE ends the job, if a site's process died."""
        end = time.monotonic() + _SETTLE
        while time.monotonic() < end:
            self._raise_if_aborted()
            time.sleep(_POLL / 10)

    def _raise_if_aborted(self) -> None:
        if self._job.is_aborted() or os.getppid() != self._parent:  # then failed calls are no site's failures
            raise RunAborted("FLARE has ended the job")

    def _show(self, requests: Mapping[int, Message], calls: Iterable[_Call], outcome: Outcome) -> None:
        request = next(iter(requests.values()), None)
        self._state = {
            "round": request.round if request else 0,
            "exchange": request.kind if request else "",
            "waiting": [self._study.sites[call.client] for call in calls],
            "failed": {self._study.sites[client]: str(error) for client, error in outcome.failures.items()},
        }
