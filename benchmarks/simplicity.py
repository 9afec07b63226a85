"""How large and how direct the code is, for one source tree or for several side by side.

    python -m benchmarks.simplicity
    git worktree add ../before fa562d8
    python -m benchmarks.simplicity --tree ../before --tree . --cpu

Code lines are those without blank lines, comments and docstrings. What has to be run is run in a process of its own
that imports the library from the tree, so a tree need not be installed.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import json
import os
import re
import subprocess
import sys
import time
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fzoos import FedZO, minimize
from fzoos.algorithms import ALGORITHMS, Algorithm

EXPERIMENTS = ("fzoos_experiments", "fzoos/tasks", "fzoos/experiments", "fzoos/suites")
"""The folders of src that hold experiments: earlier trees have them inside the library."""

KIND = re.compile(
    "steered|rebuilds|combines_replies|combine_replies|_?steering|votes|carried|told|asks_x|refreshes_first|refreshed|"
    "keeps_answers|server_projects|protocol|single_replies|exact_cost|sends_exact|queries_x|projects"
)
"""Attributes that tell one kind of algorithm from another, in this tree or in earlier ones."""

PATHS = ("fzoos", "fedzo", "scaffoldi", "fedtrustregion", "fedlinesearch", "fedcma")  # whose stacks are measured

Rows = dict[str, Any]


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def docstrings(path: Path) -> Iterator[ast.Expr]:
    """The docstrings of a module and of what it defines, and strings that describe the constant above them."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def code_lines(path: Path) -> int:
    no_code = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    text = io.StringIO(path.read_text(encoding="utf-8"))
    tokens = [token for token in tokenize.generate_tokens(text.readline) if token.type not in no_code]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in docstrings(path):
        lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def packages(tree: Path) -> dict[str, list[Path]]:
    """The Python files of each package: both parts of src, the library's folders, tests, benchmarks."""
    found: dict[str, list[Path]] = {"src/fzoos": []}
    experiments = []
    for path in sorted((tree / "src").rglob("*.py")):
        inside = path.relative_to(tree / "src")
        if inside.as_posix().startswith(tuple(f"{folder}/" for folder in EXPERIMENTS)):
            experiments.append(path)
            continue
        found["src/fzoos"].append(path)
        folder = inside.parts[1] if len(inside.parts) > 2 else "(top level)"
        found.setdefault(f"  {folder}", []).append(path)
    others = {name: sorted((tree / name).rglob("*.py")) for name in ("tests", "benchmarks")}
    return found | {"src/fzoos_experiments": experiments} | others


def sizes(tree: Path) -> Rows:
    """Files, lines and code lines of each package."""
    rows = {}
    for name, paths in packages(tree).items():
        lines = sum(path.read_text(encoding="utf-8").count("\n") for path in paths)
        rows[name] = f"{len(paths)} / {lines} / {sum(map(code_lines, paths))}"
    return rows


