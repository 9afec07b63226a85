"""Differential privacy: what leaves a site is clipped and noisy, and what cannot be is refused.

The noise has no seed. Bounds on it are five standard deviations wide or more: a true mechanism fails them once in some
million runs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from private import NOISY, QUIET, Box, boxes, payload, study
from scipy import stats

from fzoos import FedZO, FZooS
from fzoos.algorithms.base import Part, Recipient, Round, ServerHalf
from fzoos.engines import LocalStudy
from fzoos.engines.local import LocalEngine
from fzoos.federation.exchange import Outcome
from fzoos.federation.privacy import Privacy
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study
from fzoos.federation.study_run import run_study
from fzoos.messages.message import Message
from fzoos.runs.store import Store

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


@pytest.mark.parametrize("scale", [1.0, 1e300])
def test_a_long_array_is_cut_to_length_s_and_keeps_its_direction(scale):
    array = np.array([3.0, -4.0, 12.0])  # of length 13
    found = payload(scale * array, clip=0.26, noise=QUIET)
    np.testing.assert_allclose(found, 0.02 * array, rtol=0, atol=1e-7 * 0.26)


def test_nothing_clipped_is_ever_longer_than_s():
    """Rounding included: the noise is so small that the grid is at the last bits."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        array = rng.normal(size=rng.integers(1, 50)) * 10.0 ** rng.uniform(-3, 3)
        found = payload(array, clip=0.1, noise=1e-12)
        assert np.linalg.norm(found) <= 0.1 * (1 + 1e-11)


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

    result = run_study(ours, Engine([ours.client(i, box) for i, box in enumerate(boxes())]), tmp_path / "result.db")
    assert result.status == "completed"
    assert np.all(np.abs(result.x) <= 1.0)
    assert np.max(seen) > 1.0


@pytest.mark.parametrize("algorithm", ["scaffoldi", "fedcma", "decomfl", "fedlbfgs"])
def test_every_entry_gets_the_noise_of_its_own_clip(algorithm, tmp_path):
    """What really leaves, of every array of every reply, by its sample variance: z times the clip of a step for x, z
    times that of the payload for the rest. The objective is constant, so that nothing else varies."""
    dim, settings = 400, {"clip": 0.01, "noise": 2.0, "clip_payload": 3.0}
    table = {"name": algorithm} | ({"differences": {"count": 100}} if algorithm in ("decomfl", "hiso") else {})
    table |= {} if algorithm == "fedlbfgs" else {"local_steps": 4}
    ours = study(dim=dim, x0=0.0, algorithm=table, privacy=settings)
    state, round = ours.half.start(np.full(dim, 0.5)), Round(2, 3, np.ones(1))
    constant = "s" if algorithm == "fedcma" else ""  # its spread is not zero where the objective is constant
    for kind in ours.half.exchanges(2):
        client, request = ours.client(0, lambda x: 0.0), ours.half.request(state, kind, Recipient(0, 1.0), round)
        reply = client.handle(Message(kind, 2, request.arrays, request.scalars))
        for name, array in reply.arrays.items():
            deviation = 2.0 * (0.01 if name == "x" else 3.0)
            noise = array - 0.5 if name == "x" else array
            if name == constant:
                noise = noise - noise.mean()
            assert abs(noise.std() - deviation) < 5 * deviation / math.sqrt(2 * noise.size), (kind, name)


