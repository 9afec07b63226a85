"""Watching a job in a deployment, over FLARE's connection for administrators."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from nvflare.fuel.flare_api.api_spec import JobNotRunning, NoConnection
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session
from nvflare.fuel.hci.proto import MetaStatusValue
from nvflare.recipe import ProdEnv

from fzoos.engines.flare.server import PROGRESS
from fzoos.federation.study import Study
from fzoos.runs.progress import round_columns

__all__ = ["Watch"]

_LOOK = 1.0  # seconds between two checks of a job
_ROLL_CALL = 5.0  # seconds between two checks of who is connected
_LOSE = 10.0  # seconds after which a job without a process counts as lost, though FLARE reports it as running
_GATHER = 60.0  # seconds that a job waits for sites that are not connected, before it is sent without them
_RECONNECT = 120.0  # seconds in which a server that is gone may come back
_ENDED, _RUNNING = "FINISHED", "RUNNING"
_SILENT = (MetaStatusValue.NO_REPLY, MetaStatusValue.ERROR)


class Watch:
    """Monitors a study's jobs: shows their state, and detects sites that came back.

    Args:
        study: the study's settings.
        env: FLARE's execution environment, in which the job runs.
        progress: whether to show the state.
    """

    def __init__(self, study: Study, env: ProdEnv, *, progress: bool) -> None:
        self._study, self._env = study, env
        self._session: Session | None = None
        self._lost: set[str] = set()
        self._bar = round_columns() if progress else None
        self._said = ""

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self._study.name, total=self._study.rounds, status="")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._disconnect()

    def find(self, name: str) -> str | None:
        """The job of that name that has not ended, if there is one."""
        for job in self._ask("list_jobs", name_prefix=name):
            ended = job["status"].startswith(_ENDED) or job["job_id"] in self._lost
            if job["job_name"] == name and not ended:
                return str(job["job_id"])
        return None

    def gather(self) -> None:
        """Wait for the study's sites to be connected, for a while: a job is sent to those that are.

        Raises:
            ValueError: none of them is, but others are: the names of two files disagree.
        """
        sites, end = set(self._study.sites), time.monotonic() + _GATHER
        while (missing := sites - (there := _there(self._clients()))) and time.monotonic() < end:
            others = f"; {_names(there - sites)} is connected, but not in study.toml" if there - sites else ""
            self._say(f"waiting for {_names(missing)} to connect{others}")
            time.sleep(_LOOK)
        if missing == sites and there:
            raise ValueError(
                f"the sites of study.toml are {_names(sites)}, but {_names(there)} is connected: "
                "study.toml and project.yml must have the same names"
            )

    def follow(self, job: str) -> str:
        """Wait until a job has ended, and say how.

        "LOST": FLARE reports it as running, but it has no process any more: the server was restarted, or waits for a
        site that is gone. "JOINED": it was ended here, so that a site that came back can take part again.
        """
        roll, called, seen = _Roll(self._study.sites), 0.0, time.monotonic()
        while not (status := self._status(job)).startswith(_ENDED):
            if status != _RUNNING or self._show(job):
                seen = time.monotonic()
            if time.monotonic() - seen > _LOSE:
                self._lost.add(job)
                return "LOST"
            if status == _RUNNING and time.monotonic() - called > _ROLL_CALL:
                called = time.monotonic()
                if roll.returned(job, self._clients()):
                    return self._end(job)
            time.sleep(_LOOK)
        return status

    def download(self, job: str, folder: str) -> str:
        """Download the files of a job that has ended."""
        return str(self._ask("download_job_result", job, folder))

    def detail(self, job: str) -> str:
        """FLARE's messages about deploying the job to the server and the sites."""
        return ", ".join(self._ask("get_job_meta", job).get("job_deploy_detail") or [])

    def _status(self, job: str) -> str:
        status = str(self._ask("get_job_meta", job)["status"])
        if status != _RUNNING:
            self._say(status.lower())
        if status.endswith("COMPLETED") and self._bar is not None:
            self._bar.update(self._task, completed=self._study.rounds)
        return status

    def _show(self, job: str) -> bool:
        """Ask a running job for its state, which it has except when it starts or ends; whether it has a process."""
        try:
            state = self._connect().do_app_command(job, PROGRESS, {})
        except JobNotRunning:
            return False
        except Exception:
            return True
        if self._bar is not None:
            self._bar.update(self._task, completed=max(state["round"] - 1, 0))
        everyone = len(state["waiting"]) == len(self._study.sites)
        waiting = "all sites" if everyone else ", ".join(state["waiting"])
        failed = "".join(f"; {site}: {reason}" for site, reason in state["failed"].items())
        self._say(f"{state['exchange']}{f', waiting for {waiting}' if waiting else ''}{failed}")
        return True

    def _end(self, job: str) -> str:
        self._say("a site came back")
        self._ask("abort_job", job)
        while not self._status(job).startswith(_ENDED):
            time.sleep(_LOOK)
        return "JOINED"

    def _clients(self) -> list[dict[str, Any]]:
        """One row for each connected client and each job that it runs."""
        with contextlib.suppress(Exception):  # FLARE has several messages for: nobody is connected
            return self._connect().get_client_job_status() or []
        return []

    def _say(self, status: str) -> None:
        if self._bar is None:
            return
        self._bar.update(self._task, status=status)
        if not self._bar.console.is_terminal:  # into a file, a bar is drawn at the end only
            line = f"{self._study.name}: {self._bar.tasks[0].completed:g} of {self._study.rounds} rounds, {status}"
            if line != self._said:
                print(line, flush=True)
            self._said = line

    def _ask(self, command: str, *args: Any, **kwargs: Any) -> Any:
        """Send the server a command; if it is gone, wait for it to come back."""
        end = time.monotonic() + _RECONNECT
        while True:
            try:
                return getattr(self._connect(), command)(*args, **kwargs)
            except NoConnection:
                self._disconnect()
                if time.monotonic() > end:
                    raise
                self._say("the server does not answer")
                time.sleep(_LOOK)

    def _connect(self) -> Session:
        if self._session is None:
            env = self._env
            self._session = new_secure_session(
                env.username, env.startup_kit_location, timeout=env.login_timeout, study=env.study
            )
        return self._session

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):
                session.close()


def _names(sites: set[str]) -> str:
    return ", ".join(sorted(sites))


def _there(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    return {row["client_name"] for row in rows if row["status"] not in _SILENT}


class _Roll:
    """Which sites were seen, and where.

    A site that is connected and does not run the job has come back if it was away or ran the job before; otherwise it
    has refused it. It must be seen so twice, since a job that begins or ends is not everywhere at once.
    """

    def __init__(self, sites: Sequence[str]) -> None:
        self._sites = set(sites)
        self._before: set[str] = set()  # were away, or ran the job
        self._idle: set[str] = set()  # had come back at the last call

    def returned(self, job: str, rows: Sequence[Mapping[str, Any]]) -> set[str]:
        """The sites that have come back."""
        there = _there(rows)
        runs = {row["client_name"] for row in rows if row.get("job_id") == job}
        back = (there - runs) & self._before & self._sites
        twice, self._idle = back & self._idle, back
        self._before |= runs | (self._sites - there)
        return twice
