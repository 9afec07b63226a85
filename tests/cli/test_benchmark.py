"""`fzoos benchmark`: a table, a CSV file and a plot; errors in one line."""

from __future__ import annotations

import csv
import json

import pytest


def test_the_command_ends_with_a_table_a_csv_file_and_a_plot(fzoos, tmp_path):
    words = ("benchmark", "bbob", "--dim", 2, "--problems", "1,8", "--instances", 1, "--budget", 20)
    words = (*words, "--algorithms", "auto,bobyqa", "--output", tmp_path / "here", "--quiet")
    code, out, _ = fzoos(*words)
    assert code == 0
    assert "mean log10 gap" in " ".join(out.split())
    assert "instances 1 (tuning)" in out
    rows = list(csv.DictReader((tmp_path / "here" / "bbob-2-N4-tuning.csv").read_text().splitlines()))
    assert [(row["problem"], row["rival"]) for row in rows] == [(p, r) for p in "18" for r in ("auto", "bobyqa")]
    assert (tmp_path / "here" / "bbob-2-N4-tuning.png").stat().st_size > 10_000
    assert len((tmp_path / "here" / "runs.jsonl").read_text().splitlines()) == 4
    assert json.loads(json.loads((tmp_path / "here" / "runs.jsonl").read_text().splitlines()[0])["key"])["budget"] == 20


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["bbbob"], "there is no suite 'bbbob'"),
        (["ls", "--dim", "3"], "--dim is for bbob and largescale"),
        (["bbob", "--instances", "3-4"], "mixes those for tuning (1 to 3) with those for reporting: 3-4"),
        (["bbob", "--problems", "25"], "--problems must be among 1, 2"),
        (["mujoco", "--problems", "cat"], "--problems must be among swimmer"),
        (["bbob", "--algorithms", "fedcma@1"], "has no learning rate"),
        (["bbob", "--dim", "two"], "--dim must be numbers such as 1-3,7, got 'two'"),
    ],
)
def test_errors_are_one_line(fzoos, words, complaint):
    code, _, err = fzoos("benchmark", *words)
    assert code == 2
    assert complaint in err
    assert err.count("\n") == 1
