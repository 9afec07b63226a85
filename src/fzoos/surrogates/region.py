"""The surrogate of a trust region: a Gaussian process plus a polynomial, both chosen by maximum evidence.

    k(u, u') = exp(-|u - u'|^2 / 2 l^2) + b_1 s + b_2 s^2 + b_3 |u|^2 |u'|^2 / rho^4,     s = u.u' / rho^2
    u = x - centre,  rho = rms |u|;  constant mean

The polynomial is none, a plane and a bowl (b_2 = 0), for which d + 1 points are enough, or any quadratic, which needs
(d + 1)(d + 2) / 2 of them. The evidence chooses the polynomial, l and the ridge; amplitude and mean follow in closed
form.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray
from fzoos._util.states import StateDict
from fzoos.surrogates.maximum_evidence import (
    Choice,
    Fit,
    Grid,
    Polynomial,
    SearchState,
    extended_fit,
    maximum_evidence,
    solve_lower,
)

__all__ = ["Choice", "Polynomial", "RegionProcess"]

_LENGTHS = np.geomspace(0.3, 30.0, 5)  # l, in units of rho
_RIDGES = (1e-13, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_SMOOTH = 1e-8  # the ridge where there is no noise
_EXACT = 1e-12  # a smaller ridge is for the arithmetic, not for noise
_MOST_OUTLIERS = 3  # at a time
_LEAST_RHO = 1e-12  # all points may be the same
_TINY = 1e-300
_EPSILON = float(np.finfo(float).eps)
_sum = np.add.reduce  # np.sum without its overhead

_NONE, _BOWL, _QUADRATIC = Polynomial(), Polynomial(200.0, 0.0, 100.0, 101.0), Polynomial(200.0, 100.0, 100.0, 101.0)


class RegionProcess:
    """The posterior of the process, conditioned on values around a centre.

    Args:
        points: shape (n, d), in the unit cube.
        values: shape (n,), of any scale: they are divided by their range.
        centre: where the quadratic is expanded, shape (d,).
        like: the choice to take, or where to start the search; None: search all choices.
        plain: whether only the length is chosen, without polynomial and noise.

    Example:
        >>> import numpy as np
        >>> from fzoos.surrogates.region import RegionProcess
        >>> points = np.random.default_rng(0).random((12, 2))
        >>> process = RegionProcess(points, np.sum((points - 0.3) ** 2, axis=1), np.array([0.5, 0.5]))
        >>> value, gradient = process(np.array([0.4, 0.2]))
        >>> round(value, 4), gradient.round(4)
        (0.02, array([ 0.2, -0.2]))
    """

    def __init__(
        self,
        points: FloatArray,
        values: FloatArray,
        centre: FloatArray,
        like: Choice | SearchState | None = None,
        *,
        plain: bool = False,
    ) -> None:
        self.centre, self.offsets = centre, points - centre
        self.rho2 = max(float(_sum(self._squares)) / len(points), _LEAST_RHO**2)
        self._lowest = float(values.min())
        self._range = max(float(values.max() - self._lowest), _TINY)
        products = self.offsets @ self.offsets.T
        squares = products.diagonal()[:, None] + products.diagonal() - 2.0 * products
        scaled = (values - self._lowest) / self._range
        before = like if isinstance(like, SearchState) else None
        self._set_fit(maximum_evidence(squares, products / self.rho2, scaled, self._grid(like, plain), before))

    def _set_fit(self, fit: Fit) -> None:
        length, b, _ = fit.choice
        self._fit, self._length2 = fit, length**2
        self._bowl = b.bowl * float(fit.alpha @ self._squares) / self.rho2**2
        self._plane = (fit.alpha * b.linear) @ self.offsets / self.rho2  # its slope, if b_2 = 0

    def extended(self, points: FloatArray, values: FloatArray) -> RegionProcess | None:
        """Return the process with more points and the same choice and centre; None where they contradict it.

        Args:
            points: shape (k, d).
            values: shape (k,).
        """
        new = points - self.centre
        fit = extended_fit(self._fit, *self._rows(new), (values - self._lowest) / self._range)
        if fit is None:
            return None
        other = RegionProcess.__new__(RegionProcess)
        other.centre, other.rho2, other._range, other._lowest = self.centre, self.rho2, self._range, self._lowest
        other.offsets = np.concatenate([self.offsets, new])
        other._set_fit(fit)
        return other

    def _rows(self, new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return rows of K: the new offsets against the old ones, and among themselves with the ridge."""
        _, b, ridge = self._fit.choice
        every, squares = np.concatenate([self.offsets, new]), _sum(new * new, 1)
        products, lengths = new @ every.T, np.concatenate([self._squares, squares])
        rows: FloatArray = np.exp((products - 0.5 * (squares[:, None] + lengths)) / self._length2)
        if b.linear:
            s = products / self.rho2
            rows += (b.linear + b.square * s) * s
            rows += np.outer(b.bowl * squares, lengths) / self.rho2**2
        n = len(self.offsets)
        block = rows[:, n:].copy()
        block.ravel()[:: len(new) + 1] += ridge * b.unit
        return rows[:, :n], block

    def _grid(self, like: Choice | SearchState | None, plain: bool) -> Grid:
        """Return what is searched. A design of d + 1 points determines neither l nor a quadratic."""
        rho = math.sqrt(self.rho2)
        if isinstance(like, Choice):
            return Grid((like.length,), (like.polynomial,), (like.ridge,))
        count, dim = self.offsets.shape
        few = count <= dim + 1
        lengths = [float(length) for length in rho * (_LENGTHS[-1:] if few else _LENGTHS)]
        if plain:
            return Grid(lengths, (_NONE,), (_SMOOTH,))
        return Grid(lengths, (_NONE, _BOWL) if few else (_NONE, _BOWL, _QUADRATIC), _RIDGES)

    @property
    def choice(self) -> Choice:
        """The length, polynomial and ridge in use."""
        return self._fit.choice

    @property
    def search(self) -> SearchState:
        """Where the search ended; the next one can start there."""
        return self._fit.search

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return mu(x) and grad mu(x)."""
        return self._mean(x)[:2]

    def curved(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return mu(x), grad mu(x) and the second derivatives at x, shape (d, d)."""
        value, slope, near, gap = self._mean(x)
        bend: FloatArray = (near[:, None] * gap).T @ gap
        bend /= self._length2
        diagonal = np.einsum("ii->i", bend)
        diagonal -= _sum(near)
        bend *= self._range / self._length2
        bend += self._bend
        return value, slope, bend

    def gradients(self, x: FloatArray) -> FloatArray:
        """Return grad mu at many points, shape (m, d)."""
        (_, b, _), alpha, offsets = self._fit.choice, self._fit.alpha, self.offsets
        u = x - self.centre
        products = u @ offsets.T
        near = np.exp((products - 0.5 * (_sum(u * u, 1)[:, None] + self._squares)) / self._length2)
        near *= alpha
        slopes: FloatArray = (near @ offsets - _sum(near, 1)[:, None] * u) / self._length2
        if b.linear:
            slopes += ((b.linear + (2.0 * b.square / self.rho2) * products) * alpha) @ offsets / self.rho2
            slopes += (2.0 * self._bowl) * u
        slopes *= self._range
        return slopes

    def _mean(self, x: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Return mu(x), grad mu(x), alpha_j exp(-|x - x_j|^2 / 2 l^2) and x - x_j."""
        (_, b, _), _, mean, alpha, *_ = self._fit
        offsets, u = self.offsets, x - self.centre
        gap = u - offsets
        near = _sum(gap * gap, 1)
        near /= -2.0 * self._length2
        np.exp(near, out=near)
        near *= alpha
        value, slope = mean + float(_sum(near)), near @ gap
        slope /= -self._length2
        if b.linear:
            s = offsets @ u
            s /= self.rho2
            line = b.linear * s
            if b.square:
                bent = b.square * s
                line += bent * s
                weights = (2.0 * b.square) * s
                weights += b.linear
                weights *= alpha
                across = weights @ offsets
                across /= self.rho2
            else:
                across = self._plane
            value += float(alpha @ line) + self._bowl * float(u @ u)
            slope += across + (2.0 * self._bowl) * u
        slope *= self._range
        return float(self._lowest + self._range * value), slope, near, gap

    @cached_property
    def _squares(self) -> FloatArray:
        return np.asarray(_sum(self.offsets * self.offsets, 1))

    @cached_property
    def _bend(self) -> FloatArray:
        """The second derivatives of the polynomial, the same everywhere."""
        b, offsets, dim = self._fit.choice.polynomial, self.offsets, self.offsets.shape[1]
        bend = np.zeros((dim, dim))
        if b.square:
            bend += (offsets.T * (self._fit.alpha * (2.0 * b.square / self.rho2**2))) @ offsets
        diagonal = np.einsum("ii->i", bend)
        diagonal += 2.0 * self._bowl
        return bend * self._range

    @cached_property
    def rounding(self) -> float:
        """The approximate rounding error of mu near the centre: that of a sum with independent errors of its terms."""
        b, far = self._fit.choice.polynomial, np.sqrt(self._squares / self.rho2)
        sizes = self._fit.alpha * (1.0 + far * (b.linear + far * (b.square + b.bowl)))
        return _EPSILON * (abs(self._lowest) + self._range * (1.0 + math.sqrt(float(sizes @ sizes))))

    @property
    def sigma(self) -> float:
        """The standard deviation of an observation, by the evidence."""
        _, b, ridge = self._fit.choice
        if ridge <= _EXACT:
            return 0.0
        return self._range * math.sqrt(self._fit.amplitude * ridge * b.unit)

    def grad_covariance(self, x: FloatArray) -> FloatArray:
        """Return the posterior covariance of the gradient at x over its prior variance at the centre, shape (d, d)."""
        length, b, _ = self._fit.choice
        u = x - self.centre
        gap = u - self.offsets
        near = np.exp(_sum(gap * gap, 1) / (-2.0 * length**2))
        gap *= (near / -(length**2))[:, None]
        if b.linear:
            s = self.offsets @ u
            gap += ((b.linear + (2.0 * b.square / self.rho2) * s) / self.rho2)[:, None] * self.offsets
            gap += ((2.0 * b.bowl / self.rho2**2) * self._squares)[:, None] * u
        explained = solve_lower(self._fit.lower, gap)
        prior = np.eye(len(x)) * (1.0 / length**2 + b.linear / self.rho2 + 2.0 * b.square * (u @ u) / self.rho2**2)
        prior = prior + (2.0 * b.square + 4.0 * b.bowl) * np.outer(u, u) / self.rho2**2
        posterior: FloatArray = prior - explained.T @ explained
        return posterior / (1.0 / length**2 + b.linear / self.rho2)

    def release(self) -> None:
        """Release the Cholesky factor, which `grad_covariance` and `outliers` need; mean and choice stay."""
        self._fit = self._fit._replace(lower=np.empty((0, 0)))

    def state(self, *, factor: bool) -> StateDict:
        """Return arrays and numbers for `restored`: the mean and the choice, and the factor if it was extended."""
        (length, polynomial, ridge), amplitude, mean, alpha, lower, _, z, diagonal = self._fit
        grown = {"lower": lower, "z": z, "diagonal": diagonal} if factor else {}
        own = {"centre": self.centre, "offsets": self.offsets, "rho2": self.rho2, "lowest": self._lowest}
        fit = {"amplitude": amplitude, "mean": mean, "alpha": alpha, "length": length, "ridge": ridge}
        return {**own, "range": self._range, **fit, **polynomial._asdict(), **grown}

    @classmethod
    def restored(cls, state: StateDict) -> RegionProcess:
        """Return the process of which `state` returned this."""
        polynomial = Polynomial(*(state[name] for name in Polynomial._fields))
        nothing = np.empty((0, 0))
        process = cls.__new__(cls)
        process.centre, process.offsets, process.rho2 = state["centre"], state["offsets"], state["rho2"]
        process._lowest, process._range = state["lowest"], state["range"]
        fit = Fit(
            Choice(state["length"], polynomial, state["ridge"]),
            state["amplitude"],
            state["mean"],
            state["alpha"],
            state.get("lower", nothing),
            SearchState(()),
            state.get("z", nothing),
            state.get("diagonal"),
        )
        process._set_fit(fit)
        return process

    def outliers(self) -> list[int]:
        """Return the k <= 3 points without which the misfit (y - m)^T K^-1 (y - m) is below 10^-k of what it was.

        Points leave greedily by the largest alpha_j^2 / [K^-1]_jj, by which the misfit falls. A rank-one downdate of
        the diagonal follows, for which only the columns of K^-1 at these points are needed.
        """
        alpha, columns = self._fit.alpha.copy(), list[FloatArray]()
        diagonal, left, removed, outliers = self._inverse_diagonal(), 1.0, list[int](), list[int]()
        for k in range(1, _MOST_OUTLIERS + 1):
            falls = alpha**2 / np.maximum(diagonal, _TINY)
            falls[removed] = 0.0
            worst = int(np.argmax(falls))
            left -= falls[worst] / (len(alpha) * self._fit.amplitude)
            removed.append(worst)
            if left < 0.1**k:
                outliers = list(removed)
            if k == _MOST_OUTLIERS:
                break
            unit = np.zeros(len(alpha))
            unit[worst] = 1.0
            column = solve_lower(self._fit.lower, solve_lower(self._fit.lower, unit), transposed=1)  # of K^-1
            for before in columns:
                column = column - before * before[worst]
            if not column[worst] > 0.0:  # it is below rounding
                break
            alpha = alpha - column * alpha[worst] / column[worst]
            columns.append(column / math.sqrt(column[worst]))
            diagonal = diagonal - columns[-1] ** 2
        return outliers

    def _inverse_diagonal(self) -> FloatArray:
        """Return the diagonal of K^-1 = L^-T L^-1."""
        diagonal = self._fit.diagonal
        if diagonal is None:
            roots, _ = scipy.linalg.lapack.dtrtri(self._fit.lower, lower=1)
            roots = np.tril(roots)[: len(self.offsets), : len(self.offsets)]
            diagonal = np.einsum("ij,ij->j", roots, roots)
            self._fit = self._fit._replace(diagonal=diagonal)
        return diagonal
