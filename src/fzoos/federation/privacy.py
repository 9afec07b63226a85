"""Differential privacy: what leaves a site is clipped and made noisy, and the loss of privacy is accounted for.

=========  ============================================================================================================
symbol     meaning
=========  ============================================================================================================
S          clip: the largest Euclidean length of an array that leaves a site. Of an iterate it is the step x_i - x that
           is clipped (x is the server's own), in units of the cube; a payload array is clipped in its own units
z          noise: each coordinate of what leaves gets N(0, (z S)^2)
epsilon    the promise: whatever the server looks for, P(found | f_i) <= e^epsilon P(found | any other f_i) + delta
delta
=========  ============================================================================================================

Two objectives of a site give two arrays of length S at most, which are 2 S apart at most. So each array that leaves is
one Gaussian mechanism of noise z S and sensitivity 2 S, whatever the server queried and learned before. `dp-accounting`
composes as many as left a site, by Renyi divergences: that is an upper bound, 3 to 20 percent above the exact value.
(Against a site that sends noise alone the sensitivity is S: that weaker promise has the epsilon of twice the noise.)

What leaves beside the arrays is not covered: the number of queries, that a site failed, and when it answered.
Diagnostics do not leave.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from os import urandom
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_number, check_positive
from fzoos.algorithms.base import Algorithm, Part, Parts, ServerHalf, declared_parts
from fzoos.messages.codec import MessageError, decode
from fzoos.messages.message import Message

if TYPE_CHECKING:
    from fzoos.federation.journal import Journal
    from fzoos.federation.study import Study

__all__ = ["Privacy", "Releases", "arrays_in_reply", "sent"]

_FINE = 20  # bits: the grid of what leaves is so much finer than the noise


@dataclass(frozen=True)
class Privacy:
    """Clip and noise on what leaves a site.

    Args:
        clip: S, the length to which a step is shortened before noise is added, in units of the unit cube.
        noise: z, the noise multiplier: the standard deviation of the noise for privacy is z S.
        delta: delta, the probability with which epsilon may be exceeded.
        clip_payload: S of the payload's arrays; None: that of a step.

    Example:
        >>> from fzoos.federation.privacy import Privacy
        >>> round(Privacy(clip=0.1, noise=4.0).epsilon(releases=50), 1)
        22.0
    """

    clip: float
    noise: float
    delta: float = 1e-5
    clip_payload: float | None = None

    def __post_init__(self) -> None:
        check_positive("privacy clip", self.clip)
        check_positive("privacy noise", self.noise)
        if self.clip_payload is not None:
            check_positive("privacy clip_payload", self.clip_payload)
        check_number("privacy delta", self.delta)
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"privacy delta must be between 0 and 1, got {self.delta!r}")

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Privacy:
        """From a study's table."""
        if not isinstance(table, Mapping):
            raise TypeError(f"privacy must be a table such as {{ clip = 0.05, noise = 1.0 }}, got {table!r}")
        known = [f.name for f in fields(cls)]
        for name in table:
            if name not in known:
                raise ValueError(f"privacy: there is no setting {name!r}; the settings are {', '.join(known)}")
        for name in ("clip", "noise"):
            if name not in table:
                raise ValueError(f"privacy: {name} is missing")
        return cls(**table)

    def check(self, algorithm: Algorithm) -> None:
        """Raise unless this algorithm can be run with noise, and the loss be accounted for on this machine.

        Raises:
            ImportError: dp-accounting is not installed.
            ValueError: the algorithm sends what noise would make useless.
        """
        for name, part in declared_parts(algorithm.server(2)).items():
            if part.privacy == "refuse":
                advice = f"; set {part.instead} in the algorithm's settings" if part.instead else ""
                raise ValueError(f"privacy: {algorithm.label} would send {name}, of which noise leaves nothing{advice}")
        self.epsilon(0)

    def protect(self, reply: Message, x: FloatArray, parts: Parts | None = None) -> Message:
        """The reply with its arrays clipped and noisy, and without diagnostics; x is the server's.

        Of single numbers (`parts` says which arrays are such) each is left out or gets noise as wide as its range: n of
        them, in units of half their ranges, are sqrt(n) long at most, and that is their clip.

        A noisy iterate leaves as it is, also where it is outside the box: brought back here, the noise would no longer
        have the mean 0, and near a face no number of sites would average it out. The server brings the mean back.
        """
        for name, array in reply.arrays.items():
            if not np.all(np.isfinite(array)):
                raise MessageError(f"array {name!r} holds NaN or infinity")
        arrays = {}
        for name, array in reply.arrays.items():
            part = None if parts is None else parts[name]
            if name == "x":
                arrays[name] = x + self._noisy(array - x, self.clip)
            elif part is not None and part.privacy == "numbers":
                arrays[name] = self._numbers(array, part)
            else:
                arrays[name] = self._noisy(array, self.clip if self.clip_payload is None else self.clip_payload)
        return Message(reply.kind, reply.round, arrays, {"queries": reply.scalars["queries"]})

    def _numbers(self, array: FloatArray, part: Part) -> FloatArray:
        """What is left out is neutral; the others get noise, in units of half their ranges."""
        sent = np.array(part.neutral)
        released = np.isnan(sent)
        if released.any():
            low, high = (np.broadcast_to(bound, array.shape)[released] for bound in (part.low, part.high))
            middle, half = 0.5 * (low + high), 0.5 * (high - low)
            units = np.clip((array[released] - middle) / half, -1.0, 1.0)
            sent[released] = middle + half * self._noisy(units, math.sqrt(len(units)))
        return sent

    def _noisy(self, array: FloatArray, clip: float) -> FloatArray:
        """Clipped to length S, plus N(0, (z S)^2).

        Both on one grid, so that the last bits of the sum say nothing about the array (Mironov 2012). A rounded noise
        on whole steps of the grid is the rounded sum: nothing is lost by it. The array is rounded towards zero, which
        makes it no longer.
        """
        deviation = self.noise * clip
        grid = math.ldexp(1.0, math.frexp(deviation)[1] - _FINE)
        steps = np.trunc(_clipped(array, clip) / grid) + np.rint(deviation / grid * _gaussian(array.shape))
        noisy: FloatArray = steps * grid
        return noisy

    @property
    def reach(self) -> float:
        """How far from 0 a coordinate of a noisy x may be."""
        return 1.0 + self.clip * self._widest

    @property
    def _widest(self) -> float:
        """How far from 0 a coordinate of a noisy array may be, in units of S.

        A normal number is beyond ten standard deviations with probability 1.5e-23. `_gaussian` returns none beyond 9.2,
        since its tail is never below 2^-65; the rest is for rounding. So no honest array is beyond.
        """
        return 1.0 + 10.0 * self.noise

    def noisy_parts(self, parts: Parts) -> Parts:
        """Return the declarations of a reply's arrays with the ranges that these have after `protect`."""
        return {name: self._noisy_part(name, part) for name, part in parts.items()}

    def _noisy_part(self, name: str, part: Part) -> Part:
        if name == "x":
            return replace(part, low=1.0 - self.reach, high=self.reach)
        if part.privacy != "numbers":
            most = (self.clip if self.clip_payload is None else self.clip_payload) * self._widest
            return replace(part, low=-most, high=most)
        neutral, low, high = np.array(part.neutral), np.array(part.low), np.array(part.high)
        sent = np.isnan(neutral)
        middle, away = 0.5 * (low + high), 0.5 * (high - low) * math.sqrt(sent.sum()) * self._widest
        low, high = (np.where(sent, middle + side, neutral) for side in (-away, away))
        return replace(part, low=tuple(low.tolist()), high=tuple(high.tolist()))

    def epsilon(self, releases: int) -> float:
        """Return epsilon after this number of arrays has left a site.

        Raises:
            ImportError: dp-accounting is not installed.
        """
        try:
            from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
            from dp_accounting.rdp import RdpAccountant
        except ImportError:
            raise ImportError("privacy needs dp-accounting: pip install 'fzoos[privacy]'") from None
        if releases == 0:
            return 0.0
        accountant = RdpAccountant()
        accountant.compose(SelfComposedDpEvent(GaussianDpEvent(0.5 * self.noise), releases))  # z S / (2 S)
        return float(accountant.get_epsilon(self.delta))


