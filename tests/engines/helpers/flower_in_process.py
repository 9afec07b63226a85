"""Flower without a network: its own in-memory link in this process, with one thread per node.

Messages pass through Flower's serialisation, checks and times to live as in a deployment. Only the network, the
processes and the keys are missing. Flower's own simulation needs Ray.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self
from uuid import uuid4

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import NOOP_ACCOUNT_NAME, NOOP_FLWR_AID, SUPERLINK_NODE_ID, ErrorCode
from flwr.proto.task_pb2 import Task
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkStateFactory
from flwr.server.superlink.linkstate.in_memory_linkstate import RunRecord
from flwr.serverapp import Grid
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import InMemoryGrid

from fzoos import Study

__all__ = ["SITES", "InProcess", "box", "flower_study"]

SITES = ("north", "east", "south")
_CENTRES = dict(zip(SITES, (-0.3, 0.1, 0.5), strict=True))

Scalar = bool | float | int | str

_RUN = 1
_POLL = 0.005  # seconds between a node's checks for messages
_HEARTBEAT = 1e6  # seconds: these nodes are online until they are removed


class InProcess:
    """A Flower server and its nodes in this process."""

    def __init__(self) -> None:
        factory = LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory())
        state = factory.state()
        assert isinstance(state, InMemoryLinkState)
        self._state = state
        run = Run.create_empty(run_id=_RUN)
        run.primary_task_id, run.federation_id = _RUN, NOOP_FEDERATION_ID
        self._state.run_ids[_RUN] = RunRecord(run=run)
        self._state.task_store[_RUN] = Task(task_id=_RUN, run_id=_RUN)
        # Flower knows one task per process: here it is the server's.
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = _RUN, _RUN, SUPERLINK_NODE_ID
        grid = InMemoryGrid(factory)
        grid.set_run(run)
        self.grid: Grid = grid
        self._nodes: dict[int, tuple[threading.Thread, threading.Event]] = {}

    def add(
        self,
        app: ClientApp,
        node_config: Mapping[str, Scalar],
        name: str | None = None,
        run_config: Mapping[str, Scalar] | None = None,
    ) -> int:
        """Start a node; return its number.

        Args:
            app: the app that answers messages.
            node_config: the node's config.
            name: its registered name, if any.
            run_config: the run's config.
        """
        node = self._state.create_node(
            NOOP_FLWR_AID, NOOP_ACCOUNT_NAME, secrets.token_bytes(32), heartbeat_interval=_HEARTBEAT, name=name
        )
        context = Context(_RUN, node, dict(node_config), RecordDict(), dict(run_config or {}))
        self._state.activate_node(node, _HEARTBEAT)
        stop = threading.Event()
        thread = threading.Thread(target=self._work, args=(node, app, context, stop), daemon=True)
        self._nodes[node] = (thread, stop)
        thread.start()
        return node

    def remove(self, node: int) -> None:
        """Remove a node, as if its heartbeat had stopped; its current work is lost."""
        _, stop = self._nodes.pop(node)
        stop.set()
        self._state.deactivate_node(node)

    def _work(self, node: int, app: ClientApp, context: Context, stop: threading.Event) -> None:
        while not stop.wait(_POLL):
            for message in self._state.get_message_ins(node_id=node, limit=1):
                try:
                    reply = app(_through_the_wire(message), context)
                except Exception as error:  # as a node does
                    reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, repr(error)), reply_to=message)
                reply.metadata.__dict__["_message_id"] = str(uuid4())
                if not stop.is_set():
                    self._state.store_message_res(_through_the_wire(reply))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for _, stop in self._nodes.values():
            stop.set()
        for thread, _ in self._nodes.values():
            thread.join(timeout=5.0)


def _through_the_wire(message: Message) -> Message:
    """Return the message as it arrives: made of the bytes that Flower would send."""
    contents = {name: part.deflate() for name, part in get_all_nested_objects(message).items()}
    arrived = inflate_object_from_contents(message.object_id, contents)
    assert isinstance(arrived, Message)
    arrived.metadata.__dict__["_message_id"] = message.metadata.message_id
    return arrived


def flower_study(dim: int, **settings: Any) -> Study:
    """A study of the three sites."""
    return Study(name="demo", x0=0.9, dim=dim, bounds=(-1.0, 1.0), sites=SITES, timeout=30.0, **settings)


def box(site: str) -> Callable[[np.ndarray], float]:
    """The objective of a site."""
    return lambda x: float(np.sum((x - _CENTRES[site]) ** 2))
