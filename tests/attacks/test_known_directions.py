"""DeComFL, HiSo, FedLBFGS, and FedLineSearch: where a site asks, all know. Values follow from replies.

A seed of the site's own changes nothing here. Secure aggregation does: the server has sums, of which only what is said
of F follows. There is one exception, the directions that FedLineSearch deals out: each is queried by one site alone.
"""

import numpy as np
import pytest
from attacker import Observed, error, make_study, opening, secret

from fzoos.algorithms.line_search.client import LINE
from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.design import SPREAD
from fzoos.algorithms.line_search.directions import COMMON, design_rows
from fzoos.messages.message import Message
from fzoos.surrogates.trend import fit_slope

DIM = 60
X = np.full(DIM, 0.4)


def other(x):
    """The objective of a second site."""
    return float(np.sum((x - 0.7) ** 2) + x[3] * x[4])


# Slopes along directions that all draw


@pytest.mark.parametrize("name", ["decomfl", "hiso"])
def test_slopes_are_differences_of_values(tmp_path, name):
    """s lambda is f_i(x + lambda z) - f_i(x): the protocol is that all know z, and a site sends nothing but slopes."""
    study = make_study({"name": name, "local_steps": 1}, DIM)
    request = opening(study, "update", seed=study.seeds.shared)
    if name == "hiso":
        half = study.algorithm_settings.server(DIM)
        request = Message("update", 1, half.start(X), request.scalars)
    seen = Observed(study, tmp_path, [request], public=False)
    step = study.algorithm_settings.differences.step
    assert error(step * seen.replies[0].arrays["s"], seen.differences) < 1e-10


def test_a_gradient_by_coordinates(tmp_path):
    """g_j lambda is the difference along coordinate j; which way is drawn from the seed that all weight."""
    study = make_study({"name": "fedlbfgs"}, DIM)
    half = study.algorithm_settings.server(DIM)
    request = Message("update", 1, half.start(X), {"seed": study.seeds.shared})
    seen = Observed(study, tmp_path, [request], public=False)
    signs = np.random.default_rng(study.seeds.shared).choice([-1.0, 1.0], DIM)
    step = study.algorithm_settings.difference
    true = np.array([secret(x) - secret(X) for x in X + step * np.diag(signs)])
    assert error(step * signs * seen.replies[0].arrays["g"], true) < 1e-9


# The design of FedLineSearch


def control_of(mode, **changes):
    return Control(7, mode, 0.05, step_size=0.2, **changes)


def design_of(control):
    """Where a site asks, as the server knows it: x, and one point along each direction."""
    rows, common = design_rows(control, DIM)
    return np.vstack([X, X + distances_of(control, len(rows))[:, None] * rows]), rows, common


