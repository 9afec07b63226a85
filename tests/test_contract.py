"""What every algorithm must do, whatever it does: SPEC "The problem" and "One loop, five algorithms".

A new algorithm in `ALGORITHMS` is picked up here by itself, with its default settings. Only settings that make a run
cheaper are changed, and FZooS runs in its variants too.
"""

import dataclasses
import itertools

import numpy as np
import pytest

from fzoos import (
    SGD,
    ActiveQueries,
    Adam,
    Constant,
    FiniteDifferences,
    FitLengthScale,
    FZooS,
    InitialDesign,
    Matern52,
    Measured,
    ObjectiveError,
    TrustRegion,
    UnseenDirections,
    minimize,
)
from fzoos.algorithms import ALGORITHMS

QUICK_FD = {"differences": FiniteDifferences(count=8, directions="orthonormal")}
QUICK = {
    "features": 64,
    "points": 40,
    "feature_points": 50,
    "initial": InitialDesign(6, 0.05),
    "active": ActiveQueries(10, 2, 0.05),
    "refresh": ActiveQueries(10, 3, None),
}
PLAIN = QUICK | {"refresh_first_round": False, "sends": "weights", "length": Constant(), "steps": None}
DEFAULTS = QUICK | {
    "initial": InitialDesign(6, 0.05, "orthogonal"),
    "refresh": UnseenDirections(3),
    "refresh_first_round": True,
}
CHEAPER = {
    "fedzo": QUICK_FD,
    "fedprox": QUICK_FD,
    "scaffoldi": QUICK_FD,
    "scaffoldii": QUICK_FD,
    "decomfl": QUICK_FD,
    "hiso": QUICK_FD,
    "fedhistory": QUICK_FD | {"history": 2, "renew": 1},  # its subspace is there from the second round on
    "fedcma": {"population": 12},
    "fzoos": QUICK,
}
SETTINGS = {name: cls(**CHEAPER.get(name, {})) for name, cls in ALGORITHMS.items()} | {
    "fzoos-weights": FZooS(**PLAIN),
    "fzoos-one-exchange": FZooS(**PLAIN | {"refresh": None}),
    "fzoos-whole-trajectory": FZooS(**PLAIN | {"points": None, "feature_points": None, "kernel": Matern52()}),
    "fzoos-fitted": FZooS(**PLAIN | {"fit": FitLengthScale(points=40), "vector": "fixed"}),
    "fzoos-defaults": FZooS(**DEFAULTS),
    "fzoos-steps": FZooS(**PLAIN | {"steps": TrustRegion()}),
    "fzoos-measured": FZooS(**PLAIN | {"length": Measured(), "orthogonal": True}),
    "fzoos-fitted-one-exchange": FZooS(**PLAIN | {"fit": FitLengthScale(points=40), "refresh": None}),
}

D = 3
TARGETS = (0.2, 0.4, 0.9)


@pytest.fixture(params=SETTINGS, ids=list(SETTINGS))
def algorithm(request):
    return SETTINGS[request.param]


def bowl(target):
    return lambda x: float(np.mean((x - target) ** 2))


def sites(targets=TARGETS):
    return [bowl(target) for target in targets]


def run(algorithm, objectives=None, x0=None, **changes):
    settings = {"bounds": (-1, 1), "rounds": 3, "local_steps": 3, "seed": 0, "optimizer": Adam(0.05)} | changes
    objectives = sites() if objectives is None else objectives
    return minimize(objectives, np.zeros(D) if x0 is None else x0, algorithm=algorithm, **settings)


def comparable(result):
    """All of a result but the seconds, NaN-safe."""
    records = [(dataclasses.replace(record, seconds=0.0, diagnostics={})) for record in result.history]
    diagnostics = [{name: repr(value) for name, value in record.diagnostics.items()} for record in result.history]
    return result.x.tolist(), result.queries_per_client, result.status, records, diagnostics


def same(a, b):
    return comparable(a) == comparable(b)


class Recorder:
    """Objectives that remember every point they were asked for, and the round, in order."""

    def __init__(self, functions):
        self.round = 1
        self.points = []  # (client, round, x)
        self.objectives = [self._wrap(i, f) for i, f in enumerate(functions)]

    def _wrap(self, i, f):
        def objective(x):
            self.points.append((i, self.round, x.copy()))
            return f(x)

        return objective

    def next_round(self, record):
        self.round = record.round + 1

    def clients(self, round):
        return {i for i, r, _ in self.points if r == round}

    @property
    def x(self):
        return np.array([x for _, _, x in self.points])


