"""Contract of an algorithm: the clients' weights, and who takes part in a round."""

from __future__ import annotations

from typing import Any

import numpy as np

from fzoos.testing.problem import TARGETS, Checks, Recorder, bowls, close

__all__ = ["WeightChecks"]


class WeightChecks(Checks):
    """F is the weighted mean of the objectives, and a round is made by its participants."""

    def test_weights_are_relative(self) -> None:
        """omega is normalised: any scale gives the same run, and equal weights are the default."""
        close(self.run(weights=[1, 2, 5]).x, self.run(weights=[0.125, 0.25, 0.625]).x, 1e-9)
        close(self.run(weights=[4, 4, 4]).x, self.run().x, 1e-9)

    def test_huge_weights(self) -> None:
        """Weights whose sum overflows are still relative."""
        close(self.run(weights=[1e308, 1e308, 1e308]).x, self.run().x, 1e-9)

    def test_zero_weight(self) -> None:
        """F does not depend on a client of weight zero, and neither do x, the payloads and the diagnostics: the run is
        that of the other clients alone (each client's random numbers depend on the seed and its own index only)."""
        with_it = self.run(weights=[1, 3, 0])
        without = self.run(bowls(TARGETS[:2]), weights=[1, 3])
        close(with_it.x, without.x, 1e-9)
        for a, b in zip(with_it.history, without.history, strict=True):
            assert a.diagnostics.keys() == b.diagnostics.keys()
            close([a.diagnostics[name] for name in b.diagnostics], list(b.diagnostics.values()), 1e-7)

    def test_zero_weight_with_participation(self) -> None:
        """A round never rests on clients of weight zero alone: their average would be 0/0."""
        for seed in range(3):
            result = self.run(weights=[0, 1, 0], participation=1, rounds=5, seed=seed)
            assert np.all(np.isfinite(result.x))
            assert np.all(result.x > 0.02)  # towards 0.4, where client 1 has its minimum

    def test_weights_matter(self) -> None:
        """All weight on the client at -0.9 leads there, all weight on the one at 0.9 leads there."""
        objectives = bowls((-0.9, 0.9))
        assert np.all(self.run(objectives, weights=[1, 0], rounds=5).x < -0.2)
        assert np.all(self.run(objectives, weights=[0, 1], rounds=5).x > 0.2)

    def test_participation(self) -> None:
        """An int is a number of clients, a float a fraction (rounded, at least one); nobody else is asked."""
        cases = [(1, 1), (2, 2), (4, 4), (0.5, 2), (0.25, 1), (0.01, 1), (0.9, 4), (1.0, 4), (0.6, 2)]
        for participation, expected in cases:
            recorder = Recorder(bowls((0.1, 0.2, 0.3, 0.4)))
            settings: dict[str, Any] = {"participation": participation, "rounds": 4, "local_steps": 2}
            result = self.run(recorder.objectives, callback=recorder.next_round, **settings)
            for r in range(1, 5):
                if self.queries_later(2, r):
                    assert len(recorder.clients(r)) == expected
            counted = tuple(sum(i == client for client, _, _ in recorder.points) for i in range(4))
            assert result.queries_per_client == counted

    def test_participation_reaches_everybody(self) -> None:
        """Participants are drawn anew each round: one of three a round, and in 15 rounds all have been asked (the
        chance of the contrary is below 3 (2/3)^15 < 1 %, and the seed is fixed)."""
        assert all(self.run(participation=1, rounds=15, local_steps=2).queries_per_client)
