"""The FLARE engine deployed: a server and three sites as processes on this machine, with mutual TLS."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from benchmarks.federation.deployment import descendants, provision
from nvflare.collab import CollabRecipe
from nvflare.fuel.flare_api.api_spec import AuthorizationError
from nvflare.fuel.flare_api.flare_api import new_secure_session
from nvflare.recipe import ProdEnv

from fzoos import Result
from fzoos.engines import LocalStudy
from fzoos.engines.flare import client_app, run, server_app
from fzoos.engines.flare.settings import study_name
from fzoos.federation import Study
from fzoos.messages.codec import decode

pytestmark = pytest.mark.deploy

SERVER, SITES, LEAD = "localhost", ("site-1", "site-2", "site-3"), "lead@example.com"
PORTS = {"8002": "24102", "8003": "24103"}
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # for equal bits
CENTRES = {"site-1": 0.2, "site-2": 0.45, "site-3": 0.8}

OBJECTIVE = f"""
import json, os, time
from pathlib import Path
import numpy as np

SITE, HERE, CENTRES = os.environ["SITE"], Path(__file__).parent, {CENTRES}

def objective(x):
    with (HERE / f"{{SITE}}.log").open("a") as log:
        log.write(json.dumps(x.tolist()) + "\\n")
    time.sleep(json.loads((HERE / "seconds").read_text())[SITE])
    value = float(np.sum((x - CENTRES[SITE]) ** 2))
    limit = json.loads((HERE / "limits").read_text()).get(SITE)
    return value if limit is None else (value, [float(x.sum()) - limit])
