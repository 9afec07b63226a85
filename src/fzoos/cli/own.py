"""The user's own objectives on the command line: `fzoos run mymodule:objectives`."""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.namesake import load_namesake
from fzoos.objectives.box import Objective
from fzoos.objectives.space import box_of, space_of

__all__ = ["OwnProblem", "file_stem", "is_own", "own_problem"]

_SETTINGS = ("bounds", "scale", "weights", "vectorized", "on_failure", "participation", "monitor")


@dataclass(frozen=True)
class OwnProblem:
    """The problem of a user's module, with the members of a task that the commands need."""

    name: str
    objectives: Sequence[Objective]
    x0: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    conditions: tuple[str, ...] = ()
    quantity: Literal["F"] = "F"

    @property
    def clients(self) -> int:
        """N."""
        return len(self.objectives)

    @property
    def dim(self) -> int:
        """d."""
        space = space_of(self.settings.get("bounds"))
        return len(self.x0) if space is None else space.dim

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `minimize`; F is measured by the module's monitor, or by the clients."""
        return {"x0": self.x0, "rng": self.seed, "monitor": "clients", **self.settings}

    def __str__(self) -> str:
        return f"{self.name} (d = {self.dim}, N = {self.clients})"


def is_own(task: str) -> bool:
    """Return whether this names objectives of a module, not a task."""
    return ":" in task


def file_stem(task: str) -> str:
    """Return a task's name for names of files."""
    return "-".join(part.removesuffix(".py") for part in Path(task).name.split(":"))


def own_problem(task: str, dim: int | None) -> Callable[[int], OwnProblem]:
    """Return a function from a seed to the user's problem.

    NAME is a list of functions, or a function without arguments that returns one: bounds (or space), x0, scale,
    weights, vectorized and monitor are then read from the module. Or it is an object or a dict with all of these and
    `objectives`. Without x0 a run begins in the middle of the bounds.

    Args:
        task: MODULE:NAME; MODULE can be imported from here, or is the path of a .py file.
        dim: d, needed if neither x0 nor the bounds determine it.

    Raises:
        ValueError: something is missing; the message names it.
    """
    where, _, name = task.rpartition(":")
    if not where or not name:
        raise ValueError(f"own objectives are MODULE:NAME, such as mymodule:objectives; got {task!r}")
    module = _module(where)
    if not hasattr(module, name):
        there = [found for found in vars(module) if not found.startswith("_")]
        raise ValueError(f"{where} has no {name!r}; it has {', '.join(there) or 'nothing'}")
    found = getattr(module, name)
    if inspect.isfunction(found) and not _takes_arguments(found):
        found = found()
    whole = isinstance(found, Mapping) or hasattr(found, "objectives")
    entries = found if whole else module
    read = entries.get if isinstance(entries, Mapping) else lambda key, other=None: getattr(entries, key, other)
    objectives = read("objectives") if whole else found
    objectives = [objectives] if callable(objectives) else objectives
    if not isinstance(objectives, Sequence) or not objectives or not all(map(callable, objectives)):
        raise ValueError(f"{task} must be a list of functions, one for each client, got {objectives!r}")
    settings = {key: value for key in _SETTINGS if (value := read(key)) is not None}
    if "bounds" not in settings and read("space") is not None:
        settings["bounds"] = read("space")
    if "bounds" not in settings and "scale" not in settings:
        raise ValueError(f"{where} has no bounds: a pair (lower, upper), d pairs, or a Space; or scale, without bounds")
    x0: Any = read("x0") if read("x0") is not None else _middle(where, settings.get("bounds"), dim)
    if dim is not None and space_of(settings.get("bounds")) is None and len(x0) != dim:
        raise ValueError(f"--dim is {dim}, but x0 of {where} has {len(x0)} values")
    return lambda seed: OwnProblem(task, objectives, x0, settings, seed)


def _module(where: str) -> ModuleType:
    path = Path(where)
    folder, name = (path.parent, path.stem) if path.suffix == ".py" else (Path(), where)
    if path.suffix == ".py" and not path.is_file():
        raise ValueError(f"there is no file {path}")
    if path.suffix == ".py":
        load_namesake(path)
    sys.path.insert(0, str(folder.resolve()))  # permanently: worker processes import the module, too
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module was found, but imports another one that is missing
        raise ValueError(f"there is no module {name!r} here; give one that can be imported, or a .py file") from None
    file = getattr(found, "__file__", None)
    if path.suffix == ".py" and (file is None or Path(file).resolve() != path.resolve()):
        raise ValueError(f"{path} has the name of another module, {file or name}: rename it")
    return found


def _takes_arguments(function: Callable[..., Any]) -> bool:
    return any(p.default is p.empty for p in inspect.signature(function).parameters.values())


def _middle(where: str, bounds: Any, dim: int | None) -> FloatArray:
    """Return the centre of the bounds."""
    missing = ValueError(f"{where} has no x0, and its bounds do not determine a start: give x0, or --dim for one pair")
    space = space_of(bounds)
    if space is not None:
        dim = space.dim
    elif hasattr(bounds, "lb"):
        dim = max(np.size(bounds.lb), np.size(bounds.ub)) if dim is None else dim
    elif np.ndim(bounds) == 2:
        dim = len(bounds)
    if dim is None or bounds is None:
        raise missing
    box = box_of(bounds, dim, scale=1.0) if _is_open(bounds) else box_of(bounds, dim)
    if box.is_open:
        raise missing
    middle: FloatArray = box.from_cube(np.full(box.dim, 0.5))
    return middle


def _is_open(bounds: Any) -> bool:
    """Return whether a bound is missing."""
    if space_of(bounds) is not None:
        return False
    sides = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else (np.asarray(bounds, dtype=object),)
    flat = [value for side in sides for value in np.ravel(side)]
    return any(value is None or not math.isfinite(value) for value in flat)
