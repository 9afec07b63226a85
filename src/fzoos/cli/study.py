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
from rich.filesize import decimal

from fzoos.cli.options import Quiet
from fzoos.cli.told import read_told
from fzoos.engines import LocalStudy
from fzoos.federation.journal import JournalError
from fzoos.federation.study import Study
from fzoos.objectives.manual import ManualObjective, ValueTable
from fzoos.objectives.program import Program
from fzoos.result import Result
from fzoos.runs.store import Store
from fzoos.runs.text import short_x

__all__ = ["add_to"]

ENGINES = ("flare", "flower")

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="The study's folder, with study.toml in it.")]
SiteSeed = Annotated[int | None, typer.Option(min=0, help="Of all sites, to repeat a run.  [default: secret ones]")]
Site = Annotated[str | None, typer.Option(help="Of this site only.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (scaffold, study, ask, tell):
        app.command()(command)


def scaffold(
    engine: Annotated[str, typer.Argument(metavar="ENGINE", help=f"One of {', '.join(ENGINES)}.")],
    folder: Annotated[Path, typer.Argument(metavar="STUDY", help="The folder to make; its name is the study's.")],
) -> int:
    """Make the files of a study across machines: edit two of them, follow its README."""
    if engine not in ENGINES:
        raise ValueError(f"there is no engine {engine!r}; choose from {', '.join(ENGINES)}")
    name = folder.name
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name):
        raise ValueError(f"a study's name must begin with a letter and be of at most 32 a-z, 0-9 and -, got {name!r}")
    if folder.exists():
        raise ValueError(f"{folder} is there already; nothing was written")
    with as_file(files("fzoos") / "cli" / "templates" / engine) as template:
        shutil.copytree(template, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_text(path.read_text(encoding="utf-8").replace("{{name}}", name), encoding="utf-8")
    typer.echo(f"{folder}: edit site/objective.py and study.toml, then follow README.md")
    typer.echo(f"to try it on this machine without {engine}: fzoos study {folder}")
    return 0


def study(
    folder: Folder,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is there.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Sites that work at the same time.")] = 1,
    site_seed: SiteSeed = None,
    quiet: Quiet = False,
) -> int:
    """Run a study with all its sites on this machine; Ctrl-C and --resume lose nothing."""
    settings = Study.load(folder / "study.toml")
    if (folder / "result.db").exists() and not resume:
        raise ValueError(f"{folder / 'result.db'} holds a run: go on with --resume, or move it and journals/ away")
    black_box = folder / "site" / "objective.py"
    if not black_box.exists():
        raise ValueError(f"there is no {black_box}; for values that are found by hand, see fzoos ask")
    objectives = [
        Program.python(black_box, vectorized=settings.vectorized, timeout=settings.timeout, env={"SITE": site})
        for site in settings.sites
    ]
    result = LocalStudy(settings, folder, objectives, workers, site_seed).run(resume=resume, progress=not quiet)
    _show(folder, result)
    return {"interrupted": 130, "failed": 1}.get(result.status, 0)


def ask(
    folder: Folder,
    site: Site = None,
    output: Annotated[Path | None, typer.Option(help="Write the points there, not to standard output.")] = None,
    site_seed: SiteSeed = None,
) -> int:
    """Print the points to evaluate next, as a table to fill in (CSV) and to hand to `fzoos tell`."""
    settings = Study.load(folder / "study.toml")
    if site is not None and site not in settings.sites:
        raise ValueError(f"there is no site {site!r}; the sites are {', '.join(settings.sites)}")
    sites, table = settings.sites if site is None else (site,), ValueTable(folder)
    result = None
    try:
        # All sites are waited for, and a batch is asked for at once.
        patient = replace(settings, vectorized=True, retries=0, min_clients=None)
        objectives = [ManualObjective(folder, name) for name in settings.sites]
        result = LocalStudy(patient, folder, objectives, site_seed=site_seed, snapshots=True).run(resume=True)
    except JournalError as error:  # a site's own process has it, and asks
        if "in use" not in str(error):
            raise
    constraints = max(map(table.constraints, sites))
    empty = [""] * (1 + constraints)
    rows = [[name, id, *_shown(settings, x), *empty] for name in sites for id, x in table.requested(name)]
    if not rows:
        if result is not None and result.status != "stopped":
            _show(folder, result)
        else:
            typer.echo("nothing is asked for now")
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
        Path, typer.Argument(metavar="FILE", help="CSV: site, id, value; x and constraint1, ... are read too.")
    ],
) -> int:
    """Hand in values for points of `fzoos ask`; some of them will do, the rest can come later."""
    settings, table = Study.load(folder / "study.toml"), ValueTable(folder)
    told = read_told(values, settings, table)
    count = table.enter(told.entries, failures=settings.on_failure == "skip")
    for remark in told.remarks:
        typer.echo(remark)
    left = sum(len(table.requested(site)) for site in settings.sites)
    typer.echo(
        f"{count} new values taken" + (f"; {left} are still asked for" if left else f"; next: fzoos ask {folder}")
    )
    return 0


def _shown(settings: Study, x: list[float]) -> list[str]:
    """A point as it stands in a table: its coordinates with all their digits, or its variables."""
    if settings.space is None:
        return list(map(repr, x))
    return [str(value) for value in settings.space.variables(x).values()]


def _show(folder: Path, result: Result) -> None:
    typer.echo(f"status   {result.status}: {result.message}")
    typer.echo(f"x        {short_x(result.x)}")
    for name, value in (result.variables or {}).items():
        typer.echo(f"  {name} = {value}")
    typer.echo(f"rounds   {result.rounds}")
    typer.echo(f"queries  {result.queries:,} (per site {', '.join(f'{q:,}' for q in result.queries_per_client)})")
    if result.feasibility:
        typer.echo(f"feasible {result.feasibility}")
    if result.failed:
        typer.echo(f"failed   {result.failed:,} of these queries")
    typer.echo(f"bytes    {decimal(result.bytes_up)} up, {decimal(result.bytes_down)} down")
    with Store(folder / "result.db") as store:
        extra = store.extra(store.last or 0)
    if "epsilon" in extra:
        typer.echo(f"privacy  epsilon {extra['epsilon']:.3g} at delta {extra['delta']:g} for each site")
    typer.echo(f"result   {(folder / 'result.db').resolve()} (fzoos.load)")
