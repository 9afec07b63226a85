"""Named variables: the space that they make, its box, and objectives that take them by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fzoos._util.arrays import FloatArray
from fzoos._util.records import choose_kind, read_record
from fzoos.objectives.box import Box, Objective, check_start
from fzoos.objectives.values import takes_keywords
from fzoos.objectives.variables import KINDS, Choice, Variable

__all__ = ["NamedObjective", "Space", "SpaceBox", "box_of", "search_box", "space_of"]


class Space:
    """Variables by name, in place of bounds.

    Objectives take them as a dict, or as keyword arguments if the parameters have the variables' names; vectorised ones
    with an array for each variable. x is an array all the same, with one coordinate for each number and one for each
    option of a `Choice`; `variables` says what it means.

    Args:
        variables: name and kind of each; as a dict where a name is no Python word.

    Example:
        >>> from fzoos import Choice, Integer, Log, Real, Space, minimize
        >>> space = Space(rate=Log(1e-5, 1e-1), depth=Integer(1, 12), kernel=Choice("rbf", "linear"))
        >>> space.names, space.dim
        (('rate', 'depth', 'kernel'), 4)
        >>> def loss(rate, depth, kernel):
        ...     assert isinstance(depth, int)
        ...     return (depth - 7) ** 2 / 50 + (0.0 if kernel == "rbf" else 0.3)
        >>> start = {"rate": 1e-3, "depth": 3, "kernel": "linear"}
        >>> result = minimize(loss, start, bounds=space, rounds=10, rng=0)
        >>> sorted(result.variables)
        ['depth', 'kernel', 'rate']
    """

    def __init__(self, variables: Mapping[str, Variable] | None = None, /, **more: Variable) -> None:
        found = {**(variables or {}), **more}
        if not found:
            raise ValueError("a space needs variables: Space(rate=Log(1e-5, 1e-1), depth=Integer(1, 12))")
        for name, kind in found.items():
            if not isinstance(name, str) or not name or not name.isprintable():
                raise ValueError(f"names of variables must be words, got {name!r}")
            if not isinstance(kind, Variable):
                raise TypeError(f"{name} must be a Real, Log, Integer or Choice, got {kind!r}")
        self._kinds = found

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the variables, in their order."""
        return tuple(self._kinds)

    @property
    def dim(self) -> int:
        """d, the number of coordinates."""
        return sum(kind.width for kind in self._kinds.values())

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{name}={kind!r}' for name, kind in self._kinds.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and list(self._kinds.items()) == list(other._kinds.items())

    def __hash__(self) -> int:
        return hash(tuple(self._kinds.items()))

    @cached_property
    def parts(self) -> tuple[tuple[Variable, slice], ...]:
        """Each variable with its coordinates."""
        ends = np.cumsum([kind.width for kind in self._kinds.values()]).tolist()
        return tuple((kind, slice(end - kind.width, end)) for kind, end in zip(self._kinds.values(), ends, strict=True))

    @property
    def coordinates(self) -> tuple[str, ...]:
        """A name for each coordinate: the variable's, followed by the option of a choice.

        Example:
            >>> from fzoos import Choice, Real, Space
            >>> Space(rate=Real(0, 1), kernel=Choice("rbf", "linear")).coordinates
            ('rate', 'kernel=rbf', 'kernel=linear')
        """
        found: list[str] = []
        for name, kind in self._kinds.items():
            found += [f"{name}={option}" for option in kind.options] if isinstance(kind, Choice) else [name]
        return tuple(found)

    def encode(self, values: Mapping[str, Any]) -> FloatArray:
        """Return the coordinates of variables, shape (d,).

        Raises:
            TypeError: `values` is not a dict, or a value is of another kind.
            ValueError: a name is missing or unknown, or a variable cannot have its value.

        Example:
            >>> from fzoos import Integer, Real, Space
            >>> Space(rate=Real(0, 1), depth=Integer(1, 12)).encode({"depth": 3, "rate": 0.5})
            array([0.5, 3. ])
        """
        if not isinstance(values, Mapping):
            raise TypeError(f"x0 must be a dict of {', '.join(self.names)}, got {values!r}")
        for name in (*self.names, *values):
            if name not in values:
                raise ValueError(f"x0 has no {name!r}; the variables are {', '.join(self.names)}")
            if name not in self._kinds:
                raise ValueError(f"x0 has {name!r}, which is no variable; those are {', '.join(self.names)}")
        return np.concatenate([kind.encode(name, values[name]) for name, kind in self._kinds.items()])

    def variables(self, x: ArrayLike) -> dict[str, Any]:
        """Return the variables that coordinates stand for.

        Args:
            x: shape (d,), such as `Result.best_x`.

        Example:
            >>> from fzoos import Choice, Integer, Space
            >>> Space(depth=Integer(1, 12), kernel=Choice("rbf", "linear")).variables([4.4, 0.3, 0.7])
            {'depth': 4, 'kernel': 'linear'}
        """
        row = np.asarray(x, dtype=np.float64)
        return {name: kind.decode(row[part]) for name, (kind, part) in zip(self.names, self.parts, strict=True)}

    def read(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the variables that texts in a table stand for.

        Example:
            >>> from fzoos import Choice, Integer, Space
            >>> Space(depth=Integer(1, 12), kernel=Choice("rbf", "linear")).read({"depth": "3", "kernel": "rbf"})
            {'depth': 3.0, 'kernel': 'rbf'}
        """
        return {name: kind.read(texts[name]) for name, kind in self._kinds.items()}

    def corner(self, values: Mapping[str, Any]) -> FloatArray:
        """Return the coordinates of variables that were evaluated: as `encode`, with all weight on the chosen options.

        Example:
            >>> from fzoos import Choice, Space
            >>> Space(kernel=Choice("rbf", "linear")).corner({"kernel": "linear"})
            array([0., 1.])
        """
        x = self.encode(values)
        for kind, part in self.parts:
            if isinstance(kind, Choice):
                x[part] = np.eye(kind.width)[int(np.argmax(x[part]))]
        return x

    def table(self) -> dict[str, dict[str, Any]]:
        """Return the space as a table, which `Space.of` reads.

        Example:
            >>> from fzoos import Log, Space
            >>> Space(rate=Log(1e-5, 1e-1)).table()
            {'rate': {'name': 'Log', 'low': 1e-05, 'high': 0.1}}
        """
        return {
            name: {"name": type(kind).__name__}
            | {
                f.name: list(value) if isinstance(value := getattr(kind, f.name), tuple) else value
                for f in fields(kind)  # type: ignore[arg-type]
                if getattr(kind, f.name) is not None
            }
            for name, kind in self._kinds.items()
        }

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Space:
        """Make a space from a table of tables, each with the "name" of its kind (`Real` if there is none) and settings.

        Example:
            >>> from fzoos import Space
            >>> Space.of({"rate": {"name": "Log", "low": 1e-5, "high": 0.1}, "mix": {"low": 0, "high": 1}})
            Space(rate=Log(low=1e-05, high=0.1), mix=Real(low=0, high=1))
        """
        found: dict[str, Variable] = {}
        for name, entry in table.items():
            where = f"bounds.{name}"
            if not isinstance(entry, Mapping):
                raise ValueError(f"{where} must be a table such as {{ low = 0.0, high = 1.0 }}, got {entry!r}")
            kind, settings = choose_kind(where, {"name": "Real", **entry}, KINDS)
            if kind is Choice:
                extra = set(settings) - {"options"}
                if extra or not isinstance(settings.get("options"), (list, tuple)):
                    raise ValueError(f"{where}: a Choice has options, a list, and nothing else")
                found[name] = Choice(*settings["options"])
            else:
                found[name] = read_record(where, kind, settings)
        return cls(found)


@dataclass(frozen=True)
class SpaceBox(Box):
    """The box of a space, each of whose coordinates is scaled by its variable."""

    space: Space | None = None

    @classmethod
    def around(cls, space: Space) -> SpaceBox:
        """Make the box of this space."""
        lower, upper = (
            np.concatenate([kind.unscale(np.full(kind.width, face)) for kind, _ in space.parts]) for face in (0.0, 1.0)
        )
        return cls(lower, upper, space=space)

    @property
    def _parts(self) -> tuple[tuple[Variable, slice], ...]:
        assert self.space is not None
        return self.space.parts

    @property
    def is_discrete(self) -> bool:
        return any(kind.is_discrete for kind, _ in self._parts)

    def scale(self, x: FloatArray) -> FloatArray:
        return np.concatenate([kind.scale(x[..., part]) for kind, part in self._parts], axis=-1)

    def from_cube(self, u: FloatArray) -> FloatArray:
        return np.concatenate([kind.unscale(u[..., part]) for kind, part in self._parts], axis=-1)

    def round_randomly(self, u: FloatArray, rng: np.random.Generator, alike: bool) -> FloatArray:
        """Return points of the cube that can be evaluated, in place of the rows of u.

        Args:
            u: shape (n, d).
            rng: draws whether each is rounded up or down.
            alike: whether all rows are rounded by the same draw, so that a difference of two of them is seldom that of
                their rounding; otherwise the draws are spread evenly over the rows.
        """
        n, found = len(u), []
        for kind, part in self._parts:
            if kind.is_discrete:
                dither = np.full(n, rng.random()) if alike else (rng.permutation(n) + rng.random(n)) / n
                found.append(kind.round_randomly(u[:, part], dither))
            else:
                found.append(u[:, part])
        return np.concatenate(found, axis=1)

    def round_nearest(self, u: FloatArray) -> FloatArray:
        assert self.space is not None
        return self.to_cube(self.space.corner(self.space.variables(self.from_cube(u)))) if self.is_discrete else u


class NamedObjective:
    """An objective of coordinates, made of one of named variables."""

    def __init__(self, objective: Objective, space: Space, vectorized: bool = False) -> None:
        self.objective, self._space, self._vectorized = objective, space, vectorized
        self._by_keyword = takes_keywords(objective, space.names)

    def __call__(self, x: FloatArray) -> Any:
        """Evaluate the objective at x, shape (d,), or at the rows of x, shape (n, d)."""
        values: dict[str, Any] = self._columns(x) if self._vectorized else self._space.variables(x)
        return self.objective(**values) if self._by_keyword else self.objective(values)

    def _columns(self, x: FloatArray) -> dict[str, Any]:
        rows = [self._space.variables(row) for row in x]
        return {name: np.array([row[name] for row in rows]) for name in self._space.names}

    def close(self) -> None:
        """Close the objective, if it can be closed."""
        getattr(self.objective, "close", lambda: None)()


def space_of(bounds: Any) -> Space | None:
    """Return the space, if bounds are one or the table of one."""
    if isinstance(bounds, Space):
        return bounds
    return Space.of(bounds) if isinstance(bounds, Mapping) else None


def box_of(bounds: Any, dim: int, scale: ArrayLike | None = None) -> Box:
    """Return the box of bounds, or of a space."""
    space = space_of(bounds)
    return Box.of(bounds, dim, scale) if space is None else SpaceBox.around(space)


def search_box(x0: Any, bounds: Any, scale: ArrayLike | None = None) -> tuple[FloatArray, Box]:
    """Return x_0, shape (d,), and its box; x0 and bounds may be named variables and a space."""
    space = space_of(bounds)
    if space is None:
        return check_start(x0, bounds, scale)
    if scale is not None:
        raise ValueError("scale says what a unit is where a bound is missing, but a space has all of them")
    box = SpaceBox.around(space)
    if isinstance(x0, (np.ndarray, list, tuple)) and np.shape(x0) == (space.dim,):  # such as x of another result
        return check_start(x0, np.stack([box.lower, box.upper], axis=1))[0], box
    return space.encode(x0), box