def test_single_numbers_are_left_out_or_get_noise_as_wide_as_their_range():
    """Of n numbers that are told, in units of half their ranges, each gets z sqrt(n); a number out of its range is
    brought back first; what is left out is the same whatever it was."""
    part = Part((3,), "numbers", low=(1.0, 0.0, 10.0), high=(3.0, 1.0, 30.0), neutral=(math.nan, 0.5, math.nan))
    assert part.is_released
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
    silent = Part((2,), "numbers", neutral=(0.0, 1.0))
    assert not silent.is_released
    reply = Message("payload", 1, {"n": np.array([7.0, 8.0])}, {"queries": 1})
    assert Privacy(0.1, 0.5).protect(reply, np.zeros(1), {"n": silent}).arrays["n"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("dim", [10, 60])
def test_of_the_default_every_entry_is_noise_or_neutral(dim):
    """The default as it leaves a site with a constant objective: every array of both replies, over 300 sites."""
    ours = study(dim=dim, x0=0.0, algorithm={"name": "auto"}, privacy={"clip": 0.01, "noise": 2.0, "clip_payload": 3.0})
    x = np.full(dim, 0.5)
    request = ours.half.request(ours.half.start(x), "refresh", Recipient(0, 1 / 3), Round(1, 3, np.ones(3)))
    scalars = {**request.scalars, **({"probe": 0} if dim == 60 else {})}  # the round after the pilot
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
    names = {"gradient", "region", "x"} if dim == 10 else {"fresh", "memory", "statistics", "pair", "lines", "failed"}
    assert set(rows) == names
    for name, deviation in deviations.items():
        if name in rows:
            noise = np.array(rows[name]) - (0.5 if name == "x" else 0.0)
            assert abs(noise.std() - deviation) < 5 * deviation / math.sqrt(2 * noise.size), name
    for name in ("statistics", "pair", "failed"):
        assert not np.any(rows.get(name, 0.0))
    if dim == 10:
        region = np.array(rows["region"])
        deviation = 2.0 * math.log(2.0)
        assert abs(region[:, 0].std() - deviation) < 5 * deviation / math.sqrt(2 * len(region))
        assert not np.any(region[:, 1:])


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


def test_what_noise_would_make_useless_is_refused(tmp_path):
    ours = study(algorithm={"name": "fzoos", "length": {"name": "Measured"}})
    objectives = boxes()
    with pytest.raises(ValueError, match="of which noise leaves nothing") as error:
        LocalStudy(ours, tmp_path, objectives).run()
    assert 'set length = { name = "Reciprocal" }' in str(error.value)
    assert sum(box.calls for box in objectives) == 0
    Privacy(**NOISY).check(FZooS())
    Privacy(**NOISY).check(FedZO())


def test_a_part_says_what_privacy_may_do_with_it():
    """Whatever the algorithm: a part may be clipped, and one that noise makes useless is refused by its name."""

    @dataclass(frozen=True)
    class Sends(FedZO):
        part: Part = field(default_factory=lambda: Part((1,)))

        def server(self, dim):
            return ServerHalf(dim, {"own": self.part})

    Privacy(**NOISY).check(Sends())
    for instead, advice in (("", "$"), ("own = false", "; set own = false in the algorithm's settings$")):
        with pytest.raises(ValueError, match=f"Sends would send own, of which noise leaves nothing{advice}"):
            Privacy(**NOISY).check(Sends(part=Part((1,), "refuse", instead)))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"clip": 0.1}, "privacy: noise is missing"),
        (
            {"clip": 0.1, "noise": 1.0, "sigma": 2.0},
            "privacy: there is no setting 'sigma'; the settings are clip, noise",
        ),
        ({"clip": 0.0, "noise": 1.0}, "privacy clip must be positive, got 0.0"),
        ({"clip": 0.1, "noise": 1.0, "delta": 1.0}, "privacy delta must be between 0 and 1, got 1.0"),
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


@pytest.mark.parametrize("bits", [b"\0", b"\1" + 7 * b"\0"], ids=["largest", "smallest"])
@pytest.mark.parametrize("algorithm", ["fedzo", "scaffoldii", "fedcma", "fedtrustregion", "fedlinesearch", "decomfl"])
def test_the_most_extreme_noise_is_in_range(monkeypatch, tmp_path, algorithm, bits):
    """The generator's tail ends at 2^-65, so at 9.2 standard deviations: ten refuse no honest reply, ever."""
    tail = 0.5 * 2.0**-64
    assert 9.1 < -stats.norm.ppf(tail) < 9.2
    assert stats.norm.sf(10.0) < 1e-23
    monkeypatch.setattr("fzoos.federation.privacy.urandom", lambda n: (8 * bits)[:8] * (n // 8))
    ours = study(algorithm={"name": algorithm}, x0=1.0, min_clients=3, precision="float16")
    result = LocalStudy(ours, tmp_path, boxes()).run()
    assert result.status == "completed"
    with Store(tmp_path / "result.db") as store:
        assert store.failures(store.last) == []
