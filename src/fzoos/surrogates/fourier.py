"""Random Fourier features: a surrogate that can be sent.

=========  ==========  =====================================================================
symbol     shape       meaning
=========  ==========  =====================================================================
M          scalar      number of features
V, b       (M, d) (M,) frequencies of the kernel's spectrum and phases, from a shared seed
phi(x)     (M,)        sqrt(2/M) cos(V x + b), so that phi(x).phi(x') estimates k(x, x')
Phi        (n, M)      the features of the points in use, one row each
w          (M,)        scale * Phi^T (Phi Phi^T + sigma^2 I)^{-1} y: all that is sent
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
    sin,
    to_device,
    to_numpy,
)
from fzoos._util.buffer import Buffer
from fzoos._util.checks import check_count
from fzoos._util.states import StateDict
from fzoos.surrogates.cholesky import GrowingCholesky
from fzoos.surrogates.kernels import Kernel
from fzoos.surrogates.standardise import Standardised

__all__ = ["FourierFeatures", "FourierSurrogate", "shared_features"]

_PANEL = 512  # rows of V that stay in cache between two products with them


class FourierFeatures:
    """The feature map phi, drawn from a seed that all clients share.

    Args:
        seed: the shared seed.
        count: M, the number of features.
        dim: d, the number of variables.
        kernel: the kernel whose spectrum is sampled.
        device: None for NumPy, or a PyTorch device.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.kernels import SquaredExponential
        >>> from fzoos.surrogates.fourier import FourierFeatures
        >>> features = FourierFeatures(seed=0, count=20_000, dim=2, kernel=SquaredExponential())
        >>> a, b = features(np.array([[0.0, 0.0], [1.0, 0.0]]))
        >>> bool(abs(a @ b - np.exp(-0.5)) < 0.02)
        True
    """

    def __init__(self, seed: int, count: int, dim: int, kernel: Kernel, device: str | None = None) -> None:
        check_count("features", count, low=1)
        rng = np.random.default_rng(seed)
        self.device = device
        self.frequencies = to_device(kernel.frequencies(count, dim, rng), device)  # V
        self.phases = to_device(rng.uniform(0.0, 2.0 * math.pi, count), device)  # b
        self._amplitude = math.sqrt(2.0 / count)
        # A CPU reads V from memory once instead of twice; a GPU reads a panel faster than it launches a kernel.
        self._panel = count if device is not None and device.startswith("cuda") else _PANEL

    def __call__(self, x: FloatArray, out: Array | None = None) -> Array:
        """Return phi at each row of x, shape (n, d) -> (n, M), on the device, in `out` if it is given."""
        x = to_device(x, self.device)
        angles = namespace(x).matmul(x, self.frequencies.T, out=out)
        angles += self.phases
        return cos_in_place(angles, self._amplitude)

    def grad(self, x: FloatArray, w: Array) -> FloatArray:
        """Return grad phi(x)^T w at one point, shape (d,)."""
        x, w = to_device(x, self.device), to_device(w, self.device)
        gradient = namespace(x).zeros_like(x)
        for start in range(0, len(self.phases), self._panel):
            rows = slice(start, start + self._panel)
            v = self.frequencies[rows, :]
            gradient += (sin(v @ x + self.phases[rows]) * w[rows]) @ v
        return -self._amplitude * to_numpy(gradient)


@lru_cache(maxsize=2)
def shared_features(seed: int, count: int, dim: int, kernel: Kernel, device: str | None) -> FourierFeatures:
    """Return one feature map for all clients of a process: V is large, and the same for all of them."""
    return FourierFeatures(seed, count, dim, kernel, device)


class FourierSurrogate:
    """A client's surrogate in feature space.

    Points are identified by their index in the client's trajectory. The features of a point and their inner products
    with those of other points are stored while the point is in use.

    Args:
        features: the feature map.
        noise: sigma^2, relative to the variance of the observations in use.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.fourier import FourierFeatures, FourierSurrogate
        >>> from fzoos.surrogates.kernels import SquaredExponential
        >>> features = FourierFeatures(seed=0, count=2000, dim=1, kernel=SquaredExponential(1.0))
        >>> x = np.linspace(0.0, 1.0, 8)[:, None]
        >>> w = FourierSurrogate(features, noise=1e-8).weights(np.arange(8), x, np.sin(x[:, 0]))
        >>> bool(abs(features.grad(np.array([0.5]), w)[0] - np.cos(0.5)) < 0.01)
        True
    """

    def __init__(self, features: FourierFeatures, noise: float) -> None:
        self._features, self._noise = features, noise
        self._index = np.empty(0, dtype=np.int64)
        self._phi = Buffer(features.phases, columns=len(features.phases))  # Phi
        self._blocks: list[int] | None = []  # numbers of rows of Phi that were computed together; None: in other ways
        self._gram = Buffer(features.phases)  # Phi Phi^T
        self._factor = GrowingCholesky(features.phases)  # of Phi Phi^T + sigma^2 I

    def weights(self, index: NDArray[np.int64], x: FloatArray, y: FloatArray) -> FloatArray:
        """Return w = scale * Phi^T (Phi Phi^T + sigma^2 I)^{-1} y, shape (M,).

        Args:
            index: the points in use, shape (n,).
            x: all points of the trajectory, shape (N, d).
            y: all observations, shape (N,).
        """
        left = np.flatnonzero(~np.isin(self._index, index))
        new = index[~np.isin(index, self._index)]
        if len(left):
            self._replace(left, new[: len(left)], x)
        self._append(new[len(left) :], x)
        observed = Standardised.of(y[self._index])
        alpha = self._factor.solve(to_device(observed.values, self._features.device))
        return observed.scale * to_numpy(alpha @ self._phi.array)

    def state(self) -> StateDict:
        """Return the points in use, Phi or how to compute it again, its Gram matrix and the factor.

        All last bits depend on how many points were added at a time.
        """
        phi = {"phi": to_numpy(self._phi.array)} if self._blocks is None else {"blocks": np.array(self._blocks)}
        gram, factor = to_numpy(self._gram.array), to_numpy(self._factor.inverse_factor)
        return {"index": self._index, **phi, "gram": gram, "factor": factor}

    def restore(self, state: StateDict, x: FloatArray) -> None:
        """Restore what `state` returned, given all points of the trajectory."""
        self._index, device, blocks = state["index"], self._features.device, state.get("blocks")
        self._gram.load(to_device(state["gram"], device))
        self._factor.load(to_device(state["factor"], device))
        if blocks is None:
            self._blocks = None
            self._phi.load(to_device(state["phi"], device))
            return
        self._blocks = blocks.tolist()
        for points in np.split(self._index, np.cumsum(blocks)[:-1]):
            self._add_features(x[points])

    def _replace(self, left: NDArray[np.int64], new: NDArray[np.int64], x: FloatArray) -> None:
        """Replace rows by new points."""
        self._index[left] = new
        rows, phi, gram, features = left.tolist(), self._phi.array, self._gram.array, self._features(x[new])
        phi[rows, :] = features
        products = features @ phi.T
        gram[rows, :] = products
        gram[:, rows] = products.T
        self._factor, self._blocks = GrowingCholesky(phi), None  # the factor cannot be extended

    def _append(self, new: NDArray[np.int64], x: FloatArray) -> None:
        """Append new points, and to the factor all that it lacks."""
        n, m = len(self._index), len(new)
        if m:
            phi, gram = self._add_features(x[new]), self._gram.grow(m)
            if self._blocks is not None:
                self._blocks.append(m)
            gram[n:, :n] = phi[n:, :] @ phi[:n, :].T
            gram[:n, n:] = gram[n:, :n].T
            gram[n:, n:] = phi[n:, :] @ phi[n:, :].T
            self._index = np.concatenate([self._index, new])
        known, gram = len(self._factor), self._gram.array
        if known < len(gram):
            ridge = self._noise * namespace(gram).eye(len(gram) - known, dtype=gram.dtype, device=device_of(gram))
            self._factor.append(gram[known:, :known], gram[known:, known:] + ridge)

    def _add_features(self, x: FloatArray) -> Array:
        """Append rows to Phi, and return all of it."""
        n = self._phi.rows
        phi = self._phi.grow(len(x))
        self._features(x, out=phi[n:, :])
        return phi
