"""The numbers of docs/beyond.md, docs/rivals.md and docs/choosing.md.

    python -m benchmarks.beyond tune|rivals|moved|price|ablation|constraints [--only TEXT] [--tables] [--page FILE]
    python -m benchmarks.beyond PART [PART ...] [--seeds 5] [--first-seed 0] [--images 15] [--jobs 14]
                                [--device cpu|cuda] [--quick] [--runs FOLDER] [--only TEXT] [--tables] [--pack]

The first are about FZooS(), which has no settings, and its rivals with theirs chosen for them. Parts are about FZooS
with settings: metric, attack, noise, payload, or all. Each finished run of a part is kept in FOLDER: a command that was
interrupted goes on from there, and runs that were made on another machine give the same tables. `--only` makes the runs
whose words, such as "noise: quadratic, C = 5, noise 0.1: FedZO: seed 3", have TEXT in them (a regular expression);
`--tables` makes none; `--pack` puts the runs of a part into one file, PART.jsonl. The settings are in settings.py. They
were chosen on seeds 101 and 102. The runs are in results:

    python -m benchmarks.beyond all --images 15 --tables --runs benchmarks/beyond/results
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.beyond import constraints
from benchmarks.beyond.attack import PART as ATTACK
from benchmarks.beyond.fair import ablation, compare, moved, price, tune
from benchmarks.beyond.metric import PART as METRIC
from benchmarks.beyond.noise import PART as NOISE
from benchmarks.beyond.payload import PART as PAYLOAD
from benchmarks.beyond.plan import FoundRuns, Planned, read
from benchmarks.beyond.problems import IMAGES
from benchmarks.beyond.tables import Options
from benchmarks.machine import describe
from fzoos.experiments.run import Run
from fzoos.experiments.runner import execute
from fzoos.experiments.store import Store

PARTS = {
    "metric": METRIC,
    "attack": ATTACK,
    "noise": NOISE,
    "payload": PAYLOAD,
}


COMMANDS = {
    "tune": tune.main,
    "rivals": compare.main,
    "moved": moved.main,
    "price": price.main,
    "ablation": ablation.main,
    "constraints": constraints.main,
}
"""About FZooS() without settings, with arguments of their own."""


def main() -> int:
    """Make the runs that are missing, print the tables; 1 if a run failed."""
    if sys.argv[1:2] and sys.argv[1] in COMMANDS:
        return COMMANDS[sys.argv[1]](sys.argv[2:])
    arguments = _arguments()
    names = list(PARTS) if "all" in arguments.parts else list(dict.fromkeys(arguments.parts))
    options = Options(arguments.seeds, arguments.first_seed, arguments.images, arguments.quick)
    folder = arguments.runs or Path(tempfile.mkdtemp(prefix="beyond-"))
    print(f"runs are kept in {folder}", file=sys.stderr)
    plan = {name: PARTS[name].runs(options) for name in names}
    failed = 0
    if not arguments.tables:
        wanted = [each for runs in plan.values() for each in runs if re.search(arguments.only, str(each))]
        failed = _make(wanted, folder, arguments.jobs, arguments.device)
    for name, runs in plan.items():
        if arguments.pack:
            Store(folder).pack([each.run(arguments.device) for each in runs], name)
        found = read(runs, folder)
        print(f"\n## {name}\n\n{PARTS[name].title} Mean ± standard error.\n")
        print(PARTS[name].tables(options, found))
        print("\n" + _footnote(found, runs), flush=True)
    return 1 if failed else 0


def _make(plan: Sequence[Planned], folder: Path, jobs: int, device: str) -> int:
    """Make the runs that are missing, the longest first; return how many failed."""
    failed: list[str] = []

    def report(run: Run, error: Exception) -> None:
        failed.append(f"{words[run.name]}: {type(error).__name__}: {error}")
        print(f"\n{failed[-1]}", file=sys.stderr)

    runs = [each.run(device) for each in sorted(plan, key=lambda each: each.cost, reverse=True)]
    words = {each.run(device).name: str(each) for each in plan}
    execute(runs, folder, jobs, made={"made": _made(device)}, on_error=report)
    return len(failed)


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
    parser.add_argument("--pack", action="store_true", help="put the runs of a part into one file")
    return parser.parse_args()


def _made(device: str) -> str:
    """How runs are made: the command and the machine."""
    machine = describe()
    if device != "cpu":
        import torch

        machine += f", PyTorch {torch.__version__} on {torch.cuda.get_device_name(device)}"
    words = shlex.join(sys.argv[1:])
    return f"`python -m benchmarks.beyond {re.sub(' --runs [^ ]+', '', words)}` on {machine}"


def _footnote(found: FoundRuns, planned: Sequence[Planned]) -> str:
    seeds = sorted({run.seed for run in found if run.problem.kind != "attack"})
    words = f"{len(found)} of {len(planned)} runs" + (f", seeds {', '.join(map(str, seeds))}" if seeds else "")
    words += "; toy sizes, not those above" if any(run.problem.toy for run in planned) else ""
    return "\n".join([f"{words}. Made by:", "", *(f"- {made}" for made in sorted({f.made for f in found.values()}))])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command with the same --runs goes on")
