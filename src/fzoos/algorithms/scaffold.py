"""SCAFFOLD with finite differences, in its two forms (Karimireddy et al. 2020).

Both correct by c - c_i, the difference of the averaged and the client's own control vector, with gamma = 1. They differ
in what the control vector is: a fresh estimate at the server's x (I), or the mean of last round's estimates (II).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict
from fzoos.algorithms.base import ClientContext, ClientHalf, Part, RefreshedServerHalf, ServerHalf
from fzoos.algorithms.fedzo import FiniteDifferenceAlgorithm, FiniteDifferenceClient
from fzoos.messages.message import Arrays, Message

__all__ = ["ScaffoldI", "ScaffoldII"]


class _ControlledClient(FiniteDifferenceClient):
    """A client that corrects by c - c_i."""

    own: FloatArray | None = None  # c_i
    _correction: FloatArray | None = None

    def begin(self, x: FloatArray, request: Message) -> None:
        super().begin(x, request)
        c = request.arrays.get("c")
        self._correction = None if c is None or self.own is None else c - self.own

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        return None if self._correction is None else (1.0, self._correction)

    def state(self) -> StateDict:
        return {**super().state(), "own": self.own}

    def restore(self, state: StateDict) -> None:
        super().restore(state)
        self.own = state.get("own")


class _FreshClient(_ControlledClient):
    """ScaffoldI: c_i = FD_i(x_{r-1})."""

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        self.own = self.local_gradient(x)
        return {"c": self.own}


class _AveragingClient(_ControlledClient):
    """ScaffoldII: c_i = mean over t of the FD_i made in the client's last round."""

    def begin(self, x: FloatArray, request: Message) -> None:
        super().begin(x, request)
        self._sum, self._count = np.zeros_like(x), 0

    def local_gradient(self, x: FloatArray) -> FloatArray:
        estimate = super().local_gradient(x)
        self._sum, self._count = self._sum + estimate, self._count + 1
        return estimate

    def end(self, x: FloatArray) -> Arrays:
        self.own = self._sum / self._count
        return {"x": x, "c": self.own}


@dataclass(frozen=True)
class ScaffoldI(FiniteDifferenceAlgorithm):
    """SCAFFOLD (type I): g_hat = FD_i(x) + (mean_j FD_j(x_{r-1}) - FD_i(x_{r-1})).

    Two exchanges a round, d floats of payload each way, and Q + 1 queries more than FedZO from the second round on.

    Args:
        differences: how finite differences are made: Q, lambda and the kind of directions.
        local_steps: T, the number of local steps of each client in a round.
        optimizer: turns gradient estimates into local steps.
        projected: whether iterates and queries are clipped to the box.

    Reference:
        S. P. Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020.

    Example:
        >>> import numpy as np
        >>> from fzoos import ScaffoldI, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.ones(3), bounds=(-1, 1), algorithm=ScaffoldI(), rounds=3, seed=0)
        >>> result.queries                               # 630 and a fresh estimate in rounds 2 and 3
        672
    """

    def client(self, context: ClientContext) -> ClientHalf:
        return _FreshClient(context, self)

    def server(self, dim: int) -> ServerHalf:
        """Average x and c; a late c_i is of use, since it is renewed in every round."""
        return RefreshedServerHalf(dim, {"c": Part((dim,), late="keep")})


@dataclass(frozen=True)
class ScaffoldII(FiniteDifferenceAlgorithm):
    """SCAFFOLD (type II): g_hat = FD_i(x) + (mean_j c_j - c_i), c_i the mean of round r-1's estimates FD_i.

    One exchange a round, d floats of payload each way. A client that missed round r-1 uses the c_i of its last round;
    one that never took part makes no correction.

    Args:
        differences: how finite differences are made: Q, lambda and the kind of directions.
        local_steps: T, the number of local steps of each client in a round.
        optimizer: turns gradient estimates into local steps.
        projected: whether iterates and queries are clipped to the box.

    Reference:
        S. P. Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020.

    Example:
        >>> import numpy as np
        >>> from fzoos import ScaffoldII, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.ones(3), bounds=(-1, 1), algorithm=ScaffoldII(), rounds=3, seed=0)
        >>> result.queries
        630
    """

    def client(self, context: ClientContext) -> ClientHalf:
        return _AveragingClient(context, self)

    def server(self, dim: int) -> ServerHalf:
        """Average x and c."""
        return ServerHalf(dim, {"c": Part((dim,))})
