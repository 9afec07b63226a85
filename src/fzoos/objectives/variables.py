"""The kinds of variables: how each becomes coordinates of the unit cube, and back.

=========  ===========  ================================================================================================
variable   coordinates  what is evaluated, and what x means
=========  ===========  ================================================================================================
Real       1            any number from low to high, or only multiples of a step; the cube is linear in it
Log        1            any number from low to high; the cube is linear in its logarithm
Integer    1            integers only; v is rounded up with probability v - floor(v), so that its mean is v
Choice     one each     one of the options; option i is drawn with probability u_i / sum_j u_j. In x the largest wins
=========  ===========  ================================================================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_number, check_positive

__all__ = ["Choice", "Integer", "Log", "Real", "Variable"]

_ROUNDING = 1e-9  # of all steps: what differs by less is on one
_FAVOURITE = 0.6  # the share of x0's option at the start; the others have the rest


class Variable(ABC):
    """A variable: its values, and its coordinates."""

    is_discrete = False  # whether only some points of the cube can be evaluated

    @property
    def width(self) -> int:
        """The number of coordinates."""
        return 1

    @abstractmethod
    def encode(self, name: str, value: Any) -> FloatArray:
        """Return the coordinates of a value, shape (width,), in the user's units.

        Raises:
            TypeError: the value is not of this kind.
            ValueError: the variable cannot have this value.
        """

    @abstractmethod
    def decode(self, x: FloatArray) -> Any:
        """Return the value nearest to coordinates in the user's units, shape (width,)."""

    def read(self, text: str) -> Any:
        """Return the value that a text in a table stands for."""
        return float(text)

    @abstractmethod
    def scale(self, x: FloatArray) -> FloatArray:
        """Map the user's units to those of the cube; works on the last axis."""

    @abstractmethod
    def unscale(self, u: FloatArray) -> FloatArray:
        """Map the cube to the user's units; works on the last axis."""

    def round_randomly(self, u: FloatArray, dither: FloatArray) -> FloatArray:
        """Return points of the cube that can be evaluated, whose mean over the dither is u.

        Args:
            u: points, shape (n, width).
            dither: for each row a number that is uniform in [0, 1), shape (n,).
        """
        return u


@dataclass(frozen=True, repr=False)
class Real(Variable):
    """A number from low to high.

    Args:
        low: the smallest value.
        high: the largest one.
        step: what can be set, as on a machine whose dial has marks: low, low + step, ..., high, and nothing between
            them. As with an `Integer`, a query is rounded up or down at random so that the mean is right, and
            surrogates learn from the point that was evaluated. None: any number.

    Example:
        >>> import numpy as np
        >>> from fzoos import Real
        >>> Real(0.5, 0.99).high
        0.99
        >>> Real(20, 400, step=5).decode(np.array([333.0]))
        335.0
    """

    low: float
    high: float
    step: float | None = None

    def __post_init__(self) -> None:
        check_number("low", self.low)
        check_number("high", self.high)
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")
        if self.step is not None:
            check_positive("step", self.step)
            if abs(self._steps - round(self._steps)) > _ROUNDING * self._steps or self._steps < 0.5:
                raise ValueError(f"step must divide high - low = {self.high - self.low:g}, got {self.step:g}")

    def __repr__(self) -> str:
        step = "" if self.step is None else f", step={self.step!r}"
        return f"{type(self).__name__}(low={self.low!r}, high={self.high!r}{step})"

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.step is not None

    @property
    def _steps(self) -> float:
        """The number of steps from low to high."""
        assert self.step is not None
        return (self.high - self.low) / self.step

    def encode(self, name: str, value: Any) -> FloatArray:
        check_number(f"x0[{name!r}]", value, self.low, self.high)
        return np.array([float(value)])

    def decode(self, x: FloatArray) -> Any:
        """Return the value itself, or the nearest that can be set, without the digits of rounding errors."""
        if self.step is None:
            return float(x[0])
        steps = round(self._steps)
        k = int(np.clip(np.floor((x[0] - self.low) / self.step + 0.5), 0, steps))
        return float(self.high) if k == steps else float(f"{self.low + k * self.step:.12g}")

    def scale(self, x: FloatArray) -> FloatArray:
        return (x - self.low) / (self.high - self.low)

    def unscale(self, u: FloatArray) -> FloatArray:
        x = self.low + u * (self.high - self.low)
        return np.where((u <= 1.0) & (x > self.high), self.high, x)

    def round_randomly(self, u: FloatArray, dither: FloatArray) -> FloatArray:
        if self.step is None:
            return u
        steps = round(self._steps)
        v = np.clip(u, 0.0, 1.0) * steps
        whole = np.rint(v)
        v = np.where(np.abs(v - whole) < _ROUNDING * steps, whole, v)
        return (np.floor(v) + (dither[:, None] < v - np.floor(v))) / steps


