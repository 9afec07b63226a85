"""The server's side: requests to nodes, and their replies within the time-out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import Message as FlowerMessage
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fzoos.engines.flower.nodes import Node, Nodes
from fzoos.engines.flower.wire import ANSWER, pack, unpack
from fzoos.federation.exchange import Gathering, Outcome, Undelivered
from fzoos.federation.study import Study
from fzoos.messages import codec
from fzoos.messages.message import Message

__all__ = ["FlowerEngine"]

_NO_LIMIT = 30 * 24 * 3600.0  # seconds: Flower requires a time to live for every message

_EXPIRED = (ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE)


@dataclass
class _Pending:
    """A request to one client that is under way."""

    data: bytes
    round: int
    end: float  # when it expires
    node: Node | None = None  # the node that it was last sent to; None: none, or one that was lost
    waiting: set[str] = field(default_factory=set)  # the Flower messages whose replies may still arrive
    absent_since: float = field(default_factory=time.monotonic)
    sent: bool = False  # whether it was ever sent


class FlowerEngine:
    """Carries messages through a Flower `Grid`.

    A message lives no longer than its exchange, so that a site that returns later makes no queries for an expired
    request. A site that restarts within an exchange receives its request again; it takes from its journal what it had
    already computed.

    Args:
        grid: Flower's connection to the nodes, from the `ServerApp`.
        study: the study's settings.
        join: seconds that the first exchange waits for sites that have not connected yet (at most its time-out).
        patience: seconds that later exchanges wait for a site that is not connected, when the others have answered.
        poll: seconds between two checks for replies.

    Example:
        >>> from flwr.serverapp import ServerApp
        >>> from fzoos.engines.flower import FlowerEngine
        >>> from fzoos.federation.study_run import run_study
        >>> from fzoos.federation.study import Study
        >>> app = ServerApp()
        >>> @app.main()
        ... def main(grid, context):
        ...     study = Study.load("study.toml")
        ...     run_study(study, FlowerEngine(grid, study), "result.db")
    """

    def __init__(
        self, grid: Grid, study: Study, *, join: float = 300.0, patience: float = 15.0, poll: float = 0.5
    ) -> None:
        self._grid, self._study = grid, study
        self._nodes = Nodes(grid, study.sites)
        self._wait_for_absent, self._patience, self._poll = join, patience, poll
        self._under_way: dict[int, _Pending] = {}  # of `gather`

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        """Send each client its request; return the replies and failures within the time-out."""
        outcome, pending, end = Outcome(), *self._pending(requests, timeout)
        while pending:
            self._advance(pending, outcome)
            left = end - time.monotonic()
            if left <= 0 or all(self._is_absent(request) for request in pending.values()):
                break
            time.sleep(min(self._poll, left))
        self._wait_for_absent = self._patience
        for client, request in pending.items():
            outcome.failures[client] = self._missing(client, request, timeout)
        return outcome

    def gather(self, requests: Mapping[int, Message], timeout: float | None, enough: int) -> Outcome:
        """Send each client its request; return when `enough` have replied, while other requests stay under way."""
        outcome, gathering = Outcome(), Gathering(requests, enough)
        self._under_way |= self._pending(requests, timeout)[0]
        while (left := gathering.left(outcome, self._under_way)) > 0.0:
            self._advance(self._under_way, outcome)
            for client, request in list(self._under_way.items()):
                if time.monotonic() >= request.end or self._is_absent(request):
                    del self._under_way[client]
                    outcome.failures[client] = self._missing(client, request, timeout)
            time.sleep(min(self._poll, gathering.left(outcome, self._under_way), left))
        self._wait_for_absent = self._patience
        return outcome

    def _pending(self, requests: Mapping[int, Message], timeout: float | None) -> tuple[dict[int, _Pending], float]:
        """Return the requests as they are sent, and when they expire."""
        end = time.monotonic() + (_NO_LIMIT if timeout is None else timeout)
        id = self._study.id
        return {i: _Pending(codec.encode(request, id), request.round, end) for i, request in requests.items()}, end

    def _advance(self, pending: dict[int, _Pending], outcome: Outcome) -> None:
        """Send what can be sent, and move what was answered from `pending` to the outcome."""
        online = self._nodes.online()
        for client, request in list(pending.items()):
            self._send(client, request, online.get(client))
            self._collect(client, request, outcome)
            if client in outcome.replies or client in outcome.failures:
                del pending[client]

    def _send(self, client: int, request: _Pending, node: Node | None) -> None:
        """Send the request, if the site is online and has not received it since it started."""
        ttl = request.end - time.monotonic()
        if node is None or node == request.node or ttl <= 0:
            return
        content = pack(request.data, self._study.sites[client])
        message = FlowerMessage(content, node.id, ANSWER, ttl=ttl, group_id=str(request.round))
        sent = next(iter(self._grid.push_messages([message])), None)
        if sent:  # otherwise the node has just left
            request.node, request.sent = node, True
            request.waiting.add(sent)

    def _collect(self, client: int, request: _Pending, outcome: Outcome) -> None:
        """Check for the reply, one message at a time, so that a broken reply does not hide a good one."""
        for sent in list(request.waiting):
            try:
                for reply in self._grid.pull_messages([sent]):
                    request.waiting.remove(sent)
                    self._read(client, request, reply, outcome)
            except Exception as error:  # Flower could not assemble the reply, or the codec refused it
                outcome.failures[client] = error
            if client in outcome.replies or client in outcome.failures:
                return

    def _read(self, client: int, request: _Pending, reply: FlowerMessage, outcome: Outcome) -> None:
        if reply.has_content():
            data, site = unpack(reply.content)
            message = codec.decode(data, self._study.id)
            if site != self._study.sites[client]:
                raise codec.MessageError(f"the reply of {self._study.sites[client]!r} claims to come from {site!r}")
            outcome.replies[client] = message
        elif reply.error.code == ErrorCode.NODE_UNAVAILABLE:
            request.node, request.absent_since = None, time.monotonic()  # it is sent again when the site returns
        elif reply.error.code in _EXPIRED:
            raise TimeoutError(f"{self._study.sites[client]} has not answered in time")
        else:
            raise codec.RemoteFailure(f"Flower reports error {reply.error.code}: {reply.error.reason}")

    def _is_absent(self, request: _Pending) -> bool:
        return not request.waiting and time.monotonic() - request.absent_since > self._wait_for_absent

    def _missing(self, client: int, request: _Pending, timeout: float | None) -> Exception:
        site = self._study.sites[client]
        if request.waiting:
            return TimeoutError(f"{site} has not answered within {timeout:g} seconds")
        return (ConnectionError if request.sent else Undelivered)(f"{site} is not connected")
