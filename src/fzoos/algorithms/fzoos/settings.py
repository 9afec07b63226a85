"""FZooS: federated zeroth-order optimisation with surrogates learned from the queries already made."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fzoos._util.renamed import old_name
from fzoos.algorithms.base import LARGEST, Algorithm, ClientContext, ClientHalf, PayloadPart
from fzoos.algorithms.fzoos import region, star
from fzoos.algorithms.fzoos.client import FZooSClient
from fzoos.algorithms.fzoos.control import Control, Mode
from fzoos.algorithms.fzoos.directions import star_size
from fzoos.algorithms.fzoos.server import FZooSServer
from fzoos.algorithms.fzoos.star import LINE
from fzoos.messages.message import Message

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["FZooS"]


@dataclass(frozen=True)
class FZooS(Algorithm):
    """FZooS without settings: what the program can measure, nobody has to set.

    Up to 50 dimensions the clients' surrogates know all directions from the first round on. Each client then minimises
    its own surrogate, corrected by what the averaged gradients of all rounds say of the others, in a trust region that
    grows and shrinks with the quality of its predictions: two queries a client and round. In more dimensions a round is
    a star of queries around x, from which clients make two gradients each, and a search along both averages. How wide
    the star is, how many directions it has, and whether all clients ask the same or each its own, follows from what was
    measured before.

    Neither the local steps T nor the optimiser given to `minimize` are used. `FZooS.paper()` is the algorithm of the
    paper, with its settings; `FZooS.weights()` one with settings that sends weights, for differential privacy.

    Args:
        projected: whether iterates and queries are clipped to the box.

    Reference:
        Y. Shu et al., "Federated Zeroth-Order Optimization using Trajectory-Informed Surrogate Gradients", 2023.

    Example:
        >>> import numpy as np
        >>> from fzoos import FZooS, minimize
        >>> sites = [lambda x, c=c: float(np.mean((x - c) ** 2)) for c in (0.2, 0.4)]
        >>> result = minimize(sites, x0=np.zeros(5), bounds=(-1, 1), algorithm=FZooS(), seed=0)
        >>> bool(np.all(abs(result.x - 0.3) < 1e-6)), result.status
        (True, 'converged')
    """

    def __new__(cls, *args: Any, **settings: Any) -> Any:
        """Settings of the last release are those of `FixedFZooS` today."""
        fixed = [name for name in settings if name != "projected"]
        if not fixed:
            return super().__new__(cls)
        old_name(f"FZooS({fixed[0]}=...)", f"FixedFZooS({fixed[0]}=...); FZooS() has no settings")
        return _fixed()(*args, **settings)

    version: ClassVar[int] = 4
    descends: ClassVar[bool] = False
    shares_seed: ClassVar[bool] = True
    steered: ClassVar[bool] = True
    tolerance: ClassVar[float] = 1e-6
    told: ClassVar[tuple[str, ...]] = Control.names()
    presets: ClassVar[tuple[str, ...]] = ("paper", "weights")
    votes: ClassVar[Mapping[str, slice]] = MappingProxyType(  # whether there is no value: at x, and along the lines
        {"region": slice(-1, None), "star": slice(-1, None), "failed": slice(None)}
    )

    @classmethod
    def paper(cls, **changes: Any) -> FixedFZooS:
        """The algorithm and the settings of the paper's experiments; keyword arguments change single ones.

        Example:
            >>> from fzoos import FZooS
            >>> FZooS.paper(features=1000).points is None
            True
        """
        return _fixed().paper(**changes)

    @classmethod
    def weights(cls, **changes: Any) -> FixedFZooS:
        """The paper's algorithm with settings chosen for it; keyword arguments change single ones.

        Example:
            >>> from fzoos import FZooS
            >>> FZooS.weights(refresh=None).exchanges
            1
        """
        return _fixed().weights(**changes)

    @classmethod
    def with_settings(cls, settings: Collection[str], preset: str | None) -> type[Algorithm]:
        """`FixedFZooS` where a study's file has any of its settings."""
        return _fixed() if preset is not None or set(settings) - {"projected"} else cls

    @property
    def refreshes_first(self) -> bool:
        """True."""
        return True

    @property
    def exchanges(self) -> int:
        """2."""
        return 2

    def client(self, context: ClientContext) -> ClientHalf:
        """The client half."""
        return FZooSClient(context)

    @property
    def keeps_answers(self) -> bool:
        """True; the server half says up to how many dimensions."""
        return True

    def server_projects(self, dim: int) -> bool:
        """Where x follows from a line; in a trust region it is the clients' mean."""
        return not self.steering(dim).begins_with_region

    def steering(self, dim: int) -> FZooSServer:
        """The server half."""
        return FZooSServer(dim, self.projected)

    def keeps_trajectory(self, dim: int) -> bool:
        """Up to 1024 dimensions."""
        return star.looks_back(dim)

    def queries(self, dim: int, local_steps: int, *, first: bool, refreshed: bool) -> int:
        """Of a trust region; at most, of a star."""
        steering = self.steering(dim)
        control = steering.control(steering.start(np.zeros(dim)), 0)
        if control.mode is Mode.REGION:
            return self._count(control, dim, first)
        kinds = (replace(control, pilot=0), replace(control, pilot=0, mode=Mode.DEALT, participants=2))
        return max(self._count(kind, dim, first) for kind in kinds)

    def planned(self, dim: int, local_steps: int, scalars: Mapping[str, float], *, first: bool, refreshed: bool) -> int:
        """What a client will ask, given what it is told."""
        return self._count(Control.of(scalars), dim, first)

    def largest_cut(self, dim: int, local_steps: int) -> int:
        """Queries of the first exchange; a first, small star is not cut, since x does not move after it."""
        return dim

    def _count(self, control: Control, dim: int, first: bool) -> int:
        if control.quiet:
            return 0
        if control.mode is Mode.REGION:
            return 1 + (region.first_directions(control, dim) if first else control.directions(1, least=0))
        return 1 + star_size(control, dim) + 4 + (0 if control.pilot else 2 * len(LINE))

    def payload(self, dim: int) -> Mapping[str, PayloadPart]:
        """All that may come back averaged: gradients, and the numbers beside them."""
        return dict(_payload(dim))

    def reply_parts(self, dim: int, local_steps: int, request: Message) -> dict[str, PayloadPart]:
        """What is in the reply depends on what the round is."""
        control, payload = Control.of(request.scalars), _payload(dim)
        mode = control.mode
        if request.kind == "refresh":
            if mode is Mode.REGION:
                ranges = region.ranges(control.radius)
                more = {"shift": PayloadPart((dim,))} if control.constrained else {}
                if control.history:  # it comes with the averages of such replies
                    more["history"] = PayloadPart((control.history, dim))
                return {"gradient": payload["gradient"], "region": _numbers(*ranges, region.PRIVATE), **more}
            return {name: payload[name] for name in ("fresh", "memory", "star")}
        if mode is Mode.REGION:
            return {"x": PayloadPart((dim,))}
        return (
            {"lines": _LINES, "failed": _FAILED}
            if mode is Mode.DEALT
            else {
                "pair": _PAIR,
                "lines": _LINES,
                "failed": _FAILED,
            }
        )


def _numbers(low: tuple[float, ...], high: tuple[float, ...], neutral: tuple[float, ...]) -> PayloadPart:
    return PayloadPart((len(low),), "numbers", low=low, high=high, neutral=neutral)


_COUNT = 2 * len(LINE)
_PAIR = _numbers((-LARGEST,) * 2, (LARGEST,) * 2, (0.0,) * 2)
_LINES = PayloadPart((_COUNT,))
_FAILED = _numbers((0.0,) * _COUNT, (1.0,) * _COUNT, (0.0,) * _COUNT)


@lru_cache(maxsize=8)  # asked for with every reply that is checked
def _payload(dim: int) -> Mapping[str, PayloadPart]:
    return MappingProxyType(
        {
            "gradient": PayloadPart((dim,)),
            "region": _numbers(region.LOW, region.HIGH, region.PRIVATE),
            "fresh": PayloadPart((dim,)),
            "memory": PayloadPart((dim,)),
            "star": _numbers(star.LOW, star.HIGH, star.PRIVATE),
        }
    )


def _fixed() -> type[FixedFZooS]:
    """Loaded where it is asked for: it has its own surrogates, which `FZooS()` does without."""
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

    return FixedFZooS
