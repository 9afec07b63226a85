"""What a FLARE deployment of a study permits, written into the startup kits by `nvflare provision`.

By default, the sender of a job can do three things that a site would not expect: send code with it, read files in the
site's FLARE folder remotely, and receive the site's error log while the job runs. In `project.yml`, between the
static files and the certificates,

    - path: fzoos.engines.flare.policy.StudyPolicy

forbids them at the server and at every site, and permits a job to name the classes that a study needs, and no others. A
site can change its own policy: the files are in `local/` of its startup kit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nvflare.lighter.spec import Builder, Project, ProvisionContext

__all__ = ["ALLOWED", "StudyPolicy"]

ALLOWED = [
    "fzoos.engines.flare.server.Server",
    "fzoos.engines.flare.site.Site",
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
]

_ROLES = ("project_admin", "lead")  # the roles that may send jobs
_RIGHTS = ("submit_job", "clone_job", "manage_job", "download_job", "view", "operate", "app_command")


class StudyPolicy(Builder):  # type: ignore[misc]
    """A builder of `nvflare provision` that restricts what jobs may do."""

    def build(self, project: Project, ctx: ProvisionContext) -> None:
        """Write the policies of the server and of the sites."""
        server = Path(ctx.get_local_dir(project.get_server()))
        _write(server, "resources.json", _server(_read(server, "resources.json"), project.name))
        folders = [server]
        for site in project.get_clients():
            folder = Path(ctx.get_local_dir(site))
            _write(folder, "resources.json", _site(_read(folder, "resources.json")))
            folders.append(folder)
        for folder in folders:
            _write(folder, "authorization.json", _rights(_read(folder, "authorization.json")))


def _site(resources: dict[str, Any]) -> dict[str, Any]:
    components = [part for part in resources["components"] if part["id"] != "site_log_streamer"]
    return {**resources, "class_allow_list": ALLOWED, "allow_log_streaming": False, "components": components}


def _server(resources: dict[str, Any], project: str) -> dict[str, Any]:
    """Store jobs in a folder of the project: by default all servers on a machine share one."""
    text = json.dumps(resources).replace("/tmp/nvflare/", f"/tmp/nvflare/{project}/")
    return {**json.loads(text), "class_allow_list": ALLOWED}


def _rights(authorization: dict[str, Any]) -> dict[str, Any]:
    rights = {**dict.fromkeys(_RIGHTS, "any"), "shell_commands": "none", "byoc": "none"}
    permissions = {**authorization["permissions"], **dict.fromkeys(_ROLES, rights)}
    return {**authorization, "permissions": permissions}


def _read(folder: Path, name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / f"{name}.default").read_text(encoding="utf-8"))
    return values


def _write(folder: Path, name: str, values: dict[str, Any]) -> None:
    (folder / name).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
