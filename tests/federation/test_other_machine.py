"""A study that goes on where another processor, or another number of threads, left it.

Sums are made in another order there, so that points which the algorithm computes anew differ in their last bits, and
where it chooses among points, altogether. The journal says what was asked: nothing is asked twice, nothing is lost, and
no site refuses.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).parent / "helpers" / "other_machine.py"
CORES = ("Nehalem", "Haswell") if platform.machine() in ("x86_64", "AMD64") else ("NEOVERSEN1", "ARMV8")
MACHINES = {
    "core type": ({"OPENBLAS_CORETYPE": CORES[0]}, {"OPENBLAS_CORETYPE": CORES[1]}),
    "threads": ({"OPENBLAS_NUM_THREADS": "1"}, {"OPENBLAS_NUM_THREADS": "2"}),
}


def run(job, folder, machine):
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"} | machine
    done = subprocess.run([sys.executable, PROGRAM, job, folder], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("change", MACHINES)
def test_resumed_on_another_machine(folder, change):
    """Every algorithm: killed in the middle of a request, resumed elsewhere, and the run that an undisturbed one is,
    with every query paid for once."""
    here, there = MACHINES[change]
    begun, resumed = run("begin", folder, here), run("resume", folder, there)
    for name, result in resumed.items():
        assert result["status"] == "completed", (name, result["message"])
        if name not in ("auto", "fedlinesearch"):  # what their later rounds cost depends on the first
            assert result["paid"] == [result["planned"]] * 2, name
        assert [a + b for a, b in zip(begun[name]["asked"], result["asked"], strict=True)] == result["paid"], name
        assert result["end"] < result["start"], name
        assert np.all(np.isfinite(result["x"]))
