"""What FZooS's clients send beside x, and the correction vector they make of the average.

=========  ============  ==============================================================================================
symbol     shape         meaning
=========  ============  ==============================================================================================
w_i, w     (M,)          weights of client i's surrogate in the shared random features, and their average
g_i, g     (d,)          gradient of client i's surrogate at the server's x_r, and their average
=========  ============  ==============================================================================================

With weights the vector is grad phi(x)^T (w - w_i), at any x, for M numbers; with gradients it is g - g_i, that of x_r,
for d numbers and without the features' error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from fzoos._util.arrays import Array, FloatArray, to_device, to_numpy
from fzoos.algorithms.base import ClientContext
from fzoos.messages.message import Message
from fzoos.surrogates.fourier import FourierFeatures, FourierSurrogate, shared_features
from fzoos.surrogates.kernels import Kernel
from fzoos.surrogates.local import LocalSurrogate

if TYPE_CHECKING:
    from fzoos.algorithms.fzoos import FZooS

__all__ = ["CORRECTIONS", "Correction", "GradientCorrection", "WeightsCorrection"]


class Correction(ABC):
    """A client's part of the correction.

    Args:
        settings: of the algorithm.
        context: what the client half works with.
    """

    def __init__(self, settings: FZooS, context: ClientContext) -> None:
        self._settings, self._context = settings, context
        self.seed = 0  # of the features, told by the server

    def use(self, kernel: Kernel) -> None:
        """Go on with this kernel."""
        return

    @abstractmethod
    def renew(self, x: FloatArray, round: int, surrogate: LocalSurrogate) -> dict[str, FloatArray]:
        """The client's own payload, from its trajectory around x."""

    @abstractmethod
    def take(self, request: Message) -> bool:
        """Take the average from a request; whether there is a correction in this round."""

    @abstractmethod
    def vector(self, x: FloatArray) -> FloatArray:
        """The correction vector at x."""

    @abstractmethod
    def own(self, x: FloatArray) -> FloatArray:
        """The client's own gradient at x, as the others know it from its payload."""

    @abstractmethod
    def mean(self, x: FloatArray) -> FloatArray:
        """The clients' mean gradient at x, as far as it was taken."""


class WeightsCorrection(Correction):
    """grad phi(x)^T (w - w_i)."""

    def __init__(self, settings: FZooS, context: ClientContext) -> None:
        super().__init__(settings, context)
        self._kernel = settings.kernel
        self._fourier: FourierSurrogate | None = None
        self._own: Array | None = None  # w_i
        self._own_round = 0
        self._features: FourierFeatures | None = None  # those that w_i belongs to
        self._average: Array = None  # w
        self._difference: Array = None  # w - w_i

    def use(self, kernel: Kernel) -> None:
        """The features follow it."""
        self._kernel, self._fourier = kernel, None

    def renew(self, x: FloatArray, round: int, surrogate: LocalSurrogate) -> dict[str, FloatArray]:
        """w_i over the points in use around x."""
        settings, trajectory = self._settings, self._context.trajectory
        if self._fourier is None:
            shape = settings.features, self._context.dim
            features = shared_features(self.seed, *shape, self._kernel, settings.device, settings.orthogonal)
            self._fourier = FourierSurrogate(features, surrogate.ridge.ratio)
        self._fourier.noise = surrogate.ridge.ratio
        index = trajectory.nearest(x, settings.feature_points)
        self._own = self._fourier.weights(index, trajectory.x, trajectory.y)
        self._features, self._own_round = self._fourier.features, round
        return {"w": to_numpy(self._own)}

    def take(self, request: Message) -> bool:
        """w; a newcomer has no w_i yet."""
        known = "w" in request.arrays and self._own is not None
        if self._settings.fit:  # an older w_i had another length scale than w
            known = known and self._own_round == request.round - (self._settings.exchanges == 1)
        if known:
            average = to_device(request.arrays["w"], self._settings.device)
            self._average, self._difference = average, average - self._own
        return known

    def vector(self, x: FloatArray) -> FloatArray:
        """grad phi(x)^T (w - w_i)."""
        assert self._features is not None
        return self._features.grad(x, self._difference)

    def own(self, x: FloatArray) -> FloatArray:
        """grad phi(x)^T w_i."""
        assert self._features is not None
        return self._features.grad(x, self._own)

    def mean(self, x: FloatArray) -> FloatArray:
        """grad phi(x)^T w."""
        assert self._features is not None
        return self._features.grad(x, self._average)


class GradientCorrection(Correction):
    """g - g_i."""

    _own: FloatArray | None = None  # g_i
    _average: FloatArray | None = None  # g

    def renew(self, x: FloatArray, round: int, surrogate: LocalSurrogate) -> dict[str, FloatArray]:
        """g_i at x."""
        self._own = surrogate.at(x).grad_mean(x)
        return {"g": self._own}

    def take(self, request: Message) -> bool:
        """g; a newcomer has no g_i yet."""
        self._average = request.arrays.get("g")
        return self._average is not None and self._own is not None

    def vector(self, x: FloatArray) -> FloatArray:
        """The same at every x."""
        assert self._average is not None
        assert self._own is not None
        return self._average - self._own

    def own(self, x: FloatArray) -> FloatArray:
        """That at x_r."""
        assert self._own is not None
        return self._own

    def mean(self, x: FloatArray) -> FloatArray:
        """That at x_r."""
        assert self._average is not None
        return self._average


CORRECTIONS: dict[str, type[Correction]] = {
    "weights": WeightsCorrection,
    "gradient": GradientCorrection,
}
"""By what is sent."""
