"""A site that lies of its values along a line, in FedLineSearch, under the mean.

No range of such differences can be declared: they are in the units of the site's objective, and one site's may be any
multiple of the others'. So the site decides where x goes for as long as it lies. What holds: lines stay within what the
box allows, so that the study goes on, and it is where it would be a few rounds after the lies have ended.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "federation" / "helpers"))

from attacker import make_study
from wire import Wire

from fzoos.algorithms.line_search.client import LINE
from fzoos.federation.study_run import run_study
from fzoos.messages.codec import decode, encode

DIM, LIAR, LIES = 60, 2, 25
CENTRES = np.linspace(0.2, 0.6, 5)
SITES = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in CENTRES]


def excess(x):
    """F(x) - min F: F's minimum is at the mean of the centres, and its curvature is 2."""
    return float(np.sum((x - CENTRES.mean()) ** 2))


def lied_to(folder, lie, rounds, **settings):
    """The result, and every L that a site was told."""
    study = make_study({"name": "fedlinesearch", **settings}, DIM, sites=tuple("abcde"), rounds=rounds, retries=0)
    reaches = []

    def tamper(client, request, data):
        reaches.append(request.scalars.get("step_size", 1.0))
        message = decode(data, study.id)
        if client != LIAR or request.round > LIES or "lines" not in message.arrays:
            return data
        lines = message.arrays["lines"].copy()
        lines[len(LINE) - 1] = lie
        return encode(replace(message, arrays={**message.arrays, "lines": lines}), study.id)

    with Wire(study, folder, SITES, tamper=tamper) as engine:
        return run_study(study, engine, folder / "result.db"), reaches


@pytest.mark.parametrize("lie", [-1e99, -1e3])
def test_a_line_that_goes_down_for_ever(tmp_path, lie):
    """One of five says in each of 25 rounds that the furthest place is the lowest, and L would grow fourfold in each.

    The rounds are all made, no site is asked for lines far beyond the box, and twelve honest rounds later F is low.
    """
    result, reaches = lied_to(tmp_path, lie, rounds=LIES + 12)
    assert result.status in ("completed", "converged")
    assert result.rounds > LIES
    assert max(reaches) <= 4.0 * np.sqrt(DIM)
    assert excess(result.x) < 1e-3
