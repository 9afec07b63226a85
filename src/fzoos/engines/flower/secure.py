"""The engine with which the server sees only sums."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import declared_parts
from fzoos.engines.flower.nodes import Nodes
from fzoos.engines.flower.secure_client import enough_for_a_sum
from fzoos.engines.flower.secure_server import secure_aggregate
from fzoos.engines.flower.vectors import Layout
from fzoos.federation.exchange import Outcome, Undelivered
from fzoos.federation.study import Study
from fzoos.messages import codec
from fzoos.messages.message import Message

__all__ = ["SecureFlowerEngine"]

_NO_LIMIT = 30 * 24 * 3600.0  # seconds: Flower requires a time to live for every message


class SecureFlowerEngine:
    """Carries messages through a Flower `Grid`, and replies through SecAgg+: only sums of x and payload are revealed.

    The average becomes the reply of every site whose vector is in it, so that the server's own averaging leaves it
    unchanged. Counts and diagnostics (scalars) are sent in clear. The average differs from the plain one by a random
    quantisation error, 2e-9 of an array's bound for three sites. An exchange costs as much as four plain ones.

    This protects against a server that follows the protocol and analyses all it receives. It does not protect against
    one that lies (about who is lost, or by repeating a request with fewer sites), nor against a Flower operator who
    sends other software to the sites.

    Args:
        grid: Flower's connection to the nodes, from the `ServerApp`.
        study: the study's settings.
        join: seconds that the first exchange waits for sites that have not connected yet (at most half its time-out).
        patience: seconds that later exchanges wait for a site that is not connected.
        poll: seconds between two checks for replies.
    """

    def __init__(
        self, grid: Grid, study: Study, *, join: float = 300.0, patience: float = 15.0, poll: float = 0.5
    ) -> None:
        if study.aggregate != "mean":
            raise ValueError(f"aggregate is {study.aggregate!r}, but of sums only a mean can be made")
        if any(part.stacked for part in declared_parts(study.half).values()):
            raise ValueError(
                f"{study.algorithm_settings.label} needs the single replies, but of secure sums there are none"
            )
        if study.precision != "float64":
            raise ValueError(
                f"precision is {study.precision!r}, but secure aggregation rounds in its own way and sends 8 bytes a "
                "number; leave it at 'float64'"
            )
        self._grid, self._study = grid, study
        self._nodes = Nodes(grid, study.sites)
        self._wait_for_absent, self._patience, self._poll = join, patience, poll

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        """Send each client its request; return the average of the replies within the time-out, and the failures."""
        seconds = _NO_LIMIT if timeout is None else timeout
        end = time.monotonic() + seconds
        online = self._nodes.wait(requests, min(self._wait_for_absent, 0.5 * seconds), self._poll)
        self._wait_for_absent = self._patience
        outcome = Outcome()
        for client in requests:
            if client not in online:
                outcome.failures[client] = Undelivered(f"{self._study.sites[client]} is not connected")
        enough = enough_for_a_sum(self._study)
        if len(online) < enough:
            problem = Undelivered(f"{len(online)} sites are connected, a sum needs {enough}")
            outcome.failures.update(dict.fromkeys(online, problem))
            return outcome
        clients = {node.id: client for client, node in online.items()}
        result = secure_aggregate(
            self._grid,
            {
                node: (codec.encode(requests[client], self._study.id), self._study.sites[client])
                for node, client in clients.items()
            },
            round=next(iter(requests.values())).round,
            enough=enough,
            seconds=end - time.monotonic(),
            poll=self._poll,
        )
        outcome.failures.update({clients[node]: error for node, error in result.failures.items()})
        if result.mean is not None:
            reported = {clients[node]: clear for node, clear in result.reported.items()}
            self._distribute(result.mean, reported, requests, outcome)
        return outcome

    def _distribute(
        self,
        mean: FloatArray,
        reported: Mapping[int, Mapping[str, Any]],
        requests: Mapping[int, Message],
        outcome: Outcome,
    ) -> None:
        """Store the average as the reply of every site whose vector is in it."""
        for client, clear in reported.items():
            try:
                bare = codec.decode(clear["reply"], self._study.id)
                arrays = Layout.parse(str(clear["layout"])).split(mean)
                arrays = self._within_ranges(arrays, requests[client])
                outcome.replies[client] = Message(bare.kind, bare.round, arrays, bare.scalars)
            except Exception as error:
                outcome.failures[client] = error

    def _within_ranges(self, arrays: dict[str, FloatArray], request: Message) -> dict[str, FloatArray]:
        """The arrays within the ranges that their parts declare: rounding may have taken them out a little."""
        study = self._study
        if request.kind == "value":
            return arrays
        parts, privacy = study.half.reply_parts(request), study.privacy_settings
        parts = parts if privacy is None else privacy.noisy_parts(parts)
        ranges = {name: (part.low, part.high) for name, part in parts.items()}
        if study.algorithm_settings.projected and privacy is None:
            ranges["x"] = (0.0, 1.0)
        return {name: np.clip(array, *ranges[name]) if name in ranges else array for name, array in arrays.items()}
