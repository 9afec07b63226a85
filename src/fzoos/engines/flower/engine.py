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
class _Letter:
    """One client's request on its way."""

    data: bytes
    round: int
    end: float  # when it is too late
    node: Node | None = None  # the node it was last sent to; None: none, or one that was lost
    waiting: set[str] = field(default_factory=set)  # the Flower messages whose replies may still come
    absent_since: float = field(default_factory=time.monotonic)
    sent: bool = False  # whether it ever was


class FlowerEngine:
    """Carries messages through a Flower `Grid`.

    A message lives no longer than the exchange it belongs to, so that a site that comes back after it does not make
    queries for a request that has expired. A site that restarts within an exchange is sent its request again; it
    answers from its journal what it had done.

    Args:
        grid: Flower's connection to the nodes, from the `ServerApp`.
        study: the study's settings.
        join: seconds that the first exchange waits for sites that have not connected yet (at most its time-out).
        patience: seconds that later exchanges wait for a site that is not connected, when the others have answered.
        poll: seconds between two checks for replies.

    Example:
        >>> from flwr.serverapp import ServerApp
        >>> from fzoos.engines.flower import FlowerEngine
        >>> from fzoos.federation.conductor import conduct
        >>> from fzoos.federation.study import Study
        >>> app = ServerApp()
        >>> @app.main()
        ... def main(grid, context):
        ...     study = Study.load("study.toml")
        ...     conduct(study, FlowerEngine(grid, study), "result.db")
    """

    def __init__(
        self, grid: Grid, study: Study, *, join: float = 300.0, patience: float = 15.0, poll: float = 0.5
    ) -> None:
        self._grid, self._study = grid, study
        self._nodes = Nodes(grid, study.sites)
        self._wait_for_absent, self._patience, self._poll = join, patience, poll
        self._under_way: dict[int, _Letter] = {}  # of `gather`

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        """Send each client its request; the replies and the failures that came within the time-out."""
        end = time.monotonic() + (_NO_LIMIT if timeout is None else timeout)
        letters = self._letters(requests, end)
        outcome = Outcome({}, {})
        while letters:
            online = self._nodes.online()
            for client, letter in letters.items():
                self._deliver(client, letter, online.get(client))
                self._collect(client, letter, outcome)
            answered = outcome.replies.keys() | outcome.failures.keys()
            letters = {client: letter for client, letter in letters.items() if client not in answered}
            left = end - time.monotonic()
            if left <= 0 or all(self._given_up(letter) for letter in letters.values()):
                break
            time.sleep(min(self._poll, left))
        self._wait_for_absent = self._patience
        for client, letter in letters.items():
            outcome.failures[client] = self._silence(client, letter, timeout)
        return outcome

    def gather(self, requests: Mapping[int, Message], timeout: float | None, enough: int) -> Outcome:
        """The same, until enough have answered; requests under way go on."""
        outcome, gathering = Outcome({}, {}), Gathering(requests, enough)
        end = time.monotonic() + (_NO_LIMIT if timeout is None else timeout)
        self._under_way |= self._letters(requests, end)
        while (left := gathering.left(outcome, self._under_way)) > 0.0:
            online = self._nodes.online()
            for client, letter in list(self._under_way.items()):
                self._deliver(client, letter, online.get(client))
                self._collect(client, letter, outcome)
                if client in outcome.replies:
                    del self._under_way[client]
                elif client in outcome.failures or time.monotonic() >= letter.end or self._given_up(letter):
                    del self._under_way[client]
                    outcome.failures.setdefault(client, self._silence(client, letter, timeout))
            time.sleep(min(self._poll, gathering.left(outcome, self._under_way), left))
        self._wait_for_absent = self._patience
        return outcome

    def _letters(self, requests: Mapping[int, Message], end: float) -> dict[int, _Letter]:
        return {
            client: _Letter(codec.encode(request, self._study.id), request.round, end)
            for client, request in requests.items()
        }

    def _deliver(self, client: int, letter: _Letter, node: Node | None) -> None:
        """Send the request, if the site is there and has not been sent it since it started."""
        ttl = letter.end - time.monotonic()
        if node is None or node == letter.node or ttl <= 0:
            return
        content = pack(letter.data, self._study.sites[client])
        message = FlowerMessage(content, node.id, ANSWER, ttl=ttl, group_id=str(letter.round))
        sent = next(iter(self._grid.push_messages([message])), None)
        if sent:  # otherwise the node has left in this moment
            letter.node, letter.sent = node, True
            letter.waiting.add(sent)

    def _collect(self, client: int, letter: _Letter, outcome: Outcome) -> None:
        """Check for the reply; one request at a time, so that a broken reply does not hide a good one."""
        for sent in list(letter.waiting):
            try:
                for reply in self._grid.pull_messages([sent]):
                    letter.waiting.remove(sent)
                    self._read(client, letter, reply, outcome)
            except Exception as error:  # Flower could not even put the reply together, or the codec refused it
                outcome.failures[client] = error
            if client in outcome.replies or client in outcome.failures:
                return

    def _read(self, client: int, letter: _Letter, reply: FlowerMessage, outcome: Outcome) -> None:
        if reply.has_content():
            data, site = unpack(reply.content)
            message = codec.decode(data, self._study.id)
            if site != self._study.sites[client]:
                raise codec.MessageError(f"the reply of {self._study.sites[client]!r} says it comes from {site!r}")
            outcome.replies[client] = message
        elif reply.error.code == ErrorCode.NODE_UNAVAILABLE:
            letter.node, letter.absent_since = None, time.monotonic()  # it is sent again when the site is back
        elif reply.error.code in _EXPIRED:
            raise TimeoutError(f"{self._study.sites[client]} has not answered in time")
        else:
            raise codec.RemoteFailure(f"Flower reports error {reply.error.code}: {reply.error.reason}")

    def _given_up(self, letter: _Letter) -> bool:
        return not letter.waiting and time.monotonic() - letter.absent_since > self._wait_for_absent

    def _silence(self, client: int, letter: _Letter, timeout: float | None) -> Exception:
        site = self._study.sites[client]
        if letter.waiting:
            return TimeoutError(f"{site} has not answered within {timeout:g} seconds")
        return (ConnectionError if letter.sent else Undelivered)(f"{site} is not connected")
