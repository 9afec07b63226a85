"""Contract of an algorithm: progress on an easy problem, and no harm from difficult ones."""

from __future__ import annotations

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.optimizers import SGD, Adam
from fzoos.objectives.box import Objective
from fzoos.testing.problem import DIM, TARGETS, Checks, Recorder

__all__ = ["DifficultyChecks"]


class DifficultyChecks(Checks):
    """Flat, noisy, stepped and badly scaled objectives."""

    def test_progress(self) -> None:
        """x comes near the minimum of F, the mean of the targets, on an easy problem."""
        result = self.run(x0=np.full(DIM, -0.5), rounds=12, local_steps=5, optimizer=Adam(0.02))
        minimum = np.full(DIM, np.mean(TARGETS))
        assert np.linalg.norm(result.x - minimum) < 0.25 * np.linalg.norm(-0.5 - minimum)

    def test_constant_objective(self) -> None:
        """A constant has gradient zero, for every estimate: x stays where it is."""
        for value in (0.0, 1.0, -1e6, 1e-300):
            constant: Objective = lambda x, value=value: value  # noqa: E731
            result = self.run([constant] * 2, x0=np.full(DIM, 0.25), optimizer=SGD(1.0))
            assert result.status in ("completed", "converged")
            assert np.all(abs(result.x - 0.25) <= 1e-12)

    def test_noisy_objective(self) -> None:
        """Pure noise of any size never breaks a run or leaves the box."""
        for scale in (1e-8, 1.0, 1e8):

            def noise(seed: int, scale: float = scale) -> Objective:
                rng = np.random.default_rng(seed)
                return lambda x: scale * rng.standard_normal()

            result = self.run([noise(0), noise(1)], rounds=5)
            assert result.status in ("completed", "converged")
            assert np.all(abs(result.x) <= 1.0)

    def test_noise_on_a_slope(self) -> None:
        """Noise that is small against the descent does not hide it."""
        rng = np.random.default_rng(0)

        def noisy(target: float) -> Objective:
            return lambda x: float(np.sum((x - target) ** 2)) + 1e-4 * rng.standard_normal()

        assert np.all(self.run([noisy(0.7), noisy(0.9)], rounds=8).x > 0.1)

    def test_plateaus_and_duplicates(self) -> None:
        """A step function (equal observations at many points) and clipped, hence duplicate, points break no run."""

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
