"""FedZO: federated averaging with finite-difference gradients (Fang et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass, field

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import ClientContext, ClientHalf
from fzoos.algorithms.finite_differences import FiniteDifferences
from fzoos.algorithms.local_steps import GradientHalf, GradientSteps
from fzoos.messages.message import Message

__all__ = ["FedZO", "FiniteDifferenceAlgorithm", "FiniteDifferenceClient"]


@dataclass(frozen=True)
class FiniteDifferenceAlgorithm(GradientSteps):
    """Settings of the algorithms whose local gradient is FD(x): FedZO and those built on it."""

    differences: FiniteDifferences = field(default_factory=FiniteDifferences)  # Q, lambda, u_q

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.differences, FiniteDifferences):
            raise TypeError(f"differences must be FiniteDifferences, got {self.differences!r}")

    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        """Return T (Q + 1), or Q + 1 for the one estimate of a refresh."""
        return (1 if request.kind == "refresh" else self.steps_in(request)) * self.differences.queries


class FiniteDifferenceClient(GradientHalf):
    """A client whose local gradient is FD(x)."""

    def __init__(self, context: ClientContext, settings: FiniteDifferenceAlgorithm) -> None:
        super().__init__(context, settings)
        self._differences = settings.differences

    def local_gradient(self, x: FloatArray) -> FloatArray:
        """Return the finite differences FD(x) along new directions."""
        u, context = self.draw_directions(), self.context
        points = self._differences.points(x, u)
        y = context.query(points, "difference", at_server_x=context.iterate_is_server_x)
        return self._differences.gradient(u, y)

    def draw_directions(self) -> FloatArray:
        """Draw U, shape (Q, d)."""
        return self._differences.draw(self.context.dim, self.context.rng)


@dataclass(frozen=True)
class FedZO(FiniteDifferenceAlgorithm):
    """FedZO: g_hat = FD(x), no correction.

    Args:
        differences: how finite differences are made: Q, lambda and the kind of directions.
        local_steps: T, the number of local steps of each client in a round.
        optimizer: turns gradient estimates into local steps.
        projected: whether iterates and queries are clipped to the box.

    Reference:
        W. Fang et al., "Communication-Efficient Stochastic Zeroth-Order Optimization for Federated Learning",
        IEEE Transactions on Signal Processing, 2022.

    Example:
        >>> import numpy as np
        >>> from fzoos import FedZO, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.ones(3), bounds=(-1, 1), algorithm=FedZO(), rounds=3, seed=0)
        >>> result.queries                               # 3 rounds of 10 steps of 20 + 1 queries
        630
    """

    def client(self, context: ClientContext) -> ClientHalf:
        return FiniteDifferenceClient(context, self)
