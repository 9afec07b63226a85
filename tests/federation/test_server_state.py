"""The server's state: saved and restored as it is, through JSON, whatever is in it."""

import json
from dataclasses import fields, replace

import numpy as np

from fzoos.federation.server_state import Answer, Answers, Plan, ServerState
from fzoos.messages.message import Message


def full():
    """One in which no field has its default."""
    return ServerState(
        half={"x": np.array([0.25, 0.5]), "h": np.array([3.0, 4.0])},
        generator=np.random.default_rng(5),
        queries=[7, 0, 9],
        round=3,
        plan=Plan(4, (0, 2), 11),
        done=1,
        answered=[2],
        joined={0, 2},
        up_to_date={2},
        bytes_up=100,
        bytes_down=200,
        seconds=1.5,
        diagnostics={"correction_length": 0.5},
        distances=[0.1, None, 0.2],
        moves=[0.1, 1e-7],
        failed={0: 2},
        constrained=True,
        violated=True,
        feasible=True,
        feasible_x={"x": np.array([0.5, 0.5])},
        sharing=True,
        previous={"x": np.array([0.5, 0.5]), "place": np.array([0.5, 0.25])},
        value=0.75,
        arrivals=[[0, 2], []],
        answers=Answers(
            {1: Message("update", 3, {"x": np.ones(2)}, {"seed": 7}, "float32")},
            {("payload", 0): Answer(0, 2, 1, {"c": np.zeros((2, 3)), "d": np.ones(1)})},
            {2: np.array([0.5, 0.25]), 3: np.zeros(2)},
        ),
    )


def plain(state):
    """All of it as values that can be compared."""
    values, arrays = state.save()
    return json.loads(json.dumps(values)), {name: array.tolist() for name, array in arrays.items()}


def through_json(state):
    values, arrays = state.save()
    return ServerState.load(json.loads(json.dumps(values)), arrays)


def test_every_field_comes_back():
    """With its type; a field that somebody adds and leaves out of `full` fails here."""
    state = full()
    empty = ServerState({}, state.generator, [])
    for f in fields(ServerState):
        if f.name not in ("generator", "queries", "half"):
            assert getattr(state, f.name) != getattr(empty, f.name), f"{f.name} needs another value in this test"
    again = through_json(state)
    assert plain(again) == plain(state)
    for f in fields(ServerState):
        assert type(getattr(again, f.name)) is type(getattr(state, f.name))
    assert again.plan == state.plan
    assert again.generator.random() == state.generator.random()


def test_between_two_rounds():
    """Where there is no plan."""
    assert through_json(replace(full(), plan=None)).plan is None
