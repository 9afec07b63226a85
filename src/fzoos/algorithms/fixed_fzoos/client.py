"""The client half of FZooS: a loop over its parts.

    g_hat = grad mu_i(x) + gamma_t (grad mu_hat(x) - grad mu_hat_i(x))                             (the paper's eq. 2)

`Model` has mu_i, `Correction` the vector in brackets, `Gamma` its length gamma_t, `StepScale` the length of the steps,
`SharedLengthScale` the kernel's length scale. What they send and take is said in each of them and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fzoos._util.arrays import FloatArray
from fzoos._util.together import is_in_step, jointly
from fzoos.algorithms.base import ClientContext, ClientHalf, PayloadPart
from fzoos.algorithms.descent import Descent
from fzoos.algorithms.fixed_fzoos.correction import CORRECTIONS
from fzoos.algorithms.fixed_fzoos.crew import Walker, walk
from fzoos.algorithms.fixed_fzoos.gamma import Gamma
from fzoos.algorithms.fixed_fzoos.model import Model
from fzoos.algorithms.fixed_fzoos.parts import Part
from fzoos.algorithms.fixed_fzoos.queries import Queries
from fzoos.algorithms.fixed_fzoos.shared_length_scale import SharedLengthScale
from fzoos.algorithms.fixed_fzoos.step_scale import StepScale
from fzoos.messages.message import Arrays, Message

if TYPE_CHECKING:
    from fzoos.algorithms.fixed_fzoos import FixedFZooS

__all__ = ["FZooSClient", "payload_parts"]


def payload_parts(settings: FixedFZooS, dim: int) -> dict[str, PayloadPart]:
    """All arrays of the payload, by name, in the order in which they travel."""
    parts: tuple[type[Part], ...] = (CORRECTIONS[settings.sends], SharedLengthScale, StepScale, Gamma)
    return {name: entry for part in parts for name, entry in part.sends(settings, dim).items()}


class FZooSClient(ClientHalf):
    """Hands requests to the parts, asks the queries between them, and collects the payload.

    Args:
        context: what the client half works with.
        settings: the algorithm's settings.
    """

    def __init__(self, context: ClientContext, settings: FixedFZooS) -> None:
        super().__init__(context)
        self._settings = settings
        self.model = Model(settings, context)
        self.queries = Queries(settings, context, self.model)
        self.corrections = CORRECTIONS[settings.sends](settings, context, self.model)
        self._steps = StepScale(settings.steps)
        self._gamma = Gamma(settings, context, self.model, self.corrections)
        self._parts = (self.corrections, SharedLengthScale(settings, self.model), self._steps, self._gamma)

    # The three parts of a round

    def refresh(self, x: FloatArray, request: Message) -> Arrays:
        """Query x and around it, then renew the payload."""
        new = self._take(x, request)
        if not (new and self._settings.refresh_first_round):  # else it has just asked around x
            # A newcomer has just asked around x, or at x: it has nothing to predict.
            predicted = self.model.at(x).mean(x) if self._settings.steps and not new else None
            self._steps.observe(x, self.queries.refresh(x), predicted, self.model.sigma)
        self.model.fit_noise(x, request.round)
        return self._renew(x)

    def begin(self, x: FloatArray, request: Message) -> None:
        """Take the averages; a first round without a payload, and a newcomer, have no correction."""
        super().begin(x, request)
        self.queries.start_round()
        self._take(x, request)
        self.model.fit_noise(x, request.round)

    def end(self, x: FloatArray) -> Arrays:
        """Without a refresh exchange, the payload travels with x_i."""
        self.queries.end(x)
        return self._renew(x) if self._settings.exchanges == 1 else {}

    def _take(self, x: FloatArray, request: Message) -> bool:
        """What the request brings; a newcomer then asks the initial design around x. Whether it is one."""
        for part in self._parts:
            part.take(x, request)
        if self.context.trajectory.count:
            return False
        observed = self.queries.initial(x)
        if observed is not None:
            self._steps.observe(x, observed)
        return True

    def _renew(self, x: FloatArray) -> Arrays:
        """The payload, from the trajectory around x."""
        settings, dim = self._settings, self.context.dim
        return {
            name: array for part in self._parts if part.sends(settings, dim) for name, array in part.renew(x).items()
        }

    def rest(self) -> None:
        """Without factors and features: they are made anew at the next request."""
        self.model.rest()
        self.corrections.rest()

    # Local steps

    def walk(self, x: FloatArray, steps: int, descent: Descent) -> FloatArray:
        """At once with all clients that are as far, where clients work in step."""
        if not is_in_step():
            return super().walk(x, steps, descent)
        return jointly(walk, Walker(self, x, descent, steps), (self.queries.key, steps, self.corrections.known))

    @property
    def device(self) -> str | None:
        """Where the surrogates are."""
        return self._settings.device

    @property
    def step_scale(self) -> float:
        """s."""
        return self._steps.scale

    def length_at(self, x: FloatArray, t: int) -> float:
        """gamma_t."""
        return self._gamma.at(x, t)

    def note_length(self, length: float) -> None:
        """The correction length of a step, for what is reported."""
        self._lengths.append(length)

    def step(self, x: FloatArray, t: int, descend: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """The optimiser's step, scaled."""
        return super().step(x, t, lambda gradient: self._steps.scale * descend(gradient))

    def local_gradient(self, x: FloatArray) -> FloatArray:
        """Grad mu_i(x)."""
        return self.model.at(x).grad_mean(x)

    def correction(self, x: FloatArray, t: int) -> tuple[float, FloatArray] | None:
        """gamma_t and the correction vector."""
        return (self._gamma.at(x, t), self.corrections.at(x)) if self.corrections.known else None

    def explore(self, x: FloatArray) -> None:
        """Active queries around the new iterate."""
        self.queries.explore(x)

    def diagnostics(self) -> dict[str, float]:
        """The correction length, and what parts and queries report."""
        reported = super().diagnostics()
        for part in self._parts:
            reported |= part.diagnostics()
        return reported | self.queries.diagnostics()
