"""The FLARE engine in FLARE's simulator: the same numbers as in one process, whatever happens on the way.

A simulator takes some fifteen seconds to start and to end, so that few runs prove many things.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from benchmarks.federation.deployment import descendants, provision
from nvflare.apis.signal import Signal
from nvflare.collab.api.context import Context, set_call_context
from nvflare.recipe import SimEnv

from fzoos.engines import LocalStudy
from fzoos.engines.flare import client_app, recipe, run
from fzoos.engines.flare.policy import ALLOWED
from fzoos.engines.flare.settings import SiteSettings, factory_name, study_name
from fzoos.engines.flare.site import Overtaken, SerialWorker
from fzoos.engines.flare.watch import _Attendance
from fzoos.federation import Study
from fzoos.messages.message import Message

CENTRES = {"site-1": 0.2, "site-2": 0.45, "site-3": 0.8, "site-4": 0.5}

# Keeps a log of its own of what it was asked, as a laboratory would.
OBJECTIVE = f"""
import json, os, time
from pathlib import Path
import numpy as np

SITE, HERE, CENTRES = os.environ["SITE"], Path(__file__).parent, {CENTRES}

def objective(x):
    with (HERE / f"{{SITE}}.log").open("a") as log:
        log.write(json.dumps(x.tolist()) + "\\n")
    if (HERE / f"{{SITE}}.raises").exists():
        raise RuntimeError("patient 4711")
    if (HERE / f"{{SITE}}.hangs").exists():
        time.sleep(3600)
    while (HERE / f"{{SITE}}.waits").exists():
        time.sleep(0.01)
    return float(np.sum((x - CENTRES[SITE]) ** 2))
