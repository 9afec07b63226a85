"""Stored runs on the command line: list, show, compare-runs, and the commands that keep them."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
from kept_runs import keep, real_run

import fzoos as package
from fzoos.runs.compare import at_equal, differing
from fzoos.runs.reader import read, runs_at
from fzoos.runs.store import Store
from fzoos.runs.text import markdown, one_line

# list


def test_list_has_one_row_per_run(fzoos, tmp_path):
    keep("runs.db", "first")
    keep("runs.db", "second", values=(None,), queries=3000, bytes=4_200_000)
    code, out, err = fzoos("list")
    assert (code, err) == (0, "")
    head, _, first, second = [line.split() for line in out.splitlines()]
    assert head == ["id", "name", "started", "status", "rounds", "F", "queries", "bytes", "seconds"]
    assert [*first[:2], *first[4:]] == ["1", "first", "completed", "4", "2", "40", "400", "bytes", "2.0"]
    assert [*second[:2], *second[4:]] == ["2", "second", "completed", "1", "–", "3,000", "4.2", "MB", "0.5"]
    assert fzoos("list", "runs.db")[1] == fzoos("list", tmp_path)[1] == out


def test_list_as_json(fzoos):
    result = real_run("runs.db", name="one")
    code, out, _ = fzoos("list", "--json")
    (run,) = json.loads(out)
    assert code == 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", run.pop("started"))
    assert run == {
        "id": 1, "name": "one", "status": "completed", "rounds": 3, "queries": result.queries,
        "bytes": result.bytes_up + result.bytes_down, "seconds": result.seconds, "F": result.history[-1].monitor,
        "feasible": None, "tags": [], "start": 3.0, "minimum": None, "task": "",
    }  # fmt: skip


def test_a_run_is_listed_while_it_goes_on(fzoos):
    """Safe to read while a run writes, and the run is not disturbed."""
    seen = []

    def look(record):
        code, out, _ = fzoos("list", "--json")
        seen.append((code, record.round, json.loads(out)[0]["rounds"], json.loads(out)[0]["status"]))

    watched = real_run("runs.db", callback=look)
    alone = real_run(None)
    assert seen == [(0, r, r, "running") for r in (1, 2, 3)]
    assert np.array_equal(watched.x, alone.x)
    assert "completed" in fzoos("list")[1]


# show


def test_show_has_totals_settings_and_rounds(fzoos):
    keep("runs.db", "named", settings={"optimizer": {"type": "Adam", "rate": 0.01}, "x0": [0.5] * 100})
    code, out, err = fzoos("show", "runs.db:1", "--rounds", 2)
    assert (code, err) == (0, "")
    for line in (
        "run      runs.db:1", "name     named", "status   completed: all rounds are done", "rounds   4",
        "F        2 (lowest 2 in round 4)", "x        0.5 -0.5", "queries  40 (client 0 20, client 1 20)",
        "bytes    200 bytes up, 200 bytes down", "seconds  2.00",
    ):  # fmt: skip
        assert f"{line}\n" in out
    assert re.search(r"optimizer\.type +Adam", out)
    assert re.search(r"x0 +\[0.5, .*\.\.\. \(100 values\)", out)
    rounds = [line.split() for line in out.splitlines() if re.match(r" +\d", line)]
    assert [row[:3] for row in rounds] == [["3", "3", "30"], ["4", "2", "40"]]  # the last two: round, F, queries
    assert "privacy" not in out
    assert "no answer" not in out


def test_show_a_study_with_failures_and_privacy(fzoos, tmp_path):
    (tmp_path / "my-study").mkdir()
    with Store("my-study/result.db") as store:
        run = store.begin("my-study", {"sites": ["north", "south"]}, np.zeros(2), clients=2)
        for r in range(12):
            store.fail(run, r, r % 2, f"timeout {r}")
        store.finish(run, "failed", "too few", {"epsilon": 1.25, "delta": 1e-5, "releases": 3})
    code, out, _ = fzoos("show", "my-study")
    assert code == 0
    assert "privacy  epsilon 1.25 at delta 1e-05 for each client\n" in out
    assert "queries  0 (north 0, south 0)\n" in out
    failures = [line.split(None, 2) for line in out.splitlines() if "timeout" in line]
    assert [(f[0], f[1], f[2].strip()) for f in failures] == [
        (str(r), ("north", "south")[r % 2], f"timeout {r}") for r in range(2, 12)
    ]
    assert "2 more before" in out


def test_a_run_is_found_by_every_name(fzoos, tmp_path):
    keep("runs.db", "one")
    keep("runs.db", "two")
    (tmp_path / "7").mkdir()
    shutil.copy("runs.db", "7/result.db")
    names = {None: "two", "1": "one", ":1": "one", "runs.db": "two", "runs.db:1": "one", ".": "two", ".:1": "one"}
    names |= {"7": "two", "7:1": "one", str(tmp_path / "runs.db:1"): "one"}
    assert {name: read(name).summary.name for name in names} == names
    keep("odd:2", "odd")  # a file may be called like this
    assert read("odd:2").summary.name == read("odd:2:1").summary.name == "odd"


def test_names_are_shown_and_not_obeyed(fzoos):
    """A file may come from anywhere: neither rich's markup nor a terminal's escape codes nor Markdown's signs act."""
    keep("runs.db", "plain", settings={"[bold]": "\x1b[31m"})
    with closing(sqlite3.connect("runs.db")) as db, db:
        db.execute("UPDATE runs SET name = ?", ("[red]a[/nothing]|\x1b[2J\nb",))
    for arguments in (["list"], ["show"], ["compare-runs", "1", "1"]):
        code, out, err = fzoos(*arguments)
        assert (code, err) == (0, "")
        assert "[red]a[/nothing]|?[2J b" in out
        assert "\x1b" not in out
    text = markdown([(read().summary.name, read().settings, read().result)])
    assert r"| [red]a[/nothing]\|?[2J b | completed |" in text
    assert "\x1b" not in text


