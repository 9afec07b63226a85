"""Runs as text: a report in Markdown, and the format of their numbers and names everywhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.filesize import decimal

from fzoos._util.arrays import FloatArray
from fzoos.result import Record, Result
from fzoos.runs.compare import AXES, at_equal, differing, flatten

__all__ = ["markdown", "number", "one_line", "result_facts", "round_rows", "rounds_shown", "short_x", "value_text"]

_SHOWN = 12  # rows of a table of rounds
_COORDINATES = 10  # of a point


def markdown(runs: list[tuple[str, dict[str, Any], Result]]) -> str:
    """Return a report in Markdown: totals, settings, F at equal cost, and of each run some rounds and all clients.

    Each run is a label, its settings and its result.
    """
    several = len(runs) > 1
    parts = [f"# {len(runs)} runs" if several else f"# {_cell(runs[0][0])}" if runs else "# No runs", _totals(runs)]
    if several:
        parts += [_differences(runs), _equal_cost(runs)]
    parts.append(_settings(runs))
    for run in runs:
        parts += _one(*run, heading=several)
    return "\n\n".join(part for part in parts if part) + "\n"


def number(value: float | None) -> str:
    """F, a length or a distance, in a table."""
    return "–" if value is None else f"{value:.4g}"


def one_line(text: object) -> str:
    """Names and messages come from files: no line breaks, no terminal control sequences."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(text).split()))


def result_facts(result: Result, extra: Mapping[str, Any], clients: Sequence[str]) -> dict[str, str]:
    """Return what commands print of a result, by heading; `extra` has epsilon and delta if the run was private."""
    each = ", ".join(f"{name} {n:,}" for name, n in zip(clients[:10], result.queries_per_client, strict=False))
    facts = {
        "status": f"{result.status}: {result.message}" if result.message else result.status,
        "x": short_x(result.x),
        "values": ", ".join(f"{name} = {value}" for name, value in (result.variables or {}).items()),
        "feasible": result.feasibility,
        "rounds": str(result.rounds),
        "queries": f"{result.queries:,} ({each}{', ...' if len(clients) > 10 else ''})",
    }
    if result.failed:
        first = f"; the first: {result.first_failure.splitlines()[-1]}" if result.first_failure else ""
        facts["failed"] = f"{result.failed:,} of these queries{first}"
    facts["bytes"] = f"{decimal(result.bytes_up)} up, {decimal(result.bytes_down)} down"
    facts["seconds"] = f"{result.seconds:.2f}"
    if "epsilon" in extra:
        facts["privacy"] = f"epsilon {extra['epsilon']:.3g} at delta {extra['delta']:g} for each client"
    return {heading: text for heading, text in facts.items() if text}


def short_x(x: FloatArray) -> str:
    """The first coordinates of a point."""
    return " ".join(f"{v:.6g}" for v in x[:_COORDINATES]) + (" ..." if len(x) > _COORDINATES else "")


def value_text(value: Any, length: int = 60) -> str:
    """The value of a setting, shortened where it is long."""
    if value is None:
        return "–"
    text = one_line(value if isinstance(value, str) else json.dumps(value))
    if len(text) <= length:
        return text
    return text[: length - 4].rstrip() + (f" ... ({len(value)} values)" if isinstance(value, list) else " ...")


def rounds_shown(history: Sequence[Record], count: int = _SHOWN) -> list[Record]:
    """Some of the rounds at equal distances, the first and the last among them."""
    if len(history) <= count:
        return list(history)
    return [history[i] for i in np.linspace(0, len(history) - 1, count).round().astype(int)]


def round_rows(shown: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of a table of rounds."""
    names = list(dict.fromkeys(name for record in shown for name in record.measured))
    heads = ["round", "F", "queries", "bytes", "seconds", "step", *(name.replace("_", " ") for name in names)]
    rows = [
        [str(r.round), number(r.monitor), f"{r.queries:,}", decimal(r.bytes_up + r.bytes_down), f"{r.seconds:.1f}",
         number(r.step), *(number(r.measured.get(name)) for name in names)]
        for r in shown
    ]  # fmt: skip
    return heads, rows


def _totals(runs: Iterable[tuple[str, dict[str, Any], Result]]) -> str:
    rows = []
    for label, _, result in runs:
        up, down = decimal(result.bytes_up), decimal(result.bytes_down)
        counts = [str(result.rounds), number(_last(result)), f"{result.queries:,}", up, down, f"{result.seconds:.1f}"]
        rows.append([label, result.status, *counts])
    return _table(["run", "status"], ["rounds", "F", "queries", "bytes up", "bytes down", "seconds"], rows)


def _differences(runs: Sequence[tuple[str, dict[str, Any], Result]]) -> str:
    found = differing([settings for _, settings, _ in runs])
    if not found:
        return "## Settings that differ\n\nNone."
    rows = [[name, *map(value_text, values)] for name, values in found.items()]
    return "## Settings that differ\n\n" + _table(["setting", *(label for label, _, _ in runs)], [], rows)


def _equal_cost(runs: Sequence[tuple[str, dict[str, Any], Result]]) -> str:
    results = [result for _, _, result in runs]
    if all(_last(result) is None for result in results):
        return "## F at equal cost\n\nF is not known: these runs had no monitor."
    rows = [[axis, f"{cost:,}", *map(number, values)] for axis in AXES for cost, values in at_equal(results, axis)]
    return "## F at equal cost\n\n" + _table(["of", "up to"], [label for label, _, _ in runs], rows)


def _settings(runs: Sequence[tuple[str, dict[str, Any], Result]]) -> str:
    """Of all runs; those that differ have their own table."""
    if not runs:
        return ""
    own = differing([settings for _, settings, _ in runs])
    rows = [[name, value_text(value)] for name, value in flatten(runs[0][1]).items() if name not in own]
    heading = "## Settings of all runs" if len(runs) > 1 else "## Settings"
    return f"{heading}\n\n" + _table(["setting", "value"], [], rows) if rows else ""


def _one(label: str, settings: Mapping[str, Any], result: Result, heading: bool) -> list[str]:
    parts = [f"## {_cell(label)}" if heading else "## Rounds", _cell(f"{result.status}: {result.message}")]
    if result.history:
        parts.append(_table([], *round_rows(rounds_shown(result.history))))
    distances = result.history[-1].distances if result.history else ()
    sites = settings.get("sites")
    rows = []
    for i, count in enumerate(result.queries_per_client):
        name = str(sites[i]) if isinstance(sites, list) and i < len(sites) else f"client {i}"
        rows.append([name, f"{count:,}", number(distances[i] if i < len(distances) else None)])
    parts.append(_table(["client"], ["queries", "distance from the mean"], rows))
    parts.append(f"x = {_values(result.x)}")
    if result.feasibility:
        parts.append(f"feasible: {result.feasibility}")
    return parts


def _values(x: FloatArray) -> str:
    return short_x(x) + (f" ({len(x)} values)" if len(x) > _COORDINATES else "")


def _last(result: Result) -> float | None:
    return result.history[-1].monitor if result.history else None


def _table(words: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [[*words, *numbers], ["---"] * len(words) + ["---:"] * len(numbers), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    """Text that stays in its cell and is not taken for markup."""
    line = one_line(text)
    for sign in "\\|<`":
        line = line.replace(sign, "\\" + sign)
    return line
