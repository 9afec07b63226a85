"""Points asked at the same time: the same bits as one by one, and nothing lost or counted twice when a worker dies."""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fzoos import Auto, FedZO, FiniteDifferences, ObjectiveError, Parallel, Study, minimize
from fzoos.engines import LocalStudy
from fzoos.federation.journal import Journal
from fzoos.objectives.parallel import MapPool

CHEAP = FedZO(local_steps=2, differences=FiniteDifferences(count=4))


class Bowl:
    """Picklable; writes a line for each call to a file that all processes share."""

    def __init__(self, centre, log=None, kill=None, always=False):
        self.centre, self.log, self.kill, self.always = centre, log, kill, always

    def __call__(self, x):
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{os.getpid()}\n")
        if self.kill is not None and x[0] > 0.5 and (self.always or not self.kill.exists()):
            self.kill.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return float(np.sum((x - self.centre) ** 2))

    @property
    def calls(self):
        return self.log.read_text().splitlines()


def raising(x):
    if x[0] > 0.5:
        raise ZeroDivisionError("no luck")
    return float(np.sum(x**2))


def sleepy(x):
    time.sleep(0.02 * random.random())  # whoever is first, the order stays
    return float(np.sum((x - 0.3) ** 2))


def run(objectives, **changes):
    settings = {"bounds": (-1, 1), "algorithm": CHEAP, "rounds": 2, "seed": 0}
    return minimize(objectives, [0.5, 0.1, -0.3], **(settings | changes))


# The same bits


@pytest.mark.parametrize("algorithm", [Auto(), CHEAP], ids=lambda a: a.name)
def test_same_bits_whoever_is_first(algorithm):
    """Threads that finish in any order, a map, and one by one."""
    serial = run([sleepy, Bowl(0.2)], algorithm=algorithm)
    with ThreadPoolExecutor(4) as executor:
        threads = run([sleepy, Bowl(0.2)], algorithm=algorithm, workers=executor)
        mapped = run([sleepy, Bowl(0.2)], algorithm=algorithm, workers=executor.map)
    for result in (threads, mapped):
        assert np.array_equal(result.x, serial.x)
        assert result.queries_per_client == serial.queries_per_client


def test_processes(tmp_path):
    """The same bits and the same queries, evaluated in other processes than this one, and in more than one."""
    serial = run([Bowl(0.2), Bowl(0.4)], algorithm=Auto())
    sites = [Bowl(0.2, tmp_path / "a"), Bowl(0.4, tmp_path / "b")]
    result = run(sites, algorithm=Auto(), workers=2)
    assert np.array_equal(result.x, serial.x)
    assert result.queries_per_client == serial.queries_per_client == tuple(len(site.calls) for site in sites)
    pids = set(sites[0].calls + sites[1].calls)
    assert str(os.getpid()) not in pids
    assert len(pids) == 2


def test_what_cannot_be_pickled_stays_on_threads():
    """A closure may count in this process, as it always could."""
    calls = []
    result = run([lambda x: calls.append(1) or float(x @ x)] * 2, workers=2)
    assert len(calls) == result.queries


# Failures


@pytest.mark.parametrize("how", ["workers", "map"])
def test_an_error_is_that_of_the_first_point(how):
    """As one by one: the point, and the exception as the cause."""
    with pytest.raises(ObjectiveError) as serial:
        run(raising)
    with ThreadPoolExecutor(3) as executor, pytest.raises(ObjectiveError) as caught:
        run(raising, **{"workers": {"workers": 2}, "executor": {"workers": executor}, "map": {"workers": map}}[how])
    assert str(caught.value) == str(serial.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert serial.value.result.queries <= caught.value.result.queries <= serial.value.result.queries + 4


def test_a_worker_that_is_killed(tmp_path):
    """SIGKILL in the middle of a query: it is asked again, counted once, and the run has the bits of any other."""
    serial = run([Bowl(0.6), Bowl(0.4)], rounds=3)
    sites = [Bowl(0.6, tmp_path / "a", tmp_path / "killed"), Bowl(0.4, tmp_path / "b")]
    result = run(sites, rounds=3, workers=2)
    assert (tmp_path / "killed").exists()
    assert np.array_equal(result.x, serial.x)
    assert result.queries_per_client == serial.queries_per_client
    assert len(sites[0].calls) > result.queries_per_client[0]  # at least the one that died was evaluated twice


def test_a_point_that_kills_is_named(tmp_path):
    """Always: after a few deaths it is asked alone, and is the point of the error."""
    site = Bowl(0.6, tmp_path / "a", tmp_path / "killed", always=True)
    with pytest.raises(ObjectiveError, match="the process that evaluated this point died, 3 times") as caught:
        run(site, workers=2)
    assert caught.value.x[0] > 0.5


def test_a_callable_that_is_no_map():
    with pytest.raises(TypeError, match="workers must be a map-like callable"):
        list(MapPool(lambda function, points: [1.0]).submit(Bowl(0.2), [np.zeros(2), np.ones(2)]))


# Studies


def study(**changes):
    settings = {"x0": 0.5, "dim": 3, "bounds": (-1.0, 1.0), "sites": ("a", "b"), "rounds": 3}
    return Study(
        "demo", **(settings | changes), algorithm={"name": "fedzo", "local_steps": 2, "differences": {"count": 4}}
    )


def test_a_site_with_an_executor(tmp_path):
    """The journal has every query once, in order; stopped and resumed, it is the same study bit for bit."""
    serial = LocalStudy(study(), tmp_path / "serial", [Bowl(0.2), Bowl(0.4)], site_seed=0).run()

    def sites():
        return [Parallel(Bowl(centre), ThreadPoolExecutor(3)) for centre in (0.2, 0.4)]

    LocalStudy(study(), tmp_path / "parallel", sites(), site_seed=0).run(callback=lambda record: record.round == 1)
    parallel = LocalStudy(study(), tmp_path / "parallel", sites(), site_seed=0).run(resume=True)
    assert np.array_equal(parallel.x, serial.x)
    assert parallel.queries_per_client == serial.queries_per_client
    asked = []
    for folder in ("serial", "parallel"):
        with Journal(tmp_path / folder / "journals" / "a.journal", study().id, "a") as journal:
            asked.append([(q.x.tolist(), q.y) for entry in journal.requests() for q in journal.queries(entry.id)])
    assert asked[0] == asked[1]


@pytest.mark.parametrize("lines", ["workers = 2", 'executor = "concurrent.futures:ThreadPoolExecutor"'])
def test_the_file_of_a_site_of_flare(tmp_path, monkeypatch, lines):
    """`workers` makes so many programs; `executor` names what makes an executor."""
    pytest.importorskip("nvflare")
    from fzoos.engines.flare.settings import SiteSettings

    if lines.startswith("executor"):
        monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor", lambda config: ThreadPoolExecutor(2))
    (tmp_path / "objective.py").write_text(
        "import os\ndef objective(x):\n    return x[0] + (os.environ['SITE'] == 'a')\n"
    )
    (tmp_path / "site.toml").write_text(f'objective = "objective.py"\n{lines}\n')
    monkeypatch.setenv("FZOOS_SITE", str(tmp_path / "site.toml"))
    monkeypatch.setenv("SITE", "")
    site = SiteSettings("a", tmp_path, study()).objective()
    assert isinstance(site, Parallel)
    assert site(np.array([0.5, 0.0])) == 1.5
    site.close()
