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
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fzoos._util.arrays import (
    Array,
    FloatArray,
    cos_in_place,
    device_of,
    namespace,
    orthonormal_rows,
    sin,
    to_device,
    to_numpy,
)
from fzoos._util.buffer import Buffer
from fzoos._util.checks import check_count
from fzoos._util.together import Written, together
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

    def grad(self, x: FloatArray, w: Array) -> FloatArray:
        """grad phi(x)^T w at one point, shape (d,)."""
        gradient: FloatArray = together(self._gradients, x, w)
        return gradient

    def _gradients(self, x: FloatArray, w: Array) -> FloatArray:
        """The same at a point, or at several with a w each: (d,) and (M,), or (N, d) and (N, M)."""
        x = to_device(x, self.device)
        gradient = namespace(x).zeros_like(x)
        for start in range(0, len(self.phases), self._panel):
            panel = slice(start, start + self._panel)
            v = self.frequencies[panel, :]
            gradient += (sin(x @ v.T + self.phases[panel]) * w[..., panel]) @ v
        return -self._amplitude * to_numpy(gradient)


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
        gone = np.flatnonzero(~np.isin(self._index, index))
        new = index[~np.isin(index, self._index)]
        if len(gone):
            self._replace(gone[: len(new)], new[: len(gone)], x)
            new = new[len(gone) :]
        self._append(new, x)
        # `nearest n` only ever swaps points one for one, so nothing of `gone` is left here.
        observed = Standardised.of(y[self._index])
        alpha = self._solve(observed.values)
        return together(_weights, alpha, self._phi.array, np.asarray(observed.scale), self.features.device)

    def _solve(self, y: FloatArray) -> Array:
        """(Phi Phi^T + sigma^2 I)^{-1} y: with the growing factor as long as points are only added."""
        if self._factor is not None:
            return together(_solve, self._factor.inverse_factor, y, self.features.device)
        return together(_solve_anew, self._gram.array, y, self.noise, self.features.device)

    def _append(self, new: NDArray[np.int64], x: FloatArray) -> None:
        if not len(new):
            return
        self._index = np.concatenate([self._index, new])
        phi, gram = Written(self._phi.grow(len(new))), Written(self._gram.grow(len(new)))
        cross, block = together(_append, self.features, phi, gram, x[new], self.noise)
        if self._factor is not None:
            self._factor.append(cross, block)

    def _replace(self, slots: NDArray[np.int64], new: NDArray[np.int64], x: FloatArray) -> None:
        """Put new points into the slots of points that are no longer in use; there is no factor to extend any more."""
        self._index[slots] = new
        phi, gram = Written(self._phi.array), Written(self._gram.array)
        together(_replace, self.features, phi, gram, x[new], tuple(slots.tolist()))
        self._factor = None


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


def _replace(features: FourierFeatures, phi: Array, gram: Array, x: FloatArray, slots: tuple[int, ...]) -> Array:
    """Put phi(x) and its inner products into the rows `slots`."""
    rows, fresh = list(slots), features(to_device(x, features.device))
    phi[..., rows, :] = fresh
    cross = fresh @ phi.mT
    gram[..., rows, :] = cross
    gram[..., rows] = cross.mT
    return gram


def _solve(w: Array, y: FloatArray, device: str | None) -> Array:
    """W^T (W y)."""
    return (w.mT @ (w @ to_device(y, device)[..., None]))[..., 0]


def _solve_anew(gram: Array, y: FloatArray, noise: float, device: str | None) -> Array:
    """(Phi Phi^T + sigma^2 I)^{-1} y."""
    return solve_once(gram + _ridge(noise, gram), to_device(y, device)[..., None])[..., 0]


def _weights(alpha: Array, phi: Array, scale: FloatArray, device: str | None) -> Array:
    """scale * Phi^T alpha."""
    return to_device(scale, device)[..., None] * (alpha[..., None, :] @ phi)[..., 0, :]
