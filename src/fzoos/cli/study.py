"""The commands of studies: `fzoos scaffold`, `fzoos study`, `fzoos ask` and `fzoos tell`."""

from __future__ import annotations

import csv
import re
import shutil
import sys
from contextlib import nullcontext
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

import typer

from fzoos.cli import options
from fzoos.cli.entered_values import read_entered_values
from fzoos.engines import LocalStudy
from fzoos.federation.journal import JournalError
from fzoos.federation.study import Study
from fzoos.objectives.manual import ManualObjective, ValueTable
from fzoos.objectives.program import Program
from fzoos.result import Result
from fzoos.runs.store import Store
from fzoos.runs.text import result_facts

__all__ = ["ask", "scaffold", "study", "tell"]

ENGINES = ("flare", "flower")

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of the study, which contains study.toml.")]
SiteSeed = Annotated[
    int | None,
    typer.Option(min=0, help="Seed of all sites, which makes a run repeatable.  [default: a secret seed per site]"),
]
Site = Annotated[str | None, typer.Option(help="Print the points of this site only.")]


def scaffold(
    engine: Annotated[str, typer.Argument(metavar="ENGINE", help=f"One of {', '.join(ENGINES)}.")],
    folder: Annotated[
        Path, typer.Argument(metavar="STUDY", help="The folder to create; its name is the name of the study.")
    ],
) -> int:
    """Create the files of a study across machines.

    Edit site/objective.py and study.toml, then follow README.md.
    """
    if engine not in ENGINES:
        raise ValueError(f"there is no engine {engine!r}; choose from {', '.join(ENGINES)}")
    name = folder.name
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name):
        raise ValueError(f"a study's name must begin with a letter and be of at most 32 a-z, 0-9 and -, got {name!r}")
    if folder.exists():
        raise ValueError(f"{folder} exists already; nothing was written")
    for part in (engine, "common"):
        with as_file(files("fzoos") / "cli" / "templates" / part) as template:
            shutil.copytree(template, folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_text(path.read_text(encoding="utf-8").replace("{{name}}", name), encoding="utf-8")
    typer.echo(f"{folder}: edit site/objective.py and study.toml, then follow README.md")
    typer.echo(f"to try it on this machine without {engine}: fzoos study {folder}")
    return 0


def study(
    folder: Folder,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in this folder.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Sites that run in parallel.")] = 1,
    site_seed: SiteSeed = None,
    quiet: options.Quiet = False,
) -> int:
    """Run a study with all its sites on this machine.

    After Ctrl-C or a crash, --resume continues the run without repeating a query.
    """
    settings = Study.load(folder / "study.toml")
    if (folder / "result.db").exists() and not resume:
        raise ValueError(f"{folder / 'result.db'} holds a run: resume it with --resume, or move it and journals/ away")
    black_box = folder / "site" / "objective.py"
    if not black_box.exists():
        raise ValueError(f"there is no {black_box}; for values that are entered by hand, use fzoos ask")
    objectives = [
        Program.python(black_box, vectorized=settings.vectorized, timeout=settings.timeout, env={"SITE": site})
        for site in settings.sites
    ]
    result = LocalStudy(settings, folder, objectives, workers, site_seed).run(resume=resume, progress=not quiet)
    _show(folder, settings, result)
    return {"interrupted": 130, "failed": 1}.get(result.status, 0)


def ask(
    folder: Folder,
    site: Site = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the points to this file instead of standard output.")
    ] = None,
    site_seed: SiteSeed = None,
) -> int:
    """Print the points of a study to evaluate next.

    They are a CSV table. Fill in the column of values and pass the file to `fzoos tell`.
    """
    settings = Study.load(folder / "study.toml")
    if site is not None and site not in settings.sites:
        raise ValueError(f"there is no site {site!r}; the sites are {', '.join(settings.sites)}")
    sites, table = settings.sites if site is None else (site,), ValueTable(folder)
    result = None
    try:
        # It waits for all sites, and requests a batch at once.
        patient = replace(settings, vectorized=True, retries=0, min_clients=None)
        objectives = [ManualObjective(folder, name) for name in settings.sites]
        result = LocalStudy(patient, folder, objectives, site_seed=site_seed, snapshots=True).run(resume=True)
    except JournalError as error:  # a process of the site itself has it, and requests the points
        if "in use" not in str(error):
            raise
    constraints = max(map(table.constraints, sites))
    empty = [""] * (1 + constraints)
    rows = [[name, id, *_shown(settings, x), *empty] for name in sites for id, x in table.requested(name)]
    if not rows:
        if result is not None and result.status != "stopped":
            _show(folder, settings, result)
        else:
            typer.echo("no point is to be evaluated now")
        return 0
    names = [f"x{j + 1}" for j in range(settings.dim)] if settings.space is None else settings.space.names
    head = ["site", "id", *names, "value", *(f"constraint{j + 1}" for j in range(constraints))]
    with open(output, "w", newline="", encoding="utf-8") if output else nullcontext(sys.stdout) as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])
    typer.echo(
        f"{len(rows)} point{'' if len(rows) == 1 else 's'}; fill in the last column{'s' if constraints else ''}, then: "
        f"fzoos tell {folder} FILE",
        err=True,
    )
    return 0


def tell(
    folder: Folder,
    values: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="CSV file with the columns site, id and value; optional: x1, ..., constraint1, ..."
        ),
    ],
) -> int:
    """Enter values for the points of `fzoos ask`.

    Values of some points are enough; the others can be entered later.
    """
    settings, table = Study.load(folder / "study.toml"), ValueTable(folder)
    entries, remarks = read_entered_values(values, settings, table)
    count = table.enter(entries, failures=settings.on_failure == "skip")
    for remark in remarks:
        typer.echo(remark)
    left = sum(len(table.requested(site)) for site in settings.sites)
    typer.echo(
        f"{count} new values entered"
        + (f"; {left} points are still without a value" if left else f"; next: fzoos ask {folder}")
    )
    return 0


def _shown(settings: Study, x: list[float]) -> list[str]:
    """A point in a table: its coordinates with all their digits, or its variables."""
    if settings.space is None:
        return list(map(repr, x))
    return [str(value) for value in settings.space.variables(x).values()]


def _show(folder: Path, settings: Study, result: Result) -> None:
    with Store(folder / "result.db") as store:
        facts = result_facts(result, store.extra(store.last or 0), settings.sites)
    facts["result"] = f"{(folder / 'result.db').resolve()} (fzoos.load)"
    for heading, text in facts.items():
        typer.echo(f"{heading:<8} {text}")
