"""The correction length of a local step, gamma_t, and what a measured one needs to know of all clients.

=========  =======  ======================================================================================
symbol     shape    meaning
=========  =======  ======================================================================================
g_i, g     (d,)     the clients' gradients at the server's x, as the payload tells them, and their average
G          scalar   mean_i ||g_i||^2 - ||g||^2: how far the gradients are from their average
U_i, U     scalar   posterior trace of client i's gradient at x in the objective's units, and the average
gamma_t    scalar   how much of the correction is taken at local step t
=========  =======  ======================================================================================

||g_i||^2 and U_i travel, where the length is `Measured`; G and U follow from their averages and from g.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import ClientContext, PayloadPart
from fzoos.algorithms.fixed_fzoos.correction import Correction
from fzoos.algorithms.fixed_fzoos.correction_lengths import Measured, Moment
from fzoos.algorithms.fixed_fzoos.model import Model
from fzoos.algorithms.fixed_fzoos.parts import Part
from fzoos.messages.message import Arrays, Message

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["Gamma"]

_LARGEST = 1e99  # squares beyond it are not taken by anybody, and say the same


class Gamma(Part):
    """Says gamma_t by the settings' correction length; sends ||g_i||^2 and U_i where that is measured.

    Args:
        settings: the algorithm's settings.
        context: what the client half works with.
        model: the client's surrogate.
        correction: knows g_i and g; it must have taken a request before this part does.
    """

    def __init__(self, settings: FixedFZooS, context: ClientContext, model: Model, correction: Correction) -> None:
        self._settings, self._context, self._model, self._correction = settings, context, model, correction
        self._round = 0  # r
        self._heterogeneity: float | None = None  # G
        self._uncertainty: float | None = None  # U

    @classmethod
    def sends(cls, settings: FixedFZooS, dim: int) -> dict[str, PayloadPart]:
        """||g_i||^2 and U_i."""
        return (
            {"measured": PayloadPart((2,), "refuse", 'length = { name = "Constant" }, or preset = "weights",', low=0.0)}
            if isinstance(settings.length, Measured)
            else {}
        )

    def take(self, x: FloatArray, request: Message) -> None:
        """G and U, where there is a correction that they say something of."""
        self._round, self._heterogeneity, self._uncertainty = request.round, None, None
        if self._correction.known and "measured" in request.arrays:
            squares, self._uncertainty = request.arrays["measured"].tolist()
            g = self._correction.mean(x)
            self._heterogeneity = max(squares - float(g @ g), 0.0)

    def renew(self, x: FloatArray) -> Arrays:
        """||g_i||^2 and U_i."""
        gp = self._model.at(x)
        g_i, trace = self._correction.own(x), float(gp.grad_uncertainty(x[None, :])[0])
        return {"measured": np.minimum(np.array([g_i @ g_i, trace * gp.amplitude**2]), _LARGEST)}

    def at(self, x: FloatArray, t: int) -> float:
        """gamma_t, for the local step from x."""
        context, trajectory = self._context, self._context.trajectory
        return self._settings.length(
            Moment(
                step=t,
                round=self._round,
                local_steps=context.local_steps,
                clients=context.clients,
                dim=context.dim,
                kernel=self._model.kernel,
                noise=self._model.ridge.ratio,
                points=len(trajectory),
                mean_squared_distance=lambda: float(np.mean(np.sum((trajectory.x - x) ** 2, axis=1))),
                heterogeneity=self._heterogeneity,
                uncertainty=self._uncertainty,
            )
        )
