"""Beyond the paper: all numbers of docs/beyond.md.

    python benchmarks/beyond.py PART [PART ...] [--seeds 5] [--first-seed 0] [--images 15] [--jobs 14]
                                [--device cpu|cuda] [--quick] [--runs FOLDER] [--only TEXT] [--tables]

Parts: quadratic, functions, metric, attack, noise, ablation, payload, curves, or all. Each finished run is a line of
FOLDER/PART.jsonl: a command that was interrupted goes on from there, and lines that were made on another machine give
the same tables. `--only` makes the runs whose words, such as "noise: quadratic, C = 5, noise 0.1: FedZO: seed 3", have
TEXT in them (a regular expression); `--tables` makes none. The settings are in beyond_settings.py. They were chosen on
seeds 101 and 102. The runs behind docs/beyond.md are in results/beyond:

    python benchmarks/beyond.py all --images 15 --tables --runs benchmarks/results/beyond
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from beyond_ablation import PART as ABLATION
from beyond_attack import PART as ATTACK
from beyond_curves import PART as CURVES
from beyond_functions import PART as FUNCTIONS
from beyond_metric import PART as METRIC
from beyond_noise import PART as NOISE
from beyond_payload import PART as PAYLOAD
from beyond_pool import execute
from beyond_problems import IMAGES
from beyond_quadratic import PART as QUADRATIC
from beyond_runs import FoundRuns, Run, read
from beyond_tables import Options
from machine import describe

PARTS = {
    "quadratic": QUADRATIC,
    "functions": FUNCTIONS,
    "metric": METRIC,
    "attack": ATTACK,
    "noise": NOISE,
    "ablation": ABLATION,
    "payload": PAYLOAD,
    "curves": CURVES,
}


def main() -> int:
    """Make the runs that are missing, print the tables; 1 if a run failed."""
    arguments = _arguments()
    names = list(PARTS) if "all" in arguments.parts else list(dict.fromkeys(arguments.parts))
    options = Options(arguments.seeds, arguments.first_seed, arguments.images, arguments.quick)
    folder = arguments.runs or Path(tempfile.mkdtemp(prefix="beyond-"))
    print(f"runs are kept in {folder}", file=sys.stderr)
    planned = {name: PARTS[name].runs(options) for name in names}
    every = [run for runs in planned.values() for run in runs]
    there = read(every, folder)
    missing = [run for run in every if run not in there and re.search(arguments.only, str(run))]
    failed = 0
    if missing and not arguments.tables:
        failed = execute(missing, folder, arguments.jobs, arguments.device, _made(arguments.device))
    for name, runs in planned.items():
        found = read(runs, folder)
        print(f"\n## {name}\n\n{PARTS[name].title} Mean ± standard error.\n")
        print(PARTS[name].tables(options, found))
        print("\n" + _footnote(found, runs), flush=True)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "all"], metavar="PART", help=", ".join([*PARTS, "all"]))
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--images", type=int, default=IMAGES, help=f"of the attack, at most {IMAGES}")
    parser.add_argument("--jobs", type=int, default=14, help="runs at the same time")
    parser.add_argument("--device", default="cpu", help="of the tasks' networks")
    parser.add_argument("--quick", action="store_true", help="a toy, to try the program")
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="where finished runs are kept")
    parser.add_argument("--only", default="", metavar="TEXT", help="make only these runs")
    parser.add_argument("--tables", action="store_true", help="make no runs")
    return parser.parse_args()


def _made(device: str) -> str:
    """How runs are made: the command and the machine."""
    machine = describe()
    if device != "cpu":
        import torch

        machine += f", PyTorch {torch.__version__} on {torch.cuda.get_device_name(device)}"
    words = shlex.join(sys.argv[1:])
    return f"`python benchmarks/beyond.py {re.sub(' --runs [^ ]+', '', words)}` on {machine}"


def _footnote(found: FoundRuns, planned: Sequence[Run]) -> str:
    seeds = sorted({run.seed for run in found if run.problem.kind != "attack"})
    words = f"{len(found)} of {len(planned)} runs" + (f", seeds {', '.join(map(str, seeds))}" if seeds else "")
    words += "; toy sizes, not those above" if any(run.problem.toy for run in planned) else ""
    if "FedCMA" in {run.label for run in planned} - {run.label for run in found}:
        words += "; no FedCMA, which needs the package cmaes"
    return "\n".join([f"{words}. Made by:", "", *(f"- {made}" for made in sorted({f.made for f in found.values()}))])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command with the same --runs goes on")
