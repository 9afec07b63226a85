"""The problems of `fzoos run` and `fzoos compare`: built-in tasks, or objectives of a user's module.

`fzoos run mymodule:objectives` minimises the user's own objectives.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos.cli.options import DATASET_NAMES, METRIC_NAMES, SPLIT_NAMES
from fzoos.objectives.box import Objective
from fzoos.objectives.serve import load_namesake
from fzoos.objectives.space import box_of, space_of
from fzoos_experiments.paper.task_spec import TaskSpec, build
from fzoos_experiments.tasks import TASKS
from fzoos_experiments.tasks.data import MissingDataError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Problem", "file_stem", "own_problem", "problem_maker"]

_SYNTHETIC = ("dim", "clients", "heterogeneity", "noise")
_PROMPT = ("dim", "clients", "heterogeneity", "device", "texts", "data")
_OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(TASKS, _SYNTHETIC),
    "attack": ("dataset", "portion", "split", "clients", "device", "full", "data"),
    "metric": ("metric", "portion", "split", "clients", "device", "full", "data"),
    "prompt": _PROMPT,
}
_PORTIONS = dict(zip(DATASET_NAMES, (0.7, 0.5), strict=True))  # those of the authors' commands
_IMAGES = 15  # sampled at a time; the first ones do not depend on their number
_ROWS = 20_000  # of Covertype, without --full
_SETTINGS = ("bounds", "scale", "weights", "vectorized", "on_failure", "participation", "monitor")  # of own objectives


@dataclass(frozen=True)
class Problem:
    """What a command minimises, with one seed."""

    summary: str  # the problem and its settings, the same for all seeds: part of the names of its runs
    description: str  # all its settings
    objectives: Sequence[Objective]  # one per client
    x0: Any  # the start
    seed: int  # the seed of the run
    settings: Mapping[str, Any] = field(default_factory=dict)  # further arguments of `minimize`
    conditions: tuple[str, ...] = ()  # the settings of a built-in task in words, without the dimension and the clients
    task: Any = None  # one of `fzoos_experiments.tasks`; None: the user's own objectives
    quantity: Literal["F", "margin"] = "F"  # what `value` returns: F, or the margin of an attack's averaged logits

    @property
    def clients(self) -> int:
        """The number of clients N."""
        return len(self.objectives)

    @property
    def dim(self) -> int:
        """The dimension d of x."""
        return _dim(self.x0, self.settings.get("bounds"))

    @property
    def minimum(self) -> float | None:
        """The smallest value F* of F; None if it is not known."""
        return getattr(self.task, "minimum", None)

    def value(self, x: FloatArray) -> float:
        """Return the value that a run of a built-in task records after each round: F, or the margin of an attack."""
        return float(self.task.margin(x) if self.quantity == "margin" else self.task.value(x))

    def accuracy(self, x: FloatArray) -> float | None:
        """Return the accuracy of a language model; None for other tasks."""
        return float(self.task.accuracy(x)) if getattr(self.task, "name", "") == "prompt" else None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `minimize`; own objectives measure F by the clients or their monitor."""
        monitor = "clients" if self.task is None else self.value
        return {"x0": self.x0, "rng": self.seed, "monitor": monitor, **self.settings}

    def __str__(self) -> str:
        return self.description


