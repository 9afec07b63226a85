"""Monitors a job in a deployment, over FLARE's connection for administrators."""

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

_POLL = 1.0  # seconds between two checks of a job
_POLL_SITES = 5.0  # seconds between two checks of who is connected
_LOST = 10.0  # seconds after which a job without a process is lost, even if FLARE reports it as running
_JOIN = 60.0  # seconds that a job waits for sites that are not connected, before it is submitted without them
_RECONNECT = 120.0  # seconds within which a lost server may return
_ENDED, _RUNNING = "FINISHED", "RUNNING"
_ABSENT = (MetaStatusValue.NO_REPLY, MetaStatusValue.ERROR)


class Watch:
    """Monitors a study's jobs: shows their state, and detects sites that return."""

    def __init__(self, study: Study, env: ProdEnv, *, progress: bool) -> None:
        self._study, self._env = study, env
        self._session: Session | None = None
        self._lost: set[str] = set()
        self._bar = round_columns() if progress else None
        self._printed = ""

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
        """Return the job of that name that has not ended; None if there is none."""
        for job in self._command("list_jobs", name_prefix=name):
            ended = job["status"].startswith(_ENDED) or job["job_id"] in self._lost
            if job["job_name"] == name and not ended:
                return str(job["job_id"])
        return None

    def wait_for_sites(self) -> None:
        """Wait for the study's sites to connect, but not for ever: a job is sent to those that are connected.

        Raises:
            ValueError: only other sites are connected: the names in two files disagree.
        """
        sites, end = set(self._study.sites), time.monotonic() + _JOIN
        while (missing := sites - (online := _online(self._clients()))) and time.monotonic() < end:
            others = f"; {_names(online - sites)} is connected, but not in study.toml" if online - sites else ""
            self._show(f"waiting for {_names(missing)} to connect{others}")
            time.sleep(_POLL)
        if missing == sites and online:
            raise ValueError(
                f"the sites of study.toml are {_names(sites)}, but {_names(online)} is connected: "
                "study.toml and project.yml must have the same names"
            )

    def follow(self, job: str) -> str:
        """Wait until a job has ended; return how.

        "LOST": FLARE reports it as running, but it has no process any more: the server was restarted, or waits for a
        site that is gone. "JOINED": this process has ended it, so that a site that returned can take part again.
        """
        sites, checked, seen = _Attendance(self._study.sites), 0.0, time.monotonic()
        while not (status := self._status(job)).startswith(_ENDED):
            if status != _RUNNING or self._show_state(job):
                seen = time.monotonic()
            if time.monotonic() - seen > _LOST:
                self._lost.add(job)
                return "LOST"
            if status == _RUNNING and time.monotonic() - checked > _POLL_SITES:
                checked = time.monotonic()
                if sites.returned(job, self._clients()):
                    return self._end(job)
            time.sleep(_POLL)
        return status

    def download(self, job: str, folder: str) -> str:
        """Download the files of a job that has ended; return the folder that holds them."""
        return str(self._command("download_job_result", job, folder))

    def detail(self, job: str) -> str:
        """Return FLARE's messages about deploying the job to the server and the sites."""
        return ", ".join(self._command("get_job_meta", job).get("job_deploy_detail") or [])

    def _status(self, job: str) -> str:
        status = str(self._command("get_job_meta", job)["status"])
        if status != _RUNNING:
            self._show(status.lower())
        if status.endswith("COMPLETED") and self._bar is not None:
            self._bar.update(self._task, completed=self._study.rounds)
        return status

    def _show_state(self, job: str) -> bool:
        """Show the state of a running job, unknown while it starts or ends; return whether it has a process."""
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
        self._show(f"{state['exchange']}{f', waiting for {waiting}' if waiting else ''}{failed}")
        return True

    def _end(self, job: str) -> str:
        self._show("a site has returned")
        self._command("abort_job", job)
        while not self._status(job).startswith(_ENDED):
            time.sleep(_POLL)
        return "JOINED"

    def _clients(self) -> list[dict[str, Any]]:
        """Return one row per connected client and job that it runs."""
        with contextlib.suppress(Exception):  # FLARE raises several errors if nobody is connected
            return self._connect().get_client_job_status() or []
        return []

    def _show(self, status: str) -> None:
        if self._bar is None:
            return
        self._bar.update(self._task, status=status)
        if not self._bar.console.is_terminal:  # a progress bar in a file is drawn only at the end
            line = f"{self._study.name}: {self._bar.tasks[0].completed:g} of {self._study.rounds} rounds, {status}"
            if line != self._printed:
                print(line, flush=True)
            self._printed = line

    def _command(self, command: str, *args: Any, **kwargs: Any) -> Any:
        """Send the server a command; if it is gone, wait until it returns."""
        end = time.monotonic() + _RECONNECT
        while True:
            try:
                return getattr(self._connect(), command)(*args, **kwargs)
            except NoConnection:
                self._disconnect()
                if time.monotonic() > end:
                    raise
                self._show("the server does not answer")
                time.sleep(_POLL)

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


def _online(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    return {row["client_name"] for row in rows if row["status"] not in _ABSENT}


class _Attendance:
    """Detects sites that return.

    A connected site that does not run the job has returned if it was absent or ran the job before; otherwise it has
    refused the job. It must be seen so twice, since a job does not start or end everywhere at the same time.
    """

    def __init__(self, sites: Sequence[str]) -> None:
        self._sites = set(sites)
        self._before: set[str] = set()  # sites that were absent, or ran the job
        self._idle: set[str] = set()  # sites that had returned at the last call

    def returned(self, job: str, rows: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the sites that have returned."""
        online = _online(rows)
        runs = {row["client_name"] for row in rows if row.get("job_id") == job}
        idle = (online - runs) & self._before & self._sites
        twice, self._idle = idle & self._idle, idle
        self._before |= runs | (self._sites - online)
        return twice
