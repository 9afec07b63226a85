"""The server half of the trust region: x is the clients' mean, Delta that of their proposals."""

from __future__ import annotations

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import State, Steering
from fzoos.algorithms.trust_region.client import FIRST_DELTA, RegionNumbers, delta_of
from fzoos.algorithms.trust_region.control import RegionControl
from fzoos.messages.message import Arrays

__all__ = ["RegionServer"]


class RegionServer(Steering):
    """State: x, the last centre at which nobody failed, Delta, and whether somebody ever failed at a centre."""

    keeps_answers = True

    def start(self, x: FloatArray) -> State:
        """Before round 1."""
        return _state(x, x, FIRST_DELTA, careful=False)

    def scalars(self, state: State, seed: int, turn: int, participants: int, share: float) -> dict[str, float]:
        """The same for all participants."""
        cut = int(state["cut"][0]) if "cut" in state else 0
        return RegionControl(seed, radius=float(state["delta"][0]), cut=cut).scalars()

    def rebuilds(self, state: State) -> bool:
        """x travels."""
        return False

    def reported(self, state: State) -> FloatArray:
        """x; once somebody had no value at a centre, the last one at which everybody had."""
        return state["good"] if state["careful"][0] else state["x"]

    def failed(self, reply: Arrays) -> bool:
        """Whether a client has no value at x."""
        return RegionNumbers(*reply["region"]).failed > 0.0

    def back(self, state: State, x: FloatArray) -> State:
        """To a centre at which everybody had a value."""
        return {**state, "x": x, "good": x, "careful": np.ones(1)}

    def next_state(self, state: State, mean: Arrays, seed: int, participants: int) -> State:
        """From the averages of both exchanges."""
        failed = self.failed(mean)
        good = state["good"] if failed else state["x"]
        return _state(mean["x"], good, delta_of(mean), careful=bool(state["careful"][0]) or failed)


def _state(x: FloatArray, good: FloatArray, delta: float, careful: bool) -> State:
    return {"x": x, "good": good, "delta": np.array([delta]), "careful": np.array([float(careful)])}
