"""Descriptions of Debian's packages and the sections they are in, from the package index of a Debian or Ubuntu machine.

    python -m fzoos_experiments.tasks.prompt.debian debian.npz

asks `apt-cache dumpavail` for the index and writes the archive; another index is read from standard input:

    apt-cache dumpavail | python -m fzoos_experiments.tasks.prompt.debian debian.npz -

The descriptions are written by the packages' maintainers. The index is a list of paragraphs, one for each package, in
which `Description` may come before or after `Section`: both are taken from the same paragraph.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from fzoos_experiments.tasks.prompt.texts import Texts, draw, store

__all__ = ["SECTIONS", "collect", "paragraphs"]

SECTIONS = (
    "games",
    "sound",
    "science",
    "mail",
    "graphics",
    "web",
    "math",
    "fonts",
    "text",
    "database",
    "video",
    "editors",
)
"""Sections whose names are words, each a single token of SmolLM2 with a blank before it."""

_LONGEST = 87  # characters of a description


def paragraphs(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """The fields of each package, the first line of each field only.

    Example:
        >>> from fzoos_experiments.tasks.prompt.debian import paragraphs
        >>> index = ["Package: 2048", "Description: sliding tiles", " more of it", "Section: games", "", "Package: a"]
        >>> list(paragraphs(index))
        [{'Package': '2048', 'Description': 'sliding tiles', 'Section': 'games'}, {'Package': 'a'}]
    """
    fields: dict[str, str] = {}
    for line in lines:
        if not line.strip():
            if fields:
                yield fields
            fields = {}
        elif not line[0].isspace():
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    if fields:
        yield fields


def collect(lines: Iterable[str], most: int = 600, seed: int = 0) -> Texts:
    """The descriptions of the index, each once, at most so many a section, in random order.

    Args:
        lines: the package index.
        most: descriptions of a section at most.
        seed: the seed of the order, and of the choice where a section has more.

    Raises:
        ValueError: a section has none.

    Example:
        >>> from fzoos_experiments.tasks.prompt.debian import SECTIONS, collect
        >>> index = [line for name in SECTIONS for line in (f"Description: of {name}", f"Section: main/{name}", "")]
        >>> texts = collect(index)
        >>> len(texts.text), str(texts.classes[texts.label[0]]) in texts.text[0]
        (12, True)
    """
    section_of: dict[str, str] = {}
    for fields in paragraphs(lines):
        text = fields.get("Description") or fields.get("Description-en") or ""
        section = fields.get("Section", "").rpartition("/")[2]
        if section in SECTIONS and 0 < len(text) <= _LONGEST:
            section_of.setdefault(text, section)
    return draw(section_of, SECTIONS, most, seed)


def _main(arguments: list[str]) -> str:
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["-"]):
        return "usage: python -m fzoos_experiments.tasks.prompt.debian FILE.npz [-]"
    if arguments[1:]:
        lines: Iterable[str] = sys.stdin
    else:
        try:
            asked = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"apt-cache gives no package index here ({error}): give one on standard input, with - at the end"
        lines = asked.stdout.split("\n")
    try:
        texts = collect(lines)
    except ValueError as error:
        return f"the package index is not whole: {error}"
    store(Path(arguments[0]), texts)
    return ""


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]) or 0)
