"""A real Flower deployment on this machine, made with the scaffold's own scripts: TLS, keys, a server, three sites.

One server serves all tests, in their order here; each study has sites and journals of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from fzoos import Program, Result, Study, load
from fzoos.engines import LocalStudy
from fzoos.testing.study import copy_seeds

pytestmark = pytest.mark.deploy

SITES = ("site-1", "site-2", "site-3")
BIN = Path(sys.executable).parent  # where the commands of this environment are
OBJECTIVE = """
import os, time
from pathlib import Path

HERE, SITE = Path(__file__).parent, os.environ["SITE"]

def objective(x):
    with open(HERE / f"{SITE}.log", "a") as log:    # what was paid for
        print(*x, file=log, flush=True)
    while (HERE / f"{SITE}.hold").exists():
        time.sleep(0.05)
    value = float(((x - {"site-1": -0.3, "site-2": 0.1, "site-3": 0.5}[SITE]) ** 2).sum())
    limited = (HERE / "limited").exists() and SITE != "site-3"
    return (value, [float(x.sum()) + {"site-1": 0.3, "site-2": 0.1}[SITE]]) if limited else value
"""

WEIGHTS = '{ name = "fzoos", features = 20, initial = 5 }'


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: str, seconds: float, ready: Callable[[], object]) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"{what}: not after {seconds} seconds"
        time.sleep(0.2)


class Deployment:
    """The scaffold in a folder, and the processes started from it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        subprocess.run([BIN / "fzoos", "scaffold", "flower", folder], check=True, capture_output=True)
        for path in folder.glob("*.sh"):
            path.write_text(path.read_text().replace("8443", str(self.port)))
        (folder / "site" / "objective.py").write_text(OBJECTIVE)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.env = os.environ | {
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_HOME": str(folder / "flower"),
        }

    def new_study(self, name: str, rounds: int, algorithm: str = WEIGHTS) -> Study:
        """A study that has not begun: no result, no journals, no queries."""
        for old in [
            *self.folder.glob("result.db*"),
            *self.folder.glob("site/*.journal*"),
            *self.folder.glob("site/*.log"),
        ]:
            old.unlink()
        shutil.rmtree(self.folder / "local", ignore_errors=True)
        lines = [
            f'name = "{name}"',
            "x0 = 0.9",
            "dim = 2",
            "bounds = [-1.0, 1.0]",
            f"rounds = {rounds}",
            "min_clients = 3",
            "timeout = 150.0",
            f"sites = {list(SITES)}",
            f"algorithm = {algorithm}",
        ]
        path = self.folder / "study.toml"
        path.write_text("\n".join(lines) + "\n")
        return Study.load(path)

    def start(self, name: str, *command: str) -> None:
        """A process with a session of its own, so that it can be ended with all it started."""
        with open(self.log_path(name), "ab") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=self.folder, env=self.env, stdout=log, stderr=log, start_new_session=True
            )

    def log_path(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def log(self, name: str) -> str:
        return self.log_path(name).read_text(errors="replace")

    def flwr(self, *words: str, timeout: float = 200.0) -> str:
        done = subprocess.run(
            ["flwr", *words], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=timeout
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_study(self) -> Result:
        """As in the README; ends when the run has ended."""
        output = self.flwr("run", ".", "--stream")
        assert "round 2:" in output, output + self.log("server")
        return load(self.folder / "result.db")

    def online(self) -> int:
        return self.flwr("supernode", "list").count("online")

    def close(self) -> None:
        for process in reversed(self.processes.values()):
            end_session(process)

    def local(self, study: Study) -> Result:
        """The same study without Flower, with the same objective files and the same secret seeds."""
        folder = self.folder / "local"
        (folder / "site").mkdir(parents=True)
        path = shutil.copy(self.folder / "site" / "objective.py", folder / "site")
        if (self.folder / "site" / "limited").exists():
            (folder / "site" / "limited").touch()
        programs = [Program.python(path, env={"SITE": site}) for site in SITES]
        copy_seeds(study, self.folder / "site", folder)
        return LocalStudy(study, folder, programs).run()


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started, by their session."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
    process.wait(timeout=5)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    deployed = Deployment(tmp_path_factory.mktemp("flower") / "study")
    try:
        subprocess.run(["./make_keys.sh"], cwd=deployed.folder, env=deployed.env, check=True, capture_output=True)
        deployed.new_study("first", rounds=2)
        deployed.start("server", "./start_server.sh")
        wait_for("the server", 60, lambda: "Application startup complete" in deployed.log("server"))
        for site in SITES:
            deployed.flwr("supernode", "register", f"keys/{site}.pub", "--name", site)
            deployed.start(site, "./start_site.sh", site)
        wait_for("the sites", 60, lambda: deployed.online() == 3)
        yield deployed
    finally:
        deployed.close()


def paid(folder: Path) -> dict[str, np.ndarray]:
    """The points that each site's objective was asked for, from its own log."""
    return {site: np.loadtxt(folder / "site" / f"{site}.log", ndmin=2) for site in SITES}


def journalled(path: Path) -> np.ndarray:
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as journal:
        return np.stack([np.frombuffer(x) for (x,) in journal.execute("SELECT x FROM queries ORDER BY id")])


def refused(deployment: Deployment, name: str, *options: str) -> str:
    """What a site says that tries to connect and must not."""
    address, port = f"127.0.0.1:{deployment.port}", str(free_port())
    deployment.start(name, "flower-supernode", "--superlink", address, "--port", port, "--max-retries", "0", *options)
    assert deployment.processes[name].wait(timeout=60) != 0
    said = deployment.log(name)
    assert "SuperNode ID" not in said
    assert deployment.online() == 3
    return said


def test_a_study_gives_what_it_gives_without_flower(deployment: Deployment) -> None:
    result = deployment.run_study()
    plain = deployment.local(Study.load(deployment.folder / "study.toml"))
    assert result.status == "completed"
    assert result.x.tobytes() == plain.x.tobytes()
    assert result.queries_per_client == plain.queries_per_client
    for site, points in paid(deployment.folder).items():
        assert np.array_equal(points, journalled(deployment.folder / "site" / f"{site}.journal"))


def test_the_app_takes_nothing_private_along(deployment: Deployment) -> None:
    """What `flwr run` sends to the server and to all sites: the two apps and their settings."""
    (app,) = (deployment.folder / "flower" / "apps").iterdir()
    sent = {str(path.relative_to(app)) for path in app.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert sent == {"pyproject.toml", "server_app.py", "client_app.py"}


def test_a_site_with_an_unknown_key_is_refused(deployment: Deployment) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", "keys/stranger"],
        cwd=deployment.folder,
        check=True,
    )
    options = ("--root-certificates", "keys/ca.pem", "--auth-supernode-private-key", "keys/stranger")
    assert "Failed to activate SuperNode" in refused(deployment, "stranger", *options)


def test_a_site_that_trusts_another_authority_does_not_connect(deployment: Deployment) -> None:
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -days 1 -subj /CN=other"
    subprocess.run(
        [*command.split(), "-keyout", "keys/other.key", "-out", "keys/other.pem"],
        cwd=deployment.folder,
        check=True,
        capture_output=True,
    )
    options = ("--root-certificates", "keys/other.pem", "--auth-supernode-private-key", "keys/site-1")
    assert "CERTIFICATE_VERIFY_FAILED" in refused(deployment, "doubter", *options)


@pytest.mark.parametrize("options", [["--insecure"], ["--root-certificates", "keys/ca.pem"]], ids=["TLS", "key"])
def test_a_site_without_tls_or_key_is_refused(deployment: Deployment, options: list[str]) -> None:
    refused(deployment, "open", *options)


def test_a_site_killed_within_an_exchange_comes_back_into_it(deployment: Deployment) -> None:
    """Its request is lost with it; it is sent again when the site is back. No query is lost but the one in flight."""
    folder, study = deployment.folder, deployment.new_study("second", rounds=1)
    hold = folder / "site" / "site-2.hold"
    hold.touch()
    deployment.start("run", "flwr", "run", ".", "--stream")
    log = folder / "site" / "site-2.log"
    wait_for("site-2's first query", 60, lambda: log.exists() and log.read_text())
    kill_site(deployment.processes["site-2"].pid)
    hold.unlink()
    deployment.processes["run"].wait(timeout=200)
    result = load(folder / "result.db")
    assert result.status == "completed", result.message + deployment.log("run")
    plain = deployment.local(study)
    assert result.x.tobytes() == plain.x.tobytes()
    assert result.queries_per_client == plain.queries_per_client
    # The one query that was in flight when it was killed is the only one that was asked twice.
    asked, kept = paid(folder)["site-2"], journalled(folder / "site" / "site-2.journal")
    assert len(asked) == len(kept) + 1
    assert np.array_equal(asked[0], asked[1])
    assert np.array_equal(asked[1:], kept)


def test_private_constraints_travel_as_well(deployment: Deployment) -> None:
    """At two of three sites: the sum of x is to be at most -0.3 and -0.1; without them the minimum has 0.2.

    After four rounds one of sixteen seeds, which are the sites' secrets, has not arrived there yet.
    """
    limited = deployment.folder / "site" / "limited"
    limited.touch()
    try:
        study = deployment.new_study("third", rounds=8, algorithm='{ name = "auto" }')
        result, plain = deployment.run_study(), deployment.local(study)
    finally:
        limited.unlink()
    assert result.x.tobytes() == plain.x.tobytes()
    assert result.queries_per_client == plain.queries_per_client
    assert (result.feasible, plain.feasible) == (True, True)
    assert result.x.sum() <= -0.3


def kill_site(session: int) -> None:
    """kill -9 to the SuperNode of a site and to all it has started; only the script lives, which starts it again."""
    nodes = [pid for pid in pids(session) if pid != session]
    assert nodes
    for pid in nodes:
        os.kill(pid, signal.SIGKILL)


def pids(session: int) -> list[int]:
    """The processes of a session that we started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.getsid(int(entry.name)) == session:
                found.append(int(entry.name))
        except ProcessLookupError:  # it has just ended
            pass
    return found