"""
LIMITS = {"site-1": 1.2, "site-2": 1.4}  # of the sum of x: constraints of two sites of three


class Federation:
    """A provisioned server and its sites, as processes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.project = folder, f"fzoos-test-{os.getpid()}"
        template = resources.files("fzoos") / "cli" / "templates" / "flare" / "project.yml"
        text = template.read_text().replace("{{name}}", self.project)
        for default, ours in PORTS.items():
            text = text.replace(default, ours)
        self.kits = provision(folder, text) / self.project / "prod_00"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, **ONE_THREAD, "PATH": path}
        with (self.folder / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                [self.kits / name / "startup" / "sub_start.sh", "--once"],
                env=environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """End a participant, with all the jobs it runs."""
        process = self._processes.pop(name)
        for pid in [*descendants(process.pid), process.pid]:
            os.kill(pid, signal.SIGKILL)
        process.wait()

    def kill_job(self, name: str) -> None:
        """End the process that a participant has for its job."""
        for pid in descendants(self._processes[name].pid):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"worker_process" in command or b"runner_process" in command:
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError(f"{name} runs no job")

    def close(self) -> None:
        for name in list(self._processes):
            self.kill(name)
        shutil.rmtree(f"/tmp/nvflare/{self.project}", ignore_errors=True)

    def session(self):
        return closing(new_secure_session(LEAD, str(self.kits / LEAD), timeout=30.0))

    def prepare(
        self, study: Study, seconds: float, limits: Mapping[str, float] = {}, slow: Mapping[str, float] = {}
    ) -> Path:
        """Write the sites' own files for a study, with the seconds that a query takes there; gives their folder."""
        folder = self.folder / study.name
        folder.mkdir()
        (folder / "objective.py").write_text(OBJECTIVE)
        (folder / "seconds").write_text(json.dumps(dict.fromkeys(SITES, seconds) | slow))
        (folder / "limits").write_text(json.dumps(limits))
        for site in SITES:
            settings = f'objective = "{folder / "objective.py"}"\njournal = "{folder / site}.journal"\nsite_seed = 5\n'
            (self.kits / site / "local" / "fzoos.toml").write_text(settings)
        return folder

    def run(self, study: Study, **settings: float):
        env = ProdEnv(str(self.kits / LEAD), login_timeout=30.0, username=LEAD)
        return run(study, env, results=self.folder / "results", progress=False, **settings)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    made = Federation(tmp_path_factory.mktemp("flare"))
    try:
        for name in (SERVER, *SITES):
            made.start(name)
        yield made
    finally:
        made.close()


def make_study(name: str, **changes: object) -> Study:
    settings = {"x0": 0.5, "dim": 3, "bounds": (0.0, 1.0), "sites": SITES, "rounds": 3, "seed": 5}
    settings |= {"algorithm": {"name": "fzoos", "features": 100}}  # many queries: time for a kill among them
    return Study(**{"name": name, **settings, **changes})


def run_local(study: Study, folder: Path, limits: Mapping[str, float] = {}, repeat: Result | None = None):
    def box(site: str):
        def value(x: np.ndarray) -> float:
            return float(np.sum((x - CENTRES[site]) ** 2))

        return value if site not in limits else lambda x: (value(x), [float(x.sum()) - limits[site]])

    return LocalStudy(study, folder, [box(site) for site in study.sites], site_seed=5, repeat=repeat).run()


def wait_until(true: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def is_answering(journal: Path, study: Study, kind: str, round: int) -> bool:
    """Whether a site is in the middle of a request: it has made a query for it and has not replied."""
    text = """SELECT body FROM requests WHERE id NOT IN (SELECT request FROM replies)
              AND id IN (SELECT request FROM queries)"""
    try:
        with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as db:
            requests = [decode(body, study.id) for (body,) in db.execute(text)]
    except sqlite3.OperationalError:  # it is not there yet, or empty
        return False
    return any((request.kind, request.round) == (kind, round) for request in requests)


def asked(folder: Path, site: str) -> list[list[float]]:
    """What the objective says that it was asked."""
    return [json.loads(line) for line in (folder / f"{site}.log").read_text().splitlines()]


def kept(folder: Path, site: str) -> list[list[float]]:
    """What the journal says that it was asked."""
    with sqlite3.connect(folder / f"{site}.journal") as db:
        return [np.frombuffer(x).tolist() for (x,) in db.execute("SELECT x FROM queries ORDER BY id")]


def test_a_study_ends_with_the_local_engines_numbers(federation: Federation, tmp_path: Path) -> None:
    study = make_study("plain")
    folder = federation.prepare(study, seconds=0.0)
    result, local = federation.run(study), run_local(study, tmp_path)
    assert result.status == "completed"
    assert np.array_equal(result.x, local.x)
    assert result.queries_per_client == local.queries_per_client
    assert (result.bytes_up, result.bytes_down) == (local.bytes_up, local.bytes_down)
    for site in SITES:
        assert asked(folder, site) == kept(folder, site)


def test_private_constraints_travel_as_well(federation: Federation, tmp_path: Path) -> None:
    """At two of three sites. Without them the minimum has the sum 1.45; x0's, 1.5, is infeasible for both."""
    study = make_study("limits", rounds=8, algorithm={"name": "auto"})
    federation.prepare(study, seconds=0.0, limits=LIMITS)
    result, local = federation.run(study), run_local(study, tmp_path, LIMITS)
    assert np.array_equal(result.x, local.x)
    assert result.queries_per_client == local.queries_per_client
    assert (result.feasible, local.feasible) == (True, True)
    assert result.x.sum() == pytest.approx(1.2, abs=1e-3)
    assert [record.feasible for record in result.history] == [record.feasible for record in local.history]


def test_fzoos_does_not_wait_for_a_slow_site(federation: Federation, tmp_path: Path) -> None:
    """Asynchronous rounds: one of three sites needs half a second for a query. The others go on without it, and its
    late answers are used. With the order in which they came, the local engine ends with the same numbers."""
    study = make_study("late", rounds=16, algorithm={"name": "auto"}, enough=2)
    folder = federation.prepare(study, seconds=0.0, slow={"site-3": 0.5})
    result = federation.run(study)
    assert (result.status, result.rounds) == ("completed", 16)
    took_part = [any(2 in came for came in record.arrivals) for record in result.history]
    assert not took_part[0], "its first star takes two seconds, which the others do not wait for"
    assert any(took_part)
    fast, other, slow = result.queries_per_client
    assert 1 + study.dim <= slow < min(fast, other)
    assert asked(folder, "site-3")[:slow] == kept(folder, "site-3")[:slow]
    local = run_local(study, tmp_path, repeat=result)
    assert np.array_equal(result.x, local.x)
    assert result.queries_per_client[:2] == local.queries_per_client[:2]  # the third may be busy at the end
    assert [record.arrivals for record in result.history] == [record.arrivals for record in local.history]


def test_a_certificate_of_another_authority_is_refused(federation: Federation, tmp_path: Path) -> None:
    project = (federation.folder / "project.yml").read_text()
    strangers = provision(tmp_path / "strangers", project) / federation.project / "prod_00"

    def first_bytes(kit: Path) -> bytes:
        """What the server says to whoever has this kit's key; it begins to talk when it has accepted the client."""
        ours = federation.kits / "site-1" / "startup" / "rootCA.pem"
        context = ssl.create_default_context(cafile=str(ours))
        context.load_cert_chain(kit / "startup" / "client.crt", kit / "startup" / "client.key")
        context.set_alpn_protocols(["h2"])
        address = ("127.0.0.1", int(PORTS["8002"]))
        with socket.create_connection(address) as plain, context.wrap_socket(plain, server_hostname=SERVER) as secure:
            return secure.recv(9)

    assert len(first_bytes(federation.kits / "site-1")) == 9
    try:
        refused = first_bytes(strangers / "site-1")
    except (ssl.SSLError, ConnectionError):
        refused = b""
    assert refused == b""


def test_a_stranger_does_not_become_a_site(federation: Federation, tmp_path: Path) -> None:
    project = (federation.folder / "project.yml").read_text().replace("site-3", "site-4").replace("site_3", "site_4")
    strangers = provision(tmp_path / "strangers", project)
    kit = federation.kits / "site-4"
    shutil.copytree(strangers / federation.project / "prod_00" / "site-4", kit)
    federation.start("site-4")
    time.sleep(10.0)  # a site of ours is connected after three
    try:
        with federation.session() as session:
            assert {client.name for client in session.get_connected_client_list()} == set(SITES)
    finally:
        federation.kill("site-4")


def test_neither_code_nor_a_look_at_a_sites_files_is_allowed(federation: Federation) -> None:
    study = make_study("code")
    with_code = CollabRecipe("code", server=server_app(study), client=client_app(study))  # it sends fzoos along
    job = ProdEnv(str(federation.kits / LEAD), login_timeout=30.0, username=LEAD).deploy(with_code.finalize())
    with federation.session() as session:
        wait_until(lambda: session.get_job_meta(job)["status"].startswith("FINISHED"))
        meta = session.get_job_meta(job)
        assert meta["status"] == "FINISHED:FAILED_TO_RUN"
        assert meta["job_deploy_detail"] == ["server: BYOC not permitted"]
        with pytest.raises(AuthorizationError):
            session.cat_target("site-1", file="objective.py")


def test_after_kills_of_sites_and_of_the_server_the_numbers_are_the_same(
    federation: Federation, tmp_path: Path
) -> None:
    study = make_study("killed", min_clients=2)  # so that a lost answer would change the numbers
    folder = federation.prepare(study, seconds=0.05)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(federation.run, study)
        for kind, round, site, victim in (
            ("refresh", 2, "site-2", "site-2"),
            ("update", 2, "site-3", "site-3"),
            ("update", 3, "site-1", SERVER),
        ):
            wait_until(lambda: running.done() or is_answering(folder / f"{site}.journal", study, kind, round))
            federation.kill_job(victim)
        result = running.result(timeout=240)
    local = run_local(study, tmp_path)
    assert result.status == "completed"
    assert np.array_equal(result.x, local.x)
    assert result.queries_per_client == local.queries_per_client
    for site in SITES:
        paid, journal = asked(folder, site), kept(folder, site)
        assert all(x in paid for x in journal)
        assert all(x in journal for x in paid), "every paid query is kept"
        assert len(journal) <= len(paid) <= len(journal) + 3, "only the queries in flight were asked again"


def test_a_site_that_was_away_takes_part_again(federation: Federation, tmp_path: Path) -> None:
    study = make_study("away", rounds=8, min_clients=2, timeout=120.0)
    folder = federation.prepare(study, seconds=0.01)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(federation.run, study, patience=8.0)
        wait_until(lambda: running.done() or is_answering(folder / "site-3.journal", study, "update", 2))
        federation.kill("site-3")
        wait_until(lambda: running.done() or is_answering(folder / "site-1.journal", study, "update", 3))
        federation.start("site-3")
        result = running.result(timeout=240)
    assert result.status == "completed"
    with sqlite3.connect(folder / "site-3.journal") as db:
        rounds = [decode(body, study.id).round for (body,) in db.execute("SELECT body FROM requests")]
    assert min(rounds) == 1
    assert max(rounds) == study.rounds
    with sqlite3.connect(federation.folder / "results" / f"{study_name(study)}.result") as db:
        failures = db.execute("SELECT round, reason FROM failures WHERE client = 2").fetchall()
    assert failures[0] == (2, "site-3: site-3 gave no sign for 8 seconds")
