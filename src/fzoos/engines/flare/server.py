"""The server's half: one object in the server's process for the job, which conducts the study."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.exceptions import RunAborted

from fzoos._util.lock import FileLock
from fzoos.engines.flare.engine import PATIENCE, FlareEngine
from fzoos.engines.flare.settings import study_name
from fzoos.federation.conductor import conduct
from fzoos.federation.study import Study

__all__ = ["ERROR_FILE", "PROGRESS", "RESULTS", "Conductor", "result_file", "server_app"]

PROGRESS = "fzoos.progress"  # the command that a running job answers with its state
ERROR_FILE = "fzoos-error.txt"  # why a study stopped, where it was not FLARE that stopped it
RESULTS = "FZOOS_RESULTS"  # the environment variable that names the folder of results

_TURN = 60.0  # seconds to wait for the job before this one, which may still be ending


class Conductor:
    """What FLARE makes in the server's process from a job's text.

    The result, which is the checkpoint as well, is stored in the folder `fzoos` of the server's FLARE folder, or in the
    one that the environment variable FZOOS_RESULTS names; a copy goes into the job's own folder, from where whoever
    sent the job downloads it.

    Args:
        study: the study's settings, as a dict.
        patience: seconds without a heartbeat after which a site is left out; see `FlareEngine`.
    """

    def __init__(self, study: dict[str, Any], patience: float = PATIENCE) -> None:
        self.study, self.patience = study, patience  # FLARE writes attributes named like arguments into the job

    @collab.main  # type: ignore[untyped-decorator]
    def conduct(self) -> None:
        """Run the study, or what is left of it."""
        study = Study(**self.study)
        workspace, job = collab.workspace, collab.fl_ctx.get_job_id()
        folder = Path(os.environ.get(RESULTS, Path(workspace.get_root_dir()) / "fzoos"))
        copies = Path(workspace.get_run_dir(job))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / result_file(study)
        engine = FlareEngine(study, patience=self.patience)
        collab.fl_ctx.get_engine().register_app_command(PROGRESS, lambda topic, data, fl_ctx: engine.state())
        try:
            _take_turn(path)
            conduct(study, engine, path, resume=True)
        except RunAborted:
            raise
        except Exception as error:
            logging.getLogger("fzoos").exception("the study stopped")
            (copies / ERROR_FILE).write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
            raise
        finally:
            engine.close()
            if path.exists():
                shutil.copy(path, copies / path.name)


def server_app(study: Study, *, patience: float = PATIENCE) -> Conductor:
    """The server's half, to be the `server` of a `CollabRecipe`.

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
    return Conductor(study.settings, patience)


def result_file(study: Study) -> str:
    """The name of a study's result."""
    return f"{study_name(study)}.result"


def _take_turn(path: Path) -> None:
    """Wait for the job before this one to release the result."""
    lock = FileLock(path.with_name(path.name + ".lock"))
    lock.acquire(_TURN)
    lock.release()
