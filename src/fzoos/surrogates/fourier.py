"""Random Fourier features: a surrogate that can be sent.

=========  ==========  =====================================================================
symbol     shape       meaning
=========  ==========  =====================================================================
M          scalar      number of features
V, b       (M, d) (M,) frequencies of the kernel's spectrum and phases, from a shared seed
phi(x)     (M,)        sqrt(2/M) cos(V x + b), so that phi(x).phi(x') estimates k(x, x')
Phi        (n, M)      the features of the points in use, one row each
w          (M,)        scale * Phi^T (Phi Phi^T + sigma^2 I)^{-1} y: all that travels
=========  ==========  =====================================================================

    grad mu_hat(x) = grad phi(x)^T w = -sqrt(2/M) V^T (sin(V x + b) o w)

Deviation from the paper: it prints the factor 2/sqrt(M); its own proof, and the kernel, need sqrt(2/M).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from copy import copy
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import (
    Array,
    FloatArray,
    as_rows,
    cos_in_place,
    device_of,
    namespace,
    orthonormal_rows,
    sin,
    stack_for_device,
    to_device,
    to_numpy,
)
from fzoos._util.buffer import Buffer
from fzoos._util.checks import check_count
from fzoos._util.together import GoOn, jointly, together
from fzoos.surrogates.cholesky import GrowingCholesky, solve_once
from fzoos.surrogates.kernels import Kernel
from fzoos.surrogates.standardise import Standardised

__all__ = ["FourierFeatures", "FourierSurrogate", "shared_features"]

_PANEL = 256  # rows of V that stay in cache between the two products with them


class FourierFeatures:
    """The feature map phi, drawn from a seed that all clients share.

    Args:
        seed: the shared seed.
        count: M, the number of features.
        dim: d, the number of variables.
        kernel: the kernel whose spectrum is sampled.
        device: None for NumPy, or a PyTorch device.
        orthogonal: make the frequencies orthogonal, in groups of d, and leave their lengths: each has the kernel's
            spectrum as before, and the error of inner products is smaller (Yu et al. 2016).

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.kernels import SquaredExponential
        >>> from fzoos.surrogates.fourier import FourierFeatures
        >>> features = FourierFeatures(seed=0, count=20_000, dim=2, kernel=SquaredExponential())
        >>> a, b = features(np.array([[0.0, 0.0], [1.0, 0.0]]))
        >>> bool(abs(a @ b - np.exp(-0.5)) < 0.02)
        True
    """

    def __init__(
        self, seed: int, count: int, dim: int, kernel: Kernel, device: str | None = None, orthogonal: bool = False
    ) -> None:
        check_count("features", count, low=1)
        rng = np.random.default_rng(seed)
        self.device = device
        frequencies = kernel.frequencies(count, dim, rng)  # V
        if orthogonal:
            directions = orthonormal_rows(count, dim, rng)
            frequencies = np.linalg.norm(frequencies, axis=1, keepdims=True) * directions
        self.frequencies = to_device(frequencies, device)
        self.phases = to_device(rng.uniform(0.0, 2.0 * math.pi, count), device)  # b
        self._amplitude = math.sqrt(2.0 / count)
        # On a CPU V comes from memory once, not once for each product; a GPU reads a panel faster than it begins one.
        self._panel = count if device is not None and device.startswith("cuda") else _PANEL

    def __call__(self, x: Array) -> Array:
        """phi at each row of x, shape (n, d) -> (n, M)."""
        angles = x @ self.frequencies.T
        angles += self.phases
        return cos_in_place(angles, self._amplitude)

    def grad(self, x: Array, w: Array) -> FloatArray:
        """grad phi(x)^T w at one point, shape (d,), which may be on the device already."""
        gradient: FloatArray = together(self._gradients, x, w)
        return gradient

    def _gradients(self, x: Array, w: Array) -> FloatArray:
        """The same at a point, or at several with a w each: (d,) and (M,), or (N, d) and (N, M)."""
        return to_numpy(self.grad_there(x, w))

    def grad_there(self, x: Array, w: Array) -> Array:
        """The same on the device."""
        x = to_device(x, self.device)
        gradient = namespace(x).zeros_like(x)
        for start in range(0, len(self.phases), self._panel):
            panel = slice(start, start + self._panel)
            v = self.frequencies[panel, :]
            gradient += (sin(x @ v.T + self.phases[panel]) * w[..., panel]) @ v
        return -self._amplitude * gradient


@lru_cache(maxsize=2)
def shared_features(
    seed: int, count: int, dim: int, kernel: Kernel, device: str | None, orthogonal: bool = False
) -> FourierFeatures:
    """One copy of the feature map for all clients of a process: V is large, and the same for everybody."""
    return FourierFeatures(seed, count, dim, kernel, device, orthogonal)


class FourierSurrogate:
    """The weights w of a client's surrogate in feature space.

    Points are known by their index in the client's trajectory. The features of a point, and its inner products with
    those of the others, are computed when it comes into use and kept until it leaves.
    """

    def __init__(self, features: FourierFeatures, noise: float) -> None:
        like = features.phases
        self.features, self._noise = features, noise
        self._index = np.empty(0, dtype=np.int64)
        self._phi = Buffer(like, columns=len(like))
        self._gram = Buffer(like)
        self._factor: GrowingCholesky | None = GrowingCholesky(like)

    @property
    def noise(self) -> float:
        """sigma^2."""
        return self._noise

    @noise.setter
    def noise(self, noise: float) -> None:
        if noise != self._noise:  # the inner products stay; the factor of another ridge is of no use
            self._noise, self._factor = noise, None

    def weights(self, index: NDArray[np.int64], x: FloatArray, y: FloatArray) -> Array:
        """w from the points in use: their indices (n,), the whole trajectory's x (N, d) and y (N,)."""
        return self.weights_to_send(index, x, y)[0]

    def weights_to_send(self, index: NDArray[np.int64], x: FloatArray, y: FloatArray) -> tuple[Array, FloatArray]:
        """The same, and w on the host: at once for clients in step."""
        return jointly(_all_weights, (self, index, x, y), id(self.features))

    def missing(self, index: NDArray[np.int64], x: FloatArray) -> FloatArray:
        """The points in use that have no features yet, shape (m, d); those that have left are replaced first."""
        n = len(self._index)
        if np.array_equal(index[:n], self._index):  # points were only added
            new = index[n:]
        else:
            gone = np.flatnonzero(~np.isin(self._index, index))
            new = index[~np.isin(index, self._index)]
            if len(gone):
                self._replace(gone[: len(new)], new[: len(gone)], x)
                new = new[len(gone) :]
        self._index = np.concatenate([self._index, new])
        # `nearest n` only ever swaps points one for one, so nothing of `gone` is left here.
        missing: FloatArray = x[as_rows(new)]
        return missing

    def observed(self, y: FloatArray) -> FloatArray:
        """Of the trajectory's y, those of the points in use."""
        return y[self._index]

    def _replace(self, slots: NDArray[np.int64], new: NDArray[np.int64], x: FloatArray) -> None:
        """Put new points into the slots of points that are no longer in use; there is no factor to extend any more."""
        self._index[slots] = new
        _replace(self.features, self._phi.array, self._gram.array, x[new], slots.tolist())
        self._factor = None

    # Of one, or of several

    def extended(self, x: FloatArray, y: FloatArray) -> Array:
        """w, with these points more, shape (m, d), and all observations, shape (n,)."""
        if x.shape[-2]:
            phi, gram = self._phi.grow(x.shape[-2]), self._gram.grow(x.shape[-2])
            cross, block = _append(self.features, phi, gram, x, self.noise)
            if self._factor is not None:
                self._factor.append(cross, block)
        observed, device = Standardised.of(y), self.features.device
        if self._factor is not None:
            alpha = _solve(self._factor.inverse_factor, observed.values, device)
        else:
            alpha = _solve_anew(self._gram.array, observed.values, self.noise, device)
        return _weights(alpha, self._phi.array, np.asarray(observed.scale), device)

    @property
    def kind(self) -> Hashable:
        """Surrogates of the same kind, and with the same features, can be joined."""
        return self.noise, self._phi.shape, self._gram.shape, self._factor and self._factor.shape

    @classmethod
    def joined(cls, surrogates: Sequence[Self]) -> Self:
        """Surrogates of one kind as one, whose arguments and answers have an axis more in front."""
        whole = copy(surrogates[0])
        whole._phi = Buffer.joined([surrogate._phi for surrogate in surrogates])
        whole._gram = Buffer.joined([surrogate._gram for surrogate in surrogates])
        factors = [surrogate._factor for surrogate in surrogates if surrogate._factor is not None]
        whole._factor = GrowingCholesky.joined(factors) if factors else None
        return whole

    def hand_back(self, surrogates: Sequence[Self]) -> None:
        """Let each have its part of what they were joined to."""
        self._phi.hand_back([surrogate._phi for surrogate in surrogates])
        self._gram.hand_back([surrogate._gram for surrogate in surrogates])
        if self._factor is not None:
            self._factor.hand_back([surrogate._factor for surrogate in surrogates if surrogate._factor is not None])


