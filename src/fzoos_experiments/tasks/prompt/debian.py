"""Descriptions of Debian's packages and the sections they are in, from the package index of a Debian or Ubuntu machine.

    python -m fzoos_experiments.tasks.prompt.debian debian.npz

runs `apt-cache dumpavail` to get the index and writes the archive. Another index can be read from standard input:

    apt-cache dumpavail | python -m fzoos_experiments.tasks.prompt.debian debian.npz -

The packages' maintainers write the descriptions. The index has one paragraph per package, in which `Description` may
come before or after `Section`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from fzoos_experiments.tasks.cache import write_archive
from fzoos_experiments.tasks.prompt.texts import Texts

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
    """Read the fields of each package, only the first line of each field.

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
    """Collect the descriptions of the index, each once, in random order.

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
    rng, chosen = np.random.default_rng(seed), []
    for name in SECTIONS:
        descriptions = [text for text, section in section_of.items() if section == name]
        if not descriptions:
            raise ValueError(f"there is no text of the class {name}")
        chosen += rng.permutation(descriptions)[:most].tolist()
    chosen = rng.permutation(chosen).tolist()
    labels = [SECTIONS.index(section_of[text]) for text in chosen]
    return Texts(np.array(chosen), np.array(labels, np.int64), np.array(SECTIONS))


def _main(arguments: list[str]) -> str:
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["-"]):
        return "usage: python -m fzoos_experiments.tasks.prompt.debian FILE.npz [-]"
    if arguments[1:]:
        lines: Iterable[str] = sys.stdin
    else:
        try:
            dumped = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            return f"apt-cache gives no package index here ({error}): give one on standard input, with - at the end"
        lines = dumped.stdout.split("\n")
    try:
        texts = collect(lines)
    except ValueError as error:
        return f"the package index is not whole: {error}"
    path = Path(arguments[0])
    write_archive(path, texts._asdict(), compress=True)
    counts = np.bincount(texts.label)
    print(f"{path}: {len(texts.text)} texts")
    print(", ".join(f"{name} {count}" for name, count in zip(texts.classes, counts, strict=True)))
    return ""


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]) or 0)
