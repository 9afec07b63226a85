"""The payload is what the client's parts send: each says its names and shapes, makes them, and takes the averages."""

import numpy as np
import pytest

from fzoos import (
    Constant,
    FitLengthScale,
    FittedNoise,
    FixedFZooS,
    FZooS,
    InitialDesign,
    Measured,
    Reciprocal,
    TrustRegion,
    UnseenDirections,
    minimize,
)
from fzoos.algorithms.base import ClientContext, PayloadPart
from fzoos.algorithms.fixed_fzoos import client
from fzoos.algorithms.fixed_fzoos.parts import Part
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
