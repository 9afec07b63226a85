"""The commands of studies, as a user types them."""

import csv
import io

import numpy as np
import pytest

import fzoos
from fzoos.cli.study import ENGINES

STUDY = """
name = "demo"
x0 = [0.8, 0.2]
bounds = [0.0, 1.0]
rounds = 3
sites = ["north", "south"]
[algorithm]
name = "fzoos"
local_steps = 3
features = 50
initial = 4
active = { candidates = 10, picks = 2, radius = 0.05 }
refresh = { candidates = 10, picks = 3 }
"""
BOX = """
import os
import numpy as np
TARGET = {"north": 0.3, "south": 0.5}[os.environ["SITE"]]

def objective(x):
    return float(np.sum((x - TARGET) ** 2))
"""
TARGETS = {"north": 0.3, "south": 0.5}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "objective.py").write_text(BOX)
    return tmp_path


def reference():
    """The same without a study: one process, no journal."""
    study = fzoos.Study(
        "demo", [0.8, 0.2], (0.0, 1.0), ("north", "south"), rounds=3,
        algorithm={
            "name": "fzoos",
            "local_steps": 3,
            "features": 50,
            "initial": 4,
            "active": {"candidates": 10, "picks": 2, "radius": 0.05},
            "refresh": {"candidates": 10, "picks": 3},
        },
    )  # fmt: skip
    boxes = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in TARGETS.values()]
    settings = {"algorithm": study.algorithm_settings, "rounds": 3, "seed": 0}
    return fzoos.minimize(boxes, [0.8, 0.2], bounds=(0.0, 1.0), **settings)


def test_study_runs_and_goes_on(folder, run_command):
    """Bit for bit what minimize computes; then one round more with --resume, and no new run by mistake."""
    code, out, err = run_command("study", folder, "--quiet", "--site-seed", "0")
    assert (code, err) == (0, "")
    assert "status   completed: all 3 rounds are done" in out
    assert fzoos.load(folder).x.tolist() == reference().x.tolist()
    assert fzoos.load(folder).queries == reference().queries
    code, _, err = run_command("study", folder)
    assert code == 2
    assert "resume it with --resume" in err
    (folder / "study.toml").write_text(STUDY.replace("rounds = 3", "rounds = 4"))
    assert run_command("study", folder, "--resume", "--quiet")[0] == 0
    assert fzoos.load(folder).rounds == 4
    (folder / "study.toml").write_text(STUDY.replace("local_steps = 3", "local_steps = 4"))
    code, _, err = run_command("study", folder, "--resume", "--quiet")
    assert code == 2
    assert "belongs to study" in err


def test_people_evaluate_a_study(folder, run_command):
    """Asking and telling, a new process each time, ends where a computer would have: no value is asked for twice."""
    table, asked = folder / "values.csv", []
    for _ in range(100):
        code, out, _ = run_command("ask", folder, "--output", table, "--site-seed", "0")
        assert code == 0
        if "completed" in out:
            break
        rows = list(csv.DictReader(io.StringIO(table.read_text())))
        asked += [(row["site"], row["id"]) for row in rows]
        for row in rows:
            x = np.array([float(row["x1"]), float(row["x2"])])
            row["value"] = repr(float(np.sum((x - TARGETS[row["site"]]) ** 2)))
        with open(table, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        assert run_command("tell", folder, table)[0] == 0
    result = fzoos.load(folder)
    assert result.x.tolist() == reference().x.tolist()
    assert result.queries == len(asked) == len(set(asked))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("site,id\n", "has no column 'value'"),
        ("site,id,value\nwest,a,1\n", "line 2: there is no site 'west'"),
        ("site,id,value\nnorth,a,much\n", "line 2: value must be a number, got 'much'"),
        ("site,id,value\nnorth,a,1\n", "'a' is not among the points requested from north"),
    ],
)
def test_wrong_values(folder, run_command, text, message):
    run_command("ask", folder, "--output", folder / "points.csv")
    (folder / "values.csv").write_text(text)
    code, _, err = run_command("tell", folder, folder / "values.csv")
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1


def test_wrong_study(folder, run_command):
    assert "there is no study at" in run_command("study", folder / "nowhere")[2]
    (folder / "study.toml").write_text(STUDY + "colour = 1\n")
    code, _, err = run_command("study", folder)
    assert code == 2
    assert "study.toml: algorithm: there is no setting 'colour'" in err
    (folder / "study.toml").write_text(STUDY)
    (folder / "site" / "objective.py").unlink()
    assert "there is no" in run_command("study", folder)[2]
    assert "there is no site 'west'; the sites are north, south" in run_command("ask", folder, "--site", "west")[2]


@pytest.mark.parametrize("engine", ENGINES)
def test_scaffold(tmp_path, run_command, engine):
    """The study's name is everywhere, the study is valid, the scripts can be executed; a folder is not overwritten."""
    made = tmp_path / "my-study"
    assert run_command("scaffold", engine, made)[0] == 0
    assert fzoos.Study.load(made / "study.toml").name == "my-study"
    assert not [path for path in made.rglob("*") if path.is_file() and "{{" in path.read_text()]
    assert all(path.stat().st_mode & 0o100 for path in made.rglob("*.sh") if path.name != "env.sh")
    code, _, err = run_command("scaffold", engine, made)
    assert code == 2
    assert "exists already" in err


def test_scaffold_wrong(tmp_path, run_command):
    assert (
        "there is no engine 'pigeon'; choose from flare, flower" in run_command("scaffold", "pigeon", tmp_path / "a")[2]
    )
    assert "a study's name must begin with a letter" in run_command("scaffold", "flare", tmp_path / "My Study")[2]
