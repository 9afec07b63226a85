"""Differential privacy: what leaves a site is clipped and noisy, and the loss is what others would compute.

The noise has no seed. Bounds on it are five standard deviations wide or more: a true mechanism fails them once in some
million runs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from fzoos import Constant, FedZO, FixedFZooS
from fzoos.algorithms.base import PayloadPart
from fzoos.engines import LocalStudy
from fzoos.engines.local import LocalEngine
from fzoos.federation.conductor import conduct
from fzoos.federation.exchange import Outcome
from fzoos.federation.journal import Journal
from fzoos.federation.privacy import Privacy, Releases, sent
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study
from fzoos.messages.codec import MessageError, decode, encode
from fzoos.messages.message import Message
from fzoos.runs.store import Store

SITES = ("a", "b", "c")
NOISY = {"clip": 0.1, "noise": 2.0}
QUIET = 1e-9  # a noise that leaves nine digits of what was clipped


def study(**changes: Any) -> Study:
    settings: dict[str, Any] = {
        "name": "private",
        "x0": 0.8,
        "dim": 3,
        "bounds": (-1.0, 1.0),
        "sites": SITES,
        "rounds": 3,
        "local_steps": 2,
        "algorithm": {"name": "fedzo", "differences": {"count": 2}},
        "privacy": NOISY,
    }
    return Study(**(settings | changes))


class Box:
    """An objective that counts its calls."""

    def __init__(self, centre: float) -> None:
        self.centre, self.calls = centre, 0

    def __call__(self, x: np.ndarray) -> float:
        self.calls += 1
        return float(np.sum((x - self.centre) ** 2))


def boxes() -> list[Box]:
    return [Box(centre) for centre in (-0.3, 0.1, 0.5)]


def payload(array: np.ndarray, **settings: float) -> np.ndarray:
    """A payload array as it leaves."""
    reply = Message("payload", 2, {"c": array}, {"queries": 1})
    return Privacy(**settings).protect(reply, np.zeros(1)).arrays["c"]


def extra(path: Path) -> dict[str, Any]:
    with Store(path, create=False) as store:
        assert store.last is not None
        return store.extra(store.last)


def told(folder: Path, ours: Study, site: str) -> int:
    """What a site's own journal says it has sent."""
    with Journal(folder / "journals" / f"{site}.journal", ours.id, site) as journal:
        return sent(journal, ours)


# The noise


@pytest.mark.parametrize("array", [np.zeros(200_000), np.full(200_000, 1.0)], ids=["zeros", "ones"])
def test_noise_is_normal_with_deviation_z_s(array):
    n, deviation = len(array), 3.0 * 0.05
    expected = 0.05 * array / max(1.0, np.linalg.norm(array))
    noise = payload(array, clip=0.05, noise=3.0) - expected
    assert abs(noise.mean()) < 5 * deviation / math.sqrt(n)
    assert abs(noise.std() - deviation) < 5 * deviation / math.sqrt(2 * n)  # of a normal sample's deviation
    assert stats.kstest(noise / deviation, "norm").pvalue > 1e-7
    for tail in (2.0, 3.0, 4.0):
        p = 2 * stats.norm.sf(tail)
        assert abs(np.mean(np.abs(noise) > tail * deviation) - p) < 6 * math.sqrt(p / n)
    lag = noise[1:] @ noise[:-1] / (n * deviation**2)  # neighbours have nothing to do with each other
    assert abs(lag) < 5 / math.sqrt(n)


def test_an_iterate_gets_the_same_noise():
    x, n = np.full(50_000, 0.5), 50_000
    reply = Message("iterate", 1, {"x": x}, {"queries": 1})
    step = Privacy(clip=0.01, noise=2.0).protect(reply, x).arrays["x"] - x
    assert abs(step.std() - 0.02) < 5 * 0.02 / math.sqrt(2 * n)
    assert abs(step.mean()) < 5 * 0.02 / math.sqrt(n)