# Shapes and sizes


@pytest.mark.parametrize("dim", [1, 2, 7])
@pytest.mark.parametrize("clients", [1, 3])
def test_shapes(algorithm, dim, clients):
    """x is (d,) for any d and any number of clients, d = 1 and one client included, and objectives see (d,)."""
    recorder = Recorder(sites(TARGETS[:clients]))
    result = run(algorithm, recorder.objectives, np.zeros(dim))
    assert result.x.shape == (dim,)
    assert result.x.dtype == np.float64
    assert np.all(np.isfinite(result.x))
    assert not np.array_equal(result.x, np.zeros(dim))
    assert {x.shape for _, _, x in recorder.points} == {(dim,)}
    assert len(result.queries_per_client) == clients


def test_history(algorithm):
    """One record per round; counts are totals, match the objectives', and only grow; step is the way x went."""
    recorder, xs = Recorder(sites()), [np.zeros(D)]
    counts = []

    def callback(record):
        counts.append(len(recorder.points))

    result = run(algorithm, recorder.objectives, rounds=4, monitor=lambda x: xs.append(x) or 1.5, callback=callback)
    assert result.rounds == len(result.history) == 4
    assert result.status == "completed"
    assert [record.round for record in result.history] == [1, 2, 3, 4]
    assert [record.queries for record in result.history] == counts
    assert result.queries == sum(result.queries_per_client) == len(recorder.points)
    for name in ("queries", "bytes_up", "bytes_down", "seconds"):
        values = [0] + [getattr(record, name) for record in result.history]
        assert np.all(np.diff(values) >= 0)
        assert getattr(result, name) == values[-1]
    assert result.history[0].bytes_up > 0
    assert result.history[0].bytes_down > 0
    moved = [np.linalg.norm(b - a) for a, b in itertools.pairwise(xs)]
    assert [record.step for record in result.history] == pytest.approx(moved, rel=1e-12)
    assert np.array_equal(result.x, xs[-1])
    assert [record.monitor for record in result.history] == [1.5] * 4
    for record in result.history:
        assert "correction_length" in record.diagnostics


def test_no_rounds(algorithm):
    """With rounds = 0 nothing is asked and x is x0."""
    x0 = np.array([0.3, -0.7, 1.0])
    result = run(algorithm, x0=x0, rounds=0)
    assert result.x == pytest.approx(x0, abs=1e-15)
    assert (result.rounds, result.queries, result.bytes_up, result.bytes_down) == (0, 0, 0, 0)
    assert (result.status, result.history) == ("completed", ())


def test_query_plan(algorithm):
    """What an algorithm says it will cost (`queries`) is what it costs, in its first and in later rounds."""
    result = run(algorithm, rounds=3)
    two = algorithm.exchanges == 2
    first = algorithm.queries(D, 3, first=True, refreshed=False)
    later = algorithm.queries(D, 3, first=False, refreshed=two)
    assert [record.queries for record in result.history] == [3 * first, 3 * (first + later), 3 * (first + 2 * later)]


# The box


@pytest.mark.parametrize("slope", [-1.0, 1.0])
@pytest.mark.parametrize("clients", [1, 3, 7])
def test_bounds(algorithm, slope, clients):
    """No query, no server's x and no result is outside the bounds, not by a rounding error, though F falls towards a
    corner; and x gets to the corner exactly or closely."""
    bounds = np.array([(-0.3, 0.1), (1.0, 1.7), (-5.0, 30.0)])
    lower, upper = bounds.T
    recorder, xs = Recorder([lambda x: float(slope * np.sum((x - lower) / (upper - lower)))] * clients), []
    result = run(
        algorithm,
        recorder.objectives,
        lower + 0.9 * (upper - lower) if slope < 0 else lower + 0.1 * (upper - lower),
        bounds=bounds,
        monitor=lambda x: xs.append(x) or 0.0,
        rounds=5,
    )
    for points in (recorder.x, np.array(xs), result.x):
        assert np.all(points >= lower)
        assert np.all(points <= upper)
    corner = lower if slope > 0 else upper
    assert np.all(abs(result.x - corner) <= 0.05 * (upper - lower))


def test_start_on_the_bounds(algorithm):
    """x0 may lie on the bounds; queries still stay inside."""
    recorder = Recorder(sites())
    run(algorithm, recorder.objectives, np.array([-1.0, 1.0, 1.0]))
    assert np.all(abs(recorder.x) <= 1.0)


