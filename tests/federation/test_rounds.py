"""The round loop that `minimize` and studies share; what each of them keeps is in their own tests."""

from itertools import pairwise

import numpy as np
import pytest

from fzoos import FedZO, ScaffoldI, Stop
from fzoos.algorithms.base import ServerHalf
from fzoos.algorithms.finite_differences import FiniteDifferences
from fzoos.algorithms.optimizers import SGD
from fzoos.engines.local import LocalEngine
from fzoos.federation.rounds import RoundLoop
from fzoos.federation.server import Server
from fzoos.federation.server_state import Plan, ServerState
from fzoos.federation.setup import Seeds, Setting
from fzoos.objectives.box import Box
from fzoos.result import ObjectiveError

BOX, T, TWO = Box.of((-1, 1), dim=2), 2, FiniteDifferences(2)
PLAIN = FedZO(local_steps=T, optimizer=SGD(0.1), differences=TWO)


class Notes:
    """A recorder that writes down what it is told."""

    def __init__(self):
        self.exchanges, self.ending = [], None

    def after_exchange(self, record, x):
        self.exchanges.append((None if record is None else record.round, x))

    def finish(self, status, message):
        self.ending = status, message
        return self


def make(algorithm=PLAIN, objective=lambda x: float(x @ x), dropouts=None, **options):
    """A loop over one client, and its recorder."""
    seeds = Seeds.of(0, 1)
    client = Setting(BOX, algorithm, 1).client(0, objective, seeds.clients[0])
    server = Server(
        LocalEngine([client]),
        algorithm,
        np.array([0.75, 0.75]),
        weights=np.ones(1),
        participants=1,
        shared_seed=seeds.shared,
        rng=np.random.default_rng(0),
        dropouts=dropouts,
    )
    notes = Notes()
    return RoundLoop(server, BOX, notes, **{"rounds": 3} | options), server, notes


def test_every_exchange_is_kept():
    """Scaffold I: one exchange in round 1, two in the others; x moves with the last of a round only."""
    loop, server, notes = make(ScaffoldI(local_steps=T, optimizer=SGD(0.1), differences=TWO))
    assert loop.run() is notes
    assert [round for round, _ in notes.exchanges] == [1, None, 2, None, 3]
    xs = [x for _, x in notes.exchanges]
    assert np.array_equal(xs[0], xs[1])
    assert np.array_equal(xs[2], xs[3])
    assert np.array_equal(xs[4], BOX.from_cube(server.x))
    assert notes.ending == ("completed", "all 3 rounds are done")


def test_records():
    """Totals, the way that x went in the user's coordinates, and the monitor's value where x is now."""
    records = []
    loop, _, notes = make(monitor=lambda x: x.sum(), callback=records.append)
    loop.run()
    assert [record.queries for record in records] == [T * 3 * r for r in (1, 2, 3)]
    assert [record.monitor for record in records] == [float(x.sum()) for _, x in notes.exchanges]
    walk = [np.array([0.5, 0.5])] + [x for _, x in notes.exchanges]
    assert [record.step for record in records] == [pytest.approx(np.linalg.norm(b - a)) for a, b in pairwise(walk)]
    assert np.all(np.diff([0.0] + [record.seconds for record in records]) > 0.0)


def test_the_budget_is_looked_at_before_a_round():
    """Rounds of 6 queries and 17 to spend: two rounds."""
    loop, server, notes = make(max_queries=17)
    loop.run()
    assert notes.ending == ("budget", "the next round needs 6 queries, the budget is 17")
    assert server.state.queries == [12]


def interrupted(x):
    raise KeyboardInterrupt


def broken(x):
    raise OSError("no disk")