def test_noise_comes_from_no_seed(tmp_path):
    """Same study, same seed, same objective: without noise the replies are equal, with it no number is."""
    request = Message("update", 1, {"x": np.full(3, 0.4)})
    replies = {}
    for folder, privacy in (("one", None), ("two", None), ("three", NOISY), ("four", NOISY)):
        with StudySite(study(privacy=privacy), 0, Box(0.1), tmp_path / folder, site_seed=0) as site:
            replies[folder] = site.handle(request).arrays["x"]
    assert np.array_equal(replies["one"], replies["two"])
    assert not np.any(replies["three"] == replies["four"])


@pytest.mark.parametrize("array", [np.zeros(1000), np.linspace(-1e-3, 1e-3, 1000), np.geomspace(1e-12, 1e9, 1000)])
def test_last_bits_tell_nothing(array):
    """Whatever the array, what leaves lies on a grid, here 2^-21: with z S = 0.25 a millionth of the noise."""
    steps = payload(array, clip=0.5, noise=0.5) * 2.0**21
    assert np.array_equal(steps, np.rint(steps))
    assert np.any(steps % 2)  # and on no coarser one


# The clip


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e150, 1e300])
def test_a_long_array_is_cut_to_length_s_and_keeps_its_direction(scale):
    array = np.array([3.0, -4.0, 12.0])  # of length 13
    found = payload(scale * array, clip=0.26, noise=QUIET)
    np.testing.assert_allclose(found, 0.02 * array, rtol=0, atol=1e-7 * 0.26)


def test_a_short_array_stays_as_it_is():
    array = np.array([0.03, -0.04, 0.12])  # of length 0.13
    np.testing.assert_allclose(payload(array, clip=0.131, noise=QUIET), array, rtol=0, atol=1e-8)


