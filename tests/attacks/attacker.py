"""A server that is honest but curious: it keeps every message, knows the study, and draws what a site may have drawn.

It knows algorithm, settings, the study's seed and all messages. It does not know the site's journal. Each attack is
made twice: on a site that draws from the study's seed (`site_seed=study.seed`, as all sites did before they had seeds
of their own), and on one with a seed that the attacker does not know: always the same one, so that what comes out is.
"""

from pathlib import Path

import numpy as np

from fzoos.federation.journal import Journal
from fzoos.federation.site import StudySite
from fzoos.federation.study import Study
from fzoos.messages.message import Message
from fzoos.testing.quick import queries_of_a_round

SECRET = 0x9E3779B97F4A7C15F39CC0605CEDC834
WEIGHT = np.random.default_rng(5).standard_normal(400)


def secret(x):
    """A site's objective: slopes, curvature and a product, all known to nobody."""
    return float(np.sum(np.sin(3.0 * x) * WEIGHT[: len(x)]) + 2.0 * x[0] * x[1])


def gradient(x):
    """Its gradient, for comparison."""
    slope = 3.0 * np.cos(3.0 * x) * WEIGHT[: len(x)]
    slope[:2] += 2.0 * x[1::-1]
    return slope


def make_study(algorithm, dim, **changes):
    """In the unit cube, where the server's coordinates are the site's."""
    settings = {"x0": 0.4, "dim": dim, "bounds": (0.0, 1.0), "sites": ("a", "b"), "seed": 3}
    return Study("attacked", algorithm=algorithm, **(settings | changes))


class Observed:
    """What a site answered, and what it was asked and found, which the attacker does not see."""

    def __init__(self, study, folder, requests, *, public, objective=secret):
        path = Path(folder) / f"{'public' if public else 'secret'}.journal"
        seed = study.seed if public else SECRET
        with StudySite(study, 0, objective, path, site_seed=seed) as site:
            self.replies = [site.handle(request) for request in requests]
        with Journal(path, study.id, "a") as journal:
            queries = journal.queries()
        self.points, self.values = np.array([q.x for q in queries]), np.array([q.y for q in queries])

    @property
    def differences(self):
        """To the first value: of the constant no message ever tells anything."""
        return self.values[1:] - self.values[0]


def simulated(study, requests, values):
    """What a site with the study's seed answers if its objective gives these values, and where it asks for them."""
    points, rest = [], iter(values)

    def table(x):
        points.append(x)
        return float(next(rest))

    client = study.client(0, table)
    return [client.handle(request) for request in requests], np.array(points)


def numbers(replies, names):
    """The arrays of these names, in one vector."""
    return np.concatenate([np.ravel(reply.arrays[name]) for reply in replies for name in names if name in reply.arrays])


def solve_for_values(study, requests, replies, names, slope, rounds=8):
    """Values with which a site that draws from the study's seed would have sent these very numbers.

    Gauss and Newton, from what a gradient predicts at the points that such a site asks; the first value is taken to be
    0. Nothing is known of the algorithm but its program.
    """
    x = requests[0].arrays["x"]
    count = queries_of_a_round(study.algorithm_settings, study.dim, 1, first=True)
    _, points = simulated(study, requests, np.arange(float(count)))
    values = (points - points[0]) @ slope
    wanted = numbers(replies, names)
    unit = 1e-4 * float(np.ptp(values))
    assert len(x) == study.dim
    for _ in range(rounds):
        now = numbers(simulated(study, requests, values)[0], names)
        moved = [
            numbers(simulated(study, requests, values + unit * row)[0], names) - now for row in np.eye(len(values))[1:]
        ]
        step = np.linalg.lstsq(np.array(moved).T / unit, wanted - now, rcond=1e-10)[0]
        values = values + np.append(0.0, step)
    return values[1:] - values[0]


def error(found, true):
    """Root mean square error over the spread of what is true: 0 exact, about 1 or more if nothing is known."""
    return float(np.sqrt(np.mean((found - true) ** 2)) / np.std(true))


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def opening(study, kind, **scalars):
    """The first request of a study."""
    return Message(kind, 1, {"x": np.full(study.dim, 0.4)}, scalars)
