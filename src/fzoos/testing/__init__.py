"""The contract suite for algorithms and engines, those of other packages included.

    from fzoos.testing import AlgorithmContract, ResumeContract

    class TestMine(AlgorithmContract):
        algorithm = MyAlgorithm()

    class TestMineResumes(ResumeContract):
        algorithm = MyAlgorithm()

Without pytest, `check_algorithm`, `check_resume` and `check_engine` do the same in a script.
"""

import sys

if "pytest" in sys.modules:  # its assertions then show the values that they compare
    sys.modules["pytest"].register_assert_rewrite(
        *(f"fzoos.testing.{name}" for name in ("algorithm", "engine", "resume", "study"))
    )

from fzoos.testing.algorithm import AlgorithmContract, check_algorithm
from fzoos.testing.engine import EngineContract, check_engine
from fzoos.testing.quick import as_table, make_quick, queries_of_a_round
from fzoos.testing.resume import ResumeContract, check_resume
from fzoos.testing.study import SITES, SiteObjective, make_study, objectives_of

__all__ = [
    "SITES",
    "AlgorithmContract",
    "EngineContract",
    "ResumeContract",
    "SiteObjective",
    "as_table",
    "check_algorithm",
    "check_engine",
    "check_resume",
    "make_quick",
    "make_study",
    "objectives_of",
    "queries_of_a_round",
]
