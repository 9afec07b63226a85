"""A new algorithm is one file and one line, everywhere.

A copy of the library gets one: a file in `algorithms/` and its entry in `ALGORITHMS`, nothing else. It has what broke
this once (settings called `steps` and `weights`) and what no other has: a record that only it uses, arrays
of its own, and a server half with a state of its own. Programs that know of the copy only run it in every way.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fzoos

ROOT = Path(__file__).parents[1]

FILE = '''
"""FedMix: the mean of several finite-difference estimates, mixed with everybody's mean; momentum at the server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_number
from fzoos.algorithms.base import ClientContext, ClientHalf, Part, Round, ServerHalf, State
from fzoos.algorithms.fedzo import FiniteDifferenceAlgorithm, FiniteDifferenceClient
from fzoos.messages.message import Arrays, Kind, Message
from fzoos.objectives.box import clip_to_cube


class Fading(ABC):
    """How the weight changes with the local step."""

    @abstractmethod
    def __call__(self, t: int) -> float:
        """The factor at local step t."""


@dataclass(frozen=True)
class Steady(Fading):
    """Not at all."""

    def __call__(self, t: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Falling(Fading):
    """t^-power."""

    power: float = 1.0

    def __call__(self, t: int) -> float:
        return float(t**-self.power)


@dataclass(frozen=True)
class FedMix(FiniteDifferenceAlgorithm):
    """g_hat = own + weights fading(t) (m - own), m everybody's mean of the last round, no longer than their mean size.

    The server moves by v <- momentum v + (mean of the clients' x) - x.

    Args:
        steps: estimates for each local step.
        weights: how much of m is in a step.
        fading: how that changes within a round.
        limited: whether the length of m is limited.
        momentum: how much of the server's last move is in the next one.
    """

    steps: int = 2
    weights: float = 0.3
    fading: Fading = field(default_factory=Steady)
    limited: bool = True
    momentum: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("steps", self.steps, low=1)
        check_number("weights", self.weights, 0.0, 1.0)

    def client(self, context: ClientContext) -> ClientHalf:
        return _Client(context, self)

    def server(self, dim: int) -> ServerHalf:
        return _Server(dim, self)

    def cost(self, dim: int, request: Message, *, first: bool) -> int:
        """Return as many estimates more."""
        return self.steps * super().cost(dim, request, first=first)


class _Server(ServerHalf):
    """The mean of all m_i and of their sizes goes out again; v stays here."""

    def __init__(self, dim: int, settings: FedMix) -> None:
        size = {"size": Part((1,), "refuse", "limited = false", late="keep")} if settings.limited else {}
        super().__init__(dim, {"m": Part((dim,), late="keep"), **size})
        self._settings = settings

    def start(self, x: FloatArray) -> State:
        return {"x": x, "v": np.zeros(self.dim)}

    def next_state(self, state: State, kind: Kind, mean: Arrays, round: Round) -> State:
        v = self._settings.momentum * state["v"] + mean["x"] - state["x"]
        x = state["x"] + v
        return {**state, **mean, "x": clip_to_cube(x) if self._settings.projected else x, "v": v}


class _Client(FiniteDifferenceClient):
    def __init__(self, context: ClientContext, settings: FedMix) -> None:
        super().__init__(context, settings)
        self._settings = settings

    def begin(self, x: FloatArray, request: Message) -> None:
        super().begin(x, request)
        self._mean = request.arrays.get("m")
        if self._mean is not None and "size" in request.arrays and self._mean.any():
            self._mean = self._mean * min(1.0, abs(request.arrays["size"][0]) / np.linalg.norm(self._mean))
        self._estimates: list[FloatArray] = []

    def local_gradient(self, x: FloatArray) -> FloatArray:
        estimates = [super(_Client, self).local_gradient(x) for _ in range(self._settings.steps)]
        self._estimates.append(np.mean(estimates, axis=0))
        return self._estimates[-1]

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        if self._mean is None:
            return None
        return self._settings.weights * self._settings.fading(t), self._mean - self._estimates[-1]

    def end(self, x: FloatArray) -> Arrays:
        size = {"size": np.array([np.mean(np.linalg.norm(self._estimates, axis=1))])}
        return {"x": x, "m": np.mean(self._estimates, axis=0), **(size if self._settings.limited else {})}
'''

STUDY = """
name = "mix"
x0 = 0.9
dim = 3
bounds = [0.0, 1.0]
sites = ["site-1", "site-2"]
rounds = 3
seed = 4
{privacy}

[algorithm]
name = "fedmix"
local_steps = 2
steps = 3
weights = 0.5
fading = {{ name = "Falling", power = 0.5 }}
differences = {{ count = 2 }}
"""

OBJECTIVE = """
import os, signal
import numpy as np

CENTRES, asked = {"site-1": 0.2, "site-2": 0.5}, 0

def at(site):
    def objective(x):
        global asked
        asked += 1
        if asked == int(os.environ.get("KILLED_AT", 0)):
            os.kill(os.getpid(), signal.SIGKILL)
        return float(np.sum((x - CENTRES[site]) ** 2))
    return objective

if "SITE" in os.environ:
    objective = at(os.environ["SITE"])
"""

# What each program does with the study in this folder; it ends with a line of JSON.
COMMON = """
import json
from pathlib import Path
import numpy as np
from fzoos.federation import Study
from objective import at

def tell(result):
    print(json.dumps({"x": result.x.tobytes().hex(), "queries": list(result.queries_per_client),
                      "bytes": [result.bytes_up, result.bytes_down], "status": result.status}))

study = Study.load("study.toml")
"""

LOCAL = """
from fzoos.engines import LocalStudy
boxes = [at(site) for site in study.sites]
tell(LocalStudy(study, "local", boxes, site_seed=study.seed).run(resume=Path("local").exists()))
"""

ASYNCHRONOUS = """
from fzoos.engines import LocalStudy
first, again = ([at(site) for site in study.sites] for _ in range(2))
result = LocalStudy(study, "one", first, site_seed=study.seed).run()
repeated = LocalStudy(study, "two", again, site_seed=study.seed, repeat=result).run()
assert np.array_equal(result.x, repeated.x)
tell(repeated)
"""

MINIMIZE = """
from fzoos import FiniteDifferences, minimize
from fzoos.algorithms.fedmix import Falling, FedMix
ours = FedMix(local_steps=2, steps=3, weights=0.5, fading=Falling(0.5), differences=FiniteDifferences(2))
assert study.algorithm_settings == ours
tell(minimize([at(site) for site in study.sites], np.full(3, 0.9), bounds=(0, 1), algorithm=ours, rounds=3,
              seed=4))
"""


FLOWER = """
from fzoos.engines.flower import FlowerEngine, client_app
from flower_in_process import InProcess
from fzoos.federation.study_run import run_study
with InProcess() as flower:
    for site in study.sites:
        config = {"site": site, "journal": str(Path(f"{site}.journal").resolve()), "site_seed": study.seed}
        flower.add(client_app(lambda config: at(str(config["site"])), study), config, name=site)
    tell(run_study(study, FlowerEngine(flower.grid, study, poll=0.005, join=5.0), Path("result.db")))
"""

FLARE = """
if __name__ == "__main__":
    from fzoos.engines.flare import run
    from nvflare.recipe import SimEnv
    simulator = SimEnv(clients=list(study.sites), workspace_root=str(Path("simulator").resolve()))
    tell(run(study, simulator, results=Path("results").resolve()))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the library with one algorithm more."""
    folder = tmp_path_factory.mktemp("library")
    copy = folder / "fzoos"
    shutil.copytree(Path(fzoos.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "algorithms" / "fedmix.py").write_text(FILE.lstrip(), encoding="utf-8")
    register = copy / "algorithms" / "registry.py"
    text = register.read_text(encoding="utf-8")
    text, entries = re.subn(r"^( +)FedLBFGS,\n( +\))$", r"\1FedLBFGS,\n\1FedMix,\n\2", text, flags=re.MULTILINE)
    assert entries == 1
    before = "from fzoos.algorithms.fedprox import FedProx\n"
    assert before in text
    register.write_text(text.replace(before, f"from fzoos.algorithms.fedmix import FedMix\n{before}"), encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study that names it."""
    (tmp_path / "study.toml").write_text(STUDY.format(privacy=""), encoding="utf-8")
    (tmp_path / "objective.py").write_text(OBJECTIVE, encoding="utf-8")
    (tmp_path / "site.toml").write_text('objective = "objective.py"\nsite_seed = 4\n', encoding="utf-8")
    return tmp_path


def python(library: Path, folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    helpers = Path(__file__).parent / "engines" / "helpers"
    paths = {"PYTHONPATH": os.pathsep.join([str(library), str(folder), str(helpers)])}
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, *words]
    environment = {**os.environ, **paths, **threads, **environment}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


def program(library: Path, folder: Path, text: str, **environment: str) -> dict[str, Any]:
    """What a program tells at its end."""
    (folder / "program.py").write_text(COMMON + text, encoding="utf-8")
    done = python(library, folder, "program.py", **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stdout.splitlines() if line.startswith('{"x"')]
    told: dict[str, Any] = json.loads(line)
    return told


def command_line(library: Path, folder: Path, *words: str) -> str:
    done = python(library, folder, "-c", "from fzoos.cli import main; main()", *words)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def expected(library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the study gives when nothing happens to it."""
    folder = tmp_path_factory.mktemp("expected")
    (folder / "study.toml").write_text(STUDY.format(privacy=""), encoding="utf-8")
    (folder / "objective.py").write_text(OBJECTIVE, encoding="utf-8")
    told = program(library, folder, LOCAL)
    assert told["status"] == "completed"
    assert told["queries"] == [3 * 2 * 3 * 3] * 2  # rounds, local steps, estimates of 2 + 1 queries
    return told


def test_minimize_and_a_study_file_give_the_same(library: Path, folder: Path, expected: dict[str, Any]) -> None:
    """So the file's settings are read as they are written in Python."""
    told = program(library, folder, MINIMIZE)
    assert (told["x"], told["queries"]) == (expected["x"], expected["queries"])


def test_it_keeps_the_contract(library: Path, tmp_path: Path) -> None:
    """The contract suite and the suite of faults find it by themselves."""
    suites = ["tests/test_contract.py", "tests/federation/test_faults.py"]
    options = ["-k", "fedmix", "-n0", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'suites'}"]
    done = python(library, ROOT, "-m", "pytest", *suites, *options)
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 25


def test_the_command_line_has_it(library: Path, folder: Path) -> None:
    small = ["quadratic", "--dim", "3", "--clients", "2", "--rounds", "1", "--quiet"]
    ran = command_line(library, folder, "run", *small, "--algorithm", "fedmix", "--store", "runs.db")
    assert ran.startswith("FedMix on Quadratic")
    assert "queries  840" in ran  # 2 clients, 10 steps, 2 estimates of 21
    compared = command_line(library, folder, "compare", *small, "--algorithms", "fedzo,FedMix", "--output", "plot.png")
    assert re.search(r"FedZO .*\n.*FedMix ", compared)
    assert "FedMix" in command_line(library, folder, "list", "runs.db")
    assert ", fedmix" in " ".join(command_line(library, folder, "compare", "--help").split())


def test_a_killed_study_goes_on(library: Path, folder: Path, expected: dict[str, Any]) -> None:
    """Killed in a query of the second of its three rounds; each has 36."""
    (folder / "program.py").write_text(COMMON + LOCAL, encoding="utf-8")
    assert python(library, folder, "program.py", KILLED_AT="40").returncode == -signal.SIGKILL
    assert program(library, folder, LOCAL) == expected


def test_asynchronous_rounds(library: Path, folder: Path) -> None:
    """With one reply enough of two; the record of who replied when repeats the run bit for bit."""
    (folder / "study.toml").write_text(STUDY.format(privacy="enough = 1"), encoding="utf-8")
    assert program(library, folder, ASYNCHRONOUS)["status"] == "completed"


def test_privacy_asks_the_parts(library: Path, folder: Path) -> None:
    """A single number is refused, with what to set instead; without it the study runs."""
    pytest.importorskip("dp_accounting")
    private = STUDY.format(privacy="privacy = { clip = 0.1, noise = 2.0 }")
    (folder / "study.toml").write_text(private, encoding="utf-8")
    (folder / "program.py").write_text(COMMON + LOCAL, encoding="utf-8")
    refused = python(library, folder, "program.py")
    reason = "FedMix would send size, of which noise leaves nothing; set limited = false in the algorithm's settings"
    assert reason in refused.stderr
    (folder / "study.toml").write_text(private + "limited = false\n", encoding="utf-8")
    shutil.rmtree(folder / "local", ignore_errors=True)
    assert program(library, folder, LOCAL)["status"] == "completed"


@pytest.mark.parametrize(
    ("engine", "text"), [("flwr", FLOWER), ("nvflare", FLARE)], ids=["Flower in process", "FLARE's simulator"]
)
def test_engines(library: Path, folder: Path, expected: dict[str, Any], engine: str, text: str) -> None:
    """The same numbers over both."""
    if importlib.util.find_spec(engine) is None:
        pytest.skip(f"needs {engine}")
    assert program(library, folder, text, FZOOS_SITE=str(folder / "site.toml")) == expected