def test_nothing_clipped_is_ever_longer_than_s():
    """Rounding included: the noise is so small that the grid is at the last bits."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        array = rng.normal(size=rng.integers(1, 50)) * 10.0 ** rng.uniform(-3, 3)
        found = payload(array, clip=0.1, noise=1e-12)
        assert np.linalg.norm(found) <= 0.1 * (1 + 1e-11)


def test_zeros_leave_as_noise():
    found = payload(np.zeros(1000), clip=1.0, noise=1.0)
    assert 0.0 not in found
    assert abs(found @ found / 1000 - 1) < 5 * math.sqrt(2 / 1000)


def test_of_an_iterate_the_step_is_clipped():
    x, there = np.array([0.9, 0.2]), np.array([0.6, 0.6])  # a step of length 0.5
    reply = Message("iterate", 1, {"x": there}, {"queries": 1})
    found = Privacy(clip=0.1, noise=QUIET).protect(reply, x).arrays["x"]
    np.testing.assert_allclose(found, [0.84, 0.28], atol=1e-8)


def test_a_noisy_iterate_is_not_brought_back():
    """At a face of the box its mean is still x: what one site clips, no number of sites would average out."""
    x = np.zeros(200_000)
    reply = Message("iterate", 1, {"x": x}, {"queries": 1})
    found = Privacy(clip=0.1, noise=2.0).protect(reply, x).arrays["x"]
    assert abs(found.mean()) < 5 * 0.2 / math.sqrt(len(x))
    assert abs(np.mean(found < 0.0) - 0.5) < 5 * 0.5 / math.sqrt(len(x))


def test_the_mean_is_brought_back(tmp_path):
    """By the server, once: x is in the box after every round, though the replies are not."""
    ours, seen = study(x0=1.0, rounds=4, privacy={"clip": 0.1, "noise": 5.0}), []

    class Engine(LocalEngine):
        def exchange(self, requests: Mapping[int, Message], timeout: float | None) -> Outcome:
            assert all(np.all((r.arrays["x"] >= 0.0) & (r.arrays["x"] <= 1.0)) for r in requests.values())
            outcome = super().exchange(requests, timeout)
            seen.extend(reply.arrays["x"] for reply in outcome.replies.values())
            return outcome

    result = conduct(ours, Engine([ours.client(i, box) for i, box in enumerate(boxes())]), tmp_path / "result.db")
    assert result.status == "completed"
    assert np.all(np.abs(result.x) <= 1.0)
    assert np.max(seen) > 1.0


def test_a_minimum_at_the_border(tmp_path):
    """Twenty sites whose minimum is a corner: with the noise of each averaged before it is projected, the study ends
    near it: 0.02 to 0.05 away in each coordinate, and 0.11 to 0.15 where each site clips its own."""
    sites = tuple(f"s{i}" for i in range(20))
    ours = study(
        sites=sites, dim=5, x0=0.0, rounds=25, local_steps=4, privacy={"clip": 0.1, "noise": 2.0}, bounds=(0.0, 1.0)
    )
    ours = Study(**{**ours.settings, "x0": [0.5] * 5, "optimizer": {"name": "adam", "learning_rate": 0.025}})
    clients = [ours.client(i, lambda x: float(np.sum((x - 0.02) ** 2))) for i in range(20)]
    result = conduct(ours, LocalEngine(clients), tmp_path / "result.db")
    assert np.mean(np.abs(result.x - 0.02)) < 0.09


@pytest.mark.parametrize("algorithm", ["fedzo", "scaffoldi", "scaffoldii", "fedcma", "decomfl", "hiso", "fedlbfgs"])
def test_every_entry_gets_the_noise_of_its_own_clip(algorithm, tmp_path):
    """What really leaves, of every array of every reply, by its sample variance: z times the clip of a step for x, z
    times that of the payload for the rest. The objective is constant, so that nothing else varies."""
    dim, settings = 400, {"clip": 0.01, "noise": 2.0, "clip_payload": 3.0}
    table = {"name": algorithm} | ({"differences": {"count": 100}} if algorithm in ("decomfl", "hiso") else {})
    ours = study(dim=dim, x0=0.0, algorithm=table, privacy=settings, local_steps=4)
    request = {"x": np.full(dim, 0.5)} if not ours.algorithm_settings.rebuilds else None
    if request is None:
        half = ours.algorithm_settings.server(dim, 4, ours.optimizer_settings)
        assert half is not None
        request = half.start(np.full(dim, 0.5))
    seed = {"seed": 3} if ours.algorithm_settings.shares_seed else {}
    kinds = ["refresh", "update"] if ours.algorithm_settings.exchanges == 2 else ["update"]
    constant = "s" if algorithm == "fedcma" else ""  # its spread is not zero where the objective is constant
    for kind in kinds:
        client = ours.client(0, lambda x: 0.0)
        reply = client.handle(Message(kind, 2, request, seed))
        for name, array in reply.arrays.items():
            deviation = 2.0 * (0.01 if name == "x" else 3.0)
            noise = array - 0.5 if name == "x" else array
            if name == constant:
                noise = noise - noise.mean()
            assert abs(noise.std() - deviation) < 5 * deviation / math.sqrt(2 * noise.size), (kind, name)


def test_single_numbers_are_left_out_or_get_noise_as_wide_as_their_range():
    """Of n numbers that are told, in units of half their ranges, each gets z sqrt(n); a number out of its range is
    brought back first; what is left out is the same whatever it was."""
    part = PayloadPart((3,), "numbers", low=(1.0, 0.0, 10.0), high=(3.0, 1.0, 30.0), neutral=(math.nan, 0.5, math.nan))
    assert part.tells
    rows = []
    for value in (2.0, 1e9):
        reply = Message("payload", 1, {"n": np.array([value, value, 20.0])}, {"queries": 1})
        found = [Privacy(0.1, 0.5).protect(reply, np.zeros(1), {"n": part}).arrays["n"] for _ in range(4000)]
        rows.append(np.array(found))
    assert all(np.all(found[:, 1] == 0.5) for found in rows)
    deviations = 0.5 * math.sqrt(2.0) * np.array([1.0, 10.0])
    for found, expected in zip(rows, ([2.0, 20.0], [3.0, 20.0]), strict=True):
        noise = found[:, [0, 2]] - expected
        assert np.all(np.abs(noise.mean(axis=0)) < 5 * deviations / math.sqrt(4000))
        assert np.all(np.abs(noise.std(axis=0) - deviations) < 5 * deviations / math.sqrt(8000))
    silent = PayloadPart((2,), "numbers", neutral=(0.0, 1.0))
    assert not silent.tells
    reply = Message("payload", 1, {"n": np.array([7.0, 8.0])}, {"queries": 1})
    assert Privacy(0.1, 0.5).protect(reply, np.zeros(1), {"n": silent}).arrays["n"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("dim", [10, 60])
def test_of_fzoos_every_entry_is_noise_or_neutral(dim):
    """FZooS() as it leaves a site with a constant objective: every array of both replies, over 300 sites."""
    ours = study(
        dim=dim, x0=0.0, algorithm={"name": "fzoos"}, privacy={"clip": 0.01, "noise": 2.0, "clip_payload": 3.0}
    )
    steering = ours.algorithm_settings.steering(dim)
    x, scalars = np.full(dim, 0.5), {}
    state = steering.start(x)
    if dim == 60:  # the round after the pilot
        scalars = steering.scalars(state, 3, 0, 3, 1 / 3) | {"pilot": 0}
    else:
        scalars = steering.scalars(state, 3, 0, 3, 1 / 3)
    first = Message("refresh", 1, {"x": x}, scalars)
    rows: dict[str, list[np.ndarray]] = {}
    for _ in range(300 if dim == 10 else 30):
        client = ours.client(0, lambda x: 0.0)
        payload = client.handle(first).arrays
        mean = {name: np.zeros_like(array) for name, array in payload.items()}
        if dim == 10:
            mean["region"] = np.array([math.log(0.1), 0.0, 0.0])
        answer = client.handle(Message("update", 1, mean, scalars)).arrays
        for name, array in {**payload, **answer}.items():
            rows.setdefault(name, []).append(array)
    deviations = {"gradient": 6.0, "fresh": 6.0, "memory": 6.0, "lines": 6.0, "x": 0.02}
    names = {"gradient", "region", "x"} if dim == 10 else {"fresh", "memory", "star", "pair", "lines", "failed"}
    assert set(rows) == names
    for name, deviation in deviations.items():
        if name in rows:
            noise = np.array(rows[name]) - (0.5 if name == "x" else 0.0)
            assert abs(noise.std() - deviation) < 5 * deviation / math.sqrt(2 * noise.size), name
    for name in ("star", "pair", "failed"):
        assert not np.any(rows.get(name, 0.0))
    if dim == 10:
        region = np.array(rows["region"])
        deviation = 2.0 * math.log(2.0)
        assert abs(region[:, 0].std() - deviation) < 5 * deviation / math.sqrt(2 * len(region))
        assert not np.any(region[:, 1:])


def test_fzoos_in_many_dimensions_runs_with_noise(tmp_path):
    """Three arrays a round leave: two gradients and the lines; both accounts know it."""
    ours = study(algorithm={"name": "fzoos"}, dim=60, x0=0.5, rounds=3, privacy={"clip": 0.1, "noise": 4.0})
    result = LocalStudy(ours, tmp_path, boxes()).run()
    assert result.status == "completed"
    assert extra(tmp_path / "result.db")["releases"] == [9, 9, 9]
    assert [told(tmp_path, ours, site) for site in SITES] == [9, 9, 9]


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
    result = conduct(ours, LocalEngine(sites, together=False), tmp_path / "result.db")
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


def test_a_limit_without_privacy(tmp_path):
    with pytest.raises(ValueError, match="max_epsilon needs a study with privacy"):
        StudySite(study(privacy=None), 0, Box(0.1), tmp_path / "a", max_epsilon=1.0)


def test_payload_has_a_clip_of_its_own():
    arrays = {"x": np.array([0.9, 0.9]), "c": np.array([30.0, 40.0])}
    private = Privacy(clip=0.1, noise=QUIET, clip_payload=5.0)
    found = private.protect(Message("iterate", 1, arrays, {"queries": 1}), np.array([0.9, 0.5])).arrays
    np.testing.assert_allclose(found["x"], [0.9, 0.6], atol=1e-8)
    np.testing.assert_allclose(found["c"], [3.0, 4.0], atol=1e-7)


def test_only_the_number_of_queries_leaves_beside_the_arrays():
    reply = Message("iterate", 4, {"x": np.zeros(2)}, {"queries": 7, "correction_length": 1.0, "uncertainty": 0.1})
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


CASES = [(0.7, 1, 1e-5), (1.0, 20, 1e-5), (2.0, 1, 1e-5), (4.0, 50, 1e-6), (10.0, 1, 1e-3), (40.0, 200, 1e-5)]


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
    releases = Releases(FixedFZooS(length=Constant(), steps=None), sites=3, dim=2, local_steps=2)
    assert releases.most == 0
    assert releases.ask({0: first, 1: first, 2: first})
    assert releases.most == 1
    assert not releases.ask({1: first})
    assert releases.ask({0: refresh, 1: refresh})
    assert releases.most == 2
    assert releases.ask({1: second})
    assert releases.most == 3
    again = Releases(FixedFZooS(length=Constant(), steps=None), sites=3, dim=2, local_steps=2)
    again.restore(releases.state)
    assert not again.ask({1: second})
    assert again.most == 3


PLAIN = {
    "name": "fzoos",
    "features": 20,
    "sends": "weights",
    "refresh_first_round": False,
    "steps": False,
    "length": {},
}
ALGORITHMS = {  # of three rounds: arrays by hand
    "fedzo": ({"name": "fedzo", "differences": {"count": 2}}, 3),  # x
    "scaffoldi": ({"name": "scaffoldi", "differences": {"count": 2}}, 5),  # x; from round 2 on c before it
    "scaffoldii": ({"name": "scaffoldii", "differences": {"count": 2}}, 6),  # x and c
    "decomfl": ({"name": "decomfl", "differences": {"count": 2}}, 3),  # s
    "hiso": ({"name": "hiso", "differences": {"count": 2}}, 3),  # s
    "fedhistory": ({"name": "fedhistory", "differences": {"count": 2}}, 3),  # x
    "fedcma": ({"name": "fedcma", "population": 4}, 6),  # x and s
    "fedlbfgs": ({"name": "fedlbfgs"}, 3),  # g
    "fzoos": (PLAIN | {"initial": {"points": 4, "radius": 0.1}}, 5),  # x; w from round 2 on
    "fzoos, gradients": (  # x and g, from round 1 on
        {"name": "fzoos", "length": {"name": "Constant"}, "steps": False},
        6,
    ),
    "fzoos, measured": ({"name": "fzoos"}, 9),  # g and the region's size; x
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


def test_a_study_without_privacy_has_no_epsilon(tmp_path):
    result = LocalStudy(study(privacy=None), tmp_path, boxes()).run()
    assert extra(tmp_path / "result.db") == {}
    assert "epsilon" not in result.message


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


def test_a_resumed_study_counts_on(tmp_path):
    ours = study(rounds=4)
    stopped = LocalStudy(ours, tmp_path, boxes()).run(callback=lambda record: record.round == 2)
    assert stopped.status == "stopped"
    assert extra(tmp_path / "result.db")["releases"] == [2, 2, 2]
    assert LocalStudy(ours, tmp_path, boxes()).run(resume=True).status == "completed"
    assert extra(tmp_path / "result.db")["releases"] == [4, 4, 4]
    assert told(tmp_path, ours, "a") == 4


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
    engine = LocalEngine(sites, together=False)
    path = tmp_path / "result.db"
    for resume in (False, True):  # the second time the sites answer from their journals
        lost = Lost(engine, round=2, path=path)
        with pytest.raises(SystemExit):
            conduct(ours, lost, path, resume=resume)
        assert lost.left["releases"] == [2, 2, 2]  # not in any checkpoint, but gone from the sites
        assert lost.left["epsilon"] == Privacy(**NOISY).epsilon(2)
        assert extra(path) == lost.left
    assert conduct(ours, engine, path, resume=True).status == "completed"
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


def test_sites_that_take_part_less_lose_less(tmp_path):
    ours = study(rounds=6, participation=1)
    LocalStudy(ours, tmp_path, boxes()).run()
    found = extra(tmp_path / "result.db")
    assert found["releases"] == [told(tmp_path, ours, site) for site in SITES]
    assert sum(found["releases"]) == 6
    assert min(found["releases"]) < max(found["releases"])
    assert found["epsilon"] == Privacy(**NOISY).epsilon(max(found["releases"]))


# What is refused


def test_without_dp_accounting_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    objectives = boxes()
    with pytest.raises(ImportError) as error:
        LocalStudy(study(), tmp_path, objectives).run()
    assert str(error.value) == "privacy needs dp-accounting: pip install 'fzoos[privacy]'"
    assert sum(box.calls for box in objectives) == 0
    with Store(tmp_path / "result.db") as store:
        assert store.last is None  # not even a run that failed


def test_a_site_needs_no_dp_accounting(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with StudySite(study(), 0, Box(0.1), tmp_path / "journal") as site:
        assert site.handle(Message("update", 1, {"x": np.full(3, 0.4)})).kind == "iterate"


@pytest.mark.parametrize(
    ("algorithm", "instead"),
    [
        ({"fit": {}, "length": {}, "steps": False}, "set fit = false"),
        ({"steps": False}, 'set length = { name = "Constant" }'),
        ({"length": {}}, "set steps = false"),
    ],
)
def test_what_noise_would_make_useless_is_refused(algorithm, instead, tmp_path):
    ours = study(algorithm={"name": "fzoos", **algorithm})
    objectives = boxes()
    with pytest.raises(ValueError, match="of which noise leaves nothing") as error:
        LocalStudy(ours, tmp_path, objectives).run()
    assert instead in str(error.value)
    assert sum(box.calls for box in objectives) == 0
    Privacy(**NOISY).check(FixedFZooS(length=Constant(), steps=None))
    Privacy(**NOISY).check(FedZO())


def test_a_part_says_what_privacy_may_do_with_it():
    """Whatever the algorithm: a plain shape may be clipped, a part that noise makes useless is refused by its name."""

    @dataclass(frozen=True)
    class Sends(FedZO):
        part: object = (1,)

        def payload(self, dim):
            return {"own": self.part}

    Privacy(**NOISY).check(Sends())
    Privacy(**NOISY).check(Sends(part=PayloadPart((1,), "clip")))
    for instead, advice in (("", "$"), ("own = false", "; set own = false in the algorithm's settings$")):
        with pytest.raises(ValueError, match=f"Sends would send own, of which noise leaves nothing{advice}"):
            Privacy(**NOISY).check(Sends(part=PayloadPart((1,), "refuse", instead)))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"clip": 0.1}, "privacy: noise is missing"),
        ({"noise": 1.0}, "privacy: clip is missing"),
        (
            {"clip": 0.1, "noise": 1.0, "sigma": 2.0},
            "privacy: there is no setting 'sigma'; the settings are clip, noise",
        ),
        ({"clip": 0.0, "noise": 1.0}, "privacy clip must be positive, got 0.0"),
        ({"clip": 0.1, "noise": -1.0}, "privacy noise must be positive, got -1.0"),
        ({"clip": 0.1, "noise": 1.0, "clip_payload": 0.0}, "privacy clip_payload must be positive, got 0.0"),
        ({"clip": 0.1, "noise": 1.0, "delta": 1.0}, "privacy delta must be between 0 and 1, got 1.0"),
        ({"clip": 0.1, "noise": 1.0, "delta": "small"}, "privacy delta must be a number, got 'small'"),
        ({"clip": math.nan, "noise": 1.0}, "privacy clip must be a finite number, got nan"),
        (True, "privacy must be a table such as { clip = 0.05, noise = 1.0 }, got True"),
    ],
)
def test_wrong_settings_are_named(table, message):
    with pytest.raises((TypeError, ValueError)) as error:
        study(privacy=table)
    assert message in str(error.value)


def test_a_study_file_has_the_setting_and_it_makes_another_study(tmp_path):
    text = 'name = "s"\nx0 = [0.5]\nbounds = [0.0, 1.0]\nsites = ["a"]\n'
    setting = "privacy = { clip = 0.05, noise = 1.0, delta = 1e-5, clip_payload = 2.0 }\n"
    (tmp_path / "study.toml").write_text(text + setting)
    (tmp_path / "plain.toml").write_text(text)
    private = Study.load(tmp_path / "study.toml")
    assert vars(private.privacy_settings) == {"clip": 0.05, "noise": 1.0, "delta": 1e-5, "clip_payload": 2.0}
    assert private.id != Study.load(tmp_path / "plain.toml").id  # a server cannot leave the noise out unseen
