"""The server's side of secure aggregation: Flower's SecAgg+ instead of a plain exchange.

One exchange becomes four: keys, shares of keys, masked vectors, shares that unmask the sum. The result is the weighted
average over the sites that sent their vectors, and never one of these vectors.

Flower's workflow takes every reply for a valid one and fails as a whole if one is not. So its messages pass through a
grid on which they expire. It leaves out a site whose reply is an error, malformed or missing, which the workflow treats
as a site that was lost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.common import FitIns, FitRes, Parameters, bytes_to_ndarray, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.server.workflow.secure_aggregation.secaggplus_workflow import WorkflowState
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from fzoos._util.arrays import FloatArray
from fzoos.engines.flower.masks import use_strong_masks
from fzoos.engines.flower.vectors import MODULUS, WEIGHT, Layout, levels
from fzoos.messages.codec import MessageError, RemoteFailure

__all__ = ["Aggregate", "secure_aggregate"]


@dataclass
class Aggregate:
    """The result of a secure aggregation."""

    mean: FloatArray | None = None  # the weighted average of the vectors; None if there was none
    reported: dict[int, Mapping[str, Any]] = field(default_factory=dict)  # what averaged nodes sent in clear
    failures: dict[int, Exception] = field(default_factory=dict)  # why the other nodes were left out


def secure_aggregate(
    grid: Grid, requests: Mapping[int, tuple[bytes, str]], *, round: int, enough: int, seconds: float, poll: float
) -> Aggregate:
    """Request vectors from nodes and return their weighted average.

    Args:
        grid: Flower's connection to the nodes.
        requests: for each node, the encoded request and the site's name.
        round: the round, for Flower's log.
        enough: the least number of nodes in a sum.
        seconds: the total time. Each stage but the one in which sites work takes a sixth at most, and a minute at most.
        poll: seconds between two checks for replies.
    """
    use_strong_masks()
    start, quick = time.monotonic(), min(60.0, seconds / 6)
    ends = {
        Stage.SETUP: start + quick,
        Stage.SHARE_KEYS: start + 2 * quick,
        Stage.COLLECT_MASKED_VECTORS: start + seconds - quick,
        Stage.UNMASK: start + seconds,
    }
    stages = _StageGrid(grid, ends, poll)
    n = len(requests)
    workflow = _Workflow(
        num_shares=1.0,  # one share per node
        reconstruction_threshold=max(enough, n // 2 + 1),  # more than half, or a site called lost could be unmasked
        max_weight=float(WEIGHT),
        clipping_range=1.0,
        quantization_range=levels(n),
        modulus_range=MODULUS,
    )
    collector = _Collector(requests)
    state = RecordDict(
        {
            MAIN_CONFIGS_RECORD: ConfigRecord({WorkflowKey.CURRENT_ROUND: round}),
            MAIN_PARAMS_RECORD: ArrayRecord(),
        }
    )
    context = Context(run_id=0, node_id=0, node_config={}, state=state, run_config={})
    problem: Exception = RuntimeError("secure aggregation ended without a sum")
    try:
        workflow(stages, LegacyContext(context, strategy=collector))
    except Exception as error:  # for example shares that do not match: there is no sum
        problem = error
    result = collector.aggregate
    result.failures = {node: stages.failures.get(node, problem) for node in requests if node not in result.reported}
    return result


class _Workflow(SecAggPlusWorkflow):
    """Flower's workflow, which also tolerates the loss of a site before the keys are shared."""

    def share_keys_stage(self, grid: Grid, context: LegacyContext, state: WorkflowState) -> bool:
        """Share the keys; a site that has not done so has masked nothing, and is no longer counted."""
        done = super().share_keys_stage(grid, context, state)
        left = set(state.active_node_ids)
        state.sampled_node_ids = left
        state.nid_to_neighbours = {node: state.nid_to_neighbours[node] & left for node in left}
        return done and self._check_threshold(state)


class _Collector(FedAvg):
    """The strategy that the workflow needs: it supplies our requests and stores the outcome."""

    def __init__(self, requests: Mapping[int, tuple[bytes, str]]) -> None:
        super().__init__()
        self._requests, self.aggregate = requests, Aggregate()

    def configure_fit(self, server_round: int, parameters: Parameters, client_manager: Any) -> Any:
        return [
            (SimpleNamespace(node_id=node), FitIns(Parameters([data], "bytes"), {"site": site}))
            for node, (data, site) in self._requests.items()
        ]

    def aggregate_fit(self, server_round: int, results: list[tuple[Any, FitRes]], failures: Any) -> Any:
        """Store the average, by which the workflow has replaced each node's own vector."""
        self.aggregate.reported = {proxy.node_id: result.metrics for proxy, result in results}
        self.aggregate.mean = parameters_to_ndarrays(results[0][1].parameters)[0]
        return None, {}


class _StageGrid(Grid):
    """Sends the messages of one secure aggregation; `ends` are the deadlines of its stages (`time.monotonic`)."""

    def __init__(self, grid: Grid, ends: Mapping[str, float], poll: float) -> None:
        self._grid, self._ends, self._poll = grid, ends, poll
        self.failures: dict[int, Exception] = {}  # why nodes were left out

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
