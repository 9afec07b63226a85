"""Records from tables, by the annotations of whoever wrote the record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Optional

import pytest

from fzoos._util.records import read_record


class Shape(ABC):
    @abstractmethod
    def area(self) -> float: ...


@dataclass(frozen=True)
class Square(Shape):
    side: float = 1.0

    def area(self) -> float:
        return self.side**2


class Round(Shape):
    """Still abstract."""


@dataclass(frozen=True)
class Circle(Round):
    radius: float

    def area(self) -> float:
        return 3 * self.radius**2


@dataclass(frozen=True)
class Frame:
    inner: Shape
    name_of: str = "frame"


@dataclass(frozen=True)
class Drawing:
    steps: int = 1
    weights: float = 1.0
    kind: Literal["ink", "oil"] = "ink"
    signed: bool = False
    colour: str | None = "red"
    tags: tuple[str, ...] = ()
    shape: Shape = field(default_factory=Square)
    ground: Square | Circle | None = None
    frame: Optional[Frame] = None  # noqa: UP045  (older annotations are read too)
    grain: float | Shape = 0.5
    seal: Shape | None = field(default=None, metadata={"unnamed": Circle})
    anything: Any = None
    limit: ClassVar[int] = 3


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, Drawing()),
        ({"steps": 3, "weights": 2}, Drawing(3, 2)),
        ({"kind": "oil", "signed": True}, Drawing(kind="oil", signed=True)),
        ({"colour": False}, Drawing(colour=None)),
        ({"tags": ["a", "b"]}, Drawing(tags=("a", "b"))),
        ({"shape": {"side": 2.0}}, Drawing(shape=Square(2.0))),
        ({"shape": {"name": "Circle", "radius": 2.0}}, Drawing(shape=Circle(2.0))),
        ({"ground": {"name": "Circle", "radius": 2.0}}, Drawing(ground=Circle(2.0))),
        ({"ground": False}, Drawing()),
        ({"frame": {"inner": {"name": "Circle", "radius": 1}}}, Drawing(frame=Frame(Circle(1)))),
        ({"seal": {"radius": 2.0}}, Drawing(seal=Circle(2.0))),
        ({"seal": {"name": "Square"}}, Drawing(seal=Square())),
        ({"grain": 1}, Drawing(grain=1)),
        ({"grain": {"side": 3}}, Drawing(grain=Square(3))),
        ({"anything": {"a": [1]}}, Drawing(anything={"a": [1]})),
    ],
)
def test_a_table_makes_the_record(table, expected):
    assert read_record("drawing", Drawing, table) == expected


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"steps": "many"}, "drawing.steps must be an integer, got 'many'"),
        ({"steps": 1.5}, "drawing.steps must be an integer, got 1.5"),
        ({"steps": True}, "drawing.steps must be an integer, got True"),
        ({"weights": False}, "drawing.weights must be a number, got False"),
        ({"weights": {"side": 1}}, "drawing.weights must be a number, got {'side': 1}"),
        ({"kind": "chalk"}, "drawing.kind must be one of ink, oil, got 'chalk'"),
        ({"signed": 1}, "drawing.signed must be true or false, got 1"),
        ({"colour": 7}, "drawing.colour must be a string or false for none, got 7"),
        ({"colour": True}, "drawing.colour must be a string or false for none, got True"),
        ({"shape": "Square"}, "drawing.shape must be a table, got 'Square'"),
        ({"shape": {"name": "Round"}}, "drawing.shape: name must be one of Square, Circle, got 'Round'"),
        ({"seal": {"name": "Round"}}, "drawing.seal: name must be one of Circle, Square, got 'Round'"),
        ({"ground": 1}, "drawing.ground must be a table, or false for none, got 1"),
        ({"frame": {}}, "drawing.frame: inner is missing"),
        ({"frame": {"inner": {"side": "long"}}}, "drawing.frame.inner.side must be a number, got 'long'"),
        ({"limit": 4}, "drawing: there is no setting 'limit'; the settings are steps, weights"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(table, reason):
    with pytest.raises((TypeError, ValueError)) as caught:
        read_record("drawing", Drawing, table)
    assert str(caught.value).startswith(reason)
