"""Differential privacy: what leaves a site is clipped and made noisy, and the loss of privacy is accounted for.

=========  ============================================================================================================
symbol     meaning
=========  ============================================================================================================
S          clip: the largest Euclidean length of an array that leaves a site, in the units of the cube
z          noise: multiplier; each coordinate gets N(0, (z S)^2)
delta      the probability with which the promise may fail
epsilon    the promise: no event at the server is more than e^epsilon times likelier with this site's objective than
           with none (the array replaced by zeros)
=========  ============================================================================================================

An iterate is clipped as a step: x_i - x is, x being the server's own. Each array of each reply is one Gaussian
mechanism; `dp-accounting` composes them (Renyi divergences). The numbers of queries and the diagnostics of a reply do
not depend on values in a way that is accounted for; with privacy on, the diagnostics are left out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fzoos._check import check_positive
from fzoos.arrays import FloatArray
from fzoos.federation.message import Message

__all__ = ["Privacy"]


@dataclass(frozen=True)
class Privacy:
    """Clip and noise on what leaves a site.

    Args:
        clip: S.
        noise: z.
        delta: delta.

    Example:
        >>> from fzoos.federation.privacy import Privacy
        >>> round(Privacy(clip=0.1, noise=4.0).epsilon(releases=50), 1)
        9.2
    """

    clip: float
    noise: float
    delta: float = 1e-5

    def __post_init__(self) -> None:
        check_positive("privacy clip", self.clip)
        check_positive("privacy noise", self.noise)
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"privacy delta must be in (0, 1), got {self.delta!r}")

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Privacy:
        """From a study's table."""
        known = [f.name for f in fields(cls)]
        unknown = set(table) - set(known)
        if unknown or not {"clip", "noise"} <= set(table):
            raise ValueError(f"privacy needs clip and noise and may have delta, got {', '.join(table) or 'nothing'}")
        return cls(**table)

    def protect(self, reply: Message, x: FloatArray) -> Message:
        """The reply with its arrays clipped and noisy; x is the server's.

        The noise is drawn from the operating system's entropy, never from the study's seed, which the server knows.
        """
        rng = np.random.default_rng(secrets.randbits(128))
        arrays = {
            name: x + self._noisy(array - x, rng) if name == "x" else self._noisy(array, rng)
            for name, array in reply.arrays.items()
        }
        if "x" in arrays:
            arrays["x"] = np.clip(arrays["x"], 0.0, 1.0)
        return Message(reply.kind, reply.round, arrays, {"queries": reply.scalars["queries"]})

    def _noisy(self, array: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Clipped to length S, plus N(0, (z S)^2)."""
        length = float(np.linalg.norm(array))
        scale = min(1.0, self.clip / length) if length > 0.0 else 1.0
        noisy: FloatArray = scale * array + rng.normal(0.0, self.noise * self.clip, array.shape)
        return noisy

    def epsilon(self, releases: int) -> float:
        """What so many arrays that left a site add up to.

        Raises:
            ImportError: dp-accounting is not installed.
        """
        if releases == 0:
            return 0.0
        try:
            from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
            from dp_accounting.rdp import RdpAccountant
        except ImportError:
            raise ImportError("privacy needs dp-accounting: pip install 'fzoos[privacy]'") from None
        accountant = RdpAccountant()
        accountant.compose(SelfComposedDpEvent(GaussianDpEvent(self.noise), releases))
        return float(accountant.get_epsilon(self.delta))