# compare-runs


def test_f_at_equal_cost(fzoos):
    """A round of A: 10 queries, 100 bytes; of B: 20 and 50. When A has spent 40 queries, B has had 2 rounds."""
    keep("runs.db", "A", values=(5.0, 4.0, 3.0, 2.0), queries=10, bytes=100)
    keep("runs.db", "B", values=(9.0, 7.0, 6.0, 1.0, 0.5), queries=20, bytes=50)
    results = [read("1").result, read("2").result]
    assert at_equal(results, "rounds") == [(1, [5, 9]), (2, [4, 7]), (3, [3, 6]), (4, [2, 1])]
    assert at_equal(results, "queries") == [(10, [5, None]), (20, [4, 9]), (30, [3, 9]), (40, [2, 7])]
    # A has spent 400 bytes in the end, B 250, so 250 are compared: 63, 125, 188 and 250
    assert at_equal(results, "bytes") == [(63, [None, 9]), (125, [5, 7]), (188, [5, 6]), (250, [4, 0.5])]
    code, out, err = fzoos("compare-runs", "1", "runs.db:2")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert ["queries", "40", "2", "7"] in rows
    assert ["bytes", "63", "–", "9"] in rows
    assert "all settings are the same" in out
    told = json.loads(fzoos("compare-runs", "1", "2", "--json")[1])
    assert told["at_equal"]["queries"][0] == {"cost": 10, "F": [5, None]}
    assert [run["run"] for run in told["runs"]] == ["runs.db:1", "runs.db:2"]
    assert told["settings"] == {}


def test_where_settings_differ(fzoos):
    real_run("a.db", algorithm=package.FedZO(local_steps=2, optimizer=package.SGD(0.1)))
    real_run("b.db", algorithm=package.FedZO(local_steps=3))
    pairs = differing([read("a.db").settings, read("b.db").settings])
    assert pairs["algorithm.optimizer.type"] == ["SGD", "Adam"]
    assert pairs["algorithm.optimizer.learning_rate"] == [0.1, 0.01]
    assert pairs["algorithm.optimizer.beta1"] == [None, 0.9]
    assert pairs["algorithm.local_steps"] == [2, 3]
    assert "rounds" not in pairs
    assert "algorithm.type" not in pairs
    code, out, _ = fzoos("compare-runs", "a.db", "b.db")
    assert code == 0
    assert re.search(r"algorithm\.optimizer\.type +SGD +Adam", out)


# the text of a report


def test_markdown_of_two_runs():
    """Every table is whole: as many cells in each row as in its head."""
    keep_in = [("one", {"seed": 1, "n": {"a": 2}}), ("two | b", {"seed": 2, "n": {"a": 2}})]
    runs = [(label, settings, real_run(None, seed=settings["seed"])) for label, settings in keep_in]
    text = markdown(runs)
    assert text.startswith("# 2 runs\n")
    assert "| seed | 1 | 2 |" in text
    assert "## Settings of all runs\n\n| setting | value |\n| --- | --- |\n| n.a | 2 |" in text
    assert "\n## two \\| b\n" in text
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        cells = {len(re.split(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(cells) == 1, table
    for label, _, result in runs:
        last = result.history[-1]
        row = f"| {one_line(label)} | completed | 3 | {last.monitor:.4g} | {last.queries:,} |".replace(
            "two |", "two \\|"
        )
        assert row in text


# fzoos run and fzoos compare keep their runs


def test_compare_keeps_its_runs_and_writes_json(fzoos):
    toy = ["quadratic", "--dim", 4, "--clients", 2, "--local-steps", 2, "--rounds", 2, "--algorithms", "fedzo,fedprox"]
    code, out, err = fzoos("compare", *toy, "--seeds", 2, "--store", "runs.db", "--json", "-", "--output", "p.png")
    told = json.loads(out)
    assert code == 0
    assert "FedProx" in err  # the table is for people
    assert [one["algorithm"].partition("(")[0] for one in told] == ["FedZO", "FedZO", "FedProx", "FedProx"]
    assert [run.monitor for run in runs_at()] == [one["history"][-1]["monitor"] for one in told]
    assert all(one["minimum"] < one["history"][-1]["monitor"] < one["start"] for one in told)


def test_json_is_all_there_is_on_standard_output(fzoos):
    code, out, err = fzoos(
        "run", "levy", "--dim", 3, "--rounds", 1, "--clients", 1, "--algorithm", "fedzo", "--json", "-"
    )
    assert code == 0
    assert json.loads(out)["status"] == "completed"
    assert "1/1" in err
    assert "queries" in err
    assert not Path("-").exists()
