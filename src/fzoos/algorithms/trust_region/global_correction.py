"""The global correction: how F differs from a client's own function, by the averaged gradients of past rounds.

    grad (F - f_i)(x_s) = g_s - grad mu_i(x_s),     mu_i as it is now,
    noise |grad mu_i(x_s) now - g_i,s as sent|^2 / d

The change of the client's own gradient since it was sent shows how stale the averaged one is. With one gradient this is
the linear correction (g - g_i).(x - x_r) of Shamir, Srebro and Zhang's DANE (2014), with several a multi-secant
quasi-Newton correction, which accounts for the clients' different curvatures. For a single client it vanishes.
"""

from __future__ import annotations

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict
from fzoos.surrogates.augmented_lagrangian import LagrangianProcess
from fzoos.surrogates.from_gradients import GradientProcess
from fzoos.surrogates.region import RegionProcess

__all__ = ["GlobalCorrection"]

_MEMORY, _LEAST_MEMORY = 15, 3  # averaged gradients
_LARGEST = 1500  # numbers in them: the order of the system that is solved per round
_JITTER = 1e-12
_TINY, _MOST = 1e-300, 1e300


class _LinearCorrection:
    """The correction by one gradient, slope.(x - start).

    Args:
        start: shape (d,).
        slope: shape (d,).
    """

    rounding = 0.0

    def __init__(self, start: FloatArray, slope: FloatArray) -> None:
        self._start, self._slope = start, slope

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return value and gradient."""
        return float(self._slope @ (x - self._start)), self._slope

    def curved(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return value, gradient and second derivatives, which are zero."""
        return *self(x), np.zeros((len(x), len(x)))


class GlobalCorrection:
    """Centres, averaged gradients and own gradients of the rounds in which a client took part.

    Args:
        dim: d, the number of variables.
    """

    def __init__(self, dim: int) -> None:
        self._most = max(_LEAST_MEMORY, min(_MEMORY, _LARGEST // dim))
        self._rows: list[tuple[FloatArray, FloatArray, FloatArray]] = []  # x_s, g_s, g_i,s
        self._rounds: list[int] = []  # s

    @property
    def known(self) -> bool:
        """Whether there is any round."""
        return bool(self._rows)

    def add(self, x: FloatArray, averaged: FloatArray, own: FloatArray, round: int = 0) -> None:
        """Add a round's centre, the averaged gradient there, and the client's own as it was sent."""
        self._rows = [*self._rows, (x, averaged, own)][-self._most :]
        self._rounds = [*self._rounds, round][-self._most :]

    def correct(self, history: FloatArray, round: int) -> None:
        """Replace averaged gradients that late replies have changed, and drop the rounds before them.

        Args:
            history: the averaged gradients of the rounds before this one, one per row, shape (n, d).
            round: the current round.
        """
        first = round - len(history)
        rows = [(s, row) for s, row in zip(self._rounds, self._rows, strict=True) if s >= first]
        self._rows = [(x, history[s - first], own) for s, (x, _, own) in rows]
        self._rounds = [s for s, _ in rows]

    def shift(self, averaged: FloatArray, own: FloatArray) -> None:
        """Add what new multipliers change in all gradients: on average, and in this client's."""
        self._rows = [(x, g + averaged, g_own + own) for x, g, g_own in self._rows]

    def process(self, mine: RegionProcess | LagrangianProcess) -> GradientProcess | _LinearCorrection:
        """Return the correction and its derivatives, given the client's current surrogate."""
        centres, averaged, sent = (np.array(rows) for rows in zip(*self._rows, strict=True))
        if len(centres) == 1:
            return _LinearCorrection(centres[0], averaged[0] - sent[0])
        now = mine.gradients(centres)
        gradients, stale = averaged - now, np.mean((now - sent) ** 2, axis=1)
        size = float(np.mean(gradients[-1] ** 2)) + _TINY
        with np.errstate(over="ignore"):
            ridges = np.minimum(_JITTER + stale / size, _MOST)
        return GradientProcess(centres, gradients, mine.choice.length, ridges)

    def state(self) -> StateDict:
        """Return all rows, shape (n, 3, d), and their rounds."""
        return {"rows": np.array(self._rows), "rounds": np.array(self._rounds, dtype=np.int64)} if self._rows else {}

    def restore(self, state: StateDict) -> None:
        """Restore what `state` returned."""
        self._rows = [(x, averaged, own) for x, averaged, own in state.get("rows", ())]
        self._rounds = [int(round) for round in state.get("rounds", ())]
