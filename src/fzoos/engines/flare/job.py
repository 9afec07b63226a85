"""A study as a FLARE job, which is submitted, and submitted again if one of its processes dies."""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nvflare.collab import CollabRecipe
from nvflare.job_config.api import FedJob
from nvflare.recipe import ProdEnv, SimEnv

from fzoos._util.sqlite import copy_database
from fzoos.engines.flare.engine import PATIENCE
from fzoos.engines.flare.policy import ALLOWED
from fzoos.engines.flare.server import ERROR_FILE, RESULTS, result_file, server_app
from fzoos.engines.flare.settings import JOURNALS, Factory, study_name
from fzoos.engines.flare.site import client_app
from fzoos.engines.flare.watch import Watch
from fzoos.federation.study import Study
from fzoos.result import Result
from fzoos.runs.reader import load

__all__ = ["StudyRecipe", "recipe", "run"]

_log = logging.getLogger("fzoos")


class StudyRecipe(CollabRecipe):  # type: ignore[misc]
    """A `CollabRecipe` that sends no code: fzoos is installed at the server and at every site."""

    def finalize(self) -> FedJob:
        self._job.set_app_packages(["fzoos"])
        return super().finalize()

    @staticmethod
    def _user_source_entries(objs: Any) -> list[tuple[str, str | None]]:
        return []


def recipe(study: Study, objective_factory: Factory | str | None = None, *, patience: float = PATIENCE) -> StudyRecipe:
    """Return a study as a recipe, for FLARE's own ways to run one (`recipe.execute(env)`, `recipe.export(folder)`).

    Args:
        study: the study's settings.
        objective_factory: makes a site's objective; see `client_app`.
        patience: seconds without a sign of life after which a site is left out; see `FlareEngine`.

    Example:
        >>> from fzoos.engines.flare import recipe
        >>> from fzoos.federation.study import Study
        >>> study = Study("demo", x0=0.5, dim=3, bounds=(0.0, 1.0), sites=("site-1", "site-2"))
        >>> recipe(study).configured_sites()
        ['site-1', 'site-2']
    """
    made = StudyRecipe(
        study_name(study),
        server=server_app(study, patience=patience),
        client=client_app(study, objective_factory),
        min_clients=study.min_clients or study.participants,
    )
    made.set_per_site_config({site: {} for site in study.sites})  # no other site of the federation takes part
    return made


def run(
    study: Study,
    env: SimEnv | ProdEnv,
    *,
    objective_factory: Factory | str | None = None,
    results: str | os.PathLike[str] = ".",
    resubmit: int = 3,
    patience: float = PATIENCE,
    progress: bool = True,
) -> Result:
    """Run a study in FLARE's simulator or in a deployment, or resume it.

    FLARE ends a job when one of its processes dies. The job is then submitted again and resumes from the server's
    checkpoint and the sites' journals. In a deployment, a job of the study that is already running is watched, not
    submitted again; and if an absent site returns, the job is ended and submitted again, so that the site takes part.

    Args:
        study: the study's settings.
        env: `SimEnv(clients=list(study.sites))` or `ProdEnv("path/of/a/startup/kit", username=...)`.
        objective_factory: makes a site's objective; see `client_app`.
        results: the local folder for the result.
        resubmit: how often a job that FLARE ended is submitted again.
        patience: seconds without a sign of life after which a site is left out; see `FlareEngine`.
        progress: whether to show progress (in a deployment).

    Raises:
        RuntimeError: the study stopped, or FLARE ended its job more than `resubmit` times.

    Example:
        >>> from nvflare.recipe import SimEnv
        >>> from fzoos.engines.flare import run
        >>> from fzoos.federation.study import Study
        >>> def simulate():
        ...     study = Study("demo", x0=0.5, dim=3, bounds=(0.0, 1.0), sites=("site-1", "site-2"))
        ...     return run(study, SimEnv(clients=list(study.sites)), objective_factory="my_package.black_box:make")
    """
    folder = Path(results)
    folder.mkdir(parents=True, exist_ok=True)
    made = recipe(study, objective_factory, patience=patience)
    if isinstance(env, SimEnv):
        _repeat(lambda: _simulate(study, env, made.finalize(), folder), study, resubmit)
    else:
        with Watch(study, env, progress=progress) as watch:
            _repeat(lambda: _deploy(study, env, made.finalize(), folder, watch), study, resubmit)
    return load(folder / result_file(study))


def _repeat(once: Callable[[], str], study: Study, resubmit: int) -> None:
    for left in range(resubmit, -1, -1):
        reason = once()
        if not reason:
            return
        if left:
            _log.warning("%s: %s; the job is submitted again and resumes from the checkpoint", study.name, reason)
    raise RuntimeError(f"{study.name}: {reason}, as {resubmit} times before; run it again to resume")


def _simulate(study: Study, env: SimEnv, job: FedJob, folder: Path) -> str:
    """Run the job in the simulator; return an empty text if it completed, otherwise the reason."""
    workspace = Path(env.workspace_root) / job.name
    (workspace / "local").mkdir(parents=True, exist_ok=True)
    policy = {"format_version": 2, "class_allow_list": ALLOWED}
    (workspace / "local" / "resources.json").write_text(json.dumps(policy), encoding="utf-8")
    reason = ""
    here = str(folder.absolute())  # the simulator creates its own folders for every run
    with _environment(**{RESULTS: here, JOURNALS: here}):
        try:
            env.deploy(job)
        except RuntimeError as error:  # the simulator's return code was not 0
            reason = str(error)
    _raise_reason(workspace / "server" / "simulate_job")
    return reason


def _deploy(study: Study, env: ProdEnv, job: FedJob, folder: Path, watch: Watch) -> str:
    """Submit the job unless it is running; return an empty text when it has completed, otherwise the reason."""
    id, ending = _follow(env, job, watch)
    while ending == "JOINED":  # a site that returned takes part in the next job
        id, ending = _follow(env, job, watch)
    if ending == "LOST":
        return "the job has no process any more"
    if ending == "FINISHED:ABORTED":
        raise RuntimeError(f"{study.name}: a user, or a site's policy, has ended the job; run it again to resume")
    with tempfile.TemporaryDirectory() as temporary:
        left = Path(watch.download(id, temporary)) / "workspace"
        _raise_reason(left)
        if ending != "FINISHED:COMPLETED":
            return f"the job ended with {ending} {watch.detail(id)}".strip()
        copy_database(left / result_file(study), folder / result_file(study))
        return ""


def _follow(env: ProdEnv, job: FedJob, watch: Watch) -> tuple[str, str]:
    id = watch.find(job.name)
    if id is None:
        watch.wait_for_sites()
        id = str(env.deploy(job))
    return id, watch.follow(id)


def _raise_reason(folder: Path) -> None:
    file = folder / ERROR_FILE
    if file.exists():
        raise RuntimeError(f"the study stopped: {file.read_text(encoding='utf-8')}")


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
