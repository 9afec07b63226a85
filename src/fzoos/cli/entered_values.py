"""The table of values that is filled in by hand, in the dialect of any spreadsheet; its points may be changed, too."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from fzoos.federation.study import Study
from fzoos.objectives.manual import Entry, ValueTable

__all__ = ["read_entered_values"]

_SAME = 1e-6  # relative difference of coordinates that a spreadsheet may have rounded


def read_entered_values(path: Path, study: Study, table: ValueTable) -> tuple[dict[str, list[Entry]], list[str]]:
    """Return the entries of a table of values by site, and remarks; rows without a value are left out.

    Columns are separated by commas, or by semicolons or tabs with decimal commas. Constraints are in columns
    constraint1, constraint2, ...; `table` has the requested points.

    Raises:
        ValueError: the file cannot be read, a column is missing, or a row is wrong; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    head = text.partition("\n")[0]
    separator = next((sign for sign in (";", "\t") if sign in head), ",")
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
    missing = {"site", "id", "value"} - set(reader.fieldnames or ())
    if missing:
        raise ValueError(f"{path} has no column {min(missing)!r}; it must have site, id and value")
    columns = _constraint_columns(reader.fieldnames or (), study)
    requested = {site: dict(table.requested(site)) for site in study.sites}
    entries: dict[str, list[Entry]] = {}
    remarks: list[str] = []
    for number, row in enumerate(reader, start=2):
        where, site = f"{path}, line {number}", row["site"]
        if site not in requested:
            raise ValueError(f"{where}: there is no site {site!r}")
        c = _constraints(where, row, columns, separator)
        if not (row["value"] or "").strip():
            if c:
                raise ValueError(f"{where}: there are constraints but no value")
            continue
        value, point = _number(where, "value", row["value"], separator), requested[site].get(row["id"])
        evaluated, remark = (None, "") if point is None else _compare(where, row, point, study, separator)
        entries.setdefault(site, []).append(Entry(row["id"], (value, c) if c else value, evaluated))
        remarks += [remark] if remark else []
    return entries, remarks


def _constraint_columns(names: Iterable[str], study: Study) -> list[str]:
    """The columns of constraints in their order: constraint1, constraint2, ..."""
    variables = () if study.space is None else study.space.names
    found = {name for name in names if re.fullmatch(r"constraint[1-9]\d*", name) and name not in variables}
    columns = [f"constraint{j + 1}" for j in range(len(found))]
    for name in columns:
        if name not in found:
            raise ValueError(f"there is a column {max(found)!r} but none that is called {name!r}")
    return columns


def _constraints(where: str, row: Mapping[str, str], columns: Sequence[str], separator: str) -> list[float]:
    """The constraints of a row; a site may have fewer than others, or none."""
    cells = [(row[name] or "").strip() for name in columns]
    while cells and not cells[-1]:
        cells.pop()
    return [_number(where, name, cell, separator) for name, cell in zip(columns, cells, strict=False)]


def _compare(
    where: str, row: Mapping[str, str], point: Sequence[float], study: Study, separator: str
) -> tuple[list[float] | None, str]:
    """The point of this row and a remark, if it is not the requested one."""
    space = study.space
    names = [f"x{j + 1}" for j in range(len(point))] if space is None else list(space.names)
    if not all((row.get(name) or "").strip() for name in names):
        return None, ""  # columns of coordinates may be left out
    if space is None:
        given = [_number(where, name, row[name], separator) for name in names]
        shown = dict(zip(names, point, strict=True))
        same = np.allclose(given, point, rtol=_SAME, atol=_SAME * float(np.max(study.box.widths)))
        changed = {name: (shown[name], now) for name, now in zip(names, given, strict=True) if now != shown[name]}
        outside = not np.allclose(study.box.from_cube(study.box.to_cube(np.array(given))), given)
    else:
        texts = {name: row[name].replace(",", ".") if separator != "," else row[name] for name in names}
        try:
            read = space.read(texts)
            given = space.corner(read).tolist()
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}: {error}".replace("x0[", "[")) from None
        before = space.variables(point)
        changed = {name: (before[name], read[name]) for name in names if before[name] != read[name]}
        same = np.allclose(study.box.to_cube(np.array(given)), study.box.to_cube(np.array(point)), atol=_SAME)
        outside = False
    if same:
        return None, ""
    if outside:
        raise ValueError(f"{where}: the point is outside the bounds")
    words = ", ".join(f"{name} = {_short(now)} for {_short(was)}" for name, (was, now) in changed.items())
    return list(given), f"line {where.rpartition(' ')[2]}: taken as evaluated at {words}"


def _number(where: str, name: str, text: str, separator: str) -> float:
    """Read a number, with a decimal comma if commas do not separate columns."""
    plain = text.strip().replace(",", ".") if separator != "," else text
    try:
        return float(plain)
    except ValueError:
        raise ValueError(f"{where}: {name} must be a number, got {text!r}") from None


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) and math.isfinite(value) else str(value)
