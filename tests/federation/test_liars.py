"""Attackers' scripts, one for each claim: a site that sends numbers in range of nothing, or counts that are not true.

What holds: a reply outside a declared range is no reply, and the run is the one without that site; no word on queries
ends a study early or lets it overspend.
"""

from dataclasses import replace

import numpy as np
import pytest
import study_runs
from fault_jobs import CENTRES, TABLES, Box, logged, make_study
from study_runs import THREE
from wire import Lost, Wire

from fzoos.algorithms.base import LARGEST, declared_parts
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import decode, encode
from fzoos.runs.store import Store

LIAR = 2


def run(study, folder, **settings):
    return study_runs.run(study, folder, **settings)[0]


def failures(folder):
    with Store(folder / "result.db") as store:
        return [words for _, _, words in store.failures(store.last)]


def changed(study, data, arrays=None, **scalars):
    message = decode(data, study.id)
    return encode(replace(message, arrays=arrays or message.arrays, scalars={**message.scalars, **scalars}), study.id)


# Numbers in range of nothing

MEASURED = {  # FZooS with a measured length: two numbers of its payload have a range
    "name": "fzoos",
    "features": 16,
    "initial": 3,
    "active": {"candidates": 4, "picks": 1, "radius": 0.05},
    "refresh": {"candidates": 4, "picks": 2},
    "length": {"name": "Measured"},
}


def make(name, **changes):
    study = make_study("fedzo" if name == "measured" else name, **changes)
    return replace(study, algorithm=MEASURED) if name == "measured" else study


RANGED = [
    (name, entry)
    for name in (*TABLES, "measured")
    for entry, part in declared_parts(make(name).half).items()
    if np.min(np.abs([*np.ravel(part.low), *np.ravel(part.high)])) < LARGEST
]


@pytest.mark.parametrize("far", ["below", "above"])
@pytest.mark.parametrize(("algorithm", "entry"), RANGED)
def test_a_number_outside_its_range(folder, algorithm, entry, far):
    """Of one site, for every entry that declares a range: refused before any average, the run is that without it."""
    study = make(algorithm, sites=THREE, min_clients=2)
    part = declared_parts(study.half)[entry]
    bound, away = (part.low, -1.0) if far == "below" else (part.high, 1.0)
    bounded = np.abs(bound) < LARGEST
    if not np.any(bounded):
        pytest.skip("there is no bound on this side")

    def wrong(array):
        beyond = bound + away * (1.0 + np.abs(bound))
        return np.where(np.broadcast_to(bounded, array.shape), beyond, array)

    seen = []

    def tamper(client, request, data):
        arrays = decode(data, study.id).arrays if client == LIAR else {}
        return changed(study, data, {**arrays, entry: wrong(arrays[entry])}) if entry in arrays else data

    def lose(client, request, data):
        if client == LIAR and entry in decode(data, study.id).arrays:
            seen.append(request)
            raise Lost
        return data

    lied, without = run(study, folder, tamper=tamper), run(study, folder / "without", tamper=lose)
    assert lied.status == "completed"
    assert lied.x.tobytes() == without.x.tobytes()
    assert all(f"array '{entry}' must hold numbers from" in words for words in failures(folder))
    assert len(failures(folder)) == len(seen)


@pytest.mark.parametrize("algorithm", [*TABLES, "measured"])
def test_honest_sites_stay_within_their_ranges(folder, algorithm):
    """Also where rounding moves a number that lies on its bound."""
    study = make(algorithm, sites=THREE, rounds=4, precision="float16")
    boxes = [lambda x, c=c: float(1e3 * np.sum(np.abs(x - c))) for c in CENTRES]
    assert run(study, folder, objectives=boxes).status == "completed"
    assert failures(folder) == []


# Counts that are not true: FedZO, T = 2, Q = 2, 6 queries a site and round


@pytest.mark.parametrize("algorithm", ["fedzo", "scaffoldi", "fzoos", "fedtrustregion", "fedlinesearch"])
def test_a_large_count_does_not_end_a_study(folder, algorithm):
    """A site claims the largest count in every reply: all that is counted is what the requests cost, once."""
    study = make_study(algorithm, sites=THREE, rounds=6, max_queries=10**4, retries=2)
    study = replace(study, max_queries=run(study, folder / "honest").queries)  # enough for six rounds
    lie = {"tamper": lambda c, r, data: changed(study, data, queries=2**39) if c == LIAR else data}
    result, honest = run(study, folder, **lie), run(study, folder / "again")
    assert (result.rounds, result.queries_per_client) == (honest.rounds, honest.queries_per_client)
    assert result.x.tobytes() == honest.x.tobytes()
    assert f"c: claims {2**39} queries; at most" in failures(folder)[0]


@pytest.mark.parametrize("claim", ["none", "half"])
def test_a_small_count_does_not_overspend(folder, claim):
    """A site that says it asked nothing, or half of it, has no valid reply; what it must have asked is counted."""
    study = make_study("fedzo", sites=THREE, rounds=10, max_queries=4 * 18, min_clients=2)

    def tamper(client, request, data):
        told = {"none": 0, "half": 6 * (request.round - 1) + 3}[claim]
        return changed(study, data, queries=told) if client == LIAR else data

    result = run(study, folder, tamper=tamper)
    assert sum(len(logged(folder, site)) for site in THREE) <= 4 * 18
    assert (result.status, result.rounds) == ("budget", 4)
    found = failures(folder)
    assert len(found) == 4
    assert found[0].startswith(f"c: it counts {0 if claim == 'none' else 3} queries and must have made 6")