def _all_weights(
    wanted: Sequence[tuple[FourierSurrogate, NDArray[np.int64], FloatArray, FloatArray]], go_on: GoOn
) -> list[tuple[Array, FloatArray]]:
    """w of each on the device and on the host, in one operation for all surrogates of the same kind."""
    new = [surrogate.missing(index, x) for surrogate, index, x, _ in wanted]
    observed = [surrogate.observed(y) for surrogate, _, _, y in wanted]
    alike: dict[Hashable, list[int]] = {}
    for i, (surrogate, _, _, _) in enumerate(wanted):
        alike.setdefault((surrogate.kind, len(new[i])), []).append(i)
    found: dict[int, tuple[Array, FloatArray]] = {}
    for members in alike.values():
        own = [wanted[i][0] for i in members]
        if len(own) == 1:
            w = own[0].extended(new[members[0]], observed[members[0]])
            found[members[0]] = w, to_numpy(w)
            continue
        whole = FourierSurrogate.joined(own)
        points = stack_for_device([new[i] for i in members], own[0].features.device)
        w = whole.extended(points, np.stack([observed[i] for i in members]))
        whole.hand_back(own)
        found |= dict(zip(members, zip(w, to_numpy(w), strict=True), strict=True))
    return [found[i] for i in range(len(wanted))]


