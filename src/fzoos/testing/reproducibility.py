"""Contract of an algorithm: the same seed gives the same run, and coordinates and units change nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.local_steps import GradientSteps
from fzoos.algorithms.optimizers import Adam
from fzoos.objectives.box import Objective
from fzoos.testing.problem import DIM, Checks, bowl, bowls, close, same

__all__ = ["ReproducibilityChecks"]


class ReproducibilityChecks(Checks):
    """A run is a function of its seed and its problem, and of nothing else."""

    def test_same_seed(self) -> None:
        """The same seed gives the same run bit for bit, on one worker or several; another seed gives another run."""
        first = self.run()
        assert same(first, self.run())
        assert same(first, self.run(workers=2))
        assert same(first, self.run(workers=5))
        assert not np.array_equal(first.x, self.run(seed=1).x)

    def test_same_seed_with_participation(self) -> None:
        """Who takes part is part of what the seed fixes."""
        first = self.run(participation=2, rounds=4)
        assert same(first, self.run(participation=2, rounds=4, workers=2))
        runs = [self.run(participation=2, rounds=4, seed=seed).queries_per_client for seed in range(1, 6)]
        assert any(counts != first.queries_per_client for counts in runs)

    def test_without_a_seed(self) -> None:
        """No seed: runs differ. Where little is drawn, as FedLBFGS's d signs, two may be alike, but not ten."""
        first = self.run(seed=None)
        assert any(not np.array_equal(self.run(seed=None).x, first.x) for _ in range(9))

    def test_global_random_state(self) -> None:
        """The run neither reads nor moves NumPy's global generator."""
        kept = np.random.get_state()  # noqa: NPY002
        try:
            np.random.seed(0)  # noqa: NPY002
            before = _global_numbers()
            expected = self.run()
            assert np.array_equal(before, _global_numbers())
            np.random.seed(1)  # noqa: NPY002
            assert same(expected, self.run())
        finally:
            np.random.set_state(kept)  # noqa: NPY002

    def test_vectorized(self) -> None:
        """A vectorised objective and the same function one by one give identical runs."""

        def batch(f: Objective) -> Objective:
            return lambda x: np.array([f(row) for row in x])

        assert same(self.run(), self.run([batch(f) for f in bowls()], vectorized=True))

    def test_objectives_that_write_into_x(self) -> None:
        """An objective owns the array it gets: what it writes there changes nothing."""

        def vandal(f: Objective) -> Objective:
            def objective(x: FloatArray) -> Any:
                y = f(x)
                x[:] = 1e9
                return y

            return objective

        assert same(self.run(), self.run([vandal(f) for f in bowls()]))

    def test_restart(self) -> None:
        """Adam restarted each round and Adam kept agree in round 1 and differ in round 2, if there is an optimiser."""
        if not isinstance(self.algorithm, GradientSteps):
            return

        def x_after(rounds: int, restart: bool) -> FloatArray:
            return self.run(rounds=rounds, optimizer=Adam(0.05, restart=restart)).x

        assert np.array_equal(x_after(1, True), x_after(1, False))
        assert not np.allclose(x_after(2, True), x_after(2, False), atol=1e-6)

    def test_optimizers(self) -> None:
        """The learning rate is in units of the cube: with T = 1 and one client, Adam's first step is eta per
        coordinate, whatever the gradient, and the box [-1, 1] doubles it."""
        if not isinstance(self.algorithm, GradientSteps):
            return
        result = self.run([bowl(0.5)], rounds=1, local_steps=1, optimizer=Adam(0.03))
        close(abs(result.x), [0.06] * DIM, 6e-6)

    def test_affine(self) -> None:
        """Everything the user sees is in the user's coordinates: a rescaled problem has the rescaled run."""
        lower, width = np.array([-2.0, 0.0, 8.0]), np.array([4.0, 0.5, 16.0])
        bounds, start = np.stack([lower, lower + width], axis=1), np.array([0.75, 0.5, 0.25])

        def in_cube(target: float) -> Objective:
            return lambda u: float(np.sum((u - target) ** 2))

        def scaled(f: Objective) -> Objective:
            return lambda z: f((z - lower) / width)

        def remember(walk: list[FloatArray]) -> Any:
            return lambda x: walk.append(x) or 0.0  # type: ignore[func-returns-value]

        cube, us, zs = [in_cube(0.3), in_cube(0.7)], list[FloatArray](), list[FloatArray]()
        plain = self.run(cube, start, bounds=(0, 1), monitor=remember(us))
        moved = self.run([scaled(f) for f in cube], lower + width * start, bounds=bounds, monitor=remember(zs))
        close((np.array(zs) - lower) / width, np.array(us), 1e-6)
        assert moved.queries == plain.queries
        steps = np.linalg.norm(np.diff(np.array([lower + width * start, *zs]), axis=0), axis=1)
        np.testing.assert_allclose([record.step for record in moved.history], steps, rtol=1e-9)

    def test_shift_and_scale_of_values(self) -> None:
        """Adam and the standardising make a run independent of the objective's offset and unit; settings that have a
        unit (`units`) are given in the same one."""

        def scaled(f: Objective) -> Objective:
            return lambda x: 8.0 * f(x) + 2.0

        changed = {name: 8.0**power * getattr(self.algorithm, name) for name, power in self.units.items()}
        moved = self.run([scaled(f) for f in bowls()], algorithm=replace(self.algorithm, **changed))
        close(moved.x, self.run().x, 1e-5)


def _global_numbers() -> Any:
    return np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002
