"""The directions of a design: orthonormal, the same for all, split without gaps."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.fft import dct
from scipy.stats import kstest

from fzoos.algorithms.line_search.control import Control, Mode
from fzoos.algorithms.line_search.directions import COMMON, block, common_rows, design_rows, design_size


def rows_of(control, dim):
    return design_rows(control, dim)[0]


def divided(control, dim):
    """What all clients query, and what one client queries alone."""
    rows, common = design_rows(control, dim)
    return SimpleNamespace(common=rows[:common], own=rows[common:])


def orthonormal(rows):
    return np.max(np.abs(rows @ rows.T - np.eye(len(rows))), initial=0.0) < 1e-12


def test_a_row_by_hand():
    """Row j is e_{p_j} C S C S' with matrices written out; order and signs are those of the generator's draws."""
    dim = 7
    rng = np.random.default_rng([5, 2])
    order, (s, t) = rng.permutation(dim), rng.choice([-1.0, 1.0], (2, dim))
    cosine = dct(np.eye(dim), norm="ortho")  # row k is the transform of e_k
    basis = cosine @ np.diag(s) @ cosine @ np.diag(t)
    found = rows_of(Control(5, Mode.SHARED, 0.1, basis=2), dim)
    np.testing.assert_allclose(found, basis[order][: len(found)], atol=1e-14)


@pytest.mark.parametrize(("dim", "participants"), [(101, 7), (128, 1), (301, 2)])
def test_dealt(dim, participants):
    """16 for all, and each of the others to exactly one client: together they are a basis."""
    controls = [Control(3, Mode.SPLIT, 0.1, client_index=k, participants=participants) for k in range(participants)]
    hands = [divided(c, dim) for c in controls]
    assert all(np.array_equal(hand.common, hands[0].common) for hand in hands)
    assert len(hands[0].common) == COMMON == 16
    assert orthonormal(np.vstack([hands[0].common, *(hand.own for hand in hands)]))
    counts = [len(hand.own) for hand in hands]
    assert sum(counts) == dim - 16
    assert max(counts) - min(counts) <= 1


def test_more_clients_than_directions():
    """Who has no card left asks the common ones alone."""
    hand = divided(Control(3, Mode.SPLIT, 0.1, client_index=150, participants=200), 110)
    assert hand.common.shape == (16, 110)
    assert hand.own.shape == (0, 110)


@pytest.mark.parametrize("dim", [101, 200])
def test_shared(dim):
    """Two blocks of ceil(d / 2) make a basis, the second with what is left; nobody has directions of his own."""
    blocks = [divided(Control(3, Mode.SHARED, 0.1, used=used), dim) for used in (0, block(dim))]
    assert block(dim) == (dim + 1) // 2
    assert [len(b.common) for b in blocks] == [block(dim), dim // 2]
    assert all(b.own.shape == (0, dim) for b in blocks)
    assert orthonormal(np.vstack([b.common for b in blocks]))


@pytest.mark.parametrize("mode", [Mode.SHARED, Mode.SPLIT])
@pytest.mark.parametrize("dim", [1, 17, 101])
def test_sizes(mode, dim):
    """`design_size` counts without making them, also with fewer dimensions than common directions."""
    for client_index in range(3):
        used = block(dim) if mode is Mode.SHARED else 0
        control = Control(1, mode, 0.1, used=used, client_index=client_index, participants=3)
        assert design_size(control, dim) == len(rows_of(control, dim))
        assert orthonormal(rows_of(control, dim))


def test_seeds_and_sweeps():
    """The same seed and basis give the same rows, another of either gives others; and nobody can write into them."""
    one = rows_of(Control(3, Mode.SHARED, 0.1), 120)
    assert np.array_equal(one, rows_of(Control(3, Mode.SHARED, 0.3, ridge=1.0), 120))
    for other in (Control(4, Mode.SHARED, 0.1), Control(3, Mode.SHARED, 0.1, basis=1)):
        assert np.max(np.abs(one @ rows_of(other, 120).T)) < 0.6  # random unit vectors: 6 standard deviations
    with pytest.raises(ValueError, match="read-only"):
        common_rows(Control(3, Mode.SHARED, 0.1), 120)[0, 0] = 1.0


def test_coordinates_are_close_to_normal():
    """sqrt(d) times a coordinate is standard normal: Kolmogorov and Smirnov's distance of all 300^2 of them stays below
    0.01 (one transform alone gives 0.1, coordinates of cosines)."""
    rows = np.vstack([rows_of(Control(3, Mode.SHARED, 0.1, used=used), 300) for used in (0, 150)])
    assert kstest(np.sqrt(300) * rows.ravel(), "norm").statistic < 0.01
    once = np.sqrt(300) * dct(np.eye(300), norm="ortho").ravel()
    assert kstest(once * np.random.default_rng(0).choice([-1, 1], once.size), "norm").statistic > 0.05
