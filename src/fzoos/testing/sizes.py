"""Contract of an algorithm: shapes, counts, and the box."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.local_steps import GradientSteps
from fzoos.engines.local import LocalEngine
from fzoos.federation.server import Server
from fzoos.federation.setup import Seeds, Setting
from fzoos.objectives.box import Box
from fzoos.result import Record
from fzoos.testing.problem import DIM, TARGETS, Checks, Recorder, bowls, close, with_steps

__all__ = ["SizeChecks"]


class SizeChecks(Checks):
    """x has its shape, queries are counted, and nothing leaves the box.

    Attributes:
        dims: d of `test_shapes`; an algorithm that refuses one of them leaves it out.
    """

    dims: Sequence[int] = (1, 2, 7)

    def test_shapes(self) -> None:
        """x is (d,) for any d and any number of clients, d = 1 and one client included, and objectives see (d,)."""
        for dim, clients in itertools.product(self.dims, (1, 3)):
            recorder = Recorder(bowls(TARGETS[:clients]))
            result = self.run(recorder.objectives, np.zeros(dim))
            assert result.x.shape == (dim,)
            assert result.x.dtype == np.float64
            assert np.all(np.isfinite(result.x))
            assert not np.array_equal(result.x, np.zeros(dim))
            assert {x.shape for _, _, x in recorder.points} == {(dim,)}
            assert len(result.queries_per_client) == clients

    def test_history(self) -> None:
        """One record per round; counts are totals, match the objectives', and only grow; step is the way x went."""
        recorder, xs, counts = Recorder(bowls()), [np.zeros(DIM)], []

        def monitor(x: FloatArray) -> float:
            xs.append(x)
            return 1.5

        def callback(record: Record) -> None:
            counts.append(len(recorder.points))

        result = self.run(recorder.objectives, rounds=4, monitor=monitor, callback=callback)
        assert result.rounds == len(result.history) == 4
        assert result.status == "completed"
        assert [record.round for record in result.history] == [1, 2, 3, 4]
        assert [record.queries for record in result.history] == counts
        assert result.queries == sum(result.queries_per_client) == len(recorder.points)
        for name in ("queries", "bytes_up", "bytes_down", "seconds"):
            values = [0] + [getattr(record, name) for record in result.history]
            assert np.all(np.diff(values) >= 0)
            assert getattr(result, name) == values[-1]
        assert result.history[0].bytes_up > 0
        assert result.history[0].bytes_down > 0
        close(
            [record.step for record in result.history],
            [np.linalg.norm(b - a) for a, b in itertools.pairwise(xs)],
            1e-12,
        )
        assert np.array_equal(result.x, xs[-1])
        assert [record.monitor for record in result.history] == [1.5] * 4
        for record in result.history:
            assert set(record.diagnostics) <= set(self.algorithm.diagnostics)

    def test_no_rounds(self) -> None:
        """With rounds = 0 nothing is asked and x is x0."""
        x0 = np.array([0.3, -0.7, 1.0])
        result = self.run(x0=x0, rounds=0)
        close(result.x, x0, 1e-15)
        assert (result.rounds, result.queries, result.bytes_up, result.bytes_down) == (0, 0, 0, 0)
        assert (result.status, result.history) == ("completed", ())

    def test_query_plan(self) -> None:
        """What an algorithm says it will cost (`cost`) is what it costs, in its first and in later rounds."""
        algorithm, box, seeds = with_steps(self.algorithm, 3).at(DIM), Box.of((-1, 1), DIM), Seeds.of(0, 3)
        setting = Setting(box, algorithm, 3)
        clients = [setting.client(i, f, seeds.clients[i]) for i, f in enumerate(bowls())]
        server = Server(
            LocalEngine(clients),
            algorithm,
            box.to_cube(np.zeros(DIM)),
            weights=np.full(3, 1 / 3),
            participants=3,
            shared_seed=seeds.shared,
            rng=np.random.default_rng(seeds.server),
        )
        for _ in range(4):
            plan, before = server.plan(), sum(server.state.queries)
            server.run(plan)
            assert sum(server.state.queries) - before == plan.queries

    def test_bounds(self) -> None:
        """No query, no server's x and no result is outside the bounds, not by a rounding error, though F falls towards
        a corner; and x gets to the corner exactly or closely."""
        bounds = np.array([(-0.3, 0.1), (1.0, 1.7), (-5.0, 30.0)])
        lower, upper = bounds.T
        width = upper - lower
        for slope, clients in itertools.product((-1.0, 1.0), (1, 3, 7)):
            xs: list[FloatArray] = []

            def falling(x: FloatArray, slope: float = slope) -> float:
                return float(slope * np.sum((x - lower) / width))

            def monitor(x: FloatArray, xs: list[FloatArray] = xs) -> float:
                xs.append(x)
                return 0.0

            recorder = Recorder([falling] * clients)
            start = lower + (0.9 if slope < 0 else 0.1) * width
            result = self.run(recorder.objectives, start, bounds=bounds, monitor=monitor, rounds=5)
            for points in (recorder.x, np.array(xs), result.x):
                assert np.all(points >= lower)
                assert np.all(points <= upper)
            corner = lower if slope > 0 else upper
            assert np.all(abs(result.x - corner) <= 0.05 * width)

    def test_start_on_the_bounds(self) -> None:
        """x0 may lie on the bounds; queries still stay inside."""
        recorder = Recorder(bowls())
        self.run(recorder.objectives, np.array([-1.0, 1.0, 1.0]))
        assert np.all(abs(recorder.x) <= 1.0)

    def test_unprojected(self) -> None:
        """With projected = False, iterates and queries may leave the box: from a corner, downhill leads outside."""
        recorder = Recorder([lambda x: float(np.sum(x))] * 2)
        free = self.run(recorder.objectives, -np.ones(DIM), algorithm=replace(self.algorithm, projected=False))
        assert np.all(free.x < -1.0)
        assert np.any(recorder.x < -1.0)
        kept = self.run(recorder.objectives, -np.ones(DIM))
        near = (
            0.0 if isinstance(self.algorithm, GradientSteps) else 0.1
        )  # the mean of points around a corner is inside, but for luck
        assert np.all(abs(kept.x + 1.0) <= near)