def test_endings():
    """By the callback, by Ctrl-C in the monitor, which is before the round is recorded, and in the callback."""
    for options, expected in (
        ({"callback": lambda record: record.round == 2}, ("stopped", "the callback stopped the run after round 2")),
        ({"monitor": interrupted}, ("interrupted", "interrupted in round 1")),
        ({"callback": interrupted}, ("interrupted", "interrupted in round 2")),
    ):
        loop, _, notes = make(**options)
        loop.run()
        assert notes.ending == expected


def test_errors_end_the_run_and_go_on_up():
    """An objective's carries the result; of any other the recorder is told and nothing more."""
    loop, _, notes = make(objective=lambda x: float("nan"))
    with pytest.raises(ObjectiveError) as caught:
        loop.run()
    assert caught.value.result is notes
    assert notes.ending == ("failed", str(caught.value))
    loop, _, notes = make(monitor=broken)
    with pytest.raises(OSError, match="no disk"):
        loop.run()
    assert notes.ending == ("failed", "OSError: no disk")


# Tolerance


class Walk:
    """A server that moves x by what it is told, a coordinate of two at a time."""

    moved = Server.moved
    _half = ServerHalf(2)

    def __init__(self, moves, state=None):
        self._moves = moves
        self.state = state or ServerState({"x": np.array([0.5, 0.5])}, np.random.default_rng(0), [0])
        self.begun = False

    round = property(lambda self: self.state.round)
    x = property(lambda self: self.state.x)

    def plan(self):
        return Plan(self.round + 1, (0,), 0)

    def begin(self, plan):
        self.begun = True

    def advance(self):
        step = np.roll([self._moves[self.round], 0.0], self.round)
        self.state.half, self.begun = {"x": self.x + step}, False
        self.state.round += 1


def walked(moves, tolerance, state=None):
    """The round in which the run ended, how, and the server."""
    server, notes = Walk(moves, state), Notes()
    RoundLoop(server, BOX, notes, rounds=len(moves), stop=Stop(tolerance=tolerance)).run()
    return server.round, notes.ending[0], server


@pytest.mark.parametrize(
    ("moves", "rounds"),
    [
        ([0.001] * 6, 3),
        ([0.1, 0.001, -0.001, 0.0, 0.1, 0.1], 4),
        ([0.001, 0.001, 0.1, 0.001, 0.001, -0.1, 0.001, 0.001, 0.001, 0.1], 9),
        ([0.0099, -0.0099, 0.0099, 0.1], 3),
    ],
)
def test_three_small_moves_end_a_run(moves, rounds):
    """Below 0.01 of the box in every coordinate, three times in a row and not less; the box here is 2 wide."""
    assert walked(moves, 0.01)[:2] == (rounds, "converged")


@pytest.mark.parametrize(
    ("moves", "tolerance"),
    [([0.0] * 8, 0.0), ([0.001, 0.001, 0.1] * 3, 0.01), ([0.0101, 0.0] * 5, 0.01)],
    ids=("zero is never", "two are not three", "every second one"),
)
def test_runs_that_do_not_converge(moves, tolerance):
    """All rounds are done."""
    assert walked(moves, tolerance)[:2] == (len(moves), "completed")


def test_moves_survive_a_resume():
    """Taken up after each round from what was saved, the run ends in the same round; and taken up after it converged,
    by the tolerance that it has then: a smaller one goes on, and 0 for ever."""
    moves = [0.1, 0.001, 0.1, 0.001, 0.001, 0.001, 0.001, 0.1]
    for stop in range(6):
        server, notes = Walk(moves), Notes()
        RoundLoop(server, BOX, notes, rounds=stop, stop=Stop(tolerance=0.01)).run()
        saved = ServerState.load(*server.state.save())
        assert walked(moves, 0.01, saved)[:2] == (6, "converged")
    ended = walked(moves, 0.01)[2].state
    assert walked(moves, 0.01, ServerState.load(*ended.save()))[:2] == (6, "converged")
    for smaller in (0.0, 1e-4):
        assert walked(moves, smaller, ServerState.load(*ended.save()))[:2] == (8, "completed")
