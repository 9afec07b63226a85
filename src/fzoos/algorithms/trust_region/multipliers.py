"""How a client of the trust region chooses the multipliers of its constraints: by its surrogates.

    exchange 2   x_i = argmin mu_f + omega_i sum_j psi_j(mu_cj) + delta_i
                 lambda <- max(0, lambda + rho mu_c(x_i));  again, until mu_c(x_i) <= 0
                 then lambda = lambda_r + b (lambda - lambda_r),   b in [1 / N, 1]

f stands for the other clients' objectives as well; a constraint may be that of a single client and has weight omega_i,
as in F. A client raises its multipliers until its own constraints are met, as if it were alone. If all clients have the
same constraint, that is N times too much. Since no client knows which, b starts at 1 / N, grows by a half while c(x_r)
falls by less than 70 % per round, and halves when c(x_r) changes its sign.

delta_i depends on averaged gradients of past rounds, which had other multipliers: `gradient_shift`, the change of this
client's gradient at x_r by new multipliers, is sent with the next gradient, and its average is added to earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict
from fzoos.algorithms.base import ClientContext
from fzoos.objectives.constraints import AugmentedLagrangian
from fzoos.surrogates.augmented_lagrangian import LagrangianProcess

__all__ = ["Multipliers"]

_MOST = 20  # minimisations of the surrogates per round
_LESS = 4  # minimisations per round if the minimum lies at the region's border
_SLOW = 0.3  # the fraction of c(x_r) that may be left after a round
_FASTER = 1.5
_BORDER = 0.999
_STIFFEST = 1e4  # times the first penalty: beyond it x jumps, as the clients' minima disagree


class Multipliers:
    """The multipliers of one client, if it has constraints.

    Args:
        context: what a client half works with.
    """

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self.gradient_shift = np.zeros(context.dim)
        self._sent = np.zeros(context.dim)  # the part of the sent gradient that is due to constraints
        self._boost, self._last = np.ones(1), np.zeros(1)  # b, and c(x_r) of the round before

    @property
    def _lagrangian(self) -> AugmentedLagrangian | None:
        return self._context.trajectory.lagrangian

    @property
    def violated(self) -> bool:
        """Whether x violates a constraint of this client."""
        return (self._context.trajectory.violation or 0.0) > 0.0

    def record_gradient(self, process: object, x: FloatArray) -> None:
        """Record that this surrogate's gradient at x is sent."""
        if isinstance(process, LagrangianProcess):
            self._sent = process.constraint_gradient(x)

    def update(self, gradient: FloatArray) -> None:
        """Update b, given the averaged gradient at x, where this client's constraints were evaluated."""
        lagrangian = self._lagrangian
        if lagrangian is None or lagrangian.at_server_x is None:
            return
        if not lagrangian.has_penalties:
            self._boost, self._last = np.full(lagrangian.count, 1.0 / self._context.clients), np.zeros(lagrangian.count)
            lagrangian.choose_penalties_for_surrogates(float(np.linalg.norm(gradient)))
            return
        c, clients = lagrangian.shifted(lagrangian.at_server_x[1:]), self._context.clients
        left = np.where(lagrangian.multipliers > 0.0, c / np.where(self._last == 0.0, np.inf, self._last), 0.0)
        stuck = (left > _SLOW) & (c > 0.0) & (self._boost >= 1.0)
        self._boost = np.where(left > _SLOW, np.minimum(_FASTER * self._boost, 1.0), self._boost)
        self._boost = np.where(left < -_SLOW, np.maximum(0.5 * self._boost, 1.0 / clients), self._boost)
        self._last = c
        if clients > 1:
            lagrangian.raise_penalties(stuck, _STIFFEST)

    def minimize(
        self,
        process: LagrangianProcess,
        place: Callable[[FloatArray], FloatArray],
        least: Callable[[FloatArray], FloatArray],
    ) -> FloatArray:
        """Return the minimum of the surrogates at which this client's constraints are met, as far as the region allows.

        Args:
            process: the client's surrogate.
            place: maps coordinates t of the region, in [-1, 1], to points of the cube.
            least: returns a minimum, given a t to start from.
        """
        lagrangian = self._lagrangian
        assert lagrangian is not None
        t, alone = least(np.zeros(self._context.dim)), self._context.clients == 1
        if not lagrangian.has_penalties:  # nearly all evaluations have failed
            return t
        before = lagrangian.multipliers
        if alone:
            lagrangian.lower_penalties()
        away = np.full(lagrangian.count, np.inf)
        for k in range(_MOST):
            inside = float(np.max(np.abs(t))) < _BORDER
            last, away = away, lagrangian.update_at_minimum(process.constraints(place(t)))
            if lagrangian.has_converged(away) or (not inside and k >= _LESS):
                break
            if alone and inside:  # what others see of it must not become stiff
                lagrangian.raise_penalties(away > last / 4.0)
            t = least(t)
        lagrangian.multipliers = np.maximum(0.0, before + self._boost * (lagrangian.multipliers - before))
        x = place(np.zeros_like(t))
        self.gradient_shift = process.constraint_gradient(x) - self._sent
        self._context.trajectory.observe_again()
        return t

    def state(self) -> StateDict:
        """Return everything but the multipliers themselves, which belong to the trajectory."""
        return {"shift": self.gradient_shift, "sent": self._sent, "boost": self._boost, "last": self._last}

    def restore(self, state: StateDict) -> None:
        """Restore what `state` returned."""
        self.gradient_shift, self._sent = state["shift"], state["sent"]
        self._boost, self._last = state["boost"], state["last"]