def test_unprojected(algorithm):
    """With projected = False, iterates and queries may leave the box: from a corner, downhill leads outside."""
    recorder = Recorder([lambda x: float(np.sum(x))] * 2)
    free = run(dataclasses.replace(algorithm, projected=False), recorder.objectives, -np.ones(D))
    assert np.all(free.x < -1.0)
    assert np.any(recorder.x < -1.0)
    kept = run(algorithm, recorder.objectives, -np.ones(D))
    near = 0.0 if algorithm.descends else 0.1  # the mean of points around a corner is inside, but for rare luck
    assert np.all(abs(kept.x + 1.0) <= near)


# Reproducibility


def test_same_seed(algorithm):
    """The same seed gives the same run bit for bit, on one worker or two; another seed gives another run."""
    first = run(algorithm)
    assert same(first, run(algorithm))
    assert same(first, run(algorithm, workers=2))
    assert same(first, run(algorithm, workers=5))
    assert not np.array_equal(first.x, run(algorithm, seed=1).x)


def test_same_seed_with_participation(algorithm):
    """Who takes part is part of what the seed fixes."""
    first = run(algorithm, participation=2, rounds=4)
    assert same(first, run(algorithm, participation=2, rounds=4, workers=2))
    runs = [run(algorithm, participation=2, rounds=4, seed=seed).queries_per_client for seed in range(1, 6)]
    assert any(counts != first.queries_per_client for counts in runs)


def test_without_a_seed(algorithm):
    """No seed: two runs differ."""
    assert not np.array_equal(run(algorithm, seed=None).x, run(algorithm, seed=None).x)


def test_global_random_state(algorithm):
    """The run neither reads nor moves NumPy's global generator."""
    np.random.seed(0)  # noqa: NPY002
    expected = run(algorithm)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert same(expected, run(algorithm))
    np.random.seed(0)  # noqa: NPY002
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_vectorized(algorithm):
    """A vectorised objective and the same function one by one give identical runs."""

    def batch(f):
        return lambda x: np.array([f(row) for row in x])

    assert same(run(algorithm), run(algorithm, [batch(f) for f in sites()], vectorized=True))


def test_objectives_that_write_into_x(algorithm):
    """An objective owns the array it gets: what it writes there changes nothing."""

    def vandal(f):
        def objective(x):
            y = f(x)
            x[:] = 1e9
            return y

        return objective

    assert same(run(algorithm), run(algorithm, [vandal(f) for f in sites()]))


# Weights


def test_weights_are_relative(algorithm):
    """omega is normalised: any scale gives the same run, and equal weights are the default."""
    assert run(algorithm, weights=[1, 2, 5]).x == pytest.approx(
        run(algorithm, weights=[0.125, 0.25, 0.625]).x, abs=1e-9
    )
    assert run(algorithm, weights=[4, 4, 4]).x == pytest.approx(run(algorithm).x, abs=1e-9)


def test_huge_weights(algorithm):
    """Weights whose sum overflows are still relative."""
    huge = run(algorithm, weights=[1e308, 1e308, 1e308])
    assert huge.x == pytest.approx(run(algorithm).x, abs=1e-9)


