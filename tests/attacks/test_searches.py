"""FedCMA sends where a search ended, which depends on the order of values alone; FedBPT sends a value, and so do all
algorithms with `share_values`."""

import numpy as np
import pytest
from attacker import Observed, make_study, opening, secret

from fzoos.algorithms.separable_cma import SeparableCMA
from fzoos.messages.message import Message

DIM, POPULATION = 20, 12


def generation(study):
    """The points of the first generation of a site that draws from the study's seed."""
    rng = np.random.default_rng(study.seeds.clients[0])
    deviations = np.full(DIM, study.algorithm_settings.deviation)
    return SeparableCMA(np.full(DIM, 0.4), deviations, POPULATION, int(rng.integers(2**32))).ask()


@pytest.mark.parametrize("public", [True, False], ids=["public seed", "secret seed"])
def test_the_order_of_values(tmp_path, public):
    """The new mean is sum_k w_k x_(k) over the better half: with the lambda <= d points known, the weights and so the
    order follow from one linear system. Of the values themselves nothing is sent."""
    study = make_study({"name": "fedcma", "local_steps": 1, "population": POPULATION}, DIM)
    seen = Observed(study, tmp_path, [opening(study, "update")], public=public)
    points = generation(study)
    moved = seen.replies[0].arrays["x"] - 0.4
    found, misfit, *_ = np.linalg.lstsq((points - 0.4).T, moved, rcond=None)
    half = POPULATION // 2
    if public:
        assert misfit[0] < 1e-20
        assert np.array_equal(np.argsort(-found)[:half], np.argsort(seen.values)[:half])
    else:
        assert misfit[0] > 0.01 * float(moved @ moved)


def test_fedbpt_tells_a_value(tmp_path):
    """The loss at the mean that is sent, as it is: no seed hides it, and secure aggregation refuses FedBPT."""
    study = make_study({"name": "fedbpt", "local_steps": 1, "population": POPULATION}, DIM)
    seen = Observed(study, tmp_path, [opening(study, "update")], public=False)
    reply = seen.replies[0].arrays
    assert float(reply["loss"][0]) == secret(reply["x"])


@pytest.mark.parametrize("algorithm", ["fedzo", "decomfl"])
def test_shared_values_are_the_values(tmp_path, algorithm):
    """f_i itself, wherever the server asks: not only at an x that any round had."""
    study = make_study({"name": algorithm}, DIM, share_values=True)
    places = np.random.default_rng(0).uniform(size=(3, DIM))
    requests = [Message("value", 1 + k, {"x": x}) for k, x in enumerate(places)]
    seen = Observed(study, tmp_path, requests, public=False)
    assert [reply.arrays["value"].tolist() for reply in seen.replies] == [[secret(x), 0.0] for x in places]