def distances_of(control, count):
    """How long the distances are, and on which side of x."""
    number = np.arange(count)
    lengths = control.radius * np.sqrt(DIM) * SPREAD ** np.where(number % 2, -0.5, 0.5)
    return np.where(number // 2 % 2, lengths, -lengths)


def values_of_design(points, fresh, curvature, true):
    """The differences of which `fit_slope`, which is linear in them, makes these numbers, and the true ones.

    One number of a design is left open, how its curvature is divided between wide and narrow points: it is
    taken from both.
    """
    matrix = np.array([np.append(*_slope(points, row)) for row in np.eye(len(points))[1:]]).T
    found = np.linalg.lstsq(matrix, np.append(fresh, curvature), rcond=1e-9)[0]
    sizes, rows = np.linalg.svd(matrix)[1:]
    assert np.sum(sizes < 1e-9 * sizes[0]) == 1
    unknown = rows[-1]
    return found - (found @ unknown) * unknown, true - (true @ unknown) * unknown


def _slope(points, values):
    """By the wide distances, which are every second one, and by the narrow ones."""
    parts = [[0, *range(first, len(points), 2)] for first in (1, 2)]
    slopes = [fit_slope(points[part] - X, np.append(0.0, values[1:])[part], 1e-8) for part in parts]
    return slopes[0].gradient + slopes[1].gradient, 0.5 * (slopes[0].curvature + slopes[1].curvature)


def replies_of(folder, control, objective=secret, requests=1):
    study = make_study({"name": "fedlinesearch"}, DIM)
    first = Message("refresh", 1, {"x": X}, control.scalars())
    seen = Observed(study, folder, [first], public=False, objective=objective)
    return study, first, seen


@pytest.mark.parametrize("mode", [Mode.SHARED, Mode.SPLIT])
def test_the_star_of_a_site(tmp_path, mode):
    """All values of the design but for one number follow from fresh gradient and curvature, by a linear system."""
    client_index = {"client_index": 1, "participants": 2, "weight": 0.5} if mode is Mode.SPLIT else {}
    control = control_of(mode, **client_index)
    _, _, seen = replies_of(tmp_path, control)
    points, rows, common = design_of(control)
    fresh, curvature = seen.replies[0].arrays["fresh"], seen.replies[0].arrays["statistics"][0]
    if mode is Mode.SPLIT:  # what only this site queried counts 1 / omega
        inside = (rows[:common] @ fresh) @ rows[:common]
        fresh = inside + (fresh - inside) * control.weight
    found, true = values_of_design(points, fresh, curvature, seen.differences[: len(points) - 1])
    assert error(found, true) < 1e-11


def test_the_lines_are_differences_as_they_are(tmp_path):
    """Six differences of values, at points that the server chose."""
    control = control_of(Mode.SHARED)
    study, first, seen = replies_of(tmp_path, control)
    payload = dict(seen.replies[0].arrays)
    second = Message("update", 1, payload, control.scalars())
    seen = Observed(study, tmp_path / "again", [first, second], public=False)
    lines = [-payload[name] / np.linalg.norm(payload[name]) for name in ("fresh", "memory")]
    points = np.vstack([X + control.step_size * np.array(LINE)[:, None] * line for line in lines])
    true = np.array([secret(np.clip(p, 0.0, 1.0)) - secret(X) for p in points])
    assert error(seen.replies[1].arrays["lines"], true) < 1e-12


def test_of_a_secure_sum_the_mean_follows_and_no_site(tmp_path):
    """Shared directions: what was exact for a site is now exact for F, and says nothing of one of two sites alone."""
    control = control_of(Mode.SHARED)
    both = [replies_of(tmp_path / name, control, f)[2] for name, f in (("one", secret), ("two", other))]
    means = [0.5 * sum(seen.replies[0].arrays[name] for seen in both) for name in ("fresh", "statistics")]
    points = design_of(control)[0]
    each = [seen.differences[: len(points) - 1] for seen in both]
    found, of_mean = values_of_design(points, means[0], means[1][0], 0.5 * sum(each))
    assert error(found, of_mean) < 1e-6
    assert min(error(found, alone) for alone in each) > 0.3


def test_of_a_secure_sum_dealt_directions_follow(tmp_path):
    """Split directions: each is queried by one site, and the sum has its slope. Secure aggregation does not hide it."""
    weight, seen, own = 0.5, [], []
    for client_index, f in enumerate((secret, other)):
        control = control_of(Mode.SPLIT, client_index=client_index, participants=2, weight=weight)
        seen.append(replies_of(tmp_path / str(client_index), control, f)[2])
        own.append(design_of(control)[1][COMMON:])
    mean = weight * sum(one.replies[0].arrays["fresh"] for one in seen)
    for site, rows in enumerate(own):
        alone = seen[site].replies[0].arrays["fresh"] * weight
        assert error(rows @ mean, rows @ alone) < 1e-10
        count = COMMON
        distances = distances_of(control, count + len(rows))[count:]
        f = (secret, other)[site]
        true = np.array([f(X + distance * row) - f(X) for distance, row in zip(distances, rows, strict=True)])
        slopes = distances * (rows @ mean)  # of first order: less what curvature all directions have in common
        assert np.corrcoef(slopes, true)[0, 1] > 0.9
