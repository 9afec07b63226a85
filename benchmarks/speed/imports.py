"""The cost of starting: CPU seconds of imports, of `fzoos --help` and of a first run, compared with `import numpy`.

    python -m benchmarks.speed.imports

Each line is a process of its own, the least of ten. The first process of each compiles the modules; later ones find
them compiled, as an installed package is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from resource import RUSAGE_CHILDREN, getrusage

REPEATS = 10
LINES = {
    "nothing": "pass",
    "import numpy": "import numpy",
    "import numpy, scipy.linalg, scipy.optimize": "import numpy, scipy.linalg, scipy.optimize",
    "import fzoos": "import fzoos",
    "from fzoos import minimize": "from fzoos import minimize",
    "from fzoos import *": "from fzoos import *",
    "minimize(f, [0.5], bounds=(0, 1), rounds=1)": (
        "from fzoos import minimize; minimize(lambda x: float(x @ x), [0.5], bounds=(0, 1), rounds=1)"
    ),
    "fzoos --version": "from fzoos.cli import main; main(['--version'])",
    "fzoos --help": "from fzoos.cli import main; main(['--help'])",
    "fzoos list --help": "from fzoos.cli import main; main(['list', '--help'])",
    "fzoos.objectives.serve": "import fzoos.objectives.serve",
}


def cpu_seconds(code: str, environment: dict[str, str]) -> float:
    """Of one process."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as compiled:
        own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {**own, "PYTHONPYCACHEPREFIX": compiled, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        times = dict.fromkeys(LINES, float("inf"))
        for _ in range(REPEATS):  # in turn: what else the machine does then concerns all of them
            for label, code in LINES.items():
                times[label] = min(times[label], cpu_seconds(code, environment))
    print("| | seconds of CPU | to `import numpy` |\n| --- | --- | --- |")
    for label, seconds in times.items():
        print(f"| `{label}` | {seconds:.3f} | {seconds / times['import numpy']:.2f} |")


if __name__ == "__main__":
    main()
