"""A site's own settings, in a file that never leaves the site.

    study = "study.toml"          # the study that the site agreed to; any other one is refused
    objective = "objective.py"    # a Python file with a function objective(x), run in a process of its own
    journal = "my-study.journal"  # the file in which queries are recorded
    prior = "old.csv"             # earlier points and values, which stay at the site: x1, x2, ..., value
    workers = 4                   # processes that evaluate the points of a batch; -1: one per core
    max_epsilon = 5.0             # the privacy loss at which the site stops answering, in a private study
    site_seed = 0                 # makes runs repeatable; whoever knows it can compute values from replies

Paths are relative to the file. It is `local/fzoos.toml` in the site's FLARE folder, or the file that the environment
variable FZOOS_SITE names, where "{site}" stands for the site's name (in a simulator all sites share an environment).
The objective finds the site's name in the environment variable SITE.

A job cannot change what the file names. What the file omits comes from the job (the study; the objective, if the job
has a factory for it) or has a default (the journal: in the folder `fzoos` of the site's FLARE folder). Instead of
`objective`, `factory = "my_package.black_box:make"` names a function that is called with the site's settings (a dict
with "site", "journal", "objective", "vectorized" and everything else in the file) and returns the objective.

A site can be a cluster: instead of `workers`, `executor = "my_package.cluster:connect"` names a function that is
called with the same settings and returns a `concurrent.futures.Executor`, such as
`dask.distributed.Client(...).get_executor()`. The objective is then evaluated by its workers, which have its file at
the same path.
"""

from __future__ import annotations

import importlib
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fzoos._util.checks import check_count
from fzoos.federation.study import Study
from fzoos.objectives.parallel import Parallel, available_cores, parallel_copies
from fzoos.objectives.program import Program
from fzoos.objectives.serve import FileObjective

__all__ = ["JOURNALS", "PREVIOUS_JOB", "Factory", "SiteSettings", "factory_name", "study_name"]

Factory = Callable[[Mapping[str, Any]], Any]

JOURNALS = "FZOOS_JOURNALS"  # the environment variable that names the folder of journals, for a simulator
PREVIOUS_JOB = 60.0  # seconds to wait for the process of the previous job, which may still be ending

_SETTINGS = "FZOOS_SITE"


class SiteSettings:
    """A site's settings, completed by those of the job.

    Args:
        site: the site's name.
        folder: the site's FLARE folder.
        study: the job's study.
        factory: the job's objective factory, "module:function"; empty if it has none.
    """

    def __init__(self, site: str, folder: Path, study: Study, factory: str = "") -> None:
        named = os.environ.get(_SETTINGS)
        file = Path(named.replace("{site}", site)) if named else folder / "local" / "fzoos.toml"
        values = tomllib.loads(file.read_text(encoding="utf-8")) if named or file.exists() else {}
        self._values, self._site, self._factory = values, site, factory
        self.study = Study.load(file.parent / values["study"]) if "study" in values else study
        journals = Path(os.environ.get(JOURNALS, folder / "fzoos"))
        self.journal = journals / f"{study_name(self.study)}-{site}.journal"
        if "journal" in values:
            self.journal = file.parent / values["journal"]
        self.max_epsilon: float | None = values.get("max_epsilon")
        self.site_seed: int | None = values.get("site_seed")
        self.prior = file.parent / values["prior"] if "prior" in values else None
        self._objective = str(file.parent / values["objective"]) if "objective" in values else None

    def objective(self) -> Any:
        """Return the site's objective."""
        config = {
            **self._values,
            "site": self._site,
            "journal": str(self.journal),
            "objective": self._objective,
            "vectorized": self.study.vectorized,
        }
        if "executor" in self._values:
            made = FileObjective(self._objective, SITE=self._site) if self._objective else self._made(config)
            return Parallel(made, _function(self._values["executor"])(config))
        if self._objective is None or "factory" in self._values:
            return self._made(config)
        workers, path = self._values.get("workers", 1), self._objective
        check_count("workers", workers, low=-1)
        if workers == 0:
            raise ValueError("workers must be positive, or -1 for all cores, got 0")
        count = available_cores() if workers == -1 else workers
        environment = {"SITE": self._site}
        limit = self.study.timeout  # a query that takes longer than an exchange hangs
        return parallel_copies(
            lambda: Program.python(path, vectorized=self.study.vectorized, timeout=limit, env=environment), count
        )

    def _made(self, config: Mapping[str, Any]) -> Any:
        """Return the objective that the site's factory makes, or else the job's."""
        if "factory" in self._values:
            return _function(self._values["factory"])(config)
        if self._factory:
            return _function(self._factory)(config)
        raise ValueError(f'{self._site} has no objective: write objective = "objective.py" into its settings')


def study_name(study: Study) -> str:
    """Return the name of a study's jobs and files; other settings under the same name make another study."""
    return f"{study.name}-{study.id[:8]}"


def factory_name(factory: Factory | str | None) -> str:
    """Return a factory as text, since a job cannot carry functions."""
    if factory is None or isinstance(factory, str):
        return factory or ""
    name = getattr(factory, "__qualname__", "")
    if not name.isidentifier() or factory.__module__ == "__main__":
        raise ValueError(f"objective_factory must be a function that a site can import from a module, got {factory!r}")
    return f"{factory.__module__}:{name}"


def _function(name: str) -> Factory:
    module, colon, function = name.partition(":")
    if not colon:
        raise ValueError(f'factory must be "module:function", got {name!r}')
    made: Factory = getattr(importlib.import_module(module), function)
    return made
