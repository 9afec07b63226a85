"""A site's own seed, as it stands in its journal: drawn there, and never sent.

From it, and from what the server asks, follow the points that the site asks. Whoever knows them can compute the site's
values from its replies: docs/privacy.md has the attacks.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping

__all__ = ["draw_seed", "seal", "unseal"]

_BITS = 128


def draw_seed() -> int:
    """One that nobody knows, from the operating system."""
    return secrets.randbits(_BITS)


def seal(seed: int) -> str:
    """The seed as text, with a digest by which a flipped bit is seen.

    Example:
        >>> from fzoos.federation.site_seed import seal, unseal
        >>> unseal({"seed": seal(7)}), unseal({"seed": seal(7).replace("7", "8", 1)})
        (7, None)
    """
    text = f"{seed:x}"
    return f"{text} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def unseal(about: Mapping[str, str]) -> int | None:
    """The seed of a journal, from its table `about`; None where there is none, or it is damaged."""
    text = about.get("seed", "")
    seed = text.partition(" ")[0]
    return int(seed, 16) if re.fullmatch("[0-9a-f]+", seed) and seal(int(seed, 16)) == text else None
