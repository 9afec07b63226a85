"""The payload is what the client's parts send: each says its names and shapes, makes them, and takes the averages."""

import math

import numpy as np
import pytest

from fzoos import (
    Constant,
    FitLengthScale,
    FittedNoise,
    FixedFZooS,
    FZooS,
    InitialDesign,
    KnownNoise,
    Measured,
    Reciprocal,
    TrustRegion,
    UnseenDirections,
    minimize,
)
from fzoos.algorithms.base import ClientContext, PayloadPart
from fzoos.algorithms.fixed_fzoos import client
from fzoos.algorithms.fixed_fzoos.parts import Part
from fzoos.algorithms.fixed_fzoos.shared_length_scale import SharedLengthScale
from fzoos.algorithms.fixed_fzoos.step_scale import StepScale
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.trajectory import Trajectory

D, M = 3, 30
X0 = np.full(D, 0.5)
FEW = {"active": None, "refresh": UnseenDirections(2), "initial": InitialDesign(4, 0.1, "orthogonal")}
G, W, L, S, GU = {"g": (D,)}, {"w": (M,)}, {"log_length_scale": (1,)}, {"log_step": (1,)}, {"measured": (2,)}


@pytest.mark.parametrize(
    ("settings", "payload", "carried"),
    [
        (FixedFZooS(**FEW), G | S | GU, ("log_step",)),
        (FixedFZooS(**FEW, length=Constant(1.0), steps=None), G, ()),
        (FixedFZooS(**FEW, fit=FitLengthScale(), length=Reciprocal()), G | L | S, ("log_length_scale", "log_step")),
        (FixedFZooS(**FEW, sends="weights", features=M, fit=FitLengthScale()), W | L | S | GU, tuple(L | S)),
        (FZooS.weights(features=M), W, ()),
        (FZooS.weights(features=M, length=Measured(), noise=FittedNoise()), W | GU, ()),
        (FZooS.weights(features=M, steps=TrustRegion()), W | S, ("log_step",)),
    ],
)
def test_what_is_sent_is_what_the_parts_say(settings, payload, carried):
    """Names and shapes, in the order in which they travel; those of one or two numbers that must be known before the
    next payload is made go out again."""
    assert [(name, part.shape) for name, part in settings.payload(D).items()] == list(payload.items())
    assert settings.carried == carried
    trajectory = Trajectory(lambda x: float(x @ x), Box.of((0, 1), D))
    half = settings.client(ClientContext(trajectory, np.random.default_rng(0), D, 2, 1, True))
    sent = half.refresh(X0, Message("refresh", 1, {"x": X0}, {"seed": 3}))
    assert [(name, array.shape) for name, array in sent.items()] == list(payload.items())


def test_a_part_that_says_nothing():
    """It sends, takes and reports nothing."""
    part = Part()
    part.take(X0, Message("update", 1, {"x": X0}))
    assert (part.sends(FixedFZooS(), D), part.renew(X0), part.diagnostics()) == ({}, {}, {})


def test_a_new_number_touches_one_part(monkeypatch):
    """A part that sends one array more: the server averages it, and it comes back, carried and with the update."""
    taken = []

    class WithDistance(StepScale):
        @classmethod
        def sends(cls, settings, dim):
            return super().sends(settings, dim) | {"distance": PayloadPart((2,), carried=True)}

        def take(self, x, request):
            super().take(x, request)
            if "distance" in request.arrays:
                taken.append((request.round, request.kind, request.arrays["distance"].tolist()))

        def renew(self, x):
            return super().renew(x) | {"distance": np.array([1.0, np.linalg.norm(x)])}

    monkeypatch.setattr(client, "StepScale", WithDistance)
    algorithm = FixedFZooS(**FEW)
    sites = [lambda x, c=c: float((x - c) @ (x - c)) for c in (0.2, 0.4)]
    minimize(sites, X0, bounds=(0, 1), algorithm=algorithm, rounds=2, local_steps=1, seed=0)
    first, *_ = taken
    assert first == (1, "update", [1.0, pytest.approx(np.linalg.norm(X0))])
    assert [(round, kind) for round, kind, _ in taken[::2]] == [(1, "update"), (2, "refresh"), (2, "update")]
    assert taken[2][2] == first[2]  # carried: the average of round 1


@pytest.mark.parametrize(("told", "used"), [(math.log(0.7), 0.7), (50.0, 4.0), (-50.0, 0.25), (math.inf, 4.0)])
def test_a_length_scale_from_elsewhere_stays_in_its_range(told, used) -> None:
    """Nobody fits one outside [low, high]; a number that is there all the same must not reach the kernel."""
    settings = FixedFZooS(fit=FitLengthScale(low=0.25, high=4.0))
    trajectory = Trajectory(lambda x: 0.0, Box.of((0, 1), dim=D))
    context = ClientContext(trajectory, np.random.default_rng(0), dim=D, clients=1, local_steps=2, projected=True)
    half = settings.client(context)
    scale = next(part for part in half._parts if isinstance(part, SharedLengthScale))
    scale.take(X0, Message("refresh", 2, {"x": X0, "log_length_scale": np.array([told])}))
    assert half.model.kernel.length_scale == pytest.approx(used, rel=1e-12)


def test_step_control_knows_the_noise(monkeypatch) -> None:
    """The standard deviation of an observation, which excuses errors of predictions, is the one that was given."""
    told = []
    observe = StepScale.observe

    def spy(self, x, observed, predicted=None, noise=0.0):
        if predicted is not None:
            told.append(noise)
        observe(self, x, observed, predicted, noise)

    monkeypatch.setattr(StepScale, "observe", spy)
    rng = np.random.default_rng(0)
    noisy = lambda x: float(np.sum((x - 0.3) ** 2) + 0.2 * rng.standard_normal())
    minimize([noisy], np.zeros(2), bounds=(-1, 1), algorithm=FixedFZooS(noise=KnownNoise(0.2)), rounds=4, seed=0)
    assert len(told) >= 2
    assert told == pytest.approx([0.2] * len(told))
