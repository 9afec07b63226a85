"""F without any f_i: values that travel as a sum (`share_values`)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from study_runs import bowls

from fzoos import Auto, DeComFL, FedZO, ScaffoldI, Stop, minimize
from fzoos.engines import LocalStudy
from fzoos.federation.site import StudySite
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import decode, encode
from fzoos.messages.message import Message
from fzoos.testing.resume import Crash, _Restarting, _until_done
from fzoos.testing.study import make_study, objectives_of, queried_points, same_history

CENTRES, WEIGHTS = (0.3, 0.4, 0.1), (0.5, 0.3, 0.2)


def F(x):
    return float(np.average([f(x) for f in bowls()], weights=WEIGHTS))


@pytest.mark.parametrize(
    ("algorithm", "dim"),
    [(Auto(), 4), (Auto(), 60), (ScaffoldI(), 4), (DeComFL(), 60)],
    ids=lambda value: str(value)[:9],
)
def test_f_is_known_and_costs_only_the_last_x(algorithm, dim):
    """These algorithms begin a round at x: what was asked there for F is not asked again, and x is the same."""
    settings = {"bounds": (-1, 1), "algorithm": algorithm, "rounds": 4, "seed": 0, "weights": WEIGHTS}
    plain = minimize(bowls(), np.zeros(dim), monitor=F, **settings)
    counts: list[float] = []
    shared = minimize(bowls(counts), np.zeros(dim), monitor="clients", **settings)
    assert np.array_equal(shared.x, plain.x)
    assert shared.queries == plain.queries + 3 == len(counts)
    assert [r.monitor for r in shared.history] == pytest.approx([r.monitor for r in plain.history], rel=1e-12)
    assert shared.fun == pytest.approx(F(shared.x), rel=1e-12)
    assert shared.best_fun == min(r.monitor for r in shared.history)
    assert F(shared.best_x) == pytest.approx(shared.best_fun, rel=1e-12)
    assert shared.bytes_up - plain.bytes_up == 4 * 3 * 8 * 3  # rounds, clients: value, whether it failed, queries
    assert shared.bytes_down - plain.bytes_down == 4 * 3 * 8 * dim


def test_target_and_patience_without_a_monitor():
    settings = {"bounds": (-1, 1), "monitor": "clients", "weights": WEIGHTS, "seed": 0}
    result = minimize(bowls(), np.zeros(4), stop=Stop(target=0.1), **settings)
    assert result.status == "stopped"
    assert "target 0.1" in result.message
    assert result.fun <= 0.1
    result = minimize(bowls(), np.zeros(4), algorithm=FedZO(), rounds=200, stop=Stop(patience=3), **settings)
    assert result.status == "stopped"
    assert result.rounds < 200
    values = [r.monitor for r in result.history]
    assert min(values) == values[-4]  # three rounds without a lower one
    assert F(result.best_x) < F(result.x)


def test_what_is_not_known_is_not_guessed():
    def fails(x):
        return float("nan") if x[0] > 0.2 else float(np.sum((x - 0.4) ** 2))

    settings = {"bounds": (-1, 1), "algorithm": FedZO(), "rounds": 3, "on_failure": "skip", "seed": 0}
    result = minimize([bowls()[0], fails], np.zeros(2), monitor="clients", **settings)
    xs = minimize([bowls()[0], fails], np.zeros(2), monitor=lambda x: x[0], **settings)
    unknown = [r.monitor is None for r in result.history]
    assert unknown == [r.monitor > 0.2 for r in xs.history]
    assert any(unknown)
    assert not all(unknown)


def test_what_says_the_same_or_needs_it_is_refused():
    with pytest.raises(ValueError, match="monitor must be a function or 'clients', got 'server'"):
        minimize(bowls(), np.zeros(2), bounds=(-1, 1), monitor="server")
    with pytest.raises(ValueError, match="patience needs share_values"):
        make_study(FedZO(), patience=3)
    with pytest.raises(ValueError, match="of which the noise of privacy leaves nothing"):
        make_study(FedZO(), share_values=True, privacy={"clip": 0.1, "noise": 1.0})


# Studies


@pytest.mark.parametrize("algorithm", [Auto()], ids=lambda a: a.name)
def test_a_study_is_the_run_of_minimize_and_is_resumed_anywhere(algorithm, tmp_path):
    """Sites anew for each message, a server that ends in every exchange, that of values included: the same numbers, and
    no query twice."""
    study = make_study(algorithm, rounds=4, participation=2, share_values=True)
    boxes = objectives_of(study, tmp_path / "plain")
    settings = {"bounds": study.bounds, "algorithm": study.algorithm_settings, "participation": 2}
    plain = minimize(boxes, study.start, rounds=4, seed=5, monitor="clients", **settings)
    whole = LocalStudy(study, tmp_path / "whole", objectives_of(study, tmp_path / "whole"), site_seed=5).run()
    same_history(whole, plain)
    assert whole.fun is not None
    assert np.array_equal(whole.best_x, plain.best_x)
    assert sum(map(len, queried_points(study, tmp_path / "whole"))) == whole.queries

    folder, count, exchange = tmp_path / "stopped", itertools.count(1), [0]
    folder.mkdir()

    def stop(worked):
        if not worked:
            exchange[0] = next(count)
        if exchange[0] % 3 == (2 if worked else 1):
            raise Crash

    engine = _Restarting(study, folder, stop)
    result = _until_done(lambda: run_study(study, engine, folder / "result.db", resume=True))
    same_history(result, whole)
    assert queried_points(study, folder) == queried_points(study, tmp_path / "whole")


def test_a_study_ends_at_its_target_and_goes_on_with_a_lower_one(tmp_path):
    settings = {"rounds": 30, "share_values": True}
    boxes = objectives_of(make_study(Auto(), **settings), tmp_path)
    first = LocalStudy(make_study(Auto(), target=0.16, **settings), tmp_path, boxes).run()
    assert first.status == "stopped"
    assert first.fun <= 0.16
    more = LocalStudy(make_study(Auto(), target=0.125, **settings), tmp_path, boxes).run(resume=True)
    assert more.fun <= 0.125
    assert more.rounds >= first.rounds


def test_a_site_answers_only_where_it_was_agreed(tmp_path):
    request = Message("value", 1, {"x": np.full(2, 0.5)})
    for shares in (False, True):
        study = make_study(FedZO(), share_values=shares)
        with StudySite(study, 0, lambda x: 7.0, tmp_path / f"{shares}.journal") as site:
            body = site.answer(encode(request, study.id))
            if shares:
                assert decode(body, study.id).arrays["value"].tolist() == [7.0, 0.0]
            else:
                with pytest.raises(Exception, match="does not share values"):
                    decode(body, study.id)
                assert site.queries == 0