def members(tree: Path) -> Rows:
    """What the base classes of all algorithms consist of, and docstrings that say too little."""
    rows: Rows = {}
    for name, file in (("Algorithm", "base.py"), ("ServerHalf", "server_half.py"), ("ClientHalf", "client_half.py")):
        path = tree / "src/fzoos/algorithms" / file
        classes = [n for n in (parse(path).body if path.exists() else ()) if isinstance(n, ast.ClassDef)]
        body = next((n.body for n in classes if n.name == name), [])
        methods = [n for n in body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
        variables = [n for n in body if isinstance(n, ast.AnnAssign) and "ClassVar" in ast.unparse(n.annotation)]
        rows[f"methods + class variables of {name}"] = f"{len(methods)} + {len(variables)}"
    texts = [ast.literal_eval(node.value) for path in (tree / "src").rglob("*.py") for node in docstrings(path)]
    return rows | {"docstrings of three words or fewer": sum(len(text.split()) <= 3 for text in texts)}


def questions(tree: Path) -> Rows:
    """The lines outside algorithms/ that read one of the attributes `KIND`."""
    counts = {}
    for path in packages(tree)["src/fzoos"]:
        nodes = () if "algorithms" in path.parts else ast.walk(parse(path))
        lines = {node.lineno for node in nodes if isinstance(node, ast.Attribute) and KIND.fullmatch(node.attr)}
        if lines:
            counts[path.relative_to(tree).as_posix()] = len(lines)
    text = f"{sum(counts.values())} in {len(counts)} files, {counts.get('src/fzoos/federation/server.py', 0)}"
    return {"lines that query the kind of algorithm; server": text}


def tests(tree: Path, collect: bool) -> Rows:
    """The test functions, and how many tests pytest makes of them."""
    nodes = [node for path in (tree / "tests").rglob("*.py") for node in ast.walk(parse(path))]
    rows: Rows = {"test functions": sum(isinstance(n, ast.FunctionDef) and n.name.startswith("test_") for n in nodes)}
    if collect:
        pytest = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider"]
        command = [*pytest, "--doctest-modules", "src", "tests"]
        listed = subprocess.run(command, cwd=tree, env=environment(tree), capture_output=True, text=True).stdout
        rows["collected tests"] = ", ".join(re.findall(r"(\d+)(?:/\d+)? tests collected", listed))
    return rows


def cycles(tree: Path) -> Rows:
    """The sizes of the groups of modules that import each other when they run, wherever the imports stand."""
    paths = [path for path in (tree / "src").rglob("*.py") if "templates" not in path.parts]
    names = [".".join(path.relative_to(tree / "src").with_suffix("").parts) for path in paths]
    files = {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}
    files.pop("fzoos", None)  # its names are loaded when they are used
    reached: dict[str, set[str]] = {}
    for name, path in files.items():
        stub = path.with_suffix(".pyi")  # of a package whose names are loaded when they are used
        reached[name] = set()
        tree_of_module = parse(stub if stub.exists() else path)
        checked = [
            node
            for node in ast.walk(tree_of_module)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        ]
        typed = {inner for node in checked for inner in ast.walk(node)}
        for node in ast.walk(tree_of_module):
            if isinstance(node, ast.ImportFrom) and node.module and node not in typed:
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & files.keys()
                reached[name] |= inner or {node.module} & files.keys()
    for between in files:
        for others in reached.values():
            others |= reached[between] if between in others else set()
    groups = {frozenset(o for o in reached[n] if n in reached[o]) for n in files if n in reached[n]}
    return {"import cycles, modules in each": ", ".join(str(n) for n in sorted(map(len, groups))) or "none"}


def environment(tree: Path) -> dict[str, str]:
    """The variables with which a process imports the library from a tree and uses one thread."""
    single = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    return os.environ | single | {"PYTHONPATH": str(tree.resolve() / "src")}


def probe(tree: Path, what: str) -> Rows:
    """The result of one of the functions below, run with the tree's library."""
    command = [sys.executable, __file__, "--probe", what]
    rows: Rows = json.loads(subprocess.run(command, env=environment(tree), check=True, stdout=subprocess.PIPE).stdout)
    return rows


def run(algorithm: Any, f: Any, **options: Any) -> Any:
    """A run of the library that this process imports: three clients, 20 variables."""
    seed = "rng" if "rng" in inspect.signature(minimize).parameters else "seed"
    options |= {"bounds": (0.0, 1.0), seed: 0}
    return minimize([f] * 3, np.full(20, 0.3), algorithm=algorithm, **options)


def paths() -> Rows:
    """The stack between `minimize` and an objective, and the files whose functions run in the second round."""
    stacks, touched = set[tuple[str, ...]](), set[str]()

    def objective(x: Any) -> float:
        frame, files = sys._getframe(1), []
        while frame.f_code.co_name != "minimize" or "fzoos" not in frame.f_code.co_filename:
            files.append(frame.f_code.co_filename)
            frame = frame.f_back  # type: ignore[assignment]
        stacks.add((*files, frame.f_code.co_filename))
        return float(((x - 0.5) ** 2).sum())

    def profile_second(record: Any) -> None:
        sys.setprofile(None if record.round == 2 else lambda frame, *_: touched.add(frame.f_code.co_filename))

    bases = FedZO.__mro__[: FedZO.__mro__.index(Algorithm)]
    defined = {name for base in bases for name in vars(base) if name in vars(Algorithm) and name[0] != "_"}
    rows: Rows = {"members that FedZO and its bases override": len(defined - {"name", "label"})}
    for name in PATHS:
        stacks.clear()
        touched.clear()
        run(ALGORITHMS[name](), objective, rounds=2, callback=profile_second)
        frames, files = sorted(map(len, stacks)), max(len(set(stack)) for stack in stacks)
        rows[f"frames from minimize to the objective, {name}"] = f"{frames[0]}-{frames[-1]}, {files} files"
        rows[f"files touched by a round, {name}"] = sum("fzoos/" in path for path in touched)
    return rows


def cpu() -> Rows:
    """Microseconds of processor time per query: 20 variables, 3 clients, an objective that costs next to nothing."""
    rows = {}
    for name, kind in ALGORITHMS.items():
        run(kind(), lambda x: float(x @ x), rounds=1)
        started = time.process_time()
        result = run(kind(), lambda x: float(x @ x), rounds=100, max_queries=1800)
        rows[name] = 1e6 * (time.process_time() - started) / result.queries
    return rows


def cpu_ratios(trees: list[Path], repeats: int) -> list[Rows]:
    """Medians over processes that alternate between the trees; each with its ratio to that of the first tree."""
    found = [[probe(tree, "cpu") for tree in trees] for _ in range(repeats)]
    columns: list[Rows] = [{} for _ in trees]
    for name in (name for name in found[0][0] if all(name in times for times in found[0])):
        times = [median(run[name] for run in runs) for runs in zip(*found, strict=True)]
        for column, value in zip(columns, times, strict=True):
            column[f"us of CPU per query, {name}"] = f"{value:.1f} ({value / times[0]:.2f})"
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path, action="append", help="a source tree; again for the next  [default: .]")
    parser.add_argument("--tests", action="store_true", help="collect the tests with pytest, too")
    parser.add_argument("--test-log", type=Path, action="append", default=[], help="output of make test, one per tree")
    parser.add_argument("--cpu", type=int, nargs="?", const=5, default=0, metavar="N", help="time each tree N times")
    parser.add_argument("--probe", choices=("paths", "cpu"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        print(json.dumps(paths() if options.probe == "paths" else cpu()))
        return
    trees = options.tree or [Path()]
    columns = [sizes(tree) | members(tree) | questions(tree) | cycles(tree) for tree in trees]
    for tree, column in zip(trees, columns, strict=True):
        column.update(tests(tree, options.tests) | probe(tree, "paths"))
    for log, column in zip(options.test_log, columns, strict=False):
        seconds = re.findall(r" (?:passed|failed).* in ([\d.]+)s", log.read_text(encoding="utf-8"))
        column["seconds of make test"] = sum(map(float, seconds))
    if options.cpu:
        for column, times in zip(columns, cpu_ratios(trees, options.cpu), strict=True):
            column.update(times)
    print(f"{'files / lines / code lines':48}" + "".join(f"{str(tree)[-24:]:>26}" for tree in trees))
    for label in dict.fromkeys(label for column in columns for label in column):
        print(f"{label:48}" + "".join(f"{column.get(label, '')!s:>26}" for column in columns))


if __name__ == "__main__":
    main()
