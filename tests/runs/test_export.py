"""Runs in other formats: what is read back is what was kept, in CSV, JSON, Parquet and pandas."""

import csv
import json
import sys
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fzoos
from fzoos import FZooS, Record, Result, minimize
from fzoos.runs.export import export, plain
from fzoos.runs.reader import read

BASE = ["round", "F", "queries", "bytes_up", "bytes_down", "seconds", "step"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A run of FZooS: in round 1 one client of three takes part, so that distances are missing."""
    path = tmp_path_factory.mktemp("runs") / "runs.db"
    f = lambda x: float(x @ x)
    settings = {"algorithm": FZooS(features=50), "rounds": 4, "participation": 2, "seed": 1}
    minimize([f, f, f], np.ones(3), bounds=(-1, 1), monitor=f, store=path, name="demo", **settings)
    return path


def result_of(*records):
    total = records[-1] if records else Record(0, 0, 0, 0, 0.0, 0.0, None)
    return Result(
        np.zeros(2), len(records), total.queries, (), total.bytes_up, total.bytes_down, total.seconds, "completed", "",
        tuple(records),
    )  # fmt: skip


def test_columns_of_a_table(store):
    result = fzoos.load(store)
    columns = result.columns
    diagnostics = [f"diagnostics/{name}" for name in result.history[-1].diagnostics]
    clients = [f"clients/{i}/{what}" for what in ("queries", "distance") for i in range(3)]
    assert list(columns) == [*BASE, *diagnostics, *clients]
    assert columns["F"] == [record.monitor for record in result.history]
    assert columns["clients/2/distance"] == [record.distances[2] for record in result.history]
    assert [sum(columns[f"clients/{i}/distance"][r] is None for i in range(3)) for r in range(4)] == [1] * 4


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(allow_nan=False)),
            st.integers(0, 2**62),
            st.floats(0, 1e300),
            st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=2, max_size=2),
        ),
        max_size=5,
    )
)
def test_csv_loses_nothing(tmp_path_factory, rows):
    """Every number is read back to the last bit, what is not known is empty."""
    records = [
        Record(r, q, q, 0, s, s, f, {"correction_length": s}, (q, 0), tuple(d))
        for r, (f, q, s, d) in enumerate(rows, 1)
    ]
    path = tmp_path_factory.mktemp("csv") / "run.csv"
    result = result_of(*records)
    kept = fzoos.runs.reader.StoredRun("", None, {}, result, [], {})
    export(kept, path)
    with open(path, newline="") as file:
        head, *lines = csv.reader(file)
    assert head == list(result.columns)
    back = {name: [float(line[i]) if line[i] else None for line in lines] for i, name in enumerate(head)}
    assert back == {name: [None if v is None else float(v) for v in c] for name, c in result.columns.items()}


def test_json_has_everything(store, tmp_path):
    export(read(str(store)), tmp_path / "run.json")
    told = json.loads((tmp_path / "run.json").read_text(), parse_constant=pytest.fail)
    result = fzoos.load(store)
    for name, value in asdict(result).items():
        assert told[name] == plain(value), name
    assert told["settings"]["algorithm"]["features"] == 50
    assert (told["name"], told["id"], told["failures"], told["extra"]) == ("demo", 1, [], {})


def test_to_pandas(store):
    pandas = pytest.importorskip("pandas")
    result = fzoos.load(store)
    table = result.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table) == list(result.columns)
    assert len(table) == 4
    assert table["round"].tolist() == [1, 2, 3, 4]
    assert table["F"].tolist() == [record.monitor for record in result.history]
    assert {str(table[name].dtype) for name in ("round", "queries", "bytes_up", "clients/0/queries")} == {"int64"}
    assert {str(table[name].dtype) for name in ("F", "seconds", "clients/0/distance")} == {"float64"}
    missing = [record.distances[0] is None for record in result.history]
    assert table["clients/0/distance"].isna().tolist() == missing


def test_parquet_is_the_table(store, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    export(read(str(store)), tmp_path / "run.parquet")
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "run.parquet"), fzoos.load(store).to_pandas())


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_what_is_missing_is_said_kindly(store, tmp_path, monkeypatch, missing, run_command):
    """And the file that was there is still there."""
    monkeypatch.setitem(sys.modules, missing, None)
    (tmp_path / "run.parquet").write_text("old")
    words = "fzoos: a .parquet file needs pandas and pyarrow: pip install 'fzoos[parquet]'\n"
    assert run_command("export", store, "-o", tmp_path / "run.parquet") == (2, "", words)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("run.parquet", "old")]
    if missing == "pandas":
        with pytest.raises(ImportError, match=r"to_pandas needs pandas: pip install 'fzoos\[pandas\]'"):
            fzoos.load(store).to_pandas()
