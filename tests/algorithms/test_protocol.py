"""Which messages a round consists of: the table of docs/architecture.md, "One round"."""

import pytest

from fzoos import DeComFL, FedLineSearch, FedTrustRegion, FedZO, FZooS, ScaffoldI, ScaffoldII
from fzoos.algorithms.protocol import Protocol

ONE, TWO, EARLY, REBUILT = Protocol(1), Protocol(2), Protocol(2, refreshes_first=True), Protocol(1, rebuilds=True)


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (FedZO(), ONE),
        (ScaffoldI(), TWO),
        (ScaffoldII(), ONE),
        (DeComFL(), REBUILT),
        (FZooS(), TWO),
        (FZooS(refresh=None), ONE),
        (FedTrustRegion(), EARLY),
        (FedLineSearch(), EARLY),
    ],
    ids=str,
)
def test_of_an_algorithm(algorithm, expected):
    """Its own members, in one record."""
    assert algorithm.protocol == expected


def test_refreshes():
    """Two exchanges: in all rounds but the first, and there if the algorithm says so."""
    found = {protocol: [protocol.refreshes(r) for r in (1, 2, 7)] for protocol in (ONE, TWO, EARLY, REBUILT)}
    assert found == {ONE: [False] * 3, TWO: [False, True, True], EARLY: [True] * 3, REBUILT: [False] * 3}


@pytest.mark.parametrize(
    ("protocol", "kind", "requests", "requires_x", "returns_x", "returns_payload"),
    [
        (ONE, "refresh", False, False, False, False),
        (ONE, "update", True, True, True, True),  # everything in one exchange
        (TWO, "refresh", True, True, False, True),
        (TWO, "update", True, False, True, False),  # who answered the refresh has x
        (EARLY, "refresh", True, True, False, True),
        (EARLY, "update", True, False, True, False),
        (REBUILT, "update", True, False, False, True),  # x does not travel
        (TWO, "iterate", False, False, False, False),
    ],
)
def test_what_travels(protocol, kind, requests, requires_x, returns_x, returns_payload):
    """What a request brings and what its reply has in it."""
    assert protocol.requests(kind) == requests
    assert protocol.requires_x(kind) == requires_x
    assert protocol.returns_x(kind) == returns_x
    assert protocol.returns_payload(kind) == returns_payload
