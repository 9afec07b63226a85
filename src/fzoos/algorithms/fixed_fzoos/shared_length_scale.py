"""The length scale that all clients use: fitted by each, averaged, taken by all for the next round."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.algorithms.base import PayloadPart
from fzoos.algorithms.fixed_fzoos.model import Model
from fzoos.algorithms.fixed_fzoos.parts import Part
from fzoos.messages.message import Arrays, Message
from fzoos.surrogates.length_scale import fit_length_scale

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["SharedLengthScale"]


_SLACK = 1e-9  # a logarithm is rounded


class SharedLengthScale(Part):
    """Sends log l_i where it is fitted; takes the average, log l, before the next payload is made.

    Args:
        settings: the algorithm's settings.
        model: what goes on with the length scale.
    """

    def __init__(self, settings: FixedFZooS, model: Model) -> None:
        self._settings, self._model = settings, model

    @classmethod
    def sends(cls, settings: FixedFZooS, dim: int) -> dict[str, PayloadPart]:
        """log l_i."""
        if settings.fit is None:
            return {}
        low, high = math.log(settings.fit.low) - _SLACK, math.log(settings.fit.high) + _SLACK
        return {"log_length_scale": PayloadPart((1,), "refuse", "fit = false", carried=True, low=low, high=high)}

    def take(self, x: FloatArray, request: Message) -> None:
        """log l; with two exchanges from the refresh request, as payloads of one round must share it."""
        fit, expected = self._settings.fit, "refresh" if self._settings.exchanges == 2 else "update"
        if fit is None or request.kind != expected or "log_length_scale" not in request.arrays:
            return
        log_l = float(request.arrays["log_length_scale"][0])
        # Nobody fits a scale beyond these; one that lies must not break the others.
        self._model.use(math.exp(min(max(log_l, math.log(fit.low)), math.log(fit.high))))

    def renew(self, x: FloatArray) -> Arrays:
        """log l_i by marginal likelihood of the observations around x."""
        fit = self._settings.fit
        assert fit is not None
        near = self._model.nearest(x, fit.points)
        fitted = fit_length_scale(self._model.kernel, self._settings.noise, *near, fit)
        return {"log_length_scale": np.array([math.log(fitted)])}
