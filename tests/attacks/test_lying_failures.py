"""A site that says that it has no value, at x and along the lines, or whose objective has broken: what it can do.

x goes back from where a site has no value. Under the mean one site's word is enough, so that a liar keeps x where it
is for as long as it lies. Under every robust aggregate it takes more sites than may lie. An honest site whose objective
has broken stops to say it: going back does not help it.
"""

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "federation" / "helpers"))

from attacker import make_study
from wire import Wire

from fzoos.federation.aggregate import AGGREGATES
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import decode, encode

LIAR, FIRST, ROUNDS = 2, 2, 25
CENTRES = np.linspace(0.2, 0.6, 5)
DIMS = [5, 60]  # a trust region, and stars
ROBUST = sorted(set(AGGREGATES) - {"mean"})


def bowls():
    return [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in CENTRES]


def excess(x):
    """F(x) - min F: F's minimum is at the mean of the centres, and its curvature is 2."""
    return float(np.sum((x - CENTRES.mean()) ** 2))


def study_of(dim, aggregate):
    settings = {"x0": 0.9, "rounds": ROUNDS, "retries": 0, "aggregate": aggregate, "on_failure": "skip"}
    return make_study({"name": "auto"}, dim, sites=tuple("abcde"), **settings)


def run(study, folder, sites, tamper=None):
    with Wire(study, folder, sites, tamper=tamper) as engine:
        return run_study(study, engine, folder / "result.db")


def lied_to(folder, dim, aggregate):
    """One of five says from round 2 on that it has no value anywhere."""
    study = study_of(dim, aggregate)

    def tamper(client, request, data):
        if client != LIAR or request.round < FIRST:
            return data
        message = decode(data, study.id)
        arrays = {name: array.copy() for name, array in message.arrays.items()}
        for name, part in study.half.reply_parts(request).items():
            if part.indicators is not None:
                arrays[name][part.indicators] = 1.0
        return encode(replace(message, arrays=arrays), study.id)

    return run(study, folder, bowls(), tamper)


@pytest.mark.parametrize(("aggregate", "dim"), [(ROBUST[0], 5), (ROBUST[1], 60), (ROBUST[2], 5)])
def test_one_of_five_does_not_keep_x_where_it_is(tmp_path, dim, aggregate):
    """It lies in all rounds but the first, and F comes to its minimum as if it did not."""
    assert excess(lied_to(tmp_path, dim, aggregate).x) < 1e-12


@pytest.mark.parametrize("dim", DIMS)
def test_under_the_mean_it_does(tmp_path, dim):
    """F - F* is a quarter d at the start, and stays that."""
    assert excess(lied_to(tmp_path, dim, "mean").x) == pytest.approx(0.25 * dim)


def beyond(sites, count):
    """The first `count` sites have no value where x_1 is below 0.5: the minimum of F, at 0.4, is not allowed."""
    return [(lambda x, f=f: math.nan if x[0] < 0.5 else f(x)) if i < count else f for i, f in enumerate(sites)]


@pytest.mark.parametrize(
    ("aggregate", "count", "dim"),
    [("mean", 1, 5), ("mean", 1, 60), ("trimmed", 2, 5), ("clipped", 2, 5), ("median", 3, 5)],
)
def test_a_failing_centre_is_rejected_where_enough_fail(tmp_path, dim, aggregate, count):
    """By one of five under the mean, by two where one may lie, by three under the median: x ends where all have values,
    and nearer to the minimum than it began."""
    study = study_of(dim, aggregate)
    result = run(study, tmp_path, beyond(bowls(), count))
    assert result.x[0] >= 0.5
    assert excess(result.x) < 0.25 * dim / 2


@pytest.mark.parametrize("dim", DIMS)
def test_a_site_that_breaks_has_no_say(tmp_path, dim):
    """After 2 d queries its objective gives no more values, anywhere; under the mean the others go on without it.

    It is the one whose minimum is F's, so that F's minimum without it is the same place."""
    sites, asked = bowls(), []

    def broken(x):
        asked.append(x)
        return math.nan if len(asked) > 2 * dim else float(np.sum((x - CENTRES[LIAR]) ** 2))

    sites[LIAR] = broken
    result = run(study_of(dim, "mean"), tmp_path, sites)
    assert len(asked) > 2 * dim
    assert excess(result.x) < 1e-12
