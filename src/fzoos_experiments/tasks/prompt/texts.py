"""Texts with labels: where they come from, and who holds which.

=========  ========  ==============================================================================================
symbol     shape     meaning
=========  ========  ==============================================================================================
N, K, n    scalar    clients, classes, texts of each client
C          scalar    heterogeneity: 0 for clients that are alike, more for clients that differ more
q_i        (K,)      shares of the classes at client i, drawn from Dirichlet(1 / C, ..., 1 / C); 1 / K each for C = 0
=========  ========  ==============================================================================================

No text is at two clients, nor both at a client and among those that accuracy is measured on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fzoos._util.checks import check_count, check_number
from fzoos_experiments.tasks.archives import DataError
from fzoos_experiments.tasks.cache import cache_folder, digest, read_archive, write_archive

__all__ = ["Texts", "deal", "draw", "load_texts", "store", "texts_digest"]


class Texts(NamedTuple):
    """Texts, the class of each, and the names of the classes."""

    text: NDArray[np.str_]  # (m,)
    label: NDArray[np.int64]  # (m,), indices of classes
    classes: NDArray[np.str_]  # (K,)

    def only(self, classes: tuple[str, ...]) -> Texts:
        """The texts of some classes, numbered in the order given.

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
        folder: where to look first; default: `$FZOOS_DATA`. Then the per-user cache is looked at.

    Raises:
        DataError: the archive is missing, or is not in the layout.

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
    """SHA-256 of the texts at hand; None if there are none, or not in the layout.

    Args:
        folder: where to look first; default: `$FZOOS_DATA`.
    """
    try:
        found = load_texts(folder)
        return digest(np.char.encode(found.text, "utf-8"), found.label, np.char.encode(found.classes, "utf-8"))
    except DataError:
        return None


def draw(class_of: Mapping[str, str], classes: Sequence[str], most: int, seed: int) -> Texts:
    """At most so many texts of each class, in random order.

    Args:
        class_of: the class of each text.
        classes: their names.
        most: texts of a class at most.
        seed: the seed of the order, and of the choice where a class has more.

    Raises:
        ValueError: a class has none.

    Example:
        >>> from fzoos_experiments.tasks.prompt.texts import draw
        >>> texts = draw({"chess": "games", "go": "games", "a mixer": "sound"}, ("games", "sound"), most=1, seed=0)
        >>> sorted(texts.label.tolist())
        [0, 1]
    """
    rng, chosen = np.random.default_rng(seed), []
    for name in classes:
        texts = [text for text, found in class_of.items() if found == name]
        if not texts:
            raise ValueError(f"there is no text of the class {name}")
        chosen += rng.permutation(texts)[:most].tolist()
    chosen = rng.permutation(chosen).tolist()
    labels = [classes.index(class_of[text]) for text in chosen]
    return Texts(np.array(chosen), np.array(labels, np.int64), np.array(classes))


def store(path: Path, texts: Texts) -> None:
    """Write an archive that `load_texts` reads, and say what is in it."""
    write_archive(path, texts._asdict(), compress=True)
    print(f"{path}: {len(texts.text)} texts")
    counts = np.bincount(texts.label)
    print(", ".join(f"{name} {count}" for name, count in zip(texts.classes, counts, strict=True)))


def deal(
    labels: NDArray[np.int64], clients: int, texts: int, heterogeneity: float, test: int, seed: int
) -> tuple[list[NDArray[np.intp]], NDArray[np.intp]]:
    """Each client's texts, and those that accuracy is measured on.

    The test texts are drawn first, as many of each class. A client then draws how many texts of each class it has, by
    its shares q_i; where a class has too few left, it takes others in their place.

    Args:
        labels: the class of each text, 0..K-1.
        clients: N, the number of clients.
        texts: n, the texts of each client.
        heterogeneity: C, how much the clients differ.
        test: test texts of all classes together.
        seed: the seed of the draw.

    Returns:
        Indices into `labels`: a list of those of each client, and those of the test texts.

    Raises:
        ValueError: there are too few texts.

    Example:
        >>> import numpy as np
        >>> from fzoos_experiments.tasks.prompt.texts import deal
        >>> labels = np.repeat(np.arange(4), 30)
        >>> mine, test = deal(labels, clients=3, texts=8, heterogeneity=5.0, test=12, seed=0)
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
        counts = _possible(rng.multinomial(texts, shares), [len(pile) for pile in stock], rng)
        mine.append(np.sort(np.concatenate([pile[:n] for pile, n in zip(stock, counts, strict=True)])))
        stock = [pile[n:] for pile, n in zip(stock, counts, strict=True)]
    return mine, np.sort(held_out)


def _possible(wanted: NDArray[np.int64], there: list[int], rng: np.random.Generator) -> NDArray[np.int64]:
    """As many of each class as are wanted, others where there are too few."""
    stock = np.array(there, np.int64)
    counts = np.minimum(wanted, stock)
    left = np.repeat(np.arange(len(stock)), stock - counts)
    others = rng.permutation(left)[: int(wanted.sum() - counts.sum())]
    return counts + np.bincount(others, minlength=len(stock))


def _difference(arrays: dict[str, NDArray[Any]]) -> str:
    """What is not as it must be, or nothing."""
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
