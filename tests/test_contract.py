"""What every algorithm must do, whatever it does: SPEC "The problem" and "One loop, five algorithms".

A new algorithm in `ALGORITHMS` is picked up here by itself, with its default settings. Only settings that make a run
cheaper are changed, and FZooS runs with other settings too. `Auto` is none: it is FedTrustRegion in so few dimensions.
"""

import dataclasses
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from fzoos import ActiveQueries, Auto, Constant, FedLineSearch, FedZO, FiniteDifferences, FZooS, Matern52
from fzoos.algorithms import ALGORITHMS
from fzoos.algorithms.fedzo import FiniteDifferenceClient
from fzoos.engines import LocalStudy
from fzoos.testing import (
    AlgorithmContract,
    EngineContract,
    ResumeContract,
    check_algorithm,
    check_engine,
    check_resume,
    objectives_of,
)

QUICK_FD = {"differences": FiniteDifferences(count=8, directions="orthonormal")}
QUICK = {
    "features": 64,
    "initial": 6,
    "active": ActiveQueries(10, 2, 0.05),
    "refresh": ActiveQueries(10, 3),
    "points": 40,
    "feature_points": 50,
}
CHEAPER = {
    "fedzo": QUICK_FD,
    "fedprox": QUICK_FD,
    "scaffoldi": QUICK_FD,
    "scaffoldii": QUICK_FD,
    "decomfl": QUICK_FD,
    "hiso": QUICK_FD,
    "fedhistory": QUICK_FD | {"history": 2, "renew": 1},  # its subspace is there from the second round on
    "fedcma": {"population": 12},
    "fedbpt": {"population": 12},
    "fzoos": QUICK,
}
SETTINGS = {name: cls(**CHEAPER.get(name, {})) for name, cls in ALGORITHMS.items() if cls is not Auto} | {
    "fzoos-otherwise": FZooS(
        **QUICK | {"refresh": None, "points": None, "feature_points": None},
        kernel=Matern52(),
        vector="fixed",
        length=Constant(),
    )
}

UNITS = {"gamma": 1, "curvature": 2, "eps": 2}  # FedProx's gamma, HiSo's curvature and what is added to it


class TestContract(AlgorithmContract):
    @pytest.fixture(autouse=True, params=SETTINGS, ids=list(SETTINGS))
    def _settings(self, request):
        self.algorithm = SETTINGS[request.param]
        self.units = {name: power for name, power in UNITS.items() if hasattr(self.algorithm, name)}
        if isinstance(self.algorithm, FedLineSearch):
            self.dims = (2, 7)


class TestResume(ResumeContract):
    @pytest.fixture(autouse=True, params=ALGORITHMS, ids=list(ALGORITHMS))
    def _settings(self, request):
        self.algorithm = ALGORITHMS[request.param]()


class TestLocalEngine(EngineContract):
    algorithms = tuple(cls() for cls in ALGORITHMS.values())

    @pytest.fixture(autouse=True, params=[1, 3], ids=["serial", "threads"])
    def _workers(self, request):
        self.workers = request.param

    def run(self, study, folder, *, resume):
        return LocalStudy(study, folder, objectives_of(study, folder), workers=self.workers).run(resume=resume)


# The suite finds what it is made to find


@dataclass(frozen=True)
class Forgetful(FedZO):
    """Draws from a generator of its own, and counts a query too few."""

    def client(self, context):
        return ForgetfulClient(replace(context, rng=np.random.default_rng()), self)

    def cost(self, dim, request, *, first):
        return super().cost(dim, request, first=first) - 1


class ForgetfulClient(FiniteDifferenceClient):
    pass


def test_an_algorithm_that_breaks_the_contract():
    broken = Forgetful(**QUICK_FD)
    with pytest.raises(AssertionError, match="Forgetful does not pass test_"):
        check_algorithm(broken)
    contract = AlgorithmContract()
    contract.algorithm = broken
    with pytest.raises(AssertionError):
        contract.test_query_plan()
    with pytest.raises(AssertionError):
        contract.test_same_seed()
    with pytest.raises(AssertionError, match="Forgetful does not pass test_"):
        check_resume(broken)
    assert "forgetful" not in ALGORITHMS


@dataclass(frozen=True)
class Inertia(FedZO):
    """A client's estimates are averaged with the one before, which its state has or lacks."""

    complete: bool = True

    def client(self, context):
        return InertiaClient(context, self) if self.complete else InertiaClientWithoutState(context, self)


class InertiaClientWithoutState(FiniteDifferenceClient):
    before = None

    def local_gradient(self, x):
        found = super().local_gradient(x)
        self.before = found if self.before is None else 0.5 * (found + self.before)
        return self.before


class InertiaClient(InertiaClientWithoutState):
    def state(self):
        return {**super().state(), "before": self.before}

    def restore(self, state):
        super().restore(state)
        self.before = state.get("before")


def test_a_state_that_lacks_something_breaks_the_contract():
    check_resume(Inertia(**QUICK_FD))
    with pytest.raises(AssertionError, match="Inertia does not pass test_sites_restarted_from_snapshots"):
        check_resume(Inertia(complete=False, **QUICK_FD))


def test_an_engine_that_breaks_the_contract():
    """It begins anew each time, and asks everybody twice."""

    def run(study, folder, *, resume):
        shutil.rmtree(folder / "journals", ignore_errors=True)
        (folder / "result.db").unlink(missing_ok=True)
        return LocalStudy(study, folder, objectives_of(study, folder)).run()

    with pytest.raises(AssertionError, match="the engine does not pass test_resume"):
        check_engine(run)


def test_without_pytest():
    """The suite is there for scripts too."""
    script = "import fzoos.testing, sys; assert 'pytest' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_registry():
    """Every algorithm is registered under its own name, has a label, and is a frozen record of settings."""
    assert {"fedzo", "fedprox", "scaffoldi", "scaffoldii", "fzoos"} <= set(ALGORITHMS)
    labels = [cls.label for cls in ALGORITHMS.values()]
    assert len(set(labels)) == len(labels)
    for name, cls in ALGORITHMS.items():
        assert cls.name == name
        assert dataclasses.is_dataclass(cls)
        assert cls() == cls()
        with pytest.raises(dataclasses.FrozenInstanceError):
            cls().projected = False
