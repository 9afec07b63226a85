"""FedCMA: its search and its client half against the cmaes package, the average by hand, and what it reaches."""

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from fzoos import FedCMA, minimize
from fzoos.algorithms.base import ClientContext
from fzoos.algorithms.separable_cma import SeparableCMA
from fzoos.federation.client import Client
from fzoos.messages.message import Message
from fzoos.objectives.box import Box
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.trajectory import Trajectory

SepCMA = pytest.importorskip("cmaes").SepCMA

TARGETS = np.array([[0.2, 0.9, 0.4, 0.1], [0.6, 0.3, 0.8, 0.5]])
D = TARGETS.shape[1]


def bowl(target):
    return lambda x: float(np.sum((x - target) ** 2 * np.linspace(1, 5, len(x))))


def client(f, settings, dim=D, rng=7, **changes):
    evaluator = Evaluator(f, Box.of((0, 1), dim), **changes)
    site = ClientContext(
        evaluator, Trajectory(dim), np.random.default_rng(rng), dim, clients=2, projected=settings.projected
    )
    return Client(settings.client(site))


def driven(f, x, s, seed, population, steps, inside=True):
    """The package's SepCMA from N(x, diag(s)^2): its mean and its deviations after some steps.

    It searches in units of s, as it can be given one sigma for all coordinates only. It does not tell its deviations:
    they follow from a point that it asks for and the normal numbers z, drawn here once more.

    `inside`: it is told ranks of the points' projections plus lambda mean_j (distance_j / s_j)^2, and its mean is
    projected; otherwise it is told the values themselves.
    """
    search, normal = SepCMA(x / s, 1.0, seed=seed, population_size=population), np.random.RandomState(seed)

    def ask():
        points = np.array([search.ask() for _ in range(population)])
        z = normal.randn(population, len(x))
        clearest = np.argmax(abs(z), axis=0), np.arange(len(x))
        return points, (points - search.mean)[clearest] / z[clearest]

    for _ in range(steps):
        points, spread = ask()
        there = np.clip(points * s, 0, 1) if inside else points * s
        worth = np.array([f(point) for point in there])
        if inside:
            worth = rankdata(worth) + population * np.mean(((points - there / s) / spread) ** 2, axis=1)
        search.tell(list(zip(points, worth, strict=True)))
        search.mean[:] = np.clip(search.mean, 0, 1 / s) if inside else search.mean
    return search.mean * s, ask()[1] * s


@pytest.mark.parametrize("projected", [True, False])
def test_client_half(projected):
    """A round is T generations of the package's SepCMA, seeded by the client's generator, from the request's x and
    s. A second round begins with the request again."""
    f, settings = bowl(TARGETS[0]), FedCMA(local_steps=4, population=8, deviation=0.3, projected=projected)
    made, seeds = client(f, settings), np.random.default_rng(7).integers(2**32, size=2)
    x = np.array([0.9, 0.1, 0.5, 0.97])
    reply = made.handle(Message("update", 1, {"x": x}))
    mean, s = driven(f, x, np.full(D, 0.3), int(seeds[0]), 8, 4, projected)
    assert reply.kind == "iterate"
    assert reply.arrays["x"] == pytest.approx(mean, abs=1e-12)
    assert reply.arrays["s"] == pytest.approx(s, abs=1e-12)

    x, s = np.array([0.3, 0.6, 0.5, 0.2]), np.array([0.1, 0.02, 0.3, 0.05])
    reply = made.handle(Message("update", 2, {"x": x, "s": s}))
    mean, s = driven(f, x, s, int(seeds[1]), 8, 4, projected)
    assert reply.arrays["x"] == pytest.approx(mean, abs=1e-12)
    assert reply.arrays["s"] == pytest.approx(s, abs=1e-12)
    assert reply.scalars["queries"] == 2 * 4 * 8


def test_server_averages_means_and_deviations():
    """Two clients of weights 1/4 and 3/4, three rounds: x and s are the weighted means of what the package's searches
    end with; bytes are those of x and s."""
    x0, xs, population, steps = np.array([0.9, 0.1, 0.5, 0.97]), [], 6, 3
    result = minimize(
        [bowl(target) for target in TARGETS],
        x0,
        bounds=(0, 1),
        algorithm=FedCMA(local_steps=steps, population=population),
        rounds=3,
        weights=[1, 3],
        monitor=lambda x: xs.append(x) or 0.0,
        seed=4,
    )
    rngs = [np.random.default_rng(child) for child in np.random.SeedSequence(4).spawn(4)[2:]]
    x, s = x0, np.full(D, 0.2)
    for reached in xs:
        ends = [
            driven(bowl(target), x, s, int(rng.integers(2**32)), population, steps)
            for target, rng in zip(TARGETS, rngs, strict=True)
        ]
        x, s = (0.25 * ends[0][k] + 0.75 * ends[1][k] for k in (0, 1))
        assert reached == pytest.approx(x, abs=1e-12)
    assert result.queries_per_client == (3 * steps * population,) * 2
    assert result.bytes_down == 2 * 8 * (D + 2 * 2 * D)  # x, then x and s
    assert result.bytes_up == 2 * 8 * 3 * (2 * D + 1)  # x, s and the count of queries


@pytest.mark.parametrize("minimum", [0.3, 1.5])
def test_only_the_order_of_values_matters(minimum):
    """exp(f) and f give the same run bit for bit, in the box and at its edge, where the minimum is."""
    sites = [lambda x: float(np.sum((x - minimum) ** 2)), lambda x: float(np.exp(np.sum((x - minimum) ** 2)))]
    runs = [minimize([f], np.ones(3), bounds=(-1, 1), algorithm=FedCMA(), rounds=2, seed=0).x for f in sites]
    assert np.array_equal(*runs)


