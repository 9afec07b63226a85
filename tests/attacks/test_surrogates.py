"""FedTrustRegion and FZooS: gradients and weights of a surrogate of the site's first points."""

import numpy as np
import pytest
from attacker import SECRET, Observed, cosine, error, gradient, make_study, opening, secret, solve_for_values

from fzoos.engines import LocalStudy
from fzoos.federation.journal import Journal
from fzoos.messages.codec import decode
from fzoos.surrogates.fourier import FourierFeatures

SEEDS = pytest.mark.parametrize("public", [True, False], ids=["public seed", "secret seed"])
REGION = {"name": "fedtrustregion"}


def first_reply(dim, folder, public):
    study = make_study(REGION, dim)
    requests = [opening(study, "refresh", seed=study.seeds.shared, radius=0.1)]
    return study, requests, Observed(study, folder, requests, public=public)


@SEEDS
@pytest.mark.parametrize("dim", [5, 20])
def test_the_first_gradient_of_a_trust_region(tmp_path, dim, public):
    """The first g_i is made of f_i at x and along d orthonormal directions. With the directions known, the values are
    those with which the site's own program sends this g_i."""
    study, requests, seen = first_reply(dim, tmp_path, public)
    found = solve_for_values(study, requests, seen.replies, ("gradient", "region"), seen.replies[0].arrays["gradient"])
    if public:
        assert error(found, seen.differences) < 1e-12
    else:
        assert error(found, seen.differences) > 1.0


def test_what_remains_is_the_gradient(tmp_path):
    """g_i is nearly the gradient of f_i at x, whoever drew the points: a server computes differences of values to first
    order, near x. Where the site asked, and so its values, it does not know."""
    dim = 20
    _, _, seen = first_reply(dim, tmp_path, public=False)
    slope, x = seen.replies[0].arrays["gradient"], np.full(dim, 0.4)
    assert cosine(slope, gradient(x)) > 0.75  # 0.85: the first star is 0.45 wide
    rng = np.random.default_rng(0)
    errors = []
    for reach in (0.01, 0.3):  # of a step, per coordinate
        points = x + reach * rng.choice([-1.0, 1.0], (50, dim))
        errors.append(error((points - x) @ slope, np.array([secret(p) - secret(x) for p in points])))
    assert errors[0] < 0.8
    assert errors[1] > 0.8


def test_gradients_along_the_way_add_up_to_values(tmp_path):
    """g_i at x_0, x_1, ... is sent, and so f_i(x_r) - f_i(x_0) follows by the trapezoidal rule, the better the shorter
    the steps are: the site's values at the server's own x, but for one constant. No seed hides that."""
    study = make_study(REGION, 10, rounds=12)
    boxes = [secret, lambda x: float(np.sum((x - 0.5) ** 2))]
    LocalStudy(study, tmp_path, boxes, site_seed=SECRET).run()
    with Journal(tmp_path / "journals" / "a.journal", study.id, "a") as journal:
        kept = [(decode(r.body, study.id), decode(r.reply, study.id)) for r in journal.requests()]
    way = [(asked.arrays["x"], reply.arrays["gradient"]) for asked, reply in kept if asked.kind == "refresh"]
    places, slopes = (np.array(part) for part in zip(*way, strict=True))
    assert len(places) >= 8
    steps = 0.5 * np.sum((slopes[1:] + slopes[:-1]) * np.diff(places, axis=0), axis=1)
    true = np.array([secret(x) for x in places])
    assert np.corrcoef(np.append(0.0, np.cumsum(steps)), true)[0, 1] > 0.85


@SEEDS
def test_weights_are_the_surrogate_anywhere(tmp_path, public):
    """w_i is f_i around the site's points but for a constant, in features that the server can compute: a secret seed
    hides where the site asked, not what the surrogate says of any point."""
    dim, features = 10, 2000
    study = make_study({"name": "fzoos", "features": features, "local_steps": 2}, dim)
    requests = [opening(study, "update", seed=study.seeds.shared)]
    later = opening(study, "refresh", seed=study.seeds.shared)
    requests.append(type(later)("refresh", 2, later.arrays, later.scalars))
    seen = Observed(study, tmp_path, requests, public=public)
    settings = study.algorithm_settings
    known = FourierFeatures(study.seeds.shared, features, dim, settings.kernel)
    found = known(seen.points) @ seen.replies[1].arrays["w"]
    true = seen.values
    assert error(found - found.mean(), true - true.mean()) < 0.05
