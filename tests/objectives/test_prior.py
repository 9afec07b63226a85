"""Old data: a client's surrogate begins with it, it counts as no query, and it never travels."""

from __future__ import annotations

import numpy as np
import pytest

from fzoos import Study, WithPrior, minimize
from fzoos.engines.local import LocalEngine
from fzoos.federation.site import StudySite
from fzoos.federation.study_run import run_study
from fzoos.objectives.box import Box
from fzoos.objectives.prior import read_prior

BOX = Box.of((-1, 3), dim=2)


def f(x):
    return float(np.sum((x - 0.3) ** 2))


def old(seed=0, n=60, dim=6):
    points = np.random.default_rng(seed).uniform(-1, 1, (n, dim))
    return points, [f(x) for x in points]


def run(prior=(None, None), **changes):
    objectives = [f if data is None else WithPrior(f, data) for data in prior]
    return minimize(objectives, np.full(6, 0.9), **({"bounds": (-1, 1), "rounds": 2, "seed": 0} | changes))


def test_it_helps_and_costs_nothing():
    """With old data all over the box two rounds end lower; queries and bytes are those of any other run."""
    plain, informed = run(), run(prior=[old(0), old(1)])
    assert informed.queries == plain.queries
    assert (informed.bytes_up, informed.bytes_down) == (plain.bytes_up, plain.bytes_down)
    assert not np.array_equal(informed.x, plain.x)
    assert f(informed.x) < f(plain.x) + 0.05


def test_arrays_and_csv_are_the_same(tmp_path):
    points, values = old()
    lines = ["note," + ",".join(f"x{j + 1}" for j in range(6)) + ",value"]
    lines += ["a," + ",".join(map(repr, map(float, x))) + f",{y!r}" for x, y in zip(points, values, strict=True)]
    lines.append("failed,0,0,0,0,0,0,")
    (tmp_path / "old.csv").write_text("\n".join(lines))
    by_file = run(prior=[tmp_path / "old.csv", None])
    assert np.array_equal(by_file.x, run(prior=[(points, values), None]).x)
    assert by_file.failed == 0


def test_a_site_begins_with_it(tmp_path):
    """Another run than without; stopped and resumed, the same bits as in one piece."""
    study = Study("demo", x0=0.9, dim=6, bounds=(-1.0, 1.0), sites=("a",), rounds=3)

    def run_with_prior(folder, prior, **settings):
        with StudySite(study, 0, f, tmp_path / folder / "a.journal", prior=prior, site_seed=0) as site:
            return run_study(study, LocalEngine([site], fail_fast=False), tmp_path / folder / "result.db", **settings)

    whole = run_with_prior("whole", old())
    run_with_prior("parts", old(), callback=lambda record: record.round == 1)
    parts = run_with_prior("parts", old(), resume=True)
    assert (parts.status, parts.rounds) == ("completed", 3)
    assert np.array_equal(parts.x, whole.x)
    assert not np.array_equal(run_with_prior("plain", None).x, whole.x)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (3, TypeError, "must be a pair of points and values"),
        (([[0.0, 0.0]], [1.0, 2.0]), ValueError, r"points of shape \(n, 2\) and n values"),
        (([[0.0]], [1.0]), ValueError, r"points of shape \(n, 2\)"),
        (([["a", "b"]], [1.0]), TypeError, "must hold numbers"),
        (([[0.0, 9.0]], [1.0]), ValueError, "a point outside the bounds"),
        (([[0.0, float("nan")]], [1.0]), ValueError, "NaN or infinity"),
    ],
)
def test_what_is_refused(given, error, message):
    with pytest.raises(error, match=f"prior.*{message}"):
        read_prior(given, BOX)


def test_bad_files(tmp_path):
    file = tmp_path / "old.csv"
    file.write_text("x1,value\n0.5,1\n")
    with pytest.raises(ValueError, match="no column 'x2'; it must have x1, x2 and value"):
        read_prior(file, BOX)
    file.write_text("x1,x2,value\n0.5,much,1\n")
    with pytest.raises(ValueError, match="line 2"):
        read_prior(file, BOX)
