"""Which Flower node is which site of the study."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fzoos.engines.flower.wire import SITE

__all__ = ["Node", "Nodes"]

log = logging.getLogger("fzoos")

_NOT_HEARD = (ErrorCode.NODE_UNAVAILABLE, ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE)
_ASK_AGAIN = 60.0  # seconds after which a node that has not reported its name is asked again


class Node(NamedTuple):
    """A node at one of its starts: after a restart it is another one, since what it was sent before is lost."""

    id: int
    since: str


class Nodes:
    """Finds the sites among the nodes that are connected.

    A node that was registered with a name (`flwr supernode register KEY --name SITE`) is that site, whatever it says
    itself: the name belongs to its key. A node without a name (in a simulation, or where nodes need no key) is asked,
    and cannot be a site that has been there with a registered name. If two nodes are the same site the one that came
    last counts: it is the other's restart.

    Args:
        grid: Flower's connection to the nodes.
        sites: the names of the study's sites.
    """

    def __init__(self, grid: Grid, sites: Sequence[str]) -> None:
        self._grid, self._clients = grid, {name: client for client, name in enumerate(sites)}
        self._registered: set[str] = set()  # names that belong to keys
        self._told: dict[Node, str] = {}  # what nodes without a name say it is; empty: nothing of use
        self._asked: dict[Node, str] = {}  # the questions under way
        self._strangers: set[Node] = set()

    def online(self) -> dict[int, Node]:
        """The nodes of the sites that are connected now, by client."""
        found: dict[int, Node] = {}
        infos = sorted(self._grid.get_nodes(), key=lambda info: info.last_activated_at)
        self._registered |= {info.name for info in infos if info.name}
        for info in infos:
            node = Node(info.node_id, info.last_activated_at)
            name = info.name or self._ask(node)
            if name in self._clients and (info.name or name not in self._registered):
                found[self._clients[name]] = node
            elif name and node not in self._strangers:
                self._strangers.add(node)
                known = ", ".join(self._clients)
                log.warning("node %s, which says it is %r, is none of the sites (%s)", node.id, name, known)
        return found

    def wait(self, clients: Collection[int], seconds: float, poll: float) -> dict[int, Node]:
        """The nodes of these clients, as soon as all are connected; after so many seconds, those that are."""
        end = time.monotonic() + seconds
        while True:
            online = {client: node for client, node in self.online().items() if client in clients}
            if len(online) == len(clients) or time.monotonic() >= end:
                return online
            time.sleep(min(poll, max(0.0, end - time.monotonic())))

    def _ask(self, node: Node) -> str:
        """The name that a node has reported, empty until its answer is there."""
        if node in self._told:
            return self._told[node]
        if node not in self._asked:
            question = Message(RecordDict(), node.id, SITE, ttl=_ASK_AGAIN)
            sent = next(iter(self._grid.push_messages([question])), None)
            if sent:
                self._asked[node] = sent
            return ""
        try:
            answers = list(self._grid.pull_messages([self._asked[node]]))
        except Exception:  # an answer that Flower cannot put together
            answers, self._told[node] = [], ""
        for answer in answers:
            del self._asked[node]
            if answer.has_content():
                self._told[node] = _name(answer.content)
            elif answer.error.code not in _NOT_HEARD:
                self._told[node] = ""  # it will not do better until it is restarted
        return self._told.get(node, "")


def _name(content: RecordDict) -> str:
    record = content.get("site")
    name = record.get("name") if isinstance(record, ConfigRecord) else None
    return name if isinstance(name, str) else ""
