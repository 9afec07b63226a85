"""Finite differences along the recent steps of x (Wu et al. 2024).

FedZO's directions are isotropic. These are drawn more often from the subspace in which the server's x moved recently:

    u = sqrt(1 - alpha) z_0 + sqrt(alpha d / k) P z_1,        z_0 ~ N(0, I_d),   z_1 ~ N(0, I_k)                     (1)
    u ~ N(0, (1 - alpha) I + alpha (d / k) P P^T)                                                                    (2)

=========  ========  ==================================================================================
symbol     shape     meaning
=========  ========  ==================================================================================
alpha      scalar    the share of the subspace: 0 is FedZO, 1 never leaves the subspace
l          scalar    how many of the server's latest steps x_r - x_{r-1} span the subspace
P          (d, k)    an orthonormal basis of these steps; k <= min(l, d), less than l where steps repeat
Sigma      (d, d)    the covariance (2), never formed; its trace is d, as that of the identity
=========  ========  ==================================================================================

As lambda -> 0 the estimate has the mean Sigma grad f: what lies in the subspace is stretched, and nothing else is lost
but the factor 1 - alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_number
from fzoos._util.states import StateDict
from fzoos.algorithms.base import ClientContext, ClientHalf
from fzoos.algorithms.fedzo import FiniteDifferenceAlgorithm, FiniteDifferenceClient
from fzoos.algorithms.finite_differences import FiniteDifferences
from fzoos.messages.message import Message

__all__ = ["FedHistory", "draw_along"]

_ROUNDING = 1e-6  # directions that are so much shorter than the longest step are its rounding error


def draw_along(basis: FloatArray, alpha: float, differences: FiniteDifferences, rng: np.random.Generator) -> FloatArray:
    """Draw U, shape (Q, d): directions of covariance (1 - alpha) I + alpha (d / k) P P^T.

    The basis is P, shape (d, k); with k = 0 there is no subspace yet, and directions are `differences`' own.
    """
    d, k = basis.shape
    z = differences.draw(d, rng)
    if k == 0 or alpha == 0.0:
        return z
    z_1 = differences.draw(d, rng) @ basis  # ~ N(0, I_k), and P z_1 is the same for every basis of the subspace
    return math.sqrt(1.0 - alpha) * z + math.sqrt(alpha * d / k) * z_1 @ basis.T  # Eq. (1)


@dataclass(frozen=True)
class FedHistory(FiniteDifferenceAlgorithm):
    """Historical trajectory: FedZO whose directions favour the subspace of the server's latest steps.

    It costs what FedZO costs, in queries and in bytes: the steps x_r - x_{r-1} are differences of what the server sends
    anyway. Until P is made for the first time it is FedZO.

    Args:
        alpha: the share of the subspace in the covariance of the directions, in [0, 1].
        history: l, how many steps span the subspace.
        renew: P is computed again after this number of steps; None: after every l, from steps that no earlier P has
            seen. With 1, P changes in every round from the second one on.
        differences: how finite differences are made: Q, lambda and the kind of directions.
        local_steps: T, the number of local steps of each client in a round.
        optimizer: turns gradient estimates into local steps.
        projected: whether iterates and queries are clipped to the box.

    Reference:
        C. Wu et al., "A Historical Trajectory Assisted Optimization Method for Zeroth-Order Federated Learning",
        arXiv:2409.15955, 2024.

    Deviations:
        Equation (1) with its normalisation, alpha = 0.3, l = 5 and the renewal after every l rounds are what the
        authors' program runs (github.com/Michael112233/Federated-Learning-ZO, federated_main.py; the 0.5 in its
        utils.py is a default that is never used), not copied from the paper's text.
        - Clients compute P themselves from the x that they are sent; in the paper the server computes and sends it. A
          client that missed rounds has longer steps, of the rounds in which it took part, in their place.
        - FD(x) has Q forward differences, as for all our algorithms; theirs is one central difference.
        - P is used as soon as it is known; their program waits one round more.
        - P is a basis of what the steps span; where they are fewer than l (steps repeat, or x stands still), k < l.
        - Local steps are the chosen optimiser's; theirs are plain gradient descent with a decaying rate.
        - With other than Gaussian directions z_0 and z_1 are of that kind, so that Sigma stays (2) but for their scale.

    Example:
        >>> import numpy as np
        >>> from fzoos import FedHistory, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.ones(3), bounds=(-1, 1), algorithm=FedHistory(), rounds=3, seed=0)
        >>> result.queries                               # 3 rounds of 10 steps of 20 + 1 queries
        630
    """

    alpha: float = 0.3
    history: int = 5  # l
    renew: int | None = None

    version: ClassVar[int] = 2  # since its defaults are those of its authors' program

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("alpha", self.alpha, 0.0, 1.0)
        check_count("history (l)", self.history, low=1)
        if self.renew is not None:
            check_count("renew", self.renew, low=1)

    def client(self, context: ClientContext) -> ClientHalf:
        return _Client(context, self)


class _Client(FiniteDifferenceClient):
    def __init__(self, context: ClientContext, settings: FedHistory) -> None:
        super().__init__(context, settings)
        self._settings = settings
        self._x: FloatArray | None = None  # the server's, of the client's last round
        self._steps: list[FloatArray] = []  # the latest l
        self._count = 0  # of all steps
        self._basis = np.empty((context.dim, 0))  # P

    def begin(self, x: FloatArray, request: Message) -> None:
        super().begin(x, request)
        if self._x is not None:
            self._remember(x - self._x)
        self._x = x

    def _remember(self, step: FloatArray) -> None:
        history = self._settings.history
        self._steps = [*self._steps, step][-history:]
        self._count += 1
        if self._count % (self._settings.renew or history) == 0:
            self._basis = scipy.linalg.orth(np.stack(self._steps, axis=1), rcond=_ROUNDING)

    def draw_directions(self) -> FloatArray:
        """Draw directions of covariance (2)."""
        return draw_along(self._basis, self._settings.alpha, self._differences, self.context.rng)

    def state(self) -> StateDict:
        steps = np.reshape(self._steps, (-1, self.context.dim))
        return {**super().state(), "x": self._x, "steps": steps, "count": self._count, "basis": self._basis}

    def restore(self, state: StateDict) -> None:
        super().restore(state)
        self._x, self._steps = state.get("x"), list(state["steps"])
        self._count, self._basis = state["count"], state["basis"]
