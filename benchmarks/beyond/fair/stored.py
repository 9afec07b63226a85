"""Results on disk: one JSON object a line, found again by what was solved and who solved it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "results_fair"


class Stored:
    """A file of lines that have "problem", "label", "made" and whatever else was measured.

    Args:
        path: of the file; it need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._lines = {(line["problem"], line["label"]): line for line in map(json.loads, lines)}

    def get(self, problem: str, label: str) -> dict[str, Any] | None:
        """The line, if there is one."""
        return self._lines.get((problem, label))

    def put(self, problem: str, label: str, made: str, **measured: Any) -> None:
        """Add or replace a line, and write the file immediately, so that an interrupted command can continue."""
        self._lines[problem, label] = {"problem": problem, "label": label, **measured, "made": made}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text("".join(json.dumps(line) + "\n" for line in self._lines.values()), encoding="utf-8")
        temporary.replace(self._path)

    @property
    def made(self) -> list[str]:
        """How the lines were made, each way once."""
        return sorted({str(line["made"]) for line in self._lines.values()})


def rounded(value: float) -> float:
    """Four digits: what a table can show."""
    return float(f"{value:.4g}")
