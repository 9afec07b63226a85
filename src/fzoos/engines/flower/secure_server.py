"""The server's side of secure aggregation: Flower's SecAgg+ instead of a plain exchange.

One exchange becomes four: keys, shares of keys, masked vectors, shares that unmask the sum. The result is the weighted
average over the sites that sent their vectors, and never one of these vectors.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict
from flwr.common import FitIns, FitRes, Parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import Stage
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.server.workflow.secure_aggregation.secaggplus_workflow import WorkflowState
from flwr.serverapp import Grid

from fzoos._util.arrays import FloatArray
from fzoos.engines.flower.masks import use_strong_masks
from fzoos.engines.flower.stages import StageGrid
from fzoos.engines.flower.vectors import MODULUS, WEIGHT, levels

__all__ = ["Aggregate", "secure_aggregate"]


@dataclass
class Aggregate:
    """The result of a secure aggregation.

    Attributes:
        mean: the weighted average of the vectors; None if there was none.
        reported: what each averaged node sent in clear beside its vector.
        failures: why the other nodes were left out.
    """

    mean: FloatArray | None = None
    reported: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    failures: dict[int, Exception] = field(default_factory=dict)


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
    stages = StageGrid(grid, ends, poll)
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
