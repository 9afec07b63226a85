"""Numbers that can be set only every so many: `Real(..., step=...)`."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from fzoos import ActiveQueries, Auto, FedZO, FiniteDifferences, FZooS, Log, Real, Space, Study, minimize
from fzoos.objectives.evaluator import Evaluator
from fzoos.objectives.space import SpaceBox

WIDE = FedZO(differences=FiniteDifferences(step=0.02))
OVEN = Space(temperature=Real(20, 400, step=5), dose=Real(0.1, 0.9, step=0.1), time=Real(0, 1))


@pytest.mark.parametrize("u", [0.0, 0.3, 0.77])
def test_rounding_is_unbiased_and_on_the_marks(u):
    """76 steps; the mean of 76 u over dithers that are spread evenly is 76 u."""
    dither = (np.arange(10_000) + 0.5) / 10_000
    asked = Real(20, 400, step=5).round_randomly(np.full((10_000, 1), u), dither)[:, 0]
    assert np.all(np.abs(asked * 76 - np.rint(asked * 76)) < 1e-12)
    assert np.mean(asked) == pytest.approx(u, abs=1e-4 / 76)
    assert np.ptp(asked) <= 1 / 76 + 1e-12


SMALL = FZooS(features=100, active=ActiveQueries(10, 2, 0.05), refresh=ActiveQueries(10, 3))


@pytest.mark.parametrize("algorithm", [Auto(), WIDE], ids=lambda a: a.name)
def test_objectives_are_evaluated_at_multiples_of_the_step_only(algorithm):
    asked = []

    def loss(temperature, dose, time):
        asked.append((temperature, dose))
        return ((temperature - 312) / 380) ** 2 + (dose - 0.42) ** 2 + (time - 0.3) ** 2

    start = {"temperature": 100, "dose": 0.9, "time": 0.9}
    result = minimize([loss, loss], start, bounds=OVEN, algorithm=algorithm, rounds=25, seed=0)
    assert {t % 5 for t, _ in asked} == {0.0}
    assert {repr(dose) for _, dose in asked} <= {repr(k / 10) for k in range(1, 10)}  # not 0.30000000000000004
    assert len({t for t, _ in asked}) > 3
    assert abs(result.variables["temperature"] - 312) <= 20
    assert result.variables["temperature"] % 5 == 0.0


def test_surrogates_learn_from_the_evaluated_points():
    box = SpaceBox.around(OVEN)
    evaluator = Evaluator(lambda x: float(x[0]), box, seed=np.random.SeedSequence(0))
    points, values = evaluator.evaluate(np.random.default_rng(0).random((50, 3)))
    assert np.allclose(values % 5, 0.0) or np.allclose(np.minimum(values % 5, 5 - values % 5), 0.0)
    assert np.allclose(box.from_cube(points)[:, 0], values)
    assert np.allclose(points[:, 0] * 76, np.rint(points[:, 0] * 76))


def test_as_a_table_and_back():
    """A variable without a step has none in the table."""
    table = OVEN.table()
    assert table["temperature"] == {"name": "Real", "low": 20, "high": 400, "step": 5}
    assert table["time"] == {"name": "Real", "low": 0, "high": 1}
    assert Space.of(table) == OVEN


def test_ask_shows_marks_and_tell_takes_what_was_set(tmp_path, run_command):
    """A lab that could set 33.3 all the same says so, and that is what was asked."""
    study = tmp_path / "demo"
    study.mkdir()
    (study / "study.toml").write_text(
        'name = "demo"\nsites = ["lab"]\nrounds = 2\nx0 = { heat = 40, dose = 0.5 }\n[bounds]\n'
        "heat = { low = 0, high = 100, step = 5 }\ndose = { low = 0, high = 1 }\n"
    )
    run_command("ask", study, "--output", tmp_path / "points.csv")
    rows = list(csv.DictReader((tmp_path / "points.csv").read_text().splitlines()))
    assert rows
    assert all(float(row["heat"]) % 5 == 0.0 for row in rows)
    for row in rows:
        row["value"] = str(float(row["dose"]))
    rows[-1]["heat"] = "33.3"
    with (tmp_path / "filled.csv").open("w") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert "taken as evaluated at heat = 33.3 for" in run_command("tell", study, tmp_path / "filled.csv")[1]
    assert Study.load(study / "study.toml").space.names == ("heat", "dose")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Real(0, 1, step=0), "step must be positive"),
        (lambda: Real(0, 1, step=0.3), "step must divide high - low = 1, got 0.3"),
        (lambda: Real(0, 1, step=2), "step must divide"),
        (lambda: Log(1, 10, step=1), "step is not for a Log"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
