"""Texts with labels, and their split among clients.

=========  ========  ==============================================================================================
symbol     shape     meaning
=========  ========  ==============================================================================================
N, K, n    scalar    clients, classes, texts of each client
C          scalar    heterogeneity: 0 for equal clients, larger for clients that differ more
q_i        (K,)      shares of the classes at client i, drawn from Dirichlet(1 / C, ..., 1 / C); 1 / K each for C = 0
=========  ========  ==============================================================================================

No text belongs to two clients, or both to a client and to the test texts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos._util.checks import check_count, check_number
from fzoos_experiments.tasks.cache import cache_folder, digest, read_archive
from fzoos_experiments.tasks.data import DataError

__all__ = ["Texts", "load_texts", "split_texts", "texts_digest"]


class Texts(NamedTuple):
    """Texts, the class of each, and the names of the classes."""

    text: NDArray[np.str_]  # (m,)
    label: NDArray[np.int64]  # (m,), indices of classes
    classes: NDArray[np.str_]  # (K,)

    def only(self, classes: tuple[str, ...]) -> Texts:
        """Select the texts of some classes, and number the classes in the given order.

        Example:
            >>> import numpy as np
            >>> from fzoos_experiments.tasks.prompt.texts import Texts
            >>> words, classes = np.array(["chess", "a mixer", "tetris"]), np.array(["games", "sound"])
            >>> texts = Texts(words, np.array([0, 1, 0]), classes)
            >>> texts.only(("sound", "games")).label
            array([1, 0, 1])
        """
        known = [str(name) for name in self.classes]
        missing = [name for name in classes if name not in known]
        if missing:
            raise ValueError(f"classes has {missing[0]!r}, the texts are of {', '.join(known)}")
        new = np.full(len(known), -1)
        new[[known.index(name) for name in classes]] = np.arange(len(classes))
        kept = new[self.label] >= 0
        return Texts(self.text[kept], new[self.label[kept]].astype(np.int64), np.array(classes))


def load_texts(folder: str | Path | None = None) -> Texts:
    """Texts with their classes from the archive `debian.npz`: descriptions of packages with the section of each.

    Args:
        folder: where to look first; default: `$FZOOS_DATA`. The per-user cache is next.

    Raises:
        DataError: the archive is missing or has another layout.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from fzoos_experiments.tasks.cache import write_archive
        >>> from fzoos_experiments.tasks.prompt.debian import SECTIONS, collect
        >>> from fzoos_experiments.tasks.prompt.texts import load_texts
        >>> folder = tempfile.mkdtemp()
        >>> index = [line for name in SECTIONS for line in (f"Description: of {name}", f"Section: {name}", "")]
        >>> write_archive(Path(folder) / "debian.npz", collect(index)._asdict())
        >>> len(load_texts(folder).text)
        12
    """
    file = "debian.npz"
    named = folder or os.environ.get("FZOOS_DATA")
    places = [*([Path(named)] if named else []), cache_folder("data")]
    path = next((place / file for place in places if (place / file).is_file()), None)
    if path is None:
        cached = cache_folder("data") / file
        searched = f"neither in {named} nor in {cached.parent}" if named else f"not in {cached.parent}"
        command = f"python -m fzoos_experiments.tasks.prompt.debian {cached}"
        raise DataError(f"{file}: {searched}; on Debian or Ubuntu `{command}` makes it")
    try:
        arrays = read_archive(path)
    except (OSError, ValueError) as error:
        raise DataError(str(error)) from None
    wrong = _difference(arrays)
    if wrong:
        raise DataError(f"{path} {wrong}")
    return Texts(arrays["text"], arrays["label"].astype(np.int64), arrays["classes"])


def texts_digest(folder: str | Path | None = None) -> str | None:
    """SHA-256 of the texts; None if they are missing or have another layout.

    Args:
        folder: where to look first; default: `$FZOOS_DATA`.
    """
    try:
        found = load_texts(folder)
        return digest(np.char.encode(found.text, "utf-8"), found.label, np.char.encode(found.classes, "utf-8"))
    except DataError:
        return None


def split_texts(
    labels: NDArray[np.int64], clients: int, texts: int, heterogeneity: float, test: int, seed: int
) -> tuple[list[NDArray[np.intp]], NDArray[np.intp]]:
    """Select the texts of each client and the test texts, on which accuracy is measured.

    The test texts are drawn first, equally many of each class. Each client then draws its number of texts of each class
    from its shares q_i; if a class has too few left, texts of other classes replace them.

    Args:
        labels: the class of each text, 0..K-1.
        clients: N, the number of clients.
        texts: n, the texts of each client.
        heterogeneity: C, how much the clients differ.
        test: test texts of all classes together.
        seed: the seed of the draw.

    Returns:
        Indices into `labels`: a list with those of each client, and those of the test texts.

    Raises:
        ValueError: there are too few texts.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.prompt.texts import split_texts
        >>> labels = np.repeat(np.arange(4), 30)
        >>> mine, test = split_texts(labels, clients=3, texts=8, heterogeneity=5.0, test=12, seed=0)
        >>> [np.bincount(labels[m], minlength=4).tolist() for m in mine], np.bincount(labels[test]).tolist()
        ([[3, 0, 3, 2], [0, 7, 1, 0], [4, 0, 0, 4]], [3, 3, 3, 3])
    """
    check_count("clients", clients, low=1)
    check_count("texts", texts)
    check_count("test", test)
    check_number("heterogeneity", heterogeneity, 0.0)
    if not texts:
        raise ValueError("texts is 0: every client needs at least one text")
    rng, classes = np.random.default_rng(seed), int(labels.max(initial=0)) + 1
    stock = [rng.permutation(np.flatnonzero(labels == k)) for k in range(classes)]
    each = -(-test // classes)
    for k, pile in enumerate(stock):
        if len(pile) < each:
            raise ValueError(f"test is {test}, {each} of each class, but class {k} has only {len(pile)} texts")
    held_out = np.concatenate([pile[:each] for pile in stock])[:test] if test else np.empty(0, np.intp)
    stock = [pile[each:] for pile in stock]
    mine = []
    for i in range(clients):
        if sum(map(len, stock)) < texts:
            raise ValueError(f"client {i} gets no {texts} texts: only {sum(map(len, stock))} are left for it")
        even = np.full(classes, 1.0 / classes)
        shares = rng.dirichlet(np.full(classes, 1.0 / heterogeneity)) if heterogeneity else even
        counts = _available(rng.multinomial(texts, shares), [len(pile) for pile in stock], rng)
        mine.append(np.sort(np.concatenate([pile[:n] for pile, n in zip(stock, counts, strict=True)])))
        stock = [pile[n:] for pile, n in zip(stock, counts, strict=True)]
    return mine, np.sort(held_out)


def _available(wanted: NDArray[np.int64], stock_sizes: list[int], rng: np.random.Generator) -> NDArray[np.int64]:
    """Replace texts of classes that have too few by random texts of other classes; return the number of each class."""
    stock = np.array(stock_sizes, np.int64)
    counts = np.minimum(wanted, stock)
    left = np.repeat(np.arange(len(stock)), stock - counts)
    others = rng.permutation(left)[: int(wanted.sum() - counts.sum())]
    return counts + np.bincount(others, minlength=len(stock))


def _difference(arrays: dict[str, NDArray[Any]]) -> str:
    """Describe how arrays deviate from the layout; empty if they do not."""
    for name in Texts._fields:
        if name not in arrays:
            return f"has no array {name}, only {', '.join(arrays)}"
    text, label, classes = (arrays[name] for name in Texts._fields)
    if text.dtype.kind != "U" or classes.dtype.kind != "U" or label.dtype.kind not in "iu":
        return f"has {text.dtype}, {label.dtype} and {classes.dtype}, expected texts, integers and texts"
    if text.ndim != 1 or text.shape != label.shape or not len(text):
        return f"has texts of shape {text.shape} and labels of shape {label.shape}"
    if label.min() < 0 or label.max() >= len(classes):
        return f"has labels {label.min()}..{label.max()} for {len(classes)} classes"
    return ""
