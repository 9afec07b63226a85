"""Maps Flower nodes to the sites of the study."""

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

_UNDELIVERED = (ErrorCode.NODE_UNAVAILABLE, ErrorCode.MESSAGE_UNAVAILABLE, ErrorCode.REPLY_MESSAGE_UNAVAILABLE)
_REPEAT = 60.0  # seconds after which a node that has not reported its name is queried again


class Node(NamedTuple):
    """A node since one of its starts: after a restart it is another node, since earlier messages to it are lost."""

    id: int
    since: str


class Nodes:
    """Finds the sites among the connected nodes.

    A node registered with a name (`flwr supernode register KEY --name SITE`) is that site, whatever it reports: the
    name belongs to its key. A node without a name (in a simulation, or if nodes need no key) is queried for one, which
    cannot be the name of a registered site. If two nodes are the same site, the later one counts: it is a restart.
    """

    def __init__(self, grid: Grid, sites: Sequence[str]) -> None:
        self._grid, self._clients = grid, {name: client for client, name in enumerate(sites)}
        self._registered: set[str] = set()  # names that belong to keys
        self._reported: dict[Node, str] = {}  # names that unregistered nodes have reported; empty: an unusable reply
        self._questions: dict[Node, str] = {}  # messages whose replies are awaited
        self._unknown: set[Node] = set()

    def online(self) -> dict[int, Node]:
        """Return the connected nodes of the sites, by client."""
        found: dict[int, Node] = {}
        infos = sorted(self._grid.get_nodes(), key=lambda info: info.last_activated_at)
        self._registered |= {info.name for info in infos if info.name}
        for info in infos:
            node = Node(info.node_id, info.last_activated_at)
            name = info.name or self._reported_name(node)
            if name in self._clients and (info.name or name not in self._registered):
                found[self._clients[name]] = node
            elif name and node not in self._unknown:
                self._unknown.add(node)
                known = ", ".join(self._clients)
                log.warning("node %s reports the name %r, which is none of the sites (%s)", node.id, name, known)
        return found

    def wait(self, clients: Collection[int], seconds: float, poll: float) -> dict[int, Node]:
        """Return the nodes of these clients when all are connected, or after some seconds those that are."""
        end = time.monotonic() + seconds
        while True:
            online = {client: node for client, node in self.online().items() if client in clients}
            if len(online) == len(clients) or time.monotonic() >= end:
                return online
            time.sleep(min(poll, max(0.0, end - time.monotonic())))

    def _reported_name(self, node: Node) -> str:
        """Return the name that a node reports, empty until its reply has arrived; query it once."""
        if node in self._reported:
            return self._reported[node]
        if node not in self._questions:
            question = Message(RecordDict(), node.id, SITE, ttl=_REPEAT)
            sent = next(iter(self._grid.push_messages([question])), None)
            if sent:
                self._questions[node] = sent
            return ""
        try:
            answers = list(self._grid.pull_messages([self._questions[node]]))
        except Exception:  # a reply that Flower cannot assemble
            answers, self._reported[node] = [], ""
        for answer in answers:
            del self._questions[node]
            if answer.has_content():
                self._reported[node] = _name(answer.content)
            elif answer.error.code not in _UNDELIVERED:
                self._reported[node] = ""  # until it restarts
        return self._reported.get(node, "")


def _name(content: RecordDict) -> str:
    record = content.get("site")
    name = record.get("name") if isinstance(record, ConfigRecord) else None
    return name if isinstance(name, str) else ""