"""


def make_study(sites: int, **changes: object) -> Study:
    settings = {
        "name": "trial",
        "x0": 0.5,
        "dim": 3,
        "bounds": (0.0, 1.0),
        "sites": [f"site-{i + 1}" for i in range(sites)],
        "rounds": 3,
        "seed": 5,
    }
    return Study(**{**settings, **changes})


def local_box(site: str):
    return lambda x: float(np.sum((x - CENTRES[site]) ** 2))


def no_answer(x: np.ndarray) -> float:
    raise RuntimeError("no answer")


@pytest.fixture
def site_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the sites' settings, which all of them share here, and their objective."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "objective.py").write_text(OBJECTIVE)
    (folder / "site.toml").write_text('objective = "objective.py"\nsite_seed = 5\n')
    monkeypatch.setenv("FZOOS_SITE", str(folder / "site.toml"))
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # as in this process: equal bits need equal numbers of threads
    return folder


def simulator(study: Study, folder: Path) -> SimEnv:
    return SimEnv(clients=list(study.sites), workspace_root=str(folder / "simulator"), log_config="concise")


def kill_simulator_at(log: Path, lines: int, killed: list[int]) -> None:
    """When a site has been asked so often, end the simulator, its server and its sites, as a power cut would."""
    while not log.exists() or len(log.read_text().splitlines()) < lines:
        time.sleep(0.01)
    processes = list(descendants(os.getpid()))
    for process in processes:
        os.kill(process, signal.SIGKILL)
    killed += processes


def queries(journal: Path) -> list[list[float]]:
    with sqlite3.connect(journal) as db:
        return [np.frombuffer(x).tolist() for (x,) in db.execute("SELECT x FROM queries ORDER BY id")]


def test_a_study_whose_simulator_is_killed_ends_with_the_local_engines_numbers(
    site_files: Path, tmp_path: Path
) -> None:
    study = make_study(3)
    killed: list[int] = []
    local = LocalStudy(study, tmp_path / "local", [local_box(site) for site in study.sites], site_seed=5).run()
    in_round_2 = local.queries_per_client[1] * 2 // 3 - 2  # all rounds cost the same, but for the first
    watcher = threading.Thread(target=kill_simulator_at, args=(site_files / "site-2.log", in_round_2, killed))
    watcher.start()

    result = run(study, simulator(study, tmp_path), results=tmp_path / "results", resubmit=1)

    watcher.join()
    assert len(killed) >= 4  # the server and the three sites
    assert np.array_equal(result.x, local.x)
    assert result.status == "completed"
    assert [record.queries for record in result.history] == [record.queries for record in local.history]
    assert (result.bytes_up, result.bytes_down) == (local.bytes_up, local.bytes_down)
    for site in study.sites:
        asked = [json.loads(line) for line in (site_files / f"{site}.log").read_text().splitlines()]
        kept = queries(tmp_path / "results" / f"{study_name(study)}-{site}.journal")
        again = len(asked) - len(kept)
        assert 0 <= again <= 1, "only the query in flight is asked again"
        repeated = [i for i in range(1, len(asked)) if asked[i] == asked[i - 1]]
        assert kept == [x for i, x in enumerate(asked) if i not in repeated]


def test_sites_that_raise_or_hang_are_failures_and_the_others_go_on(site_files: Path, tmp_path: Path) -> None:
    study = make_study(4, rounds=1, min_clients=2, timeout=12.0, algorithm={"name": "fedzo"})
    (site_files / "site-3.raises").touch()
    (site_files / "site-4.hangs").touch()

    result = run(study, simulator(study, tmp_path), results=tmp_path / "results", resubmit=0)

    boxes = [local_box("site-1"), local_box("site-2"), no_answer, no_answer]
    local = LocalStudy(study, tmp_path / "local", boxes, site_seed=5).run()
    assert result.status == "completed"
    assert np.array_equal(result.x, local.x)
    with sqlite3.connect(tmp_path / "results" / f"{study_name(study)}.result") as db:
        reasons = [reason for (reason,) in db.execute("SELECT reason FROM failures ORDER BY client")]
    assert reasons.count("site-3: the objective failed in round 1") == 1
    assert reasons.count("site-4: site-4 has not answered within 12 seconds") >= 1
    assert not any("4711" in reason for reason in reasons), "an objective's words stay at its site"


def test_a_slow_site_holds_nobody_up_and_its_answer_is_used(site_files: Path, tmp_path: Path) -> None:
    """Two of three are enough. The third answers round 1 when the others are in round 3; repeated here in the order in
    which the answers came, the study ends with the same numbers."""
    study = make_study(3, rounds=12, enough=2, algorithm={"name": "fedzo"})
    round_cost = study.algorithm_settings.cost(3, Message("update", 2, {}), first=False)
    (site_files / "site-3.waits").touch()

    def release() -> None:
        log = site_files / "site-1.log"
        while not log.exists() or len(log.read_text().splitlines()) <= 2 * round_cost:
            time.sleep(0.01)
        (site_files / "site-3.waits").unlink()

    watcher = threading.Thread(target=release)
    watcher.start()
    result = run(study, simulator(study, tmp_path), results=tmp_path / "results", resubmit=0)
    watcher.join()

    assert result.status == "completed"
    late = [record.round for record in result.history if any(2 in clients for clients in record.arrivals)]
    assert late
    assert late[0] >= 3
    boxes = [local_box(site) for site in study.sites]
    assert np.array_equal(result.x, LocalStudy(study, tmp_path / "again", boxes, 1, 5, repeat=result).run().x)


def test_a_job_carries_no_code_and_nothing_of_a_site(site_files: Path, tmp_path: Path) -> None:
    study = make_study(2)
    recipe(study).export(str(tmp_path / "jobs"))
    job = tmp_path / "jobs" / study_name(study)
    assert {path.suffix for path in job.rglob("*") if path.is_file()} == {".json"}
    text = "".join(path.read_text() for path in job.rglob("*.json"))
    named = {
        part["path"]
        for path in job.rglob("config_fed_*.json")
        for config in [json.loads(path.read_text())]
        for part in [*config.get("components", []), *config.get("workflows", [])]
        + [entry["executor"] for entry in config.get("executors", [])]
    }
    assert named == set(ALLOWED)
    assert "objective.py" not in text
    assert str(site_files) not in text


def test_other_sites_get_no_answer() -> None:
    site = client_app(make_study(2))
    previous = Context(app=None, caller="site-2", callee="site-1", abort_signal=Signal())
    set_call_context(previous)
    try:
        with pytest.raises(PermissionError, match="this one came from site-2"):
            site.answer(b"")
    finally:
        set_call_context(None)


def test_what_a_sites_settings_name_a_job_cannot_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.toml").write_text(
        'name = "ours"\nx0 = [0.5]\nbounds = [0.0, 1.0]\nsites = ["site-1"]\nmax_queries_per_client = 7\n'
    )
    (tmp_path / "site-1.toml").write_text(
        'study = "study.toml"\njournal = "a.journal"\nfactory = "json:dumps"\nplant = 3\n'
    )
    monkeypatch.setenv("FZOOS_SITE", str(tmp_path / "{site}.toml"))
    settings = SiteSettings("site-1", tmp_path / "flare", make_study(1), factory="os:system")
    assert settings.study.name == "ours"
    assert settings.journal == tmp_path / "a.journal"
    made = json.loads(settings.objective())  # the factory that the settings name got the settings
    assert (made["site"], made["plant"], made["journal"]) == ("site-1", 3, str(tmp_path / "a.journal"))


def test_without_settings_the_job_decides_what_and_the_site_where(tmp_path: Path) -> None:
    study = make_study(1)
    settings = SiteSettings("site-1", tmp_path, study, factory="json:dumps")
    assert settings.study is study
    assert settings.journal.parent == tmp_path / "fzoos"
    assert json.loads(settings.objective())["site"] == "site-1"
    with pytest.raises(ValueError, match="site-1 has no objective"):
        SiteSettings("site-1", tmp_path, study).objective()


def test_a_factory_must_be_importable() -> None:
    with pytest.raises(ValueError, match="must be a function that a site can import"):
        factory_name(lambda config: None)


def test_a_worker_answers_the_newest_request_and_none_that_waited() -> None:
    worker, busy, proceed = SerialWorker(), threading.Event(), threading.Event()
    outcomes: dict[str, object] = {}

    def ask(name: str, work) -> None:
        try:
            outcomes[name] = worker.run(work)
        except Exception as error:
            outcomes[name] = type(error)

    def slow() -> bytes:
        busy.set()
        proceed.wait()
        return b"slow"

    askers = [threading.Thread(target=ask, args=("slow", slow))]
    askers[0].start()
    busy.wait()
    for name in ("old", "new"):
        askers.append(threading.Thread(target=ask, args=(name, name.encode)))
        askers[-1].start()
        while worker._threads._queue.qsize() < len(askers) - 1:
            time.sleep(0.001)
    proceed.set()
    for asker in askers:
        asker.join()
    assert outcomes == {"slow": b"slow", "old": Overtaken, "new": b"new"}


def test_a_job_is_sent_again_for_a_site_that_came_back_but_not_for_one_that_refused_it() -> None:
    def row(site: str, job: str | None, status: str = "started") -> dict[str, str]:
        return {"client_name": site, "status": status} | ({"job_id": job} if job else {})

    sites = _Attendance(["site-1", "site-2", "site-3"])
    refused = row("site-3", None, "no_jobs")
    assert not sites.returned("job", [row("site-1", "job"), refused])  # site-2 is away
    assert not sites.returned("job", [row("site-1", "job"), row("site-2", None, "no_reply"), refused])
    assert not sites.returned("job", [row("site-1", "job"), row("site-2", None, "no_jobs"), refused])  # seen once
    assert sites.returned("job", [row("site-1", "job"), row("site-2", None, "no_jobs"), refused]) == {"site-2"}
    assert not sites.returned("job", [row("site-1", None, "no_jobs"), row("site-2", "job"), refused])
    assert sites.returned("job", [row("site-1", None, "no_jobs"), row("site-2", "job"), refused]) == {"site-1"}


def test_the_scaffolds_startup_kits_forbid_code_shells_and_log_streams(tmp_path: Path) -> None:
    template = resources.files("fzoos") / "cli" / "templates" / "flare" / "project.yml"
    kits = provision(tmp_path, template.read_text().replace("{{name}}", "trial"))
    for name in ("localhost", "site-1", "site-2", "site-3"):
        local = kits / "trial" / "prod_00" / name / "local"
        resource = json.loads((local / "resources.json").read_text())
        rights = json.loads((local / "authorization.json").read_text())["permissions"]["lead"]
        assert resource["class_allow_list"] == ALLOWED
        assert (rights["byoc"], rights["shell_commands"], rights["submit_job"]) == ("none", "none", "any")
        if name != "localhost":
            assert resource["allow_log_streaming"] is False
            assert "site_log_streamer" not in [part["id"] for part in resource["components"]]
