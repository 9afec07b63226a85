"""Clients of one run in step: the same x as one after another, in one product where there were N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fzoos import Adam, DistanceAware, FitLengthScale, FittedNoise, FZooS, ObjectiveError, minimize
from fzoos._util import draws
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.fixed_fzoos import FixedFZooS
from fzoos.engines.local import LocalEngine
from fzoos.federation.client import Client
from fzoos.messages.message import Message
from fzoos.objectives import at_once
from fzoos.objectives.box import Box
from fzoos.objectives.trajectory import Trajectory
from fzoos.surrogates.fourier import FourierFeatures
from fzoos.surrogates.local import LocalSurrogates

CLIENTS, DIM, STEPS = 4, 6, 4


@dataclass(frozen=True)
class InStep(FixedFZooS):
    """As on a GPU, whatever the device is."""

    @property
    def in_step(self) -> bool:
        """Always."""
        return True


def objectives(answer: Callable[[int, Any], float] | None = None) -> list[Callable[[Any], float]]:
    centres = np.random.default_rng(1).uniform(-0.5, 0.5, (CLIENTS, DIM))
    own = answer or (lambda i, x: float(np.mean((x - centres[i]) ** 2 + 0.1 * np.cos(5.0 * x))))
    return [lambda x, i=i: own(i, x) for i in range(CLIENTS)]


def run(algorithm: FixedFZooS, given: list[Callable[[Any], float]] | None = None, **more: Any) -> Any:
    settings = {"bounds": (-1, 1), "rounds": 3, "local_steps": STEPS, "seed": 0} | more
    return minimize(given or objectives(), np.full(DIM, 0.3), algorithm=algorithm, **settings)


def presets(kind: type[FixedFZooS], device: str | None) -> dict[str, FixedFZooS]:
    """Settings with the whole trajectory, with points that leave, without weights, with one exchange, and fitted."""
    return {
        "paper": kind.paper(features=200, device=device),
        "weights": kind.weights(features=200, points=30, feature_points=30, device=device),
        "gradient": kind(points=120, device=device),
        "one exchange": kind.weights(features=200, refresh=None, device=device),
        "fitted": kind(fit=FitLengthScale(), noise=FittedNoise(), device=device),
        "fixed vector": kind.weights(features=200, vector="fixed", device=device),
        "no active queries": kind(active=None, device=device),
        "distance": kind.paper(features=200, length=DistanceAware(0.1), projected=True, device=device),
    }


@pytest.mark.parametrize("name", list(presets(FixedFZooS, None)))
def test_x_is_that_of_clients_one_after_another(name: str, device: str | None) -> None:
    """Within rounding, which nearly singular matrices make larger: NumPy and PyTorch differ by the same."""
    alone, in_step = run(presets(FixedFZooS, device)[name]), run(presets(InStep, device)[name])
    np.testing.assert_allclose(in_step.x, alone.x, rtol=0, atol=1e-6)
    assert in_step.queries == alone.queries
    assert in_step.bytes_up == alone.bytes_up


def test_a_run_in_step_can_be_repeated_bit_for_bit(device: str | None) -> None:
    first, second = (run(InStep.paper(features=100, device=device), participation=0.5) for _ in range(2))
    assert first.x.tobytes() == second.x.tobytes()


def test_clients_that_differ_in_their_number_of_points(device: str | None) -> None:
    """One in seven queries fails, and a failed one is left out; half of the clients take part."""

    def answer(i: int, x: Any) -> float:
        return float("nan") if int(1e6 * abs(x[0])) % 7 == i else float(np.mean((x - 0.1 * i) ** 2))

    more = {"on_failure": "skip", "participation": 0.5, "rounds": 5}
    alone = run(FixedFZooS.paper(features=100, device=device), objectives(answer), **more)
    in_step = run(InStep.paper(features=100, device=device), objectives(answer), **more)
    assert in_step.failed == alone.failed > 0
    np.testing.assert_allclose(in_step.x, alone.x, rtol=0, atol=1e-6)


@pytest.mark.parametrize("points", [None, 20])
def test_points_on_the_device_are_the_last_of_their_trajectories(points, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a query of one has failed, its last points are other ones: then they are sent there again."""
    condition, told = LocalSurrogates.condition, []

    def checked(self: LocalSurrogates, x: Any, latest: Any = None) -> None:
        told.append(latest is not None)
        for surrogate, own in zip(self._surrogates, latest if latest is not None else [], strict=latest is not None):
            np.testing.assert_array_equal(surrogate._trajectory.x[-len(own) :], own)
        condition(self, x, latest)

    def answer(i: int, x: Any) -> float:
        return float("nan") if int(1e6 * abs(x[0])) % 17 == i else float(np.mean((x - 0.1 * i) ** 2))

    monkeypatch.setattr(LocalSurrogates, "condition", checked)
    run(InStep.paper(features=200, points=points), objectives(answer), on_failure="skip")
    assert 0 < sum(told) < len(told)


def test_all_clients_corrections_are_one_product_a_step(monkeypatch: pytest.MonkeyPatch, device: str | None) -> None:
    """One pass over the features for all clients; T steps in each of the rounds that have a correction, 2 and 3."""
    shapes: list[tuple[int, ...]] = []
    compute = FourierFeatures.grad_there

    def counted(self: FourierFeatures, x: Any, w: Any) -> Any:
        shapes.append(x.shape)
        return compute(self, x, w)

    monkeypatch.setattr(FourierFeatures, "grad_there", counted)
    run(InStep.paper(features=100, device=device))
    assert shapes == [(CLIENTS, DIM)] * (2 * STEPS)