@dataclass(frozen=True, repr=False)
class Log(Real):
    """A positive number that matters by its order of magnitude: equal ratios are equally far apart.

    Args:
        low: the smallest value, above zero.
        high: the largest one.

    Example:
        >>> import numpy as np
        >>> from fzoos import Log
        >>> round(float(Log(1e-5, 1e-1).unscale(np.array([0.5]))[0]), 12)
        0.001
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step is not None:
            raise ValueError("step is not for a Log, whose values are equally far apart by their ratios")
        if self.low <= 0:
            raise ValueError(f"low must be positive, got {self.low}: a logarithm is taken")

    def scale(self, x: FloatArray) -> FloatArray:
        """Return log(x / low) / log(high / low); what is not positive lies below the cube."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: FloatArray = np.where(x > 0, np.log(x / self.low) / math.log(self.high / self.low), -1.0)
        return found

    def unscale(self, u: FloatArray) -> FloatArray:
        """Return low (high / low)^u, exactly the bounds at 0 and 1."""
        x = self.low * (self.high / self.low) ** u
        inside: FloatArray = np.where((u >= 0.0) & (u <= 1.0), np.clip(x, self.low, self.high), x)
        return np.where(u == 1.0, self.high, inside)


@dataclass(frozen=True)
class Integer(Variable):
    """An integer from low to high; the objective is evaluated at integers only.

    Between them a query is rounded up or down at random so that the mean is right, and surrogates learn from the point
    that was evaluated. x itself may lie between two integers; the variable is then the nearest one.

    Args:
        low: the smallest value.
        high: the largest one.

    Example:
        >>> import numpy as np
        >>> from fzoos import Integer
        >>> depth = Integer(1, 12)
        >>> depth.decode(np.array([4.4]))
        4
    """

    low: int
    high: int

    is_discrete = True

    def __post_init__(self) -> None:
        check_count("low", self.low, low=-(2**53))
        check_count("high", self.high, low=-(2**53))
        if not self.low < self.high:
            raise ValueError(f"low must be below high, got {self.low} and {self.high}")

    def encode(self, name: str, value: Any) -> FloatArray:
        check_number(f"x0[{name!r}]", value, self.low, self.high)
        if value != int(value):
            raise ValueError(f"x0[{name!r}] must be a whole number, got {value!r}")
        return np.array([float(value)])

    def decode(self, x: FloatArray) -> Any:
        return int(np.clip(np.floor(x[0] + 0.5), self.low, self.high))

    def scale(self, x: FloatArray) -> FloatArray:
        return (x - self.low) / (self.high - self.low)

    def unscale(self, u: FloatArray) -> FloatArray:
        """Return low + u (high - low), an integer where that differs by rounding only."""
        x = self.low + u * (self.high - self.low)
        whole = np.rint(x)
        return np.where(np.abs(x - whole) < 1e-9 * max(abs(self.low), abs(self.high)), whole, x)

    def round_randomly(self, u: FloatArray, dither: FloatArray) -> FloatArray:
        v = np.clip(self.unscale(u), self.low, self.high)
        up = dither[:, None] < v - np.floor(v)
        return self.scale(np.floor(v) + up)


@dataclass(frozen=True, init=False)
class Choice(Variable):
    """One of several options, in no order.

    It has one coordinate for each option. Each query draws an option with a probability proportional to its coordinate;
    surrogates learn from the corner that was evaluated, and their gradient moves the coordinates towards options that
    were better. In x the largest coordinate wins.

    Args:
        options: the options, two at least, as arguments or as one list: text, numbers, True and False.

    Example:
        >>> import numpy as np
        >>> from fzoos import Choice
        >>> kernel = Choice("rbf", "linear", "poly")
        >>> kernel.decode(np.array([0.2, 0.7, 0.1]))
        'linear'
    """

    options: tuple[Any, ...]

    is_discrete = True

    def __init__(self, *options: Any) -> None:
        if len(options) == 1 and isinstance(options[0], (list, tuple)):
            options = tuple(options[0])
        if len(options) < 2 or len(set(map(repr, options))) < len(options):
            raise ValueError(f"options must be two or more different values, got {list(options)}")
        for option in options:
            if not isinstance(option, (str, int, float, bool)):
                raise TypeError(f"options must be text, numbers, True or False, got {option!r}")
        object.__setattr__(self, "options", tuple(options))

    @property
    def width(self) -> int:
        return len(self.options)

    def encode(self, name: str, value: Any) -> FloatArray:
        """Return 0.6 for the value, and the rest in equal parts for the other options."""
        same = [option == value and type(option) is type(value) for option in self.options]
        if not any(same):
            raise ValueError(f"x0[{name!r}] must be one of {', '.join(map(repr, self.options))}, got {value!r}")
        return np.where(same, _FAVOURITE, (1.0 - _FAVOURITE) / (self.width - 1))

    def decode(self, x: FloatArray) -> Any:
        """Return the option of the largest coordinate, the first of equal ones."""
        return self.options[int(np.argmax(x))]

    def read(self, text: str) -> Any:
        found = [option for option in self.options if str(option) == text.strip()]
        if not found:
            raise ValueError(f"{text!r} is none of {', '.join(map(str, self.options))}")
        return found[0]

    def scale(self, x: FloatArray) -> FloatArray:
        return x

    def unscale(self, u: FloatArray) -> FloatArray:
        return u

    def round_randomly(self, u: FloatArray, dither: FloatArray) -> FloatArray:
        """Draw corners: 1 for the option that was drawn, 0 for the others."""
        weights = np.clip(u, 0.0, 1.0)
        total = weights.sum(axis=1, keepdims=True)
        shares = np.where(total > 0.0, weights / np.where(total > 0.0, total, 1.0), 1.0 / self.width)
        drawn = np.sum(np.cumsum(shares, axis=1)[:, :-1] <= dither[:, None], axis=1)
        found: FloatArray = np.eye(self.width)[drawn]
        return found


KINDS: dict[str, type[Variable]] = {"Real": Real, "Log": Log, "Integer": Integer, "Choice": Choice}