class Failing(Box):
    """Fails at all its calls but some."""

    def __init__(self, log, good):
        super().__init__(0.2, log)
        self._good = good

    def __call__(self, x):
        y = super().__call__(x)
        if self.count not in self._good:
            raise OSError("no licence")
        return y


@pytest.mark.parametrize("vectorized", [False])
def test_what_failing_sites_asked_is_counted(folder, vectorized):
    """A site that fails at most of its queries asks, and pays, again and again: the budget counts it."""
    study = make_study("fedzo", sites=THREE, rounds=50, min_clients=2, max_queries=200, vectorized=vectorized)
    boxes = [Box(CENTRES[0], folder / "a.log"), Box(CENTRES[1], folder / "b.log"), Failing(folder / "c.log", {1, 2, 9})]
    result = run(study, folder, objectives=boxes)
    asked = [len(logged(folder, site)) for site in THREE]
    assert result.status == "budget"
    assert sum(asked) <= 200
    with Store(folder / "result.db") as store:
        assert result.queries == sum(result.queries_per_client) <= sum(asked)
        assert store.failures(store.last)


def test_what_cannot_be_known_is_planned_for(folder):
    """Answers that get lost: the site has asked, the server does not know how much. It plans for a round's queries, and
    takes the true count with the next answer."""
    study = make_study("fedzo", sites=THREE, rounds=3, min_clients=2, max_queries=200)

    def lose(client, request, data):
        if client == LIAR and request.round < 3:
            raise Lost
        return data

    with Wire(study, folder, tamper=lose) as engine:
        seen = []

        def note(record):
            with Store(folder / "result.db") as store:
                seen.append((record.queries_per_client, state(store).unknown))

        run_study(study, engine, folder / "result.db", callback=note)
    assert seen == [((6, 6, 0), [0, 0, 6]), ((12, 12, 0), [0, 0, 12]), ((18, 18, 18), [0, 0, 0])]
    tight = replace(study, max_queries=3 * 18 - 1)
    result = run(tight, folder / "tight", tamper=lose)
    assert (result.status, result.rounds) == ("budget", 2)
    assert "clients that did not answer may have made 12 of it" in result.message
    assert sum(len(logged(folder / "tight", site)) for site in THREE) == 36


def state(store):
    import json

    from fzoos.federation.server_state import ServerState
    from fzoos.messages.codec import unpack

    header, arrays = unpack(store.last_checkpoint(store.last))
    return ServerState.load(json.loads(header["state"]), arrays)


# A journal that is not the one that it was


@pytest.mark.parametrize("older", [False, True])
def test_a_lost_or_older_journal(folder, older):
    """Said and refused; allowed by name it goes on, and what had been paid is still counted."""
    study = make_study("fedzo", sites=THREE, rounds=2, min_clients=2)
    run(replace(study, rounds=1), folder)
    journal = folder / "c.journal"
    backup = [(path, path.read_bytes()) for path in folder.glob("c.journal*")] if older else []
    run(study, folder, resume=True)
    for path in folder.glob("c.journal*"):
        path.unlink()
    for path, data in backup:
        path.write_bytes(data)
    assert journal.exists() == older
    refused = run(replace(study, rounds=3), folder, resume=True)
    assert (refused.status, refused.queries_per_client) == ("completed", (18, 18, 18))
    words = f"c: it counts {12 if older else 6} queries and must have made 18: its journal is lost, or older"
    assert [found[: len(words)] for found in failures(folder)] == [words]
    result = run(replace(study, rounds=4, lost_journals=("c",)), folder, resume=True)
    assert result.queries_per_client == (24, 24, 24)  # 12, and 6 in each of the rounds 3 and 4
    assert len(failures(folder)) == 1
    assert run(replace(study, rounds=5), folder, resume=True).queries_per_client == (30, 30, 30)


# Numbers that no noise explains


@pytest.mark.parametrize("algorithm", ["scaffoldii", "fedtrustregion"])
def test_noise_for_privacy_does_not_excuse_any_number(folder, algorithm):
    """One of three sites sends a number beyond what its clip and its noise can give, in each array in turn: refused,
    and every reply of an honest site is taken."""
    study = make_study(algorithm, sites=THREE, min_clients=2, privacy={"clip": 0.1, "noise": 2.0})
    names = set()

    def tamper(client, request, data):
        arrays = dict(decode(data, study.id).arrays)
        if client != LIAR:
            return data
        name = sorted(arrays)[request.round % len(arrays)]
        names.add(name)
        most = 1.0 + 0.1 * (1.0 + 10.0 * 2.0) if name == "x" else 40.0 if name == "region" else 0.1 * 21.0
        arrays[name] = np.where(np.arange(arrays[name].size) == 0, -1.001 * most, arrays[name])
        return changed(study, data, arrays)

    assert run(study, folder, tamper=tamper).status == "completed"
    assert names >= {"x", "c"} or names >= {"x", "gradient", "region"}
    assert failures(folder)
    assert all(words.startswith("c: array ") and "must hold numbers from" in words for words in failures(folder))