def test_zero_weight(algorithm):
    """F does not depend on a client of weight zero, and neither do x, the payloads and the diagnostics: the run is that
    of the other clients alone (each client's random numbers depend on the seed and its own index only)."""
    with_it = run(algorithm, weights=[1, 3, 0])
    without = run(algorithm, sites(TARGETS[:2]), weights=[1, 3])
    assert with_it.x == pytest.approx(without.x, abs=1e-9)
    for a, b in zip(with_it.history, without.history, strict=True):
        assert a.diagnostics == pytest.approx(b.diagnostics, abs=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_zero_weight_with_participation(algorithm, seed):
    """A round never rests on clients of weight zero alone: their average would be 0/0."""
    result = run(algorithm, weights=[0, 1, 0], participation=1, rounds=5, seed=seed)
    assert np.all(np.isfinite(result.x))
    assert np.all(result.x > 0.02)  # towards 0.4, where client 1 has its minimum


def test_weights_matter(algorithm):
    """All weight on the client at 0.9 ends nearer to 0.9 than all weight on the one at -0.9."""
    objectives = sites((-0.9, 0.9))
    low = run(algorithm, objectives, weights=[1, 0], rounds=5)
    high = run(algorithm, objectives, weights=[0, 1], rounds=5)
    assert np.all(low.x < -0.2)
    assert np.all(high.x > 0.2)


# Participation


@pytest.mark.parametrize(
    ("participation", "expected"),
    [(1, 1), (2, 2), (4, 4), (0.5, 2), (0.25, 1), (0.01, 1), (0.9, 4), (1.0, 4), (0.6, 2)],
)
def test_participation(participation, expected, algorithm):
    """An int is a number of clients, a float a fraction (rounded, at least one); nobody else is asked."""
    recorder = Recorder(sites((0.1, 0.2, 0.3, 0.4)))
    result = run(
        algorithm,
        recorder.objectives,
        participation=participation,
        rounds=4,
        local_steps=2,
        callback=recorder.next_round,
    )
    for r in range(1, 5):
        if algorithm.queries(D, 2, first=False, refreshed=algorithm.exchanges == 2 and r > 1):
            assert len(recorder.clients(r)) == expected
    counted = tuple(sum(i == client for client, _, _ in recorder.points) for i in range(4))
    assert result.queries_per_client == counted


def test_participation_reaches_everybody(algorithm):
    """Participants are drawn anew each round: one of three a round, and in 15 rounds all have been asked (the chance of
    the contrary is below 3 (2/3)^15 < 1 %, and the seed is fixed)."""
    result = run(algorithm, participation=1, rounds=15, local_steps=2)
    assert all(result.queries_per_client)


# How a run ends


def test_callback(algorithm):
    """The run stops after the round for which the callback returns True, and equals a shorter run."""
    records = []
    result = run(algorithm, rounds=5, callback=lambda record: records.append(record) or record.round == 2)
    assert (result.status, result.rounds) == ("stopped", 2)
    assert "callback" in result.message
    assert tuple(records) == result.history
    assert np.array_equal(result.x, run(algorithm, rounds=2).x)


@pytest.mark.parametrize("answer", [None, False, 0])
def test_callback_that_goes_on(algorithm, answer):
    """Anything but True goes on."""
    assert run(algorithm, callback=lambda record: answer).status == "completed"


@pytest.mark.parametrize("participation", [1.0, 2])
def test_budget(algorithm, participation):
    """The budget is never exceeded, never left unused by a whole round, and a stopped run equals a shorter run."""
    full = run(algorithm, rounds=4, participation=participation)
    needs = [record.queries for record in full.history]
    for budget in (0, needs[0] - 1, needs[0], needs[1] - 1, needs[1] + 1, needs[3] - 1, needs[3], needs[3] + 1):
        recorder = Recorder(sites())
        result = run(algorithm, recorder.objectives, rounds=4, participation=participation, max_queries=budget)
        affordable = sum(need <= budget for need in needs)
        assert len(recorder.points) == result.queries <= budget
        assert result.rounds == affordable
        assert result.status == ("completed" if affordable == 4 else "budget")
        if affordable < 4:
            assert str(budget) in result.message
        if affordable:
            assert result.history[-1].queries == needs[affordable - 1]


def test_monitor(algorithm):
    """The monitor is called once a round with the server's x, is recorded, and is neither counted nor an influence,
    even if it writes into its argument."""
    seen = []

    def monitor(x):
        seen.append(x.copy())
        value = np.array(np.sum(x))
        x[:] = 1e9
        return value

    plain, watched = run(algorithm), run(algorithm, monitor=monitor)
    assert np.array_equal(plain.x, watched.x)
    assert plain.queries == watched.queries
    assert [record.monitor for record in watched.history] == [float(np.sum(x)) for x in seen]
    assert len(seen) == watched.rounds
    assert np.array_equal(seen[-1], watched.x)
    assert all(record.monitor is None for record in plain.history)


# Optimisers


def test_restart(algorithm):
    """Adam restarted each round and Adam kept agree in round 1 and differ in round 2; SGD has nothing to keep."""
    if not algorithm.descends:
        pytest.skip("a search has no optimiser")
    first = [run(algorithm, rounds=1, optimizer=Adam(0.05, restart=restart)).x for restart in (True, False)]
    assert np.array_equal(*first)
    second = [run(algorithm, rounds=2, optimizer=Adam(0.05, restart=restart)).x for restart in (True, False)]
    assert not np.allclose(*second, atol=1e-6)


def test_optimizers(algorithm):
    """The learning rate is in units of the cube: with T = 1 and one client, Adam's first step is eta per coordinate,
    whatever the gradient, and the box [-1, 1] doubles it. To a search all optimisers are the same."""
    if not algorithm.descends:
        assert same(run(algorithm, optimizer=Adam(0.03)), run(algorithm, optimizer=SGD(1.0)))
        return
    result = run(algorithm, [bowl(0.5)], rounds=1, local_steps=1, optimizer=Adam(0.03))
    assert abs(result.x) == pytest.approx([0.06] * D, rel=1e-4)


# Difficult objectives


def test_progress(algorithm):
    """x comes near the minimum of F, the mean of the targets, on an easy problem."""
    result = run(algorithm, x0=np.full(D, -0.5), rounds=12, local_steps=5, optimizer=Adam(0.02))
    minimum = np.mean(TARGETS)
    assert np.linalg.norm(result.x - minimum) < 0.25 * np.linalg.norm(-0.5 - np.full(D, minimum))


@pytest.mark.parametrize("value", [0.0, 1.0, -1e6, 1e-300])
def test_constant_objective(algorithm, value):
    """A constant has gradient zero, for every estimate: x stays where it is."""
    result = run(algorithm, [lambda x: value] * 2, x0=np.full(D, 0.25), optimizer=SGD(1.0))
    assert result.status == "completed"
    assert result.x == pytest.approx(np.full(D, 0.25), abs=1e-12)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_noisy_objective(algorithm, scale):
    """Pure noise of any size never breaks a run or leaves the box."""
    rngs = [np.random.default_rng(i) for i in range(2)]
    result = run(algorithm, [lambda x, rng=rng: scale * rng.standard_normal() for rng in rngs], rounds=5)
    assert result.status == "completed"
    assert np.all(abs(result.x) <= 1.0)


def test_noise_on_a_slope(algorithm):
    """Noise that is small against the descent does not hide it."""
    rng = np.random.default_rng(0)
    objectives = [lambda x, t=t: float(np.sum((x - t) ** 2)) + 1e-4 * rng.standard_normal() for t in (0.7, 0.9)]
    assert np.all(run(algorithm, objectives, rounds=8).x > 0.1)


def test_plateaus_and_duplicates(algorithm):
    """A step function (equal observations at many points) and clipped, hence duplicate, points never break a run."""
    result = run(algorithm, [lambda x: float(np.floor(3 * x).sum())] * 2, -np.ones(D), rounds=5)
    assert result.status == "completed"
    assert np.all(abs(result.x) <= 1.0)


def test_tiny_box(algorithm):
    """A box of width 1e-9 far from the origin is a cube like any other."""
    recorder = Recorder([lambda x: float(np.sum((x - 1.0) * 1e9))] * 2)
    result = run(algorithm, recorder.objectives, np.full(D, 1 + 9e-10), bounds=(1.0, 1.0 + 1e-9))
    assert np.all(recorder.x >= 1.0)
    assert np.all(recorder.x <= 1.0 + 1e-9)
    assert np.all(result.x < 1 + 8.5e-10)


# Failures


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_skip(algorithm, bad):
    """With on_failure = "skip" failed queries count, are left out, and the run goes on and still descends."""
    calls = {"count": 0, "failed": 0}

    def sometimes(f):
        def objective(x):
            calls["count"] += 1
            if calls["count"] % 4 == 0:
                calls["failed"] += 1
                return bad
            return f(x)

        return objective

    result = run(algorithm, [sometimes(bowl(0.8)), sometimes(bowl(0.9))], on_failure="skip", rounds=8)
    assert result.status == "completed"
    assert result.queries == calls["count"] > calls["failed"] > 0
    assert np.all(result.x > 0.1)


@pytest.mark.parametrize("vectorized", [False, True])
def test_skip_everything(algorithm, vectorized):
    """Where every query fails there is no gradient: x stays, the queries count, the run completes."""
    fails = [lambda x: np.full(len(x), np.nan) if vectorized else float("nan")] * 2
    x0 = np.full(D, 0.25)
    result = run(algorithm, fails, x0, on_failure="skip", vectorized=vectorized)
    assert result.status == "completed"
    assert result.x == pytest.approx(x0, abs=1e-12)
    assert result.queries == run(algorithm, sites(TARGETS[:2])).queries


def test_skip_one_client(algorithm):
    """A client whose every query fails stays at the server's x; the others still move it."""
    objectives = [lambda x: float("nan"), bowl(0.9)]
    result = run(algorithm, objectives, on_failure="skip", rounds=5)
    assert result.status == "completed"
    assert np.all(result.x > 0.05)


def test_skip_without_failures(algorithm):
    """on_failure changes nothing where nothing fails."""
    assert same(run(algorithm), run(algorithm, on_failure="skip"))


@pytest.mark.parametrize("workers", [1, 2])
def test_raising_objective(algorithm, workers):
    """An objective that raises in round 3 ends the run with client, round, cause, and the two rounds before."""
    recorder = Recorder(sites())

    def raising(x):
        if recorder.round == 3:
            raise OSError("the laboratory is on fire")
        return bowl(0.4)(x)

    objectives = [bowl(0.2), raising, bowl(0.9)]
    if not algorithm.queries(D, 3, first=False, refreshed=algorithm.exchanges == 2):
        pytest.skip("asks nothing in round 3")
    with pytest.raises(ObjectiveError, match="client 1 raised OSError: the laboratory is on fire in round 3") as caught:
        run(algorithm, objectives, rounds=5, callback=recorder.next_round, workers=workers)
    error = caught.value
    assert (error.client, error.round) == (1, 3)
    assert isinstance(error.__cause__, OSError)
    assert error.x.shape == (D,)
    assert (error.result.status, error.result.rounds) == ("failed", 2)
    assert np.array_equal(error.result.x, run(algorithm, rounds=2).x)


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupt(algorithm, workers):
    """Ctrl-C inside an objective in round 3 returns the two complete rounds."""
    recorder = Recorder(sites())

    def interrupting(x):
        if recorder.round == 3:
            raise KeyboardInterrupt
        return bowl(0.4)(x)

    objectives = [bowl(0.2), interrupting, bowl(0.9)]
    result = run(algorithm, objectives, rounds=5, callback=recorder.next_round, workers=workers)
    assert (result.status, result.rounds, len(result.history)) == ("interrupted", 2, 2)
    assert "round 3" in result.message
    assert np.array_equal(result.x, run(algorithm, rounds=2).x)
    assert result.queries == sum(result.queries_per_client)


# Coordinates


def test_affine(algorithm):
    """Everything the user sees is in the user's coordinates: a rescaled problem has the rescaled run."""
    lower, width = np.array([-2.0, 0.0, 8.0]), np.array([4.0, 0.5, 16.0])
    cube = [lambda u, t=t: float(np.sum((u - t) ** 2)) for t in (0.3, 0.7)]
    scaled = [lambda z, f=f: f((z - lower) / width) for f in cube]
    bounds = np.stack([lower, lower + width], axis=1)
    start = np.array([0.75, 0.5, 0.25])
    in_cube, xs = [], []
    plain = run(algorithm, cube, start, bounds=(0, 1), monitor=lambda u: in_cube.append(u) or 0.0)
    moved = run(algorithm, scaled, lower + width * start, bounds=bounds, monitor=lambda z: xs.append(z) or 0.0)
    assert (np.array(xs) - lower) / width == pytest.approx(np.array(in_cube), abs=1e-6)
    assert moved.queries == plain.queries
    step = np.linalg.norm(np.diff(np.array([lower + width * start, *xs]), axis=0), axis=1)
    assert [record.step for record in moved.history] == pytest.approx(step, rel=1e-9)


def test_shift_and_scale_of_values(algorithm):
    """Adam and the standardising make a run independent of the objective's offset and unit (FedProx's gamma and HiSo's
    curvature have a unit, so they are given in the same one)."""
    plain = run(algorithm)
    if hasattr(algorithm, "gamma"):
        algorithm = dataclasses.replace(algorithm, gamma=8.0 * algorithm.gamma)
    if hasattr(algorithm, "curvature"):
        squared = {"curvature": 64.0 * algorithm.curvature, "eps": 64.0 * algorithm.eps}
        algorithm = dataclasses.replace(algorithm, **squared)
    scaled = run(algorithm, [lambda x, f=f: 8.0 * f(x) + 2.0 for f in sites()])
    assert scaled.x == pytest.approx(plain.x, abs=1e-5)


def test_registry():
    """Every algorithm is registered under its own name, has a label, and is a frozen record of settings."""
    assert {"fedzo", "fedprox", "scaffoldi", "scaffoldii", "fzoos"} <= set(ALGORITHMS)
    labels = [cls.label for cls in ALGORITHMS.values()]
    assert len(set(labels)) == len(labels)
    for name, cls in ALGORITHMS.items():
        assert cls.name == name
        assert dataclasses.is_dataclass(cls)
        assert cls() == cls()
        with pytest.raises(dataclasses.FrozenInstanceError):
            cls().projected = False
