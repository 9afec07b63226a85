"""FedZO, FedProx, FedHistory, ScaffoldI, ScaffoldII: c_i and x_i are linear in differences along drawn directions."""

import numpy as np
import pytest
from attacker import Observed, cosine, error, gradient, make_study, opening

from fzoos import FiniteDifferences
from fzoos.messages.message import Message

Q, LAMBDA = 20, 0.01


def drawn(study, steps):
    """All directions of a site that draws from the study's seed, in order."""
    rng = np.random.default_rng(study.seeds.clients[0])
    return np.vstack([FiniteDifferences().draw(study.dim, rng) for _ in range(steps)])


def made(study, folder, public):
    kind = "refresh" if study.algorithm["name"] == "scaffoldi" else "update"
    request = Message(kind, 2, {"x": np.full(study.dim, 0.4)})
    return Observed(study, folder, [request], public=public)


@pytest.mark.parametrize("public", [True, False], ids=["public seed", "secret seed"])
@pytest.mark.parametrize(("name", "steps"), [("scaffoldi", 1), ("scaffoldii", 2)])
def test_the_control_vector_of_scaffold(tmp_path, name, steps, public):
    """c = (1/Q) sum_q u_q difference_q / lambda, Q <= d: with known u_q, one linear system gives the differences. That
    of ScaffoldII is the mean over the local steps, T Q <= d."""
    study = make_study({"name": name, "local_steps": steps}, 60)
    seen = made(study, tmp_path, public)
    found = LAMBDA * np.linalg.lstsq(drawn(study, steps).T / (steps * Q), seen.replies[0].arrays["c"], rcond=None)[0]
    values = seen.values.reshape(steps, Q + 1)
    true = (values[:, 1:] - values[:, :1]).ravel()
    if public:
        assert error(found, true) < 1e-12
    else:
        assert error(found, true) > 1.0


@pytest.mark.parametrize("public", [True, False], ids=["public seed", "secret seed"])
@pytest.mark.parametrize("name", ["fedzo", "fedprox"])
def test_the_iterate(tmp_path, name, public):
    """x - x_i is eta times the sum of T such estimates: the same with T Q <= d unknowns. All values of a round follow:
    with the first step's differences the next iterate is known, where the next differences begin."""
    steps = 2
    changes = {"local_steps": steps, "optimizer": {"name": "sgd", "learning_rate": 1e-4}}
    study = make_study({"name": name, **changes}, 60)
    seen = made(study, tmp_path, public)
    moved = (opening(study, "update").arrays["x"] - seen.replies[0].arrays["x"]) / 1e-4
    found = LAMBDA * np.linalg.lstsq(drawn(study, steps).T / Q, moved, rcond=None)[0]
    values = seen.values.reshape(steps, Q + 1)
    true = (values[:, 1:] - values[:, :1]).ravel()
    close = 1e-4 if name == "fedprox" else 1e-11  # its proximal term is left out here
    if public:
        assert error(found, true) < close
    else:
        assert error(found, true) > 1.0


def test_what_remains_is_a_rough_gradient(tmp_path):
    """c is the gradient in a random subspace of Q directions, which only the site knows: its cosine with the gradient
    is about sqrt(Q / (Q + d + 1))."""
    cosines = {}
    for dim in (30, 300):
        study = make_study({"name": "scaffoldi"}, dim)
        seen = made(study, tmp_path / str(dim), public=False)
        cosines[dim] = cosine(seen.replies[0].arrays["c"], gradient(np.full(dim, 0.4)))
        assert abs(cosines[dim] - np.sqrt(Q / (Q + dim + 1))) < 0.2
    assert cosines[300] < 0.45
