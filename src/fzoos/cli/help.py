"""The text of `--help` below the options: examples of every command, and the exit codes."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from fzoos.cli.exit_codes import EXIT_CODES

__all__ = ["EXAMPLES", "HelpGroup", "add_examples", "epilog"]

EXAMPLES = {
    "compare": (
        "fzoos compare quadratic --heterogeneity 5 --rounds 20",
        "fzoos compare levy --dim 50 --algorithms fedzo,fzoos --seeds 3 --output levy.png",
        "fzoos compare ackley --dim 20 --quiet --json - --store runs.db",
        "fzoos compare attack --data FOLDER --seeds 5",
        "fzoos compare attack --data FOLDER --dataset cifar10 --portion 0.3 --algorithms fedzo,fzoos",
        "fzoos compare metric --data FOLDER --metric f1 --seeds 3",
        "fzoos compare prompt --algorithms fedcma,fedbpt,auto --device cuda --rounds 8",
    ),
    "run": (
        "fzoos run ackley --rounds 30 --store runs.db",
        "fzoos run ackley --rounds 60 --store runs.db --resume 1",
        "fzoos run quadratic --dim 20 --quiet --json result.json",
        "fzoos run levy --dim 20 --quiet --json -",
        "fzoos run quadratic --dim 50 --precision float16",
        "fzoos run quadratic --dim 50 --noise 0.1",
        "fzoos run attack --data FOLDER --seed 3",
        "fzoos run metric --data FOLDER --portion 0.7 --json result.json",
        "fzoos run prompt --device cuda --rounds 8",
        "fzoos run mymodule:objectives --rounds 30 --store runs.db",
    ),
    "benchmark": (
        "fzoos benchmark bbob --dim 2,5,10 --jobs 2",
        "fzoos benchmark largescale --dim 80 --budget 30 --algorithms auto,fedzo@0.03,fedcma",
        "fzoos benchmark ls-noisy --instances 1-3 --algorithms auto,bobyqa",
        "fzoos benchmark mujoco --problems swimmer,hopper --algorithms auto,fedcma,cma-es",
    ),
    "reproduce": (
        "fzoos reproduce --list",
        "fzoos reproduce fig1 --quick --jobs 2",
        "fzoos reproduce prompt --device cuda --jobs 2",
    ),
    "scaffold": (
        "fzoos scaffold flare my-study",
        "fzoos scaffold flower my-study",
    ),
    "study": (
        "fzoos study my-study",
        "fzoos study my-study --resume --quiet",
    ),
    "ask": (
        "fzoos ask my-study --output points.csv",
        "fzoos ask my-study --site site-1",
    ),
    "tell": ("fzoos tell my-study points.csv",),
    "verify": ("fzoos journal verify my-study/journals/site-1.journal",),
    "recover": ("fzoos journal recover site-1.journal recovered.journal",),
    "list": (
        "fzoos list",
        "fzoos list runs.db --json",
    ),
    "show": (
        "fzoos show",
        "fzoos show runs.db:3 --rounds 20",
        "fzoos show my-study --json",
    ),
    "compare-runs": (
        "fzoos compare-runs 1 2",
        "fzoos compare-runs runs.db:1 my-study --json",
    ),
    "export": (
        "fzoos export --output run.csv",
        "fzoos export runs.db:3 --output run.parquet",
        "fzoos export my-study -o run.json",
    ),
    "dashboard": (
        "fzoos dashboard runs.db",
        "fzoos dashboard my-study --open",
        "fzoos dashboard runs.db --edit",
        "fzoos dashboard results --host 0.0.0.0",
    ),
    "report": (
        "fzoos report",
        "fzoos report runs.db --all",
        "fzoos report runs.db:3 my-study -o both.html",
        "fzoos report my-study --format md -o report.md",
    ),
}


class _PlainHelp:
    """Help without the backslashes that typer before 0.21 puts before brackets, for a markup that is off here."""

    def get_help(self, ctx: Any) -> str:
        text: str = super().get_help(ctx)  # type: ignore[misc]
        return text.replace("\\[", "[")


class HelpCommand(_PlainHelp, TyperCommand):
    """A command whose help is readable."""


class HelpGroup(_PlainHelp, TyperGroup):
    """A group of commands whose help is readable."""


def add_examples(app: typer.Typer) -> None:
    """Give every command a readable help, with its examples."""
    for command in app.registered_commands:
        assert command.callback is not None
        command.cls = HelpCommand
        name = command.name or command.callback.__name__.replace("_", "-")
        if name in EXAMPLES:
            command.epilog = _block("Examples:", EXAMPLES[name])


def epilog() -> str:
    """The text below the list of commands."""
    codes = _block("Exit codes:", [f"{code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()])
    return f"{codes}\n\nEach command has examples: fzoos COMMAND --help"


def _block(heading: str, lines: list[str] | tuple[str, ...]) -> str:
    """Lines that are neither joined nor wrapped, which \\b means."""
    return "\n".join(["\b", heading, *(f"  {line}" for line in lines)])
