"""The contract of an algorithm: runs of `minimize` on small problems whose outcome is known."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import Algorithm
from fzoos.algorithms.local_steps import GradientSteps
from fzoos.algorithms.optimizers import SGD, Adam, Optimizer
from fzoos.engines.local import LocalEngine
from fzoos.federation.server import Server
from fzoos.federation.setup import Seeds, Setting
from fzoos.minimize import minimize
from fzoos.objectives.box import Box, Objective
from fzoos.result import ObjectiveError, Record, Result
from fzoos.testing.problem import DIM, TARGETS, Recorder, bowl, bowls, close, run_checks, same, with_steps
from fzoos.testing.quick import queries_of_a_round

__all__ = ["AlgorithmContract", "check_algorithm"]


class AlgorithmContract:
    """The checks that every algorithm passes. Each method whose name begins with `test` is one check.

    In a test file, a subclass named `Test...` is all that pytest needs:

        class TestMine(AlgorithmContract):
            algorithm = MyAlgorithm()

    Attributes:
        algorithm: the settings to check. The problems have 1 to 7 dimensions and few rounds of few local steps, so
            gradient estimates should be accurate: for finite differences, 8 directions are enough.
        dims: the dimensions of `test_shapes`; an algorithm that refuses one of them leaves it out.
        units: settings that have a unit, each with the power of the objective's unit: {"gamma": 1} for a gamma that is
            added to second derivatives of f. Settings without a unit need not be named.
    """

    algorithm: Algorithm
    dims: Sequence[int] = (1, 2, 7)
    units: Mapping[str, int] = {}

    def run(
        self,
        objectives: Sequence[Objective] | None = None,
        x0: Any = None,
        *,
        algorithm: Algorithm | None = None,
        local_steps: int = 3,
        optimizer: Optimizer = Adam(0.05),
        **changes: Any,
    ) -> Result:
        """Run `minimize` with the algorithm, by default on three bowls in three dimensions."""
        settings: dict[str, Any] = {"bounds": (-1, 1), "rounds": 3, "seed": 0} | changes
        chosen = with_steps(self.algorithm if algorithm is None else algorithm, local_steps, optimizer)
        objectives = bowls() if objectives is None else objectives
        return minimize(objectives, np.zeros(DIM) if x0 is None else x0, algorithm=chosen, **settings)

    def queries_later(self, local_steps: int, round: int = 2) -> int:
        """Return the queries of a client in a round that is not its first."""
        return queries_of_a_round(with_steps(self.algorithm, local_steps), DIM, round)

    # Shapes, counts and the box

    def test_shapes(self) -> None:
        """x is (d,) for any d and any number of clients, d = 1 and one client included, and objectives get (d,)."""
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
        """There is one record per round; counts are totals, match the objectives' own counts and never fall."""
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
        assert min(result.history[0].bytes_up, result.history[0].bytes_down) > 0
        steps = [np.linalg.norm(b - a) for a, b in itertools.pairwise(xs)]
        close([record.step for record in result.history], steps, 1e-12)
        assert np.array_equal(result.x, xs[-1])
        assert [record.monitor for record in result.history] == [1.5] * 4
        for record in result.history:
            assert set(record.diagnostics) <= set(self.algorithm.diagnostics)

    def test_no_rounds(self) -> None:
        """With rounds = 0 nothing is queried and x is x0."""
        x0 = np.array([0.3, -0.7, 1.0])
        result = self.run(x0=x0, rounds=0)
        close(result.x, x0, 1e-15)
        assert (result.rounds, result.queries, result.bytes_up, result.bytes_down) == (0, 0, 0, 0)
        assert (result.status, result.history) == ("completed", ())

    def test_query_plan(self) -> None:
        """The cost that an algorithm declares (`cost`) is what it costs, in its first and in later rounds."""
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
        """No query, no server's x and no result is outside the bounds, not even by a rounding error, though F falls
        towards a corner; and x reaches the corner."""
        bounds = np.array([(-0.3, 0.1), (1.0, 1.7), (-5.0, 30.0)])
        lower, upper = bounds.T
        width = upper - lower
        for slope, clients, away in itertools.product((-1.0, 1.0), (1, 3), (0.0, 0.9)):
            xs: list[FloatArray] = []

            def falling(x: FloatArray, slope: float = slope) -> float:
                return float(slope * np.sum((x - lower) / width))

            def monitor(x: FloatArray, xs: list[FloatArray] = xs) -> float:
                xs.append(x)
                return 0.0

            recorder = Recorder([falling] * clients)
            start = lower + (away if slope < 0 else 1.0 - away) * width
            result = self.run(recorder.objectives, start, bounds=bounds, monitor=monitor, rounds=5)
            for points in (recorder.x, np.array(xs), result.x):
                assert np.all(points >= lower)
                assert np.all(points <= upper)
            corner = lower if slope > 0 else upper
            assert away == 0.0 or np.all(abs(result.x - corner) <= 0.05 * width)

    def test_unprojected(self) -> None:
        """With projected = False, iterates and queries may leave the box: from a corner, downhill leads outside."""
        recorder = Recorder([lambda x: float(np.sum(x))] * 2)
        free = self.run(recorder.objectives, -np.ones(DIM), algorithm=replace(self.algorithm, projected=False))
        assert np.all(free.x < -1.0)
        assert np.any(recorder.x < -1.0)
        projected = self.run(recorder.objectives, -np.ones(DIM))
        # The mean of points around a corner is inside the box, unless all of them are at the corner.
        near = 0.0 if isinstance(self.algorithm, GradientSteps) else 0.1
        assert np.all(abs(projected.x + 1.0) <= near)

    # Reproducibility, coordinates and units

    def test_same_seed(self) -> None:
        """The same seed gives the same run bit for bit, with any number of workers; another seed gives another run."""
        first = self.run()
        assert same(first, self.run())
        assert same(first, self.run(workers=2))
        assert same(first, self.run(workers=5))
        assert not np.array_equal(first.x, self.run(seed=1).x)
        drawn = self.run(participation=2, rounds=4)
        assert same(drawn, self.run(participation=2, rounds=4, workers=2))
        runs = [self.run(participation=2, rounds=4, seed=seed).queries_per_client for seed in range(1, 6)]
        assert any(counts != drawn.queries_per_client for counts in runs)

    def test_without_a_seed(self) -> None:
        """Runs without a seed differ. Where little is drawn, as FedLBFGS's d signs, two may be alike, but not ten."""
        first = self.run(seed=None)
        assert any(not np.array_equal(self.run(seed=None).x, first.x) for _ in range(9))

    def test_global_random_state(self) -> None:
        """The run neither reads nor changes NumPy's global generator."""
        before = np.random.get_state()  # noqa: NPY002
        try:
            np.random.seed(0)  # noqa: NPY002
            numbers = _global_numbers()
            expected = self.run()
            assert np.array_equal(numbers, _global_numbers())
            np.random.seed(1)  # noqa: NPY002
            assert same(expected, self.run())
        finally:
            np.random.set_state(before)  # noqa: NPY002

    def test_vectorized(self) -> None:
        """A vectorized objective and the same function called point by point give identical runs, whatever an
        objective writes into the array that it gets."""

        def batch(f: Objective) -> Objective:
            return lambda x: np.array([f(row) for row in x])

        def vandal(f: Objective) -> Objective:
            def objective(x: FloatArray) -> Any:
                y = f(x)
                x[:] = 1e9
                return y

            return objective

        plain = self.run()
        assert same(plain, self.run([batch(f) for f in bowls()], vectorized=True))
        assert same(plain, self.run([vandal(f) for f in bowls()]))

    def test_optimizers(self) -> None:
        """The learning rate is in units of the cube: with T = 1 and one client, Adam's first step is eta per
        coordinate, and the box [-1, 1] doubles it. Restarted and continued Adam differ from round 2 on."""
        if not isinstance(self.algorithm, GradientSteps):
            return
        result = self.run([bowl(0.5)], rounds=1, local_steps=1, optimizer=Adam(0.03))
        close(abs(result.x), [0.06] * DIM, 6e-6)

        def x_after(rounds: int, restart: bool) -> FloatArray:
            return self.run(rounds=rounds, optimizer=Adam(0.05, restart=restart)).x

        assert np.array_equal(x_after(1, True), x_after(1, False))
        assert not np.allclose(x_after(2, True), x_after(2, False), atol=1e-6)

    def test_affine(self) -> None:
        """Everything the user sees is in the user's coordinates: a rescaled problem has the rescaled run."""
        lower, width = np.array([-2.0, 0.0, 8.0]), np.array([4.0, 0.5, 16.0])
        bounds, start = np.stack([lower, lower + width], axis=1), np.array([0.75, 0.5, 0.25])

        def in_cube(target: float) -> Objective:
            return lambda u: float(np.sum((u - target) ** 2))

        def scaled(f: Objective) -> Objective:
            return lambda z: f((z - lower) / width)

        def remember(xs: list[FloatArray]) -> Any:
            return lambda x: xs.append(x) or 0.0  # type: ignore[func-returns-value]

        cube, us, zs = [in_cube(0.3), in_cube(0.7)], list[FloatArray](), list[FloatArray]()
        plain = self.run(cube, start, bounds=(0, 1), monitor=remember(us))
        moved = self.run([scaled(f) for f in cube], lower + width * start, bounds=bounds, monitor=remember(zs))
        close((np.array(zs) - lower) / width, np.array(us), 1e-6)
        assert moved.queries == plain.queries
        steps = np.linalg.norm(np.diff(np.array([lower + width * start, *zs]), axis=0), axis=1)
        np.testing.assert_allclose([record.step for record in moved.history], steps, rtol=1e-9)

    def test_shift_and_scale_of_values(self) -> None:
        """A run is independent of the objective's offset and unit; settings in `units` are given in the same unit."""

        def scaled(f: Objective) -> Objective:
            return lambda x: 8.0 * f(x) + 2.0

        changed = {name: 8.0**power * getattr(self.algorithm, name) for name, power in self.units.items()}
        moved = self.run([scaled(f) for f in bowls()], algorithm=replace(self.algorithm, **changed))
        close(moved.x, self.run().x, 1e-5)

    # Weights and participation

    def test_weights(self) -> None:
        """Weights are relative: any scale gives the same run, and equal weights are the default."""
        close(self.run(weights=[1, 2, 5]).x, self.run(weights=[0.125, 0.25, 0.625]).x, 1e-9)
        plain = self.run()
        for equal in (4, 1e308):  # the sum of the second overflows
            close(self.run(weights=[equal] * 3).x, plain.x, 1e-9)
        objectives = bowls((-0.9, 0.9))
        assert np.all(self.run(objectives, weights=[1, 0], rounds=5).x < -0.2)
        assert np.all(self.run(objectives, weights=[0, 1], rounds=5).x > 0.2)

    def test_zero_weight(self) -> None:
        """A client of weight zero has no influence: the run is that of the other clients alone, since each client's
        random numbers depend on the seed and its own index only."""
        with_it = self.run(weights=[1, 3, 0])
        without = self.run(bowls(TARGETS[:2]), weights=[1, 3])
        close(with_it.x, without.x, 1e-9)
        for a, b in zip(with_it.history, without.history, strict=True):
            assert a.diagnostics.keys() == b.diagnostics.keys()
            close([a.diagnostics[name] for name in b.diagnostics], list(b.diagnostics.values()), 1e-7)
        for seed in range(3):  # a round never consists of clients of weight zero alone: their average would be 0/0
            result = self.run(weights=[0, 1, 0], participation=1, rounds=5, seed=seed)
            assert np.all(np.isfinite(result.x))
            assert np.all(result.x > 0.02)  # towards 0.4, where client 1 has its minimum

    def test_participation(self) -> None:
        """An int is a number of clients, a float a fraction (rounded, at least one); nobody else is queried."""
        for participation, expected in [(1, 1), (4, 4), (0.5, 2), (0.01, 1), (0.9, 4), (1.0, 4), (0.6, 2)]:
            recorder = Recorder(bowls((0.1, 0.2, 0.3, 0.4)))
            settings: dict[str, Any] = {"participation": participation, "rounds": 4, "local_steps": 2}
            result = self.run(recorder.objectives, callback=recorder.next_round, **settings)
            for r in range(1, 5):
                if self.queries_later(2, r):
                    assert len(recorder.clients(r)) == expected
            counted = tuple(sum(i == client for client, _, _ in recorder.points) for i in range(4))
            assert result.queries_per_client == counted
        # With one of three per round, somebody is never drawn in 15 rounds with a probability below 3 (2/3)^15 < 1 %.
        assert all(self.run(participation=1, rounds=15, local_steps=2).queries_per_client)

    # The end of a run, and objectives that fail

    def test_callback(self) -> None:
        """The run stops after the round for which the callback returns True, and equals a shorter run; any other
        return value continues it."""
        records: list[Record] = []

        def callback(record: Record) -> bool:
            records.append(record)
            return record.round == 2

        result = self.run(rounds=5, callback=callback)
        assert (result.status, result.rounds) == ("stopped", 2)
        assert "callback" in result.message
        assert tuple(records) == result.history
        assert np.array_equal(result.x, self.run(rounds=2).x)
        for answer in (None, False, 0):
            assert self.run(callback=lambda record, answer=answer: answer).status == "completed"

    def test_budget(self) -> None:
        """The budget is never exceeded and never leaves room for a whole round; a stopped run equals a shorter run,
        except for a last round that is cut."""
        for participation in (1.0, 2):
            full = self.run(rounds=4, participation=participation)
            needs = [record.queries for record in full.history]
            for budget in (0, needs[0] - 1, needs[0], needs[1] - 1, needs[1] + 1, needs[3] - 1, needs[3], needs[3] + 1):
                recorder = Recorder(bowls())
                result = self.run(recorder.objectives, rounds=4, participation=participation, max_queries=budget)
                affordable = sum(need <= budget for need in needs)
                assert len(recorder.points) == result.queries <= budget
                whole = [record for record in result.history if not record.cut]
                assert len(whole) == affordable
                assert result.rounds - affordable in (0, 1)
                assert result.status == ("completed" if affordable == 4 else "budget")
                if affordable < 4:
                    assert str(budget) in result.message
                if affordable:
                    assert whole[-1].queries == needs[affordable - 1]
                if result.rounds > affordable:
                    assert result.queries > (whole[-1].queries if whole else 0)

    def test_monitor(self) -> None:
        """The monitor is called once per round with the server's x and has no influence, even if it writes into its
        argument."""
        seen: list[FloatArray] = []

        def monitor(x: FloatArray) -> Any:
            seen.append(x.copy())
            value = np.array(np.sum(x))
            x[:] = 1e9
            return value

        plain, watched = self.run(), self.run(monitor=monitor)
        assert np.array_equal(plain.x, watched.x)
        assert plain.queries == watched.queries
        assert [record.monitor for record in watched.history] == [float(np.sum(x)) for x in seen]
        assert len(seen) == watched.rounds
        assert np.array_equal(seen[-1], watched.x)
        assert all(record.monitor is None for record in plain.history)

    def test_skip(self) -> None:
        """With on_failure = "skip" failed queries are counted and left out, and the run continues and still descends.
        Without failures the setting changes nothing."""
        for bad in (float("nan"), -float("inf")):
            calls = {"count": 0, "failed": 0}

            def sometimes(f: Objective, calls: dict[str, int] = calls, bad: float = bad) -> Objective:
                def objective(x: FloatArray) -> Any:
                    calls["count"] += 1
                    if calls["count"] % 4 == 0:
                        calls["failed"] += 1
                        return bad
                    return f(x)

                return objective

            result = self.run([sometimes(bowl(0.8)), sometimes(bowl(0.9))], on_failure="skip", rounds=8)
            assert result.status == "completed"
            assert result.queries == calls["count"] > calls["failed"] > 0
            assert np.all(result.x > 0.1)
        assert same(self.run(), self.run(on_failure="skip"))

    def test_skip_everything(self) -> None:
        """Where every query fails there is no gradient: x stays, the queries count, and the run fails. A client
        whose every query fails stays at the server's x, and the others still move it."""
        x0 = np.full(DIM, 0.25)
        point_by_point: Objective = lambda x: float("nan")  # noqa: E731
        batches: Objective = lambda x: np.full(len(x), np.nan)  # noqa: E731
        for vectorized in (False, True):
            recorder = Recorder([batches if vectorized else point_by_point] * 2)
            result = self.run(recorder.objectives, x0, on_failure="skip", vectorized=vectorized)
            assert result.status == "failed"
            close(result.x, x0, 1e-12)
            assert result.queries == sum(len(np.atleast_2d(x)) for _, _, x in recorder.points) > 0
        result = self.run([point_by_point, bowl(0.9)], on_failure="skip", rounds=5)
        assert result.status == "completed"
        assert np.all(result.x > 0.05)

    def test_raising_objective(self) -> None:
        """An objective that raises in round 3 ends the run with client, round, cause, and the two complete rounds;
        Ctrl-C in round 3 returns them."""
        if not self.queries_later(3):
            return  # it queries nothing in round 3
        expected = self.run(rounds=2).x
        for workers in (1, 2):
            error = self._failure(workers)
            assert "client 1 raised OSError: the laboratory is on fire in round 3" in str(error)
            assert (error.client, error.round) == (1, 3)
            assert isinstance(error.__cause__, OSError)
            assert error.x.shape == (DIM,)
            assert error.result is not None
            assert (error.result.status, error.result.rounds) == ("failed", 2)
            assert np.array_equal(error.result.x, expected)
            objectives, recorder = _raising_in_round_3(KeyboardInterrupt())
            result = self.run(objectives, rounds=5, callback=recorder.next_round, workers=workers)
            assert (result.status, result.rounds, len(result.history)) == ("interrupted", 2, 2)
            assert "round 3" in result.message
            assert np.array_equal(result.x, expected)
            assert result.queries == sum(result.queries_per_client)

    def _failure(self, workers: int) -> ObjectiveError:
        objectives, recorder = _raising_in_round_3(OSError("the laboratory is on fire"))
        try:
            self.run(objectives, rounds=5, callback=recorder.next_round, workers=workers)
        except ObjectiveError as error:
            return error
        raise AssertionError("an objective raised, and the run did not")

    # Easy and difficult objectives

    def test_progress(self) -> None:
        """x comes close to the minimum of F, the mean of the targets, on an easy problem."""
        result = self.run(x0=np.full(DIM, -0.5), rounds=12, local_steps=5, optimizer=Adam(0.02))
        minimum = np.full(DIM, np.mean(TARGETS))
        assert np.linalg.norm(result.x - minimum) < 0.25 * np.linalg.norm(-0.5 - minimum)

    def test_constant_objective(self) -> None:
        """The gradient of a constant is zero in every estimate: x does not move."""
        for value in (0.0, -1e6, 1e-300):
            constant: Objective = lambda x, value=value: value  # noqa: E731
            result = self.run([constant] * 2, x0=np.full(DIM, 0.25), optimizer=SGD(1.0))
            assert result.status in ("completed", "converged")
            assert np.all(abs(result.x - 0.25) <= 1e-12)

    def test_noise(self) -> None:
        """Pure noise of any size breaks no run and leaves x in the box; noise that is small against the descent does
        not hide it."""
        for scale in (1e-8, 1.0, 1e8):

            def noise(seed: int, scale: float = scale) -> Objective:
                rng = np.random.default_rng(seed)
                return lambda x: scale * rng.standard_normal()

            result = self.run([noise(0), noise(1)], rounds=5)
            assert result.status in ("completed", "converged")
            assert np.all(abs(result.x) <= 1.0)
        rng = np.random.default_rng(0)

        def noisy(target: float) -> Objective:
            return lambda x: float(np.sum((x - target) ** 2)) + 1e-4 * rng.standard_normal()

        assert np.all(self.run([noisy(0.7), noisy(0.9)], rounds=8).x > 0.1)

    def test_plateaus_and_duplicates(self) -> None:
        """Neither a step function, equal at many points, nor clipped and hence duplicate points break a run."""

        def stairs(x: FloatArray) -> float:
            return float(np.floor(3 * x).sum())

        result = self.run([stairs] * 2, -np.ones(DIM), rounds=5)
        assert result.status in ("completed", "converged")
        assert np.all(abs(result.x) <= 1.0)

    def test_tiny_box(self) -> None:
        """A box of width 1e-9 far from the origin is a cube like any other."""
        recorder = Recorder([lambda x: float(np.sum((x - 1.0) * 1e9))] * 2)
        result = self.run(recorder.objectives, np.full(DIM, 1 + 9e-10), bounds=(1.0, 1.0 + 1e-9))
        assert np.all(recorder.x >= 1.0)
        assert np.all(recorder.x <= 1.0 + 1e-9)
        assert np.all(result.x < 1 + 8.5e-10)


def _global_numbers() -> Any:
    return np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002


def _raising_in_round_3(error: BaseException) -> tuple[list[Objective], Recorder]:
    """Objectives of which the second raises in round 3, and the recorder that counts the rounds."""
    recorder = Recorder([])

    def raising(x: FloatArray) -> float:
        if recorder.round == 3:
            raise error
        return bowl(TARGETS[1])(x)

    return [bowl(TARGETS[0]), raising, bowl(TARGETS[2])], recorder


def check_algorithm(algorithm: Algorithm, units: Mapping[str, int] | None = None) -> None:
    """Run the whole contract without pytest.

    Args:
        algorithm: as in `AlgorithmContract`.
        units: as in `AlgorithmContract`.

    Raises:
        AssertionError: the algorithm breaks the contract; the message names the check.

    Example:
        >>> from fzoos import FedZO, FiniteDifferences
        >>> from fzoos.testing import check_algorithm
        >>> check_algorithm(FedZO(differences=FiniteDifferences(8, directions="orthonormal")))
    """
    contract = AlgorithmContract()
    contract.algorithm, contract.units = algorithm, units or {}
    run_checks(contract, algorithm.label)
