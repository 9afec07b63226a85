"""`fzoos tell`: what people do to a table, in their own spreadsheets."""

from __future__ import annotations

import csv
import io
import resource

import numpy as np
import pytest

import fzoos
from fzoos.federation.study import Study
from fzoos.objectives.manual import ManualObjective

STUDY = """
name = "lab"
x0 = [330.0, 10.0]
bounds = [[300.0, 400.0], [1.0, 60.0]]
rounds = 1
sites = ["north"]
on_failure = "ON_FAILURE"

[algorithm]
name = "fzoos"
local_steps = 2
initial = 3
active = { candidates = 20, picks = 1, radius = 0.1 }
refresh = { candidates = 20, picks = 2, radius = 0.1 }
"""


@pytest.fixture
def lab(tmp_path, run_command):
    """A study, with what runs a command on it."""

    class Lab:
        folder, table, run = tmp_path, tmp_path / "points.csv", staticmethod(run_command)

        def start(self, on_failure="raise", rounds=1):
            text = STUDY.replace("ON_FAILURE", on_failure).replace("rounds = 1", f"rounds = {rounds}")
            (tmp_path / "study.toml").write_text(text)
            self.run("ask", tmp_path, "--output", self.table)
            return list(csv.DictReader(io.StringIO(self.table.read_text())))

        def tell(self, rows, separator=","):
            text = separator.join(rows[0]) + "\n" + "\n".join(separator.join(row.values()) for row in rows) + "\n"
            self.table.write_text(text)
            return self.run("tell", tmp_path, self.table)

    return Lab()


@pytest.mark.parametrize("limit", [0, 512, 4096, 12288])
def test_a_full_disk(lab, limit):
    """No value is entered, whole or cut; the same points are requested, and the right values accepted afterwards."""
    rows = lab.start()
    text = "site,id,value\n" + "".join(f"{row['site']},{row['id']},193.005\n" for row in rows)
    lab.table.write_text(text)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        code, _, err = lab.run("tell", lab.folder, lab.table)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, err.count("\n")) == (2, 1)
    assert "values.db cannot be used, and nothing was changed" in err
    assert ManualObjective(lab.folder, "north").values() == {}
    again = lab.run("ask", lab.folder)[1]
    assert [row["id"] for row in csv.DictReader(io.StringIO(again))] == [row["id"] for row in rows]
    assert lab.run("tell", lab.folder, lab.table)[0] == 0
    assert set(ManualObjective(lab.folder, "north").values().values()) == {193.005}


def test_decimal_commas(lab):
    """What a spreadsheet of half of Europe writes: the same values, and the same points."""
    rows = lab.start()
    for k, row in enumerate(rows):
        row |= {name: row[name].replace(".", ",") for name in ("x1", "x2")} | {"value": f"{k},5"}
    code, out, _ = lab.tell(rows, ";")
    assert (code, out) == (0, f"4 new values entered; next: fzoos ask {lab.folder}\n")
    assert sorted(ManualObjective(lab.folder, "north").values().values()) == [0.5, 1.5, 2.5, 3.5]


def test_a_point_that_was_changed(lab):
    """333 for 330.72...: that is what was asked, said in one line; the client's trajectory has the other point."""
    rows = lab.start()
    asked = [[float(row["x1"]), float(row["x2"])] for row in rows]
    for row in rows:
        row["value"] = "1.0"
    rows[1]["x1"] = "333"
    code, out, _ = lab.tell(rows)
    assert code == 0
    assert out.splitlines()[0] == f"line 3: taken as evaluated at x1 = 333 for {asked[1][0]:.6g}"
    objective = ManualObjective(lab.folder, "north")
    moved = objective.evaluated_instead(np.array(asked))
    assert {row: point.tolist() for row, point in moved.items()} == {1: [333.0, asked[1][1]]}
    study = Study.load(lab.folder / "study.toml")
    evaluator = fzoos.objectives.evaluator.Evaluator(objective, study.box, vectorized=True)
    points, _ = evaluator.evaluate(study.box.to_cube(np.array(asked)))
    stored = study.box.from_cube(points)
    assert stored[1] == pytest.approx([333.0, asked[1][1]])
    assert stored[[0, 2, 3]] == pytest.approx(np.array(asked)[[0, 2, 3]])
    assert lab.run("ask", lab.folder)[0] == 0  # and the study goes on


def test_constraints_are_columns(lab):
    """The first table has none: whoever has constraints adds them; from then on they are there to be filled in."""
    rows = lab.start(rounds=2)  # the server's x is asked from the second on
    for row in rows:
        row |= {"value": "1.5", "constraint1": "-0.5", "constraint2": "0,25"}
    assert lab.tell(rows, ";")[0] == 0
    site = ManualObjective(lab.folder, "north")
    assert site.constraints == 2
    lab.run("ask", lab.folder, "--output", lab.table)
    head = lab.table.read_text().splitlines()[0]
    assert head.endswith("x2,value,constraint1,constraint2")
    while "status" not in (said := lab.run("ask", lab.folder, "--output", lab.table)[1]):
        rows = list(csv.DictReader(io.StringIO(lab.table.read_text())))
        assert lab.tell([row | {"value": "1", "constraint1": "-1", "constraint2": "0"} for row in rows])[0] == 0
    assert "completed" in said
    assert fzoos.load(lab.folder).feasible is True


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": "nan"}, 'with on_failure = "skip" nan means failed'),
        ({"x1": "500", "value": "1"}, "line 2: the point is outside the bounds"),
        ({"value": "", "constraint1": "1"}, "line 2: there are constraints but no value"),
        ({"value": "1", "constraint2": "1"}, "there is a column 'constraint2' but none that is called 'constraint1'"),
        ({"value": "1", "constraint1": "", "constraint2": "1"}, "line 2: constraint1 must be a number, got ''"),
        ({"value": "1", "constraint1": "nan"}, "must be a finite number, got nan"),
    ],
)
def test_wrong_rows(lab, columns, message):
    rows = lab.start()
    code, _, said = lab.tell([row | columns for row in rows])
    assert code != 0
    assert message in " ".join(said.split())
    assert ManualObjective(lab.folder, "north").values() == {}