def problem_maker(task: str, console: Console | None = None, **options: Any) -> Callable[[int], Problem]:
    """Return a function that creates the problem for a seed.

    The seed of an attack selects the image; the models are the same for all seeds, and the console shows how they are
    trained. Options that are None or False are not given.

    Raises:
        ValueError: an option has an invalid value, or the task has no such option.
    """
    is_own = ":" in task
    if not is_own and task not in _OPTIONS:
        raise ValueError(f"there is no task {task!r}; choose from {', '.join(_OPTIONS)}")
    known = ("dim",) if is_own else _OPTIONS[task]
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    for name in given:
        if name not in known:
            raise ValueError(f"{task} has no --{name}; its options are {', '.join(f'--{word}' for word in known)}")
    if is_own:
        return own_problem(task, given.get("dim"))
    folder = Path(given.pop("data")) if "data" in given else None
    if folder is not None and not folder.is_dir():
        raise ValueError(f"--data: there is no folder {folder}")
    settings = _settings(task, given)

    def make(seed: int) -> Problem:
        spec = _spec(task, settings, seed)
        _build(spec.models, console, folder)
        built, conditions = _build(spec, None, folder), _conditions(task, settings)
        if task == "attack":
            entries = ", ".join(f"{name}={value!r}" for name, value in {**settings, "image": seed}.items())
            built, description = built[seed], f"Attack({entries})"
        else:
            conditions, description = conditions or (f"C = {built.heterogeneity:g}",), str(built)
        words = [task, *(words.replace(" = ", "=") for words in conditions), f"d={built.dim}"]
        words.append(f"N={len(built.objectives)}")
        noise = getattr(built, "noise", 0.0)
        words += [f"noise={noise:g}"] if noise else []
        return Problem(
            " ".join(words),
            description,
            built.objectives,
            built.x0,
            seed,
            {"bounds": built.bounds, "vectorized": True},
            conditions,
            built,
            "margin" if task == "attack" else "F",
        )

    return make


def _settings(task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options and the defaults of the command line."""
    if task in TASKS:
        return {"dim": 300, "heterogeneity": 5.0, **given}
    if task not in ("attack", "metric"):
        return dict(given)
    if task == "attack":
        name = given.get("dataset", "mnist")
        _check_name("dataset", name, DATASET_NAMES)
        defaults: dict[str, Any] = {"dataset": name, "portion": _PORTIONS[name], "clients": 10}
    else:
        name = given.get("metric", "precision")
        _check_name("metric", name, METRIC_NAMES)
        defaults = {"metric": name, "portion": 0.3}
    settings = {**defaults, **given}
    _check_name("split", settings.get("split", SPLIT_NAMES[0]), SPLIT_NAMES)
    if not 0.0 < settings["portion"] <= 1.0:
        raise ValueError(f"--portion must be above 0 and at most 1, got {settings['portion']:g}")
    return settings


def _check_name(option: str, name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise ValueError(f"--{option} must be one of {', '.join(names)}, got {name!r}")


def _spec(task: str, settings: Mapping[str, Any], seed: int) -> TaskSpec:
    """Return the task of a seed, without the image of an attack."""
    if task not in ("attack", "metric"):
        return TaskSpec.of(task, **settings, seed=seed)
    others = {name: value for name, value in settings.items() if name != "full"}
    full = "full" in settings
    if task == "metric":
        return TaskSpec.of(task, **others, seed=seed, samples=None if full else _ROWS)
    return TaskSpec.of(task, **others, images=_IMAGES * (seed // _IMAGES + 1), quick=not full)


def _conditions(task: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings of an attack or a metric in words."""
    if task not in ("attack", "metric"):
        return ()
    words: tuple[str, ...] = settings["dataset" if task == "attack" else "metric"], f"P = {settings['portion']:g}"
    words += (f"split {settings['split']}",) if "split" in settings else ()
    return (*words, "full") if "full" in settings else words


def _build(spec: TaskSpec, console: Console | None, folder: Path | None) -> Any:
    try:
        return build(spec, console or False, folder)
    except MissingDataError as error:
        raise ValueError(f"{error}; give the folder that has it with --data FOLDER or $FZOOS_DATA") from None


def file_stem(task: str) -> str:
    """Return a task's name for names of files."""
    return "-".join(part.removesuffix(".py") for part in Path(task).name.split(":"))


def own_problem(task: str, dim: int | None) -> Callable[[int], Problem]:
    """Return a function from a seed to the user's problem, MODULE:NAME.

    MODULE can be imported from here, or is the path of a .py file. NAME is a list of functions, or a function without
    arguments that returns one: bounds (or space), x0, scale, weights, vectorized and monitor are then read from the
    module. Or it is an object or a dict with all of these and `objectives`. Without x0 a run begins in the middle of
    the bounds; `dim` is needed if they do not determine d.

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
    description = f"{task} (d = {_dim(x0, settings.get('bounds'))}, N = {len(objectives)})"
    return lambda seed: Problem(task, description, objectives, x0, seed, settings)


def _dim(x0: Any, bounds: Any) -> int:
    space = space_of(bounds)
    return len(x0) if space is None else space.dim


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