def _clipped(array: FloatArray, clip: float) -> FloatArray:
    """The array, shortened to length S if it is longer."""
    largest = float(np.max(np.abs(array), initial=0.0))
    if largest > clip:  # first, so that squares do not overflow; it is then still at least S long
        array = array / largest * clip
    length = float(np.linalg.norm(array))
    return array * (clip / length) if length > clip else array


def _gaussian(shape: tuple[int, ...]) -> FloatArray:
    """N(0, 1) from the operating system's entropy: nobody knows its seed, and it is a generator made for secrets.

    The study's seed will not do, since the server knows it; nor will NumPy's generators, whose state can be computed
    from what they gave.
    """
    bits = np.frombuffer(urandom(8 * math.prod(shape)), np.uint64)
    tail = ((bits >> 1) + 0.5) * 2.0**-64  # uniform on (0, 1/2)
    values: FloatArray = np.where(bits & 1, -1.0, 1.0) * scipy.special.ndtri(tail)
    return values.reshape(shape)


class Releases:
    """How many arrays each site may have sent, by the server's account.

    A request that goes out again is answered with the same bytes, which tell nothing new: it counts once. One that was
    not answered counts, for the answer may be on its way.
    """

    def __init__(self, half: ServerHalf, sites: int) -> None:
        self._half = half
        self._counts = [0] * sites
        self._last: list[list[Any]] = [[0, ""] for _ in range(sites)]  # round and kind of the last request

    def record(self, requests: Mapping[int, Message]) -> bool:
        """Record requests that are about to be sent; return whether any of them is new."""
        new = False
        for client, request in requests.items():
            if self._last[client] != [request.round, request.kind]:
                self._last[client] = [request.round, request.kind]
                self._counts[client] += arrays_in_reply(self._half, request)
                new = True
        return new

    @property
    def most(self) -> int:
        """The most arrays that any site may have sent."""
        return max(self._counts)

    @property
    def state(self) -> dict[str, Any]:
        """JSON values from which to continue."""
        return {"releases": self._counts, "last": self._last}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`; without one, from none."""
        self._counts, self._last = state.get("releases", self._counts), state.get("last", self._last)


def arrays_in_reply(half: ServerHalf, request: Message) -> int:
    """How many arrays leave a site with the reply to a request; those that are the same for all sites do not count."""
    return sum(part.is_released for part in half.reply_parts(request).values())


def sent(journal: Journal, study: Study) -> int:
    """How many arrays a site has sent, by its own journal: all runs of the study, whatever the server says."""
    answered = (decode(request.body, study.id) for request in journal.requests() if request.reply is not None)
    return sum(arrays_in_reply(study.half, request) for request in answered)
