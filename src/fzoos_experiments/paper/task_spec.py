"""Tasks described by name and settings, and built on demand."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from fzoos_experiments.tasks import TASKS
from fzoos_experiments.tasks.data import data_digest
from fzoos_experiments.tasks.display import Shown

__all__ = ["TaskSpec", "build"]


@dataclass(frozen=True)
class TaskSpec:
    """A task by name and settings, which `build` makes. A figure can be described without loading data.

    Args:
        name: the name of a synthetic task, "attack", "metric" or "prompt".
        settings: its arguments as (name, value) pairs.
    """

    name: str
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, name: str, **settings: Any) -> TaskSpec:
        """Make a description from keyword arguments."""
        return cls(name, tuple(sorted(settings.items())))

    @property
    def is_prompt(self) -> bool:
        """Whether the task is the prompt of a language model."""
        return self.name == "prompt"

    @property
    def dataset(self) -> str | None:
        """The name of its dataset, if it has one."""
        known = {"metric": "covtype", "prompt": "debian"}
        name: str | None = known.get(self.name) or dict(self.settings).get("dataset")
        return name

    @property
    def data(self) -> str | None:
        """The digest of its data; None if it has none or they are not available."""
        return self.data_in(None)

    def data_in(self, folder: Path | None) -> str | None:
        """The digest of its data, searched in a folder first; None: in `$FZOOS_DATA`."""
        if self.is_prompt:
            from fzoos_experiments.tasks.prompt.texts import texts_digest

            return texts_digest(folder)
        return None if self.dataset is None else data_digest(self.dataset, folder)

    @property
    def models(self) -> TaskSpec:
        """A description of the models alone: the classifier of the metric is the same for all portions and seeds."""
        if self.name != "metric":
            return self
        return TaskSpec(self.name, tuple(pair for pair in self.settings if pair[0] not in ("portion", "seed")))


def build(spec: TaskSpec, progress: Shown = False, folder: Path | None = None) -> Any:
    """Build a task and train its models; the last two tasks are cached.

    Args:
        spec: the description. A quick attack has small models that are trained on few images.
        progress: whether the training of its models is shown on standard output, or the console that shows it.
        folder: where its data are searched first; default: `$FZOOS_DATA`.

    Raises:
        DataError: its data are missing and cannot be downloaded, or have another layout.
    """
    return _build(_Wanted(spec, spec.data_in(folder), progress, folder))


@dataclass(frozen=True)
class _Wanted:
    """The key of the cache: other data make another task; their folder and the display do not."""

    spec: TaskSpec
    data: str | None
    progress: Shown = field(compare=False)
    folder: Path | None = field(compare=False)


@lru_cache(maxsize=2)
def _build(wanted: _Wanted) -> Any:
    spec, progress = wanted.spec, wanted.progress
    settings = dict(spec.settings)
    if spec.name == "attack":
        from fzoos_experiments.tasks.attack import DATASETS, Attacks

        dataset = DATASETS[settings["dataset"]]
        if settings.pop("quick"):
            settings["recipe"] = dataset.quick
        return Attacks(**settings, data=dataset.load(wanted.folder), progress=progress)
    if spec.name == "metric":
        from fzoos_experiments.tasks.metric import Metric

        task = Metric(**settings, data=_covertype(wanted.data, wanted.folder), progress=progress)
        _ = task.classifier  # trained now, not at the first query
        return task
    if spec.is_prompt:
        from fzoos_experiments.tasks.prompt import Prompt

        if wanted.folder is not None:
            from fzoos_experiments.tasks.prompt.texts import load_texts

            settings["data"] = load_texts(wanted.folder)
        return Prompt(**settings)
    return TASKS[spec.name](**settings)


@lru_cache(maxsize=1)
def _covertype(digest: str | None, folder: Path | None) -> Any:
    """The table that all metric tasks share, by the digest of its data."""
    from fzoos_experiments.tasks.data import load_covtype

    return load_covtype(folder)
