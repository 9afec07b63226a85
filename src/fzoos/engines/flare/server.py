"""The server's half: one object in the server's process of a job, which runs the study."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.exceptions import RunAborted

from fzoos._util.files import FileLock
from fzoos._util.sqlite import copy_database
from fzoos.engines.flare.engine import PATIENCE, FlareEngine
from fzoos.engines.flare.settings import PREVIOUS_JOB, study_name
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study

__all__ = ["ERROR_FILE", "PROGRESS", "RESULTS", "Server", "result_file", "server_app"]

PROGRESS = "fzoos.progress"  # the command that a running job answers with its state
ERROR_FILE = "fzoos-error.txt"  # why a study stopped, unless FLARE stopped it
RESULTS = "FZOOS_RESULTS"  # the environment variable that names the folder of results


class Server:
    """What FLARE constructs in the server's process from a job's text.

    The result, which is the checkpoint as well, is stored in the folder `fzoos` of the server's FLARE folder, or in the
    folder that the environment variable FZOOS_RESULTS names; a copy in the job's own folder is what the sender of the
    job downloads.
    """

    def __init__(self, study: dict[str, Any], patience: float = PATIENCE) -> None:
        self.study, self.patience = study, patience  # FLARE writes attributes named like arguments into the job

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Run the study, or resume it."""
        study = Study(**self.study)
        workspace, job = collab.workspace, collab.fl_ctx.get_job_id()
        folder = Path(os.environ.get(RESULTS, Path(workspace.get_root_dir()) / "fzoos"))
        job_folder = Path(workspace.get_run_dir(job))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / result_file(study)
        engine = FlareEngine(study, patience=self.patience)
        collab.fl_ctx.get_engine().register_app_command(PROGRESS, lambda topic, data, fl_ctx: engine.state())
        try:
            _wait_for_previous_job(path)
            run_study(study, engine, path, resume=True)
        except RunAborted:
            raise
        except Exception as error:
            logging.getLogger("fzoos").exception("the study stopped")
            (job_folder / ERROR_FILE).write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
            raise
        finally:
            engine.close()
            if path.exists():
                copy_database(path, job_folder / path.name)


def server_app(study: Study, *, patience: float = PATIENCE) -> Server:
    """Return the server's half, for the argument `server` of a `CollabRecipe`.

    Args:
        study: the study's settings.
        patience: seconds without a heartbeat after which a site is left out; see `FlareEngine`.

    Example:
        >>> from nvflare.collab import CollabRecipe
        >>> from fzoos.engines.flare import client_app, server_app
        >>> from fzoos.federation.study import Study
        >>> study = Study("demo", x0=0.5, dim=3, bounds=(0.0, 1.0), sites=("site-1", "site-2"))
        >>> recipe = CollabRecipe(study.name, server=server_app(study), client=client_app(study))
    """
    return Server(study.settings, patience)


def result_file(study: Study) -> str:
    """Return the file name of a study's result."""
    return f"{study_name(study)}.result"


def _wait_for_previous_job(path: Path) -> None:
    """Wait until the previous job has released the result."""
    lock = FileLock(path.with_name(path.name + ".lock"))
    lock.acquire(PREVIOUS_JOB)
    lock.release()
