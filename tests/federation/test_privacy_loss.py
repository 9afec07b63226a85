"""Epsilon: what others would compute for what leaves, counted once for each site, and a site's own limit.

The noise has no seed. Bounds on it are five standard deviations wide or more: a true mechanism fails them once in some
million runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from private import NOISY, QUIET, SITES, Box, boxes, extra, payload, study, told
from scipy import optimize, stats

from fzoos import FZooS
from fzoos.engines import LocalStudy
from fzoos.engines.local import LocalEngine
from fzoos.federation.exchange import Outcome
from fzoos.federation.journal import Journal
from fzoos.federation.privacy import Privacy, Releases, sent
from fzoos.federation.site import StudySite
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import MessageError, decode, encode
from fzoos.messages.message import Message

# A site's own limit


def test_a_site_stops_when_its_epsilon_is_spent(tmp_path):
    """Of the arrays that left it, in all processes, by its own journal; the study goes on without it."""
    ours = study(rounds=5, min_clients=2)
    privacy = ours.privacy_settings
    assert privacy is not None
    limit = privacy.epsilon(3)
    sites = [
        StudySite(ours, i, box, tmp_path / SITES[i], max_epsilon=limit if i == 0 else None)
        for i, box in enumerate(boxes())
    ]
    result = run_study(ours, LocalEngine(sites, fail_fast=False), tmp_path / "result.db")
    for site in sites:
        site.close()
    assert result.status == "completed"
    assert result.queries_per_client == (18, 30, 30)
    with Journal(tmp_path / "a", ours.id, "a") as journal:
        assert sent(journal, ours) == 3
    with StudySite(ours, 0, Box(0.1), tmp_path / "a", max_epsilon=limit) as site:
        with pytest.raises(RuntimeError, match=r"would take epsilon to .*; the site's own limit is .* is spent"):
            site.handle(Message("update", 9, {"x": np.full(3, 0.5)}))
        assert site.queries == 18
    with StudySite(ours, 0, Box(0.1), tmp_path / "a", max_epsilon=privacy.epsilon(4)) as site:  # exactly enough
        site.handle(Message("update", 9, {"x": np.full(3, 0.5)}))


def test_payload_has_a_clip_of_its_own():
    arrays = {"x": np.array([0.9, 0.9]), "c": np.array([30.0, 40.0])}
    private = Privacy(clip=0.1, noise=QUIET, clip_payload=5.0)
    found = private.protect(Message("iterate", 1, arrays, {"queries": 1}), np.array([0.9, 0.5])).arrays
    np.testing.assert_allclose(found["x"], [0.9, 0.6], atol=1e-8)
    np.testing.assert_allclose(found["c"], [3.0, 4.0], atol=1e-7)


def test_only_the_number_of_queries_leaves_beside_the_arrays():
    reply = Message("iterate", 4, {"x": np.zeros(2)}, {"queries": 7, "correction_length": 1.0})
    private = Privacy(**NOISY).protect(reply, np.zeros(2))
    assert (private.kind, private.round, dict(private.scalars)) == ("iterate", 4, {"queries": 7})


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_a_number_does_not_leave(value):
    with pytest.raises(MessageError, match="'c' holds NaN or infinity"):
        payload(np.array([0.0, value]), **NOISY)


# Epsilon, computed otherwise


def exact_epsilon(mu: float, delta: float) -> float:
    """The analytic Gaussian mechanism: delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) (Balle and Wang 2018)."""

    def excess(eps: float) -> float:
        second = math.exp(eps + float(stats.norm.logcdf(-mu / 2 - eps / mu)))
        return float(stats.norm.cdf(mu / 2 - eps / mu)) - second - delta

    return float(optimize.brentq(excess, 0.0, mu * mu + 20 * mu))


def renyi_epsilon(mu: float, delta: float) -> float:
    """D_alpha = alpha mu^2 / 2, as (eps, delta) by Canonne, Kamath and Steinke (2020), best over all alpha."""

    def bound(log: float) -> float:
        alpha = 1 + math.exp(log)
        return alpha * mu * mu / 2 + math.log1p(-1 / alpha) - math.log(delta * alpha) / (alpha - 1)

    return float(optimize.minimize_scalar(bound, bounds=(-5.0, 12.0), method="bounded").fun)


CASES = [(0.7, 1, 1e-5), (4.0, 50, 1e-6), (10.0, 1, 1e-3)]


@pytest.mark.parametrize(("noise", "releases", "delta"), CASES)
def test_epsilon_is_that_of_the_composed_gaussian_mechanism(noise, releases, delta):
    """T mechanisms of sensitivity 2 S and noise z S are one with mu = 2 sqrt(T) / z."""
    mu = 2 * math.sqrt(releases) / noise
    found = Privacy(clip=0.3, noise=noise, delta=delta).epsilon(releases)
    best = renyi_epsilon(mu, delta)
    assert best * (1 - 1e-6) <= found < 1.03 * best + 0.01  # the package tries a hundred orders, this one all of them
    assert exact_epsilon(mu, delta) < found < 1.25 * exact_epsilon(mu, delta) + 0.02


def test_clips_do_not_change_epsilon_and_nothing_sent_costs_nothing():
    assert Privacy(clip=0.1, noise=2.0).epsilon(5) == Privacy(clip=7.0, noise=2.0, clip_payload=0.3).epsilon(5)
    assert Privacy(clip=0.1, noise=2.0).epsilon(0) == 0.0


def test_the_promise_is_kept_by_what_leaves_and_by_little():
    """Two objectives that push a site to opposite ends of the clip, and the best test that tells them apart.

    Its excess P(found | one) - e^eps P(found | other) must be delta for the exact epsilon of a sensitivity of 2 S. With
    the epsilon of a sensitivity of S it would be almost three times as much: that is not the promise.
    """
    delta, n = 0.2, 20_000
    settings = {"clip": 0.1, "noise": 1.0}  # so that mu = 2
    one, other = (np.array([payload(np.array([side]), **settings)[0] for _ in range(n)]) for side in (9.9, -9.9))

    def excess(eps: float) -> tuple[float, float]:
        """And its standard error; beyond the threshold the densities N(S, S^2) and N(-S, S^2) differ by e^eps."""
        p, q = (float(np.mean(values > eps * 0.1 / 2)) for values in (one, other))
        return p - math.exp(eps) * q, math.sqrt((p + math.exp(2 * eps) * q) / n)

    found, error = excess(exact_epsilon(2.0, delta))
    assert 5 * error < 0.5 * delta
    assert abs(found - delta) < 5 * error
    promised, error = excess(Privacy(**settings, delta=delta).epsilon(1))
    assert promised < delta + 5 * error
    weak, error = excess(exact_epsilon(1.0, delta))
    assert weak - 5 * error > 2 * delta


# Counting


def test_a_request_counts_once_and_the_site_asked_for_most_counts():
    first, refresh, second = (
        Message(kind, round, {"x": np.zeros(2)}, {"seed": 1})
        for kind, round in (("update", 1), ("refresh", 2), ("update", 2))
    )
    releases = Releases(FZooS().server(2), sites=3)
    assert releases.most == 0
    assert releases.record({0: first, 1: first, 2: first})
    assert releases.most == 1
    assert not releases.record({1: first})
    assert releases.record({0: refresh, 1: refresh})
    assert releases.most == 2
    assert releases.record({1: second})
    assert releases.most == 3
    again = Releases(FZooS().server(2), sites=3)
    again.restore(releases.state)
    assert not again.record({1: second})
    assert again.most == 3


PLAIN = {
    "name": "fzoos",
    "features": 20,
    "initial": 4,
    "active": {"candidates": 10, "picks": 2, "radius": 0.05},
    "refresh": {"candidates": 10, "picks": 3},
}
ALGORITHMS = {  # of three rounds: arrays by hand
    "fedzo": ({"name": "fedzo", "differences": {"count": 2}}, 3),  # x
    "scaffoldi": ({"name": "scaffoldi", "differences": {"count": 2}}, 5),  # x; from round 2 on c before it
    "scaffoldii": ({"name": "scaffoldii", "differences": {"count": 2}}, 6),  # x and c
    "decomfl": ({"name": "decomfl", "differences": {"count": 2}}, 3),  # s
    "fedcma": ({"name": "fedcma", "population": 4}, 6),  # x and s
    "fzoos": (PLAIN, 5),  # x; w from round 2 on
    "fedtrustregion": ({"name": "fedtrustregion"}, 9),  # g and the region's size; x
    "fzoos, one exchange": (PLAIN | {"refresh": False}, 6),  # x and w
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_private_study_runs_and_its_loss_is_kept_with_it(name, tmp_path):
    algorithm, releases = ALGORITHMS[name]
    ours = study(algorithm=algorithm, privacy={"clip": 0.1, "noise": 4.0, "delta": 1e-6})
    result = LocalStudy(ours, tmp_path, boxes()).run()
    epsilon = Privacy(0.1, 4.0, 1e-6).epsilon(releases)
    kept = extra(tmp_path / "result.db")
    assert (kept["epsilon"], kept["delta"], kept["releases"]) == (epsilon, 1e-6, [releases] * 3)
    assert [told(tmp_path, ours, site) for site in SITES] == [releases] * 3  # the sites agree
    assert result.status == "completed"
    assert result.message.endswith(f"; epsilon = {epsilon:.3g} at delta = 1e-06 for each site")
    assert np.all(np.abs(result.x) <= 1.0)
    assert not any(record.diagnostics for record in result.history)


def test_the_journal_replays_the_same_noise(tmp_path):
    ours = study(rounds=1)
    data = encode(Message("update", 1, {"x": np.full(3, 0.4)}), ours.id)
    box = Box(0.1)
    with StudySite(ours, 0, box, tmp_path / "journal") as site:
        reply = site.answer(data)
        assert site.answer(data) == reply
    calls = box.calls
    with StudySite(ours, 0, box, tmp_path / "journal") as site:  # another process, later
        assert site.answer(data) == reply
        other = site.answer(encode(Message("update", 1, {"x": np.full(3, 0.5)}), ours.id))
    assert box.calls == 2 * calls  # the second request is another one
    assert not np.any(decode(other, ours.id).arrays["x"] == decode(reply, ours.id).arrays["x"])
    with Journal(tmp_path / "journal", ours.id, "a") as journal:
        assert sent(journal, ours) == 2


class Lost:
    """An engine whose server dies when the replies of a round are there and nobody has seen them."""

    def __init__(self, engine: LocalEngine, round: int, path: Path) -> None:
        self._engine, self._round, self._path = engine, round, path
        self.left: dict[str, Any] = {}  # what would be in the file after a kill

    def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
        outcome = self._engine.exchange(requests, timeout)
        if next(iter(requests.values())).round == self._round:
            self.left = extra(self._path)
            raise SystemExit("the power is out")
        return outcome


def test_replies_to_a_server_that_dies_are_counted_and_counted_once(tmp_path):
    ours = study(rounds=3)
    sites = [StudySite(ours, i, box, tmp_path / "journals" / f"{SITES[i]}.journal") for i, box in enumerate(boxes())]
    engine = LocalEngine(sites, fail_fast=False)
    path = tmp_path / "result.db"
    for resume in (False, True):  # the second time the sites answer from their journals
        lost = Lost(engine, round=2, path=path)
        with pytest.raises(SystemExit):
            run_study(ours, lost, path, resume=resume)
        assert lost.left["releases"] == [2, 2, 2]  # not in any checkpoint, but gone from the sites
        assert lost.left["epsilon"] == Privacy(**NOISY).epsilon(2)
        assert extra(path) == lost.left
    assert run_study(ours, engine, path, resume=True).status == "completed"
    assert extra(path)["releases"] == [3, 3, 3]
    for site in sites:
        site.close()
    assert [told(tmp_path, ours, site) for site in SITES] == [3, 3, 3]


def test_what_was_sent_in_a_round_that_failed_counts(tmp_path):
    """One site is broken, the others' answers of round 1 have left all the same."""

    def broken(x: np.ndarray) -> float:
        raise RuntimeError("no licence")

    ours = study(retries=0)
    result = LocalStudy(ours, tmp_path, [*boxes()[:2], broken]).run()
    assert result.status == "failed"
    assert "epsilon" in result.message
    assert extra(tmp_path / "result.db")["releases"] == [1, 1, 1]  # of the third the server cannot know
    assert [told(tmp_path, ours, site) for site in SITES] == [1, 1, 0]
