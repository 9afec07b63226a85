"""A site's own seed: secret, kept in its journal, never sent, and good for an exact replay."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from fault_jobs import CENTRES, TABLES, Box, make_study
from wire import Wire

from fzoos import minimize
from fzoos.engines import LocalStudy
from fzoos.federation.journal import Journal, JournalError, read_about, unseal
from fzoos.federation.recovery import recover, verify
from fzoos.federation.study_run import run_study

DRAWING = sorted(
    set(TABLES) - {"decomfl", "hiso", "fedlbfgs", "fedlinesearch"}
)  # these ask along directions that all know


def boxes(study):
    return [Box(CENTRES[i]) for i in range(len(study.sites))]


def journal_of(folder, site="a"):
    return folder / "journals" / f"{site}.journal"


def asked(folder, site="a"):
    with closing(sqlite3.connect(journal_of(folder, site))) as db:
        return [x for (x,) in db.execute("SELECT x FROM queries ORDER BY id")]


@pytest.mark.parametrize("name", DRAWING)
def test_two_runs_of_one_study_ask_other_points(folder, name):
    """The study says nothing of where a site asks: with the same study, objectives and x0, the points differ."""
    study = make_study(name, sites=("a", "b"), rounds=1)
    for run in ("one", "two"):
        LocalStudy(study, folder / run, boxes(study)).run()
    for site in study.sites:
        one, two = asked(folder / "one", site), asked(folder / "two", site)
        assert len(set(one) - set(two)) > len(set(one)) // 2  # x itself is asked in both


def test_seeds_have_128_bits_and_differ(folder):
    study = make_study(sites=("a", "b", "c"), rounds=1)
    LocalStudy(study, folder, boxes(study)).run()
    seeds = [unseal(read_about(journal_of(folder, site))) for site in study.sites]
    assert len(set(seeds)) == 3
    assert min(seeds) > 2**100  # one in 2^28 secret seeds is smaller
    assert oct(journal_of(folder).stat().st_mode & 0o777) == "0o600"


def test_no_message_and_no_file_of_the_server_has_a_seed(folder):
    """Neither as a number nor as text, in all bytes that leave the sites and in all that the server stores."""
    study, left = make_study("fzoos", sites=("a", "b"), rounds=2), []
    with Wire(study, folder, site_seed=None, tamper=lambda i, request, data: left.append(data) or data) as wire:
        run_study(study, wire, folder / "result.db")
    kept = left + [file.read_bytes() for file in folder.glob("result.db*")]
    for site in study.sites:
        seed = unseal(read_about(folder / f"{site}.journal"))
        forms = [f"{seed:x}".encode(), str(seed).encode(), seed.to_bytes(16, "little"), seed.to_bytes(16, "big")]
        assert not any(form in data for form in forms for data in kept)
        with closing(sqlite3.connect(folder / f"{site}.journal")) as db:
            states = [json.loads(text)["state"] for (text,) in db.execute("SELECT generator FROM replies")]
        assert not any(str(state["state"]).encode() in data for state in states for data in kept)


def test_with_the_studys_seed_it_is_the_run_of_minimize(folder):
    study = make_study("fedzo", sites=("a", "b"), rounds=2)
    settings = {"bounds": study.bounds, "rounds": 2, "seed": study.seed}
    settings |= {"algorithm": study.algorithm_settings}
    plain = minimize(boxes(study), study.start, **settings)
    same, other, secret = (
        LocalStudy(study, folder / str(seed), boxes(study), site_seed=seed).run() for seed in (study.seed, 99, None)
    )
    assert np.array_equal(same.x, plain.x)
    assert not np.array_equal(other.x, plain.x)
    assert not np.array_equal(secret.x, plain.x)


def test_another_seed_in_the_settings_is_refused(folder):
    with Journal(folder / "a.journal", "s", "a", seed=7):
        pass
    with pytest.raises(JournalError, match="begun with another seed"):
        Journal(folder / "a.journal", "s", "a", seed=8)
    for same in (7, None):
        with Journal(folder / "a.journal", "s", "a", seed=same) as journal:
            assert journal.seed == 7


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_a_seed_is_a_whole_number(folder, seed):
    study = make_study(sites=("a",))
    with pytest.raises((TypeError, ValueError), match="site_seed"):
        LocalStudy(study, folder, boxes(study), site_seed=seed).run()


@pytest.mark.parametrize(
    "change", ["UPDATE about SET value = replace(value, '7', '6')", "DELETE FROM about"], ids=["flipped", "gone"]
)
def test_a_damaged_seed_is_detected_and_the_rest_recovered(folder, change):
    """A wrong seed would replay other directions in silence. What was asked is saved, what was replied is given up."""
    study = make_study("fedzo", sites=("a",), rounds=2)
    LocalStudy(study, folder, boxes(study), site_seed=7).run()
    path = journal_of(folder)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"{change} WHERE name = 'seed'")
    with pytest.raises(JournalError, match="the site's seed has changed"):
        Journal(path, study.id, "a")
    assert verify(path).problems == ("the site's seed is damaged",)
    recover(path, folder / "new.journal")
    with Journal(folder / "new.journal", study.id, "a") as journal:
        assert journal.seed not in (None, 6, 7)
        assert journal.count == len(asked(folder))
        assert not any(request.reply for request in journal.requests())
