"""Three laboratories fit a simulator to their private measurements.

The simulator is the program simulator.sh, written in shell and awk. It starts once per laboratory and replies to each
batch of points with one line of JSON, which a program in any language can do.
"""

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from fzoos import minimize
from fzoos.objectives.program import Program

STIFFNESS, DAMPING, NOISE = 2.0, 0.4, 0.02
SIMULATOR = Path(__file__).with_name("simulator.sh")


def measurements(laboratory: int) -> list[str]:
    """Return positions at t = 1, ..., 8 of a spring released at 1, with the laboratory's own errors."""
    t = np.arange(1, 9)
    decay, frequency = DAMPING / 2, np.sqrt(STIFFNESS - DAMPING**2 / 4)
    position = np.exp(-decay * t) * (np.cos(frequency * t) + decay / frequency * np.sin(frequency * t))
    errors = NOISE * np.random.default_rng(laboratory).standard_normal(len(t))
    return [f"{value:.4f}" for value in position + errors]


with ExitStack() as programs:
    laboratories = [
        programs.enter_context(Program(["sh", SIMULATOR, *measurements(i)], timeout=60, env={"LC_ALL": "C"}))
        for i in range(3)
    ]
    result = minimize(
        laboratories,
        x0=[1.5, 1.0],
        bounds=[(0.5, 4.0), (0.0, 2.0)],
        rounds=8,
        vectorized=True,
        workers=2,
        rng=0,
    )

print(f"{result.status}: {result.message}")
print(f"stiffness {result.x[0]:.2f}, damping {result.x[1]:.2f} (the spring has {STIFFNESS} and {DAMPING})")
print(f"{result.queries} simulations, no measurement was sent: {result.bytes_up} bytes up")
