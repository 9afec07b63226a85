"""How the artefacts were made, with the code of release 0.1.0:

git worktree add /tmp/old-release 753bf51
PYTHONPATH=/tmp/old-release/src python tests/data/release-0.1.0/make.py
"""

import importlib
import json
import pkgutil
import tarfile
import tempfile
from pathlib import Path

import fzoos
from fzoos import FedZO, FiniteDifferences, FZooS, minimize
from fzoos.federation import LocalStudy, Study

HERE = Path(__file__).parent
STUDY = """name = "{name}"
x0 = 0.5
dim = 2
bounds = [-1.0, 1.0]
sites = ["a", "b"]
rounds = {rounds}
local_steps = 2
seed = 3
retries = 0

[algorithm]
{algorithm}
"""
FD = "differences = { count = 2 }"
STUDIES = {  # name, rounds, algorithm
    "finished": (3, 'name = "fzoos"\nearly = true'),
    "fedzo": (4, f'name = "fedzo"\n{FD}'),
    "scaffold1": (4, f'name = "scaffold1"\n{FD}'),
    "fzoos": (4, 'name = "fzoos"\nearly = true'),
}
BOXES = [lambda x, c=c: float(((x - c) ** 2).sum()) for c in (0.2, -0.4)]


class Stops:
    """Ctrl-C at the site b, two queries into round 3."""

    def __init__(self, limit):
        self.left = limit

    def __call__(self, x):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return BOXES[1](x)


def make(folder):
    """Everything but the archive; gives what is to come out."""
    expected = {"runs.db": []}
    for algorithm in (FedZO(differences=FiniteDifferences(2)), FZooS()):
        result = minimize(
            BOXES,
            [0.5, 0.5],
            bounds=(-1, 1),
            algorithm=algorithm,
            rounds=3,
            local_steps=2,
            seed=0,
            store=folder / "runs.db",
            monitor=lambda x: sum(f(x) for f in BOXES) / 2,
        )
        monitor = result.history[-1].monitor
        expected["runs.db"].append({"x": result.x.tolist(), "queries": result.queries, "monitor": monitor})
    for name, (rounds, algorithm) in STUDIES.items():
        path = folder / name
        path.mkdir()
        (path / "study.toml").write_text(STUDY.format(name=name, rounds=rounds, algorithm=algorithm))
        study = Study.load(path / "study.toml")
        whole = LocalStudy(study, tempfile.mkdtemp(), BOXES).run()
        if name == "finished":
            LocalStudy(study, path, BOXES).run()
        else:
            stopped = LocalStudy(study, path, [BOXES[0], Stops(whole.history[1].queries_per_client[1] + 2)]).run()
            assert (stopped.status, stopped.rounds) == ("interrupted", 2)
        queries = list(whole.queries_per_client)
        expected[name] = {"id": study.id, "x": whole.x.tolist(), "queries": queries, "rounds": rounds}
    return expected


def names():
    """Every module that can be imported, with the names that it offers."""
    found = {}
    for module in pkgutil.walk_packages(fzoos.__path__, "fzoos."):
        if ".templates" not in module.name and not module.name.endswith("__main__"):
            found[module.name] = list(getattr(importlib.import_module(module.name), "__all__", []))
    return found


if __name__ == "__main__":
    (HERE / "names.json").write_text(json.dumps(names(), indent=1) + "\n")
    made = Path(tempfile.mkdtemp())
    (HERE / "expected.json").write_text(json.dumps(make(made), indent=1) + "\n")
    with tarfile.open(HERE / "artefacts.tar.gz", "w:gz") as archive:
        for path in sorted(made.iterdir()):
            archive.add(path, path.name)
