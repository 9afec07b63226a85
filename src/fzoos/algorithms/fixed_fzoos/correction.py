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
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fzoos._util.arrays import Array, FloatArray, shared_to_device, stack, to_device
from fzoos.algorithms.base import ClientContext, PayloadPart
from fzoos.algorithms.fixed_fzoos.model import Model
from fzoos.algorithms.fixed_fzoos.parts import Part
from fzoos.messages.message import Arrays, Message
from fzoos.surrogates.fourier import FourierFeatures, FourierSurrogate, shared_features
from fzoos.surrogates.kernels import Kernel

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["CORRECTIONS", "Correction", "GradientCorrection", "WeightsCorrection"]


class Correction(Part, ABC):
    """A client's part of the correction: sends what tells the others of its gradient, takes the average.

    Args:
        settings: the algorithm's settings.
        context: what the client half works with.
        model: the client's surrogate.
    """

    def __init__(self, settings: FixedFZooS, context: ClientContext, model: Model) -> None:
        self._settings, self._context, self._model = settings, context, model
        self.known = False  # whether there is a correction in this round
        self._fixed: FloatArray | None = None  # its vector at the server's x, if that is used for the whole round

    def take(self, x: FloatArray, request: Message) -> None:
        """The average, if the request brings one and there is something of the client's own to compare it with."""
        self.known = self._take_average(request)
        self._fixed = self.vector(x) if self.known and self._settings.vector == "fixed" else None

    def at(self, x: FloatArray) -> FloatArray:
        """The correction vector for a local step from x."""
        return self.vector(x) if self._fixed is None else self._fixed

    @staticmethod
    def several(corrections: Sequence[Correction]) -> Callable[[Array], Array]:
        """`at` of several clients at once, in one round, each at its row of x, on the device: (N, d) -> (N, d)."""
        first = corrections[0]
        if len(corrections) > 1 and isinstance(first, WeightsCorrection) and first._fixed is None:
            whole = first.joined(corrections)
            if whole is not None:
                return whole

        def one_by_one(x: Array) -> Array:
            found = np.stack([correction.at(row) for correction, row in zip(corrections, x, strict=True)])
            return to_device(found, first._settings.device)

        return one_by_one

    def rest(self) -> None:
        """Give back what can be computed again."""
        return

    @abstractmethod
    def _take_average(self, request: Message) -> bool:
        """Take the average; whether there is a correction in this round."""

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

    def __init__(self, settings: FixedFZooS, context: ClientContext, model: Model) -> None:
        super().__init__(settings, context, model)
        self._round, self._seed = 0, 0  # of the latest request; the seed is that of the features
        self._kernel: Kernel | None = None  # the one that the features were drawn for
        self._fourier: FourierSurrogate
        self._own: Array | None = None  # w_i
        self._own_round = 0
        self._features: FourierFeatures  # those that w_i belongs to
        self._average: Array = None  # w

    @classmethod
    def sends(cls, settings: FixedFZooS, dim: int) -> dict[str, PayloadPart]:
        """w_i."""
        return {"w": PayloadPart((settings.features,))}

    def take(self, x: FloatArray, request: Message) -> None:
        """The round and the features' seed too."""
        self._round, self._seed = request.round, int(request.scalars["seed"])
        super().take(x, request)

    def renew(self, x: FloatArray) -> Arrays:
        """w_i over the points in use around x."""
        trajectory, fourier = self._context.trajectory, self._surrogate()
        index = trajectory.nearest(x, self._settings.feature_points)
        self._own, sent = fourier.weights_to_send(index, trajectory.x, trajectory.y)
        self._features, self._own_round = fourier.features, self._round
        return {"w": sent}

    def rest(self) -> None:
        """Without the points' features and their inner products."""
        if self._kernel is not None:
            self._kernel = None
            del self._fourier
        self._average = None  # the next request brings the average again

    def _surrogate(self) -> FourierSurrogate:
        """The surrogate in random features, with the model's kernel and ridge."""
        settings, model = self._settings, self._model
        if self._kernel is not model.kernel:
            shape = settings.features, self._context.dim
            features = shared_features(self._seed, *shape, model.kernel, settings.device, settings.orthogonal)
            self._kernel, self._fourier = model.kernel, FourierSurrogate(features, model.ridge.ratio)
        self._fourier.noise = model.ridge.ratio
        return self._fourier

    def _take_average(self, request: Message) -> bool:
        """w; a newcomer has no w_i yet."""
        known = "w" in request.arrays and self._own is not None
        if self._settings.fit:  # an older w_i had another length scale than w
            known = known and self._own_round == request.round - (self._settings.exchanges == 1)
        if known:
            self._average = shared_to_device(request.arrays["w"], self._settings.device)
        return known

    def vector(self, x: FloatArray) -> FloatArray:
        """grad phi(x)^T (w - w_i)."""
        return self._features.grad(x, self._average - self._own)

    def joined(self, corrections: Sequence[Correction]) -> Callable[[Array], Array] | None:
        """`vector` of several clients at once; None: they have other features, or know other averages."""
        features, average, own = self._features, self._average, list[Array]()
        for correction in corrections:
            if not isinstance(correction, WeightsCorrection) or correction._features is not features:
                return None
            if correction._average is not average:
                return None
            own.append(correction._own)
        differences = average - stack(own)[0]
        return lambda x: features.grad_there(x, differences)

    def own(self, x: FloatArray) -> FloatArray:
        """grad phi(x)^T w_i."""
        return self._features.grad(x, self._own)

    def mean(self, x: FloatArray) -> FloatArray:
        """grad phi(x)^T w."""
        return self._features.grad(x, self._average)


class GradientCorrection(Correction):
    """g - g_i."""

    _own: FloatArray | None = None  # g_i
    _average: FloatArray | None = None  # g

    @classmethod
    def sends(cls, settings: FixedFZooS, dim: int) -> dict[str, PayloadPart]:
        """g_i."""
        return {"g": PayloadPart((dim,))}

    def renew(self, x: FloatArray) -> Arrays:
        """g_i at x."""
        self._own = self._model.at(x).grad_mean(x)
        return {"g": self._own}

    def _take_average(self, request: Message) -> bool:
        """g; a newcomer has no g_i yet."""
        self._average = request.arrays.get("g")
        return self._average is not None and self._own is not None

    def vector(self, x: FloatArray) -> FloatArray:
        """The same at every x."""
        return self.mean(x) - self.own(x)

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
