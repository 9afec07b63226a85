"""Only what is new is read: the rounds that a page does not have; and a list is made once for all who look."""

import pytest

from fzoos.runs import store
from fzoos.runs.dashboard import index as index_module
from fzoos.runs.dashboard.index import RunIndex
from fzoos.runs.dashboard.view import details
from fzoos.runs.reader import Reader

from .conftest import keep


@pytest.mark.parametrize("after", [0, 4, 7])
def test_the_later_rounds_are_those_of_the_whole_run(kept, after):
    """And everything else is the same, the last round's failures among it."""
    with Reader(kept) as reader:
        whole, later = reader.result(3), reader.result(3, after)
        assert [r.round for r in later.history] == [r.round for r in whole.history if r.round > after]
        for name in ("rounds", "queries", "queries_per_client", "bytes_up", "seconds", "status", "failed", "message"):
            assert getattr(later, name) == getattr(whole, name), name
        assert later.x.tobytes() == whole.x.tobytes()
        page = details(reader.run(3, after))
        assert page["history"]["round"] == list(range(after + 1, 7))
        assert page | {"history": None} == details(reader.run(3)) | {"history": None}


def test_rounds_that_the_page_has_are_not_read_again(tmp_path, monkeypatch):
    """At most the last of them, for its count of failures: however long the run is."""
    path = tmp_path / "runs.db"
    keep(path, rounds=30)
    read, record_of = [], store.record_of
    monkeypatch.setattr(store, "record_of", lambda row: read.append(row[0]) or record_of(row))
    with Reader(path) as reader:
        details(reader.run(1, after=28))
        details(reader.run(1, after=30))
    assert read == [29, 30, 30]


def test_a_change_is_in_the_list(tmp_path, monkeypatch):
    monkeypatch.setattr(index_module, "_FRESH", -1.0)
    path = tmp_path / "runs.db"
    keep(path, rounds=1)
    with RunIndex(path) as index:
        before = index.listing()
        keep(path, rounds=1)
        assert '"runs.db:2"' in index.listing()
        assert '"runs.db:2"' not in before
