"""The problems of `fzoos run` and `fzoos compare`: built-in tasks, or the user's own objectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fzoos._util.arrays import FloatArray
from fzoos.cli.options import DATASET_NAMES, METRIC_NAMES, SPLIT_NAMES
from fzoos.cli.own import OwnProblem, is_own, own_problem
from fzoos.objectives.box import Objective
from fzoos_experiments.paper.task_spec import TaskSpec, build
from fzoos_experiments.tasks import TASKS
from fzoos_experiments.tasks.data import MissingDataError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["BuiltIn", "Problem", "problem_maker"]

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


@dataclass(frozen=True)
class BuiltIn:
    """A built-in task, with the members that the commands need.

    Args:
        task: one of `fzoos_experiments.tasks`.
        seed: the seed of the run.
        conditions: its settings in words, without the dimension and the clients, the same for all seeds.
        description: all its settings.
    """

    task: Any
    seed: int
    conditions: tuple[str, ...]
    description: str

    @property
    def summary(self) -> str:
        """The task and its settings, the same for all seeds."""
        noise = getattr(self.task, "noise", 0.0)
        words = [self._kind, *(words.replace(" = ", "=") for words in self.conditions)]
        words += [f"d={self.dim}", f"N={self.clients}"]
        return " ".join([*words, f"noise={noise:g}"] if noise else words)

    @property
    def name(self) -> str:
        """The name of its runs, after that of the algorithm."""
        return self.summary

    @property
    def quantity(self) -> Literal["F", "margin"]:
        """The quantity that `value` returns: F, or the margin of the averaged logits of an attack."""
        return "margin" if self._kind == "attack" else "F"

    @property
    def objectives(self) -> Sequence[Objective]:
        """One vectorised function per client."""
        objectives: Sequence[Objective] = self.task.objectives
        return objectives

    @property
    def clients(self) -> int:
        """The number of clients N."""
        return len(self.objectives)

    @property
    def dim(self) -> int:
        """The dimension d of x."""
        return int(self.task.dim)

    @property
    def x0(self) -> FloatArray:
        """The start x0."""
        x0: FloatArray = self.task.x0
        return x0

    @property
    def minimum(self) -> float | None:
        """The smallest value F* of F; None if it is not known."""
        return getattr(self.task, "minimum", None)

    def value(self, x: FloatArray) -> float:
        """The value that a run records after each round: F, or the margin of an attack."""
        return float(self.task.margin(x) if self.quantity == "margin" else self.task.value(x))

    def accuracy(self, x: FloatArray) -> float | None:
        """The accuracy of a language model; None for other tasks."""
        return float(self.task.accuracy(x)) if self._kind == "prompt" else None

    def arguments(self) -> dict[str, Any]:
        """The arguments of `minimize`."""
        known = {"x0": self.x0, "bounds": self.task.bounds, "vectorized": True, "monitor": self.value}
        return {**known, "rng": self.seed}

    def __str__(self) -> str:
        return self.description

    @property
    def _kind(self) -> str:
        return str(getattr(self.task, "name", "attack"))


Problem = BuiltIn | OwnProblem


def problem_maker(task: str, console: Console | None = None, **options: Any) -> Callable[[int], Problem]:
    """Return a function that creates the problem for a seed.

    The seed of an attack selects the image; the models are the same for all seeds.

    Args:
        task: its name, or MODULE:NAME.
        console: shows the training of models; None: it is not shown.
        options: the task's options by name; None or False: not given.

    Raises:
        ValueError: an option has an invalid value, or the task has no such option.
    """
    if not is_own(task) and task not in _OPTIONS:
        raise ValueError(f"there is no task {task!r}; choose from {', '.join(_OPTIONS)}")
    known = ("dim",) if is_own(task) else _OPTIONS[task]
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    for name in given:
        if name not in known:
            raise ValueError(f"{task} has no --{name}; its options are {', '.join(f'--{word}' for word in known)}")
    if is_own(task):
        return own_problem(task, given.get("dim"))
    folder = Path(given.pop("data")) if "data" in given else None
    if folder is not None and not folder.is_dir():
        raise ValueError(f"--data: there is no folder {folder}")
    settings = _settings(task, given)

    def make(seed: int) -> BuiltIn:
        spec = _spec(task, settings, seed)
        _build(spec.models, console, folder)
        built, conditions = _build(spec, None, folder), _conditions(task, settings)
        if task != "attack":
            return BuiltIn(built, seed, conditions or (f"C = {built.heterogeneity:g}",), str(built))
        words = ", ".join(f"{name}={value!r}" for name, value in {**settings, "image": seed}.items())
        return BuiltIn(built[seed], seed, conditions, f"Attack({words})")

    return make


def _settings(task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options and the defaults of the command line."""
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
    """The task of a seed, without the image of an attack."""
    if task not in ("attack", "metric"):
        return TaskSpec.of(task, **settings, seed=seed)
    others = {name: value for name, value in settings.items() if name != "full"}
    full = "full" in settings
    if task == "metric":
        return TaskSpec.of(task, **others, seed=seed, samples=None if full else _ROWS)
    return TaskSpec.of(task, **others, images=_IMAGES * (seed // _IMAGES + 1), quick=not full)


def _conditions(task: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings of an attack or a metric in words."""
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
