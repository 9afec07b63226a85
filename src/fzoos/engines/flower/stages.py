"""The grid that Flower's SecAgg+ workflow uses: its messages expire, and replies are checked before it receives them.

The workflow takes every reply for a valid one and fails as a whole if one is not. Here a site whose reply is an error,
malformed or missing is left out, and the workflow treats it as a site that was lost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common import bytes_to_ndarray
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from fzoos.engines.flower.vectors import Layout
from fzoos.messages.codec import MessageError, RemoteFailure

__all__ = ["StageGrid"]


class StageGrid(Grid):
    """Sends the messages of one secure aggregation.

    Args:
        grid: Flower's own grid, which carries the messages.
        ends: the deadline of each stage of the protocol (`time.monotonic`).
        poll: seconds between two checks for replies.

    Attributes:
        failures: why nodes were left out, by node.
    """

    def __init__(self, grid: Grid, ends: Mapping[str, float], poll: float) -> None:
        self._grid, self._ends, self._poll = grid, ends, poll
        self.failures: dict[int, Exception] = {}

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send a stage's messages; return the valid replies in time (the time-out of the workflow is not used)."""
        sent: dict[str, int] = {}
        stage = ""
        for message in messages:
            stage = str(message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE])
            message.metadata.ttl = max(1.0, self._ends[stage] - time.monotonic())
            node = message.metadata.dst_node_id
            sent[next(iter(self._grid.push_messages([message])), None) or f"unsent {node}"] = node
        replies = self._receive(stage, sent)
        return self._of_one_layout(replies) if stage == Stage.COLLECT_MASKED_VECTORS else replies

    def _receive(self, stage: str, sent: dict[str, int]) -> list[Message]:
        valid: list[Message] = []
        while sent:
            for message, node in list(sent.items()):
                try:
                    for reply in self._grid.pull_messages([message]):
                        del sent[message]
                        _check(stage, reply)
                        valid.append(reply)
                except Exception as error:  # a broken reply is a failure of this node only
                    sent.pop(message, None)
                    self.failures[node] = error
            left = self._ends[stage] - time.monotonic()
            if left <= 0:
                break
            if sent:
                time.sleep(min(self._poll, left))
        for node in sent.values():
            self.failures[node] = TimeoutError(f"no answer in stage {stage!r} of secure aggregation")
        return valid

    def _of_one_layout(self, replies: list[Message]) -> list[Message]:
        """Return the replies whose vectors can be added: those with the most common layout."""
        layouts = [str(reply.content.config_records["fitres.metrics"]["layout"]) for reply in replies]
        common = Counter(layouts).most_common(1)[0][0] if layouts else ""
        for reply, layout in zip(replies, layouts, strict=True):
            if layout != common:
                error = MessageError(f"arrays {layout}, those of most sites are {common}")
                self.failures[reply.metadata.src_node_id] = error
        return [reply for reply, layout in zip(replies, layouts, strict=True) if layout == common]

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)

    def set_run(self, run: Run) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Run:
        return self._grid.run

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)


def _check(stage: str, reply: Message) -> None:
    """Raise an error if a reply is not valid."""
    if reply.has_error():
        raise RemoteFailure(f"Flower reports error {reply.error.code}: {reply.error.reason}")
    if any(record for record in reply.content.array_records.values()):
        raise MessageError("an array was sent in clear, although secure aggregation is on")
    config = reply.content.config_records[RECORD_KEY_CONFIGS]
    for one, two, kinds in _EXPECTED[stage]:
        _check_lists(config, one, two, kinds)
    if stage == Stage.SETUP and not all(isinstance(config[key], bytes) for key in (Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2)):
        raise MessageError("public keys are missing")
    if stage == Stage.COLLECT_MASKED_VECTORS:
        _check_vectors(reply.content.config_records["fitres.metrics"], config)


_EXPECTED: dict[str, list[tuple[str, str, tuple[type, type]]]] = {
    Stage.SETUP: [],
    Stage.SHARE_KEYS: [(Key.DESTINATION_LIST, Key.CIPHERTEXT_LIST, (int, bytes))],
    Stage.COLLECT_MASKED_VECTORS: [],
    Stage.UNMASK: [(Key.NODE_ID_LIST, Key.SHARE_LIST, (int, bytes))],
}


def _check_lists(config: ConfigRecord, one: str, two: str, kinds: tuple[type, type]) -> None:
    """Raise an error unless two entries are lists of equal lengths."""
    lists: list[Any] = [config[one], config[two]]
    same = all(isinstance(part, list) for part in lists) and len(lists[0]) == len(lists[1])
    if not same or not all(isinstance(item, kind) for part, kind in zip(lists, kinds, strict=True) for item in part):
        raise MessageError(f"{one} and {two} must be lists of equal lengths")


def _check_vectors(reported: ConfigRecord, config: ConfigRecord) -> None:
    """Raise an error unless there are a masked weight and a masked vector of the layout's length."""
    parts: Any = config[Key.MASKED_PARAMETERS]
    weight, vector = (bytes_to_ndarray(part) for part in parts)
    length = Layout.parse(str(reported["layout"])).length
    if weight.shape != (1,) or vector.shape != (length,) or {weight.dtype.kind, vector.dtype.kind} != {"i"}:
        raise MessageError(f"masked vector of shape {vector.shape}, the layout gives {length}")