# What the methods compute, of one surrogate or, with leading axes, of those of several clients.


def _ridge(noise: float, like: Array) -> Array:
    return noise * namespace(like).eye(like.shape[-1], dtype=like.dtype, device=device_of(like))


def _append(features: FourierFeatures, phi: Array, gram: Array, x: FloatArray, noise: float) -> tuple[Array, Array]:
    """Put phi(x) and its inner products in the last rows; its rows of Phi Phi^T + sigma^2 I, left and right."""
    n = phi.shape[-2] - x.shape[-2]
    phi[..., n:, :] = features(to_device(x, features.device))
    cross = phi[..., n:, :] @ phi.mT
    gram[..., n:, :] = cross
    gram[..., :n, n:] = cross[..., :n].mT
    return cross[..., :n], cross[..., n:] + _ridge(noise, cross[..., n:])


def _replace(features: FourierFeatures, phi: Array, gram: Array, x: FloatArray, rows: list[int]) -> None:
    """Put phi(x) and its inner products into these rows."""
    fresh = features(to_device(x, features.device))
    phi[rows, :] = fresh
    cross = fresh @ phi.T
    gram[rows, :] = cross
    gram[:, rows] = cross.T


def _solve(w: Array, y: FloatArray, device: str | None) -> Array:
    """W^T (W y)."""
    return (w.mT @ (w @ to_device(y, device)[..., None]))[..., 0]


def _solve_anew(gram: Array, y: FloatArray, noise: float, device: str | None) -> Array:
    """(Phi Phi^T + sigma^2 I)^{-1} y."""
    return solve_once(gram + _ridge(noise, gram), to_device(y, device)[..., None])[..., 0]


def _weights(alpha: Array, phi: Array, scale: FloatArray, device: str | None) -> Array:
    """scale * Phi^T alpha."""
    return to_device(scale, device)[..., None] * (alpha[..., None, :] @ phi)[..., 0, :]
