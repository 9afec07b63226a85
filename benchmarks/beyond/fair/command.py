"""The arguments that tune, rivals and price have in common, and what they print."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.beyond.fair.stored import FOLDER, Stored


@dataclass(frozen=True)
class Given:
    """What was given on the command line.

    Args:
        only: make the runs whose description contains this, even if they are stored; None: those that are not stored.
        tables: make no runs.
        runs: the folder of the results.
        page: a file with marks between which the table is put.
    """

    only: str | None
    tables: bool
    runs: Path
    page: Path | None

    def wants(self, words: str, stored: object) -> bool:
        """Whether a run is to be made."""
        return stored is None if self.only is None else re.search(self.only, words, re.IGNORECASE) is not None


def arguments(name: str, description: str | None, words: Sequence[str]) -> Given:
    """Read them."""
    title = (description or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.beyond {name}", description=title)
    parser.add_argument("--only", metavar="TEXT", help='make these, again if need be, such as "levy-5: FedZO"')
    parser.add_argument("--tables", action="store_true", help="make no runs")
    parser.add_argument("--runs", type=Path, default=FOLDER, metavar="FOLDER", help="where results are stored")
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page into which the tables are put")
    return Given(**vars(parser.parse_args(words)))


def finish(given: Given, name: str, text: str, stored: Stored) -> None:
    """Print the tables, and how they were made; put them into a page."""
    print("\n".join([text, "", "Made by:", "", *(f"- {made}" for made in stored.made)]))
    if given.page is not None:
        put(given.page, name, text)


def put(page: Path, name: str, text: str) -> None:
    """Put a text between the marks <!-- NAME --> and <!-- end of NAME --> of a page."""
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, mark, rest = page.read_text(encoding="utf-8").partition(first)
    _, end, after = rest.partition(last)
    if not mark or not end:
        raise SystemExit(f"{page} has no place for it: {first} and {last}")
    page.write_text(f"{before}{first}\n\n{text}\n\n{last}{after}", encoding="utf-8")