def test_on_a_gpu_clients_are_in_step_and_elsewhere_not() -> None:
    assert FZooS.paper(device="cuda:1").in_step
    assert not FZooS.paper(device="cpu").in_step
    assert not FZooS.paper().in_step
    assert not FZooS().in_step


def test_a_failure_ends_the_run_with_what_was_reached() -> None:
    asked = [0] * CLIENTS

    def answer(i: int, x: Any) -> float:
        asked[i] += 1
        if i == 2 and asked[i] > 30:
            raise ValueError("the instrument is broken")
        return float(np.mean(x**2))

    with pytest.raises(ObjectiveError, match=r"client 2.*the instrument is broken") as caught:
        run(InStep.paper(features=50), objectives(answer))
    assert caught.value.result is not None
    assert caught.value.result.queries == sum(asked)


def test_ctrl_c_ends_the_run_with_what_was_reached() -> None:
    asked = 0

    def answer(i: int, x: Any) -> float:
        nonlocal asked
        asked += 1
        if asked == 150:
            raise KeyboardInterrupt
        return float(np.mean(x**2))

    result = run(InStep.paper(features=50), objectives(answer))
    assert result.status == "interrupted"
    assert len(result.history) >= 1


def test_a_run_goes_on_where_it_was() -> None:
    """With the bits of one that was longer from the start."""
    algorithm = InStep.paper(features=50)
    first = run(algorithm, rounds=2)
    assert run(algorithm, rounds=4, start=first).x.tobytes() == run(algorithm, rounds=4).x.tobytes()


def test_many_random_numbers_are_drawn_on_several_cores_and_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "_LARGE", 1)
    drawn = run(InStep.paper(features=50))
    monkeypatch.undo()
    assert drawn.x.tobytes() == run(InStep.paper(features=50)).x.tobytes()


@pytest.mark.parametrize("large", [1, 100_000], ids=["drawn ahead", "drawn when needed"])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_one_that_fails_leaves_the_others_where_they_would_be(
    device: str | None, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the engine goes on without it: their replies are those of a round in which it took no part.

    It has drawn what it has used, and no more: the generator of the one that failed, too, is where it would be.
    """
    if device is not None:
        pytest.importorskip("torch")
    monkeypatch.setattr(draws, "_LARGE", large)
    replies = []
    for fails in (False, True):
        clients = [client(i, InStep.paper(features=50, device=device), fails and i == 1) for i in range(CLIENTS)]
        engine = LocalEngine(clients, together=False, in_step=True)
        requests = {i: Message("update", 1, {"x": np.full(DIM, 0.5)}, {"seed": 3}) for i in range(CLIENTS)}
        outcome = engine.exchange(requests)
        assert list(outcome.failures) == ([1] if fails else [])
        assert outcome.counts == ({1: clients[1].queries} if fails else {})
        replies.append(outcome.replies)
        for i, each in enumerate(clients):
            used = np.random.default_rng(i)
            used.random(10 * DIM + (1 if fails and i == 1 else 3) * 100 * DIM)
            assert each.generator.bit_generator.state == used.bit_generator.state
    for i in (0, 2, 3):
        np.testing.assert_allclose(replies[1][i].arrays["x"], replies[0][i].arrays["x"], rtol=0, atol=1e-9)
        assert replies[1][i].scalars["queries"] == replies[0][i].scalars["queries"]


@pytest.mark.parametrize("large", [1, 100_000], ids=["in the background", "when needed"])
@pytest.mark.parametrize("after", [25, 30], ids=["at x", "around x"])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_one_that_fails_in_a_refresh_leaves_the_others_where_they_would_be(
    device: str | None, after: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the second round, whose first query is the server's x; and what is drawn is what is used."""
    if device is not None:
        pytest.importorskip("torch")
    monkeypatch.setattr(draws, "_LARGE", large)
    monkeypatch.setattr(at_once, "_LARGE", large)
    x, replies = {"x": np.full(DIM, 0.5)}, []
    for fails in (False, True):
        algorithm = InStep.paper(features=50, device=device)
        clients = [client(i, algorithm, fails and i == 1, after) for i in range(CLIENTS)]
        engine = LocalEngine(clients, together=False, in_step=True)
        assert not engine.exchange({i: Message("update", 1, x, {"seed": 3}) for i in range(CLIENTS)}).failures
        outcome = engine.exchange({i: Message("refresh", 2, x, {"seed": 3}) for i in range(CLIENTS)})
        assert list(outcome.failures) == ([1] if fails else [])
        replies.append(outcome.replies)
        for i, each in enumerate(clients):
            used = np.random.default_rng(i)
            used.random((10 + 3 * 100 + (0 if fails and i == 1 and after == 25 else 200)) * DIM)
            assert each.generator.bit_generator.state == used.bit_generator.state
    for i in (0, 2, 3):
        np.testing.assert_allclose(replies[1][i].arrays["w"], replies[0][i].arrays["w"], rtol=0, atol=1e-9)
        assert replies[1][i].scalars["queries"] == replies[0][i].scalars["queries"] == 76


def client(i: int, algorithm: FixedFZooS, fails: bool, after: int = 11) -> Client:
    """It fails after so many queries: in its first batch of active ones."""

    def objective(x: Any) -> float:
        if fails and trajectory.count > after:
            raise ValueError("broken")
        return float(np.mean((x - 0.1 * i) ** 2))

    trajectory = Trajectory(objective, Box.of((0, 1), DIM), client=i)
    context = ClientContext(trajectory, np.random.default_rng(i), DIM, CLIENTS, STEPS, algorithm.projected)
    return Client(algorithm.client(context), Adam())