def test_no_pull_towards_the_middle_of_the_box():
    """Values that say nothing (noise), a mean near a face, one generation: the mean of the best ten is N(m, s^2 / mu),
    mu = 1 / sum w^2, and is then projected. Were the points themselves projected, the mean would be E max(0, m + s z),
    twice as far inside."""
    d, m, s, rng = 2000, 0.02, 0.2, np.random.default_rng(1)
    weights = np.log(11) - np.log(np.arange(1, 11))
    spread = s * np.sqrt(np.sum((weights / weights.sum()) ** 2))
    noise = client(lambda x: float(rng.standard_normal()), FedCMA(local_steps=1), dim=d)
    x = noise.handle(Message("update", 1, {"x": np.full(d, m)})).arrays["x"]
    expected, pulled = (m * norm.cdf(m / sd) + sd * norm.pdf(m / sd) for sd in (spread, s))  # E max(0, m + sd z)
    assert pulled > 2 * expected
    assert np.mean(x) == pytest.approx(expected, abs=0.005)


def test_failed_points_pull_nowhere():
    """A failed point counts as the mean, in the last rank: the same generation by hand."""
    f, x = bowl(TARGETS[0]), np.full(D, 0.5)

    def failing(point):
        return float("nan") if point[0] > 0.46 else f(point)

    settings = FedCMA(local_steps=1, population=8, deviation=0.1)
    reply = client(failing, settings, on_failure="skip").handle(Message("update", 1, {"x": x}))
    seed = int(np.random.default_rng(7).integers(2**32))
    search = SepCMA(x.copy(), 0.1, seed=seed, population_size=8)
    points = [search.ask() for _ in range(8)]
    assert np.min(points) > 0.0 and np.max(points) < 1.0  # noqa: PT018
    failed = [point[0] > 0.46 for point in points]
    assert 4 < sum(failed) < 8  # so that failed ones are among the best four
    search.tell([(x, np.inf) if bad else (point, f(point)) for point, bad in zip(points, failed, strict=True)])
    assert reply.arrays["x"] == pytest.approx(search.mean, abs=1e-12)


@pytest.mark.parametrize("s", [-1.0, 1e90])
def test_any_deviation_a_message_may_hold(s):
    """Deviations that no client would send (noise for privacy makes such) do not break a round."""
    reply = client(bowl(TARGETS[0]), FedCMA()).handle(Message("update", 1, {"x": np.full(D, 0.5), "s": np.full(D, s)}))
    assert np.all((reply.arrays["x"] >= 0.0) & (reply.arrays["x"] <= 1.0))
    assert np.all(np.isfinite(reply.arrays["s"]) & (reply.arrays["s"] > 0.0))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"population": 3}, r"population \(lambda\) must be at least 4, got 3"),
        ({"deviation": 0.0}, "deviation must be positive, got 0.0"),
    ],
)
def test_settings_are_checked(settings, complaint):
    """An error names the argument, what came and what was expected."""
    with pytest.raises(ValueError, match=complaint):
        FedCMA(**settings)


def test_a_population_that_would_forget_too_much():
    """c_1 + c_mu > 1 would make variances negative; for d = 4 that is so with 200 points: refused at once."""
    weights = np.log(101) - np.log(np.arange(1, 101))
    mu = 1 / np.sum((weights / weights.sum()) ** 2)
    full = 2 / mu / (D + np.sqrt(2)) ** 2 + (1 - 1 / mu) * min(1, (2 * mu - 1) / ((D + 2) ** 2 + mu))
    assert 2 / ((D + 1.3) ** 2 + mu) + (D + 2) / 3 * full > 1.0  # Ros and Hansen's rates
    with pytest.raises(ValueError, match=r"population \(lambda\) 200 is too large for d = 4"):
        client(bowl(TARGETS[0]), FedCMA(population=200))


@pytest.mark.parametrize(("dim", "population"), [(2, 4), (5, 20), (40, 13)])
def test_the_search_is_the_packages(dim, population):
    """Our separable CMA-ES and the package's, through its ask and tell: the same points bit for bit for 30 generations,
    infinities and equal values among what they are told. The first deviations are a power of two, so that it rounds
    nothing whether they are in sigma (there) or in C (here)."""
    x = np.linspace(0.2, 0.9, dim)
    theirs = SepCMA(x.copy(), 0.25, seed=11, population_size=population)
    ours = SeparableCMA(x, np.full(dim, 0.25), population, seed=11)
    for generation in range(30):
        points = np.array([theirs.ask() for _ in range(population)])
        assert np.array_equal(ours.ask(), points)
        worth = np.round(np.sum((points - 0.3) ** 2 * np.linspace(1, 9, dim), axis=1), 1)
        worth[generation % population] = np.inf
        theirs.tell(list(zip(points, worth, strict=True)))
        ours.tell(points, worth)
        assert np.array_equal(ours.mean, theirs.mean)


@pytest.mark.parametrize(("projected", "widest"), [(True, 0.5), (False, 1e6)])
def test_what_is_sent_is_within_its_range(projected, widest):
    """From a corner the search grows in its first generations; it says no more than it would use, and the server takes
    every reply."""
    algorithm = FedCMA(local_steps=3, deviation=0.5, projected=projected)
    part = algorithm.server(3).parts["s"]
    assert (part.low, part.high) == (1e-12, widest)
    bowls = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in (0.2, 0.4)]
    for seed in range(5):
        corner = np.array([-1.0, 1.0, 1.0])
        result = minimize(bowls, corner, bounds=(-1, 1), algorithm=algorithm, rounds=3, seed=seed)
        assert result.rounds == 3
