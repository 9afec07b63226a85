"""The contract of an algorithm, whole."""

from __future__ import annotations

from collections.abc import Mapping

from fzoos.algorithms.base import Algorithm
from fzoos.testing.difficulties import DifficultyChecks
from fzoos.testing.endings import EndingChecks
from fzoos.testing.problem import run_checks
from fzoos.testing.reproducibility import ReproducibilityChecks
from fzoos.testing.sizes import SizeChecks
from fzoos.testing.weights import WeightChecks

__all__ = ["AlgorithmContract", "check_algorithm"]


class AlgorithmContract(SizeChecks, ReproducibilityChecks, WeightChecks, EndingChecks, DifficultyChecks):
    """What every algorithm must do, whatever it does. Each method whose name begins with `test` is one check.

    In a file of tests, a subclass named `Test...` is all that pytest needs:

        class TestMine(AlgorithmContract):
            algorithm = MyAlgorithm()

    Attributes:
        algorithm: the settings to be checked. The problems have 1 to 7 dimensions and few rounds of few local steps, so
            that gradient estimates should be good ones: for finite differences, 8 directions are enough.
        dims: d of `test_shapes`, 1, 2 and 7; an algorithm that refuses one of them leaves it out.
        units: settings that have a unit, each with the power of the objective's unit: {"gamma": 1} for a gamma that is
            added to second derivatives of f. Those without one need not be named.
    """


def check_algorithm(algorithm: Algorithm, units: Mapping[str, int] | None = None) -> None:
    """Run the whole contract, without pytest.

    Args:
        algorithm: as in `AlgorithmContract`.
        units: as in `AlgorithmContract`.

    Raises:
        AssertionError: it is broken; the message names the check.

    Example:
        >>> from fzoos import FedZO, FiniteDifferences
        >>> from fzoos.testing import check_algorithm
        >>> check_algorithm(FedZO(differences=FiniteDifferences(8, directions="orthonormal")))
    """
    contract = AlgorithmContract()
    contract.algorithm, contract.units = algorithm, units or {}
    run_checks(contract, algorithm.label)
