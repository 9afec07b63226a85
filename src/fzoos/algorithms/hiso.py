"""HiSo: DeComFL with directions shaped by a diagonal Hessian that server and clients learn alike (Li et al. 2026).

=============  ========  ===========================================================================================
symbol         shape     meaning
=============  ========  ===========================================================================================
u_{r,t}        (P, d)    DeComFL's directions
h_r            (d,)      the diagonal of H_r, the same number in all of h_0
z_{r,t}        (P, d)    u_{r,t} H_{r-1}^{-1/2}: short where the objective is steep, and so are the steps along them
g_t            (d,)      G(s_t, z_{r,t}) = (1/P) sum_p s_{t,p} z_{r,t,p}, with the averaged slopes; its mean is
                         H_{r-1}^{-1} grad F
=============  ========  ===========================================================================================

    x_r      = x_{r-1} - eta sum_t g_t
    h_{r,t}  = (1 - nu) h_{r,t-1} + nu (g_t^2 + eps),   t = 1, ..., T,   from h_{r,0} = h_{r-1} to h_r = h_{r,T}

H is Adam's second moment, but of what everybody can compute: it costs no bytes. See `decomfl.py` for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_number, check_positive
from fzoos.algorithms.base import State
from fzoos.algorithms.decomfl import DeComFL, Replay
from fzoos.algorithms.replicated import ReplicatedServerHalf
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Arrays

__all__ = ["HiSo"]


@dataclass(frozen=True)
class HiSo(DeComFL):
    """HiSo: DeComFL with z = u H^{-1/2}, H the running mean of the squares of the replayed gradients.

    Queries and bytes are DeComFL's; a client that did not take part in the round before gets x and h (16 d + 8 bytes).

    Args:
        smoothing: nu, the weight of the newest square in h. The authors' program gives 0.95 to the old h.
        eps: added to it, in its units.
        curvature: all of h_0, in the squared units of a slope: objective per unit cube. The paper's is 1. Where
            slopes are far smaller than its root, h keeps its shape and HiSo is DeComFL.
        rescaled: whether z is brought back to the mean square length of u, so that lambda stays the distance of the
            queries in units of the cube and only the shape of H matters.
        differences: Q (the paper's P), lambda (its mu) and the kind of directions.
        local_steps: T, the number of local steps of each client in a round.
        optimizer: turns gradient estimates into local steps.
        projected: whether iterates and queries are clipped to the box.

    Reference:
        Z. Li, B. Ying, Z. Liu, C. Dong, H. Yang, "Converge Faster, Talk Less: Hessian-Informed Federated Zeroth-Order
        Optimization", ICLR 2026 (arXiv 2506.02370; its first version is called "Reconciling Hessian-Informed
        Acceleration and Scalar-Only Communication ...").

    Deviations:
        Those of `DeComFL`. H stays the same during a round, as we read the paper; its authors' program draws directions
        of the later steps again with the current H, learns h from the last step of a round only (all steps are an
        option there), and has no eps. `rescaled` is ours: without it the steps and the queries have the length that H
        gives them, and eta and lambda are to be tuned with it. With an optimiser that divides by its own second moment
        (`Adam`) H shapes the queries rather than the steps; the paper's is `SGD`.

    Example:
        >>> import numpy as np
        >>> from fzoos import HiSo, minimize
        >>> f = lambda x: float(x @ x)
        >>> result = minimize([f], x0=np.ones(3), bounds=(-1, 1), algorithm=HiSo(), rounds=3, seed=0)
        >>> result.queries, result.bytes_up == 3 * 8 * (10 * 20 + 2)
        (630, True)
    """

    smoothing: float = 0.05  # nu
    eps: float = 1e-8
    curvature: float = 1.0  # h_0
    rescaled: bool = True

    version: ClassVar[int] = 2  # since its defaults are those of its authors' program

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("smoothing (nu)", self.smoothing, 0.0, 1.0)
        check_positive("eps", self.eps)
        check_positive("curvature (h_0)", self.curvature)

    def perturbations(self, state: Arrays, seed: int, round: int, t: int) -> FloatArray:
        """z_{r,t}, shape (P, d)."""
        h = state["h"]
        if np.any(h <= 0.0):
            raise MessageError("the diagonal h of the Hessian must be positive")
        scale = 1.0 / np.sqrt(h)
        if self.rescaled:
            scale /= np.sqrt(np.mean(scale**2))
        return super().perturbations(state, seed, round, t) * scale

    def server(self, dim: int) -> ReplicatedServerHalf:
        return _Learning(dim, self)


class _Learning(Replay):
    """Replays the steps and learns h from them."""

    def __init__(self, dim: int, settings: HiSo) -> None:
        super().__init__(dim, settings)
        self._nu, self._eps, self._h0 = settings.smoothing, settings.eps, settings.curvature

    def start(self, x: FloatArray) -> State:
        return {**super().start(x), "h": np.full(self.dim, self._h0)}

    def step(self, state: Arrays, mean: Arrays, round: int, seed: int) -> State:
        gradients, h = self.gradients(state, mean, round, seed), state["h"]
        for g in gradients:
            h = (1.0 - self._nu) * h + self._nu * (g**2 + self._eps)
        return {**self.descend(state, gradients), "h": h}
