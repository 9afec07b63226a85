"""A site's own seed: it is drawn at the site, stored in its journal, and never sent.

The site's queries follow from it and from the server's requests. Whoever knows the queries can compute the site's
values from its replies: docs/privacy.md describes the attacks.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping

__all__ = ["draw_seed", "seal", "unseal"]

_BITS = 128


def draw_seed() -> int:
    """Draw a secret seed from the operating system."""
    return secrets.randbits(_BITS)


def seal(seed: int) -> str:
    """The seed as text, with a digest that detects a flipped bit.

    Example:
        >>> from fzoos.federation.site_seed import seal, unseal
        >>> unseal({"seed": seal(7)}), unseal({"seed": seal(7).replace("7", "8", 1)})
        (7, None)
    """
    text = f"{seed:x}"
    return f"{text} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def unseal(about: Mapping[str, str]) -> int | None:
    """The seed in the table `about` of a journal; None if it is missing or damaged."""
    text = about.get("seed", "")
    seed = text.partition(" ")[0]
    return int(seed, 16) if re.fullmatch("[0-9a-f]+", seed) and seal(int(seed, 16)) == text else None
