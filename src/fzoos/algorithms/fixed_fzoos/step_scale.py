"""How long local steps are: as long as the surrogates predict well what comes of them.

========  ==========================================================================================
symbol    meaning
========  ==========================================================================================
s         step scale: what the optimiser's steps are multiplied by, the same at all clients in a round
e_i       client i's error of prediction at the server's new x, as a share of the change
tau       the error at which steps stay as they are
c         cosine of the server's last two moves, x_r - x_{r-1} and x_{r-1} - x_{r-2}
========  ==========================================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_number, check_positive
from fzoos.algorithms.base import PayloadPart
from fzoos.algorithms.fixed_fzoos.parts import Part
from fzoos.messages.message import Arrays, Message

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["StepScale", "TrustRegion", "prediction_error", "turn"]


@dataclass(frozen=True)
class TrustRegion:
    """Longer steps after a good prediction, shorter ones after a bad one and after a turn.

    Before client i asks at the server's new x, its surrogate predicts what it will see:

        e_i = |mu_i(x_r) - y_r| / (|mu_i(x_r) - y_{r-1}| + |y_r - y_{r-1}|)     in [0, 1]
        s_i = s 2^{clip(min(1 - e_i / tau, 4 c), -1, 1)},  kept within [smallest, largest]

    log s_i travels, one number, and its average is the next round's log s. e_i is the trust-region method's ratio of
    predicted and found change, made symmetric, as a client's own value may rise while F falls; it says how far the
    surrogates can be followed. Where the noise of observations is known, an error within it counts as none. c says when
    they were followed too far: a server that turns back has overshot. Neither values nor changes travel.

    Args:
        tolerance: tau, the error of prediction at which steps stay as they are.
        smallest: s is at least this.
        largest: s is at most this; it begins with 1.

    Example:
        >>> import math
        >>> from fzoos import TrustRegion
        >>> math.exp(TrustRegion().renew(log_scale=0.0, error=0.0))              # predicted exactly: twice as long
        2.0
        >>> math.exp(TrustRegion(smallest=0.1).renew(log_scale=0.0, error=1.0))  # not at all: half
        0.5
    """

    tolerance: float = 0.2  # tau
    smallest: float = 0.1
    largest: float = 2.0

    def __post_init__(self) -> None:
        check_positive("tolerance (tau)", self.tolerance)
        check_positive("smallest", self.smallest)
        check_number("smallest", self.smallest, 0.0, 1.0)
        check_number("largest", self.largest, 1.0)

    def renew(self, log_scale: float, error: float, cosine: float = 1.0) -> float:
        """log s_i, from log s, e_i and c."""
        power = min(1.0 - error / self.tolerance, 4.0 * cosine)
        return self.within(log_scale + math.log(2.0) * min(max(power, -1.0), 1.0))

    def within(self, log_scale: float) -> float:
        """log s, no further than allowed: a number from elsewhere may be anything."""
        return min(max(log_scale, math.log(self.smallest)), math.log(self.largest))


class StepScale(Part):
    """A client's part of it: sends log s_i, by its own predictions; takes the average, log s.

    Args:
        settings: None: s is always 1.
    """

    def __init__(self, settings: TrustRegion | None) -> None:
        self._settings = settings
        self.log_scale = 0.0
        self._before: float | None = None  # y_{r-1}
        self._walk: list[FloatArray] = []  # x_{r-2}, x_{r-1}

    @property
    def scale(self) -> float:
        """s."""
        return math.exp(self.log_scale)

    @classmethod
    def sends(cls, settings: FixedFZooS, dim: int) -> dict[str, PayloadPart]:
        """log s_i."""
        if settings.steps is None:
            return {}
        low, high = settings.steps.within(-math.inf), settings.steps.within(math.inf)
        advice = 'steps = false, or preset = "weights",'
        return {"log_step": PayloadPart((1,), "refuse", advice, carried=True, low=low, high=high)}

    def take(self, x: FloatArray, request: Message) -> None:
        """log s."""
        if self._settings is not None and "log_step" in request.arrays:
            self.log_scale = self._settings.within(float(request.arrays["log_step"][0]))

    def renew(self, x: FloatArray) -> Arrays:
        """log s_i."""
        return {"log_step": np.array([self.log_scale])}

    def diagnostics(self) -> dict[str, float]:
        """s."""
        return {} if self._settings is None else {"step_scale": self.scale}

    def observe(self, x: FloatArray, observed: float, predicted: float | None = None, noise: float = 0.0) -> None:
        """Note the server's x and the observation there.

        Args:
            x: in the unit cube.
            observed: y_r; NaN if it failed.
            predicted: mu_i(x).
            noise: standard deviation of an observation.
        """
        known = self._before is not None and predicted is not None and math.isfinite(observed)
        if self._settings is not None and known:
            error = prediction_error(predicted, observed, self._before, noise)  # type: ignore[arg-type]
            self.log_scale = self._settings.renew(self.log_scale, error, turn([*self._walk, x]))
        self._before = observed if math.isfinite(observed) else None
        self._walk = [*self._walk[-1:], x]


def prediction_error(predicted: float, observed: float, before: float, noise: float = 0.0) -> float:
    """e_i; 0 where nothing was predicted to change and nothing did, 1 where a number is too large to tell.

    An error is excused as far as the noise of two observations explains it.
    """
    change = abs(predicted - before) + abs(observed - before)
    if not math.isfinite(change):
        return 1.0
    error = max(abs(predicted - observed) - math.sqrt(2.0) * noise, 0.0)
    return error / change if change > 0.0 else 0.0


def turn(walk: list[FloatArray]) -> float:
    """c of the last three points; 1 where there are fewer, or nothing moved."""
    if len(walk) < 3:
        return 1.0
    now, then = walk[-1] - walk[-2], walk[-2] - walk[-3]
    lengths = float(np.linalg.norm(now) * np.linalg.norm(then))
    return float(now @ then) / lengths if lengths > 0.0 else 1.0
