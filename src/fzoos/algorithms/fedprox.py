"""FedProx: FedZO with a pull back towards the server's x (Li et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_number
from fzoos.algorithms.base import ClientContext, ClientHalf
from fzoos.algorithms.fedzo import FiniteDifferenceAlgorithm, FiniteDifferenceClient
from fzoos.messages.message import Message

__all__ = ["FedProx"]


@dataclass(frozen=True)
class FedProx(FiniteDifferenceAlgorithm):
    """FedProx: g_hat = FD(x) + gamma (x - x_{r-1}), the gradient of f_i + (gamma/2) ||x - x_{r-1}||^2.

    Args:
        gamma: weight of the proximal term (mu in FedProx's own paper), in the objective's units per unit cube squared.
            The authors of FZooS compare with gamma = 1 and orthonormal directions, which hardly moves in many
            dimensions: those make FD(x) d times too short beside the term.
        differences: how finite differences are made: Q, lambda and the kind of directions.
        local_steps: T, the number of local steps of each client in a round.
        optimizer: turns gradient estimates into local steps.
        projected: whether iterates and queries are clipped to the box.

    Reference:
        T. Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020.

    Example:
        >>> import numpy as np
        >>> from fzoos import FedProx, minimize
        >>> f = lambda x: float(x @ x)
        >>> minimize([f], x0=np.ones(3), bounds=(-1, 1), algorithm=FedProx(), rounds=3, seed=0).queries
        630
    """

    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("gamma", self.gamma, 0.0)

    def client(self, context: ClientContext) -> ClientHalf:
        return _Client(context, self)


class _Client(FiniteDifferenceClient):
    def __init__(self, context: ClientContext, settings: FedProx) -> None:
        super().__init__(context, settings)
        self._gamma = settings.gamma

    def begin(self, x: FloatArray, request: Message) -> None:
        super().begin(x, request)
        self._anchor = x  # x_{r-1}

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray]:
        return self._gamma, x - self._anchor
