"""Real programs; the first number of a point says what they do."""

import sys
from pathlib import Path

import pytest

from fzoos.objectives.program import Program

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

from programs import HEAD


@pytest.fixture
def make(tmp_path):
    """Programs that run in tmp_path; `code` is what one of them does for each request."""
    made = []

    def program(code, **settings):
        made.append(Program([sys.executable, "-c", HEAD + code], cwd=tmp_path, **settings))
        return made[-1]

    yield program
    for one in made:
        one.close()
