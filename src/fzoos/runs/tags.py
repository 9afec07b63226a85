"""Tags: words that somebody gives a run, to find it again. Any text; those who show one show it as text."""

from __future__ import annotations

from collections.abc import Sequence

from fzoos.runs.rows import storable_text

__all__ = ["LONGEST", "MOST", "checked_tags"]

LONGEST = 60  # characters of a tag
MOST = 20  # tags of a run


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags as they are stored: without spaces around them, in order, each once.

    Example:
        >>> from fzoos.runs.tags import checked_tags
        >>> checked_tags([" noisy ", "a first try", "noisy"])
        ('a first try', 'noisy')
    """
    if not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"tags must be texts, got {list(tags)!r}")
    found = tuple(sorted({" ".join(storable_text(tag).split()) for tag in tags}))
    if len(found) > MOST:
        raise ValueError(f"tags must be at most {MOST}, got {len(found)}")
    for tag in found:
        if not tag or len(tag) > LONGEST:
            raise ValueError(f"a tag must have 1 to {LONGEST} characters, got {tag!r}")
    return found
