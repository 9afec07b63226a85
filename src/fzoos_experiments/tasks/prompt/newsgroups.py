"""Posts of newsgroups and what the groups are about: scikit-learn's 20 newsgroups.

    python -m fzoos_experiments.tasks.prompt.newsgroups newsgroups.npz

asks scikit-learn for the posts (`fetch_20newsgroups`), which looks into its own folder, `$SCIKIT_LEARN_DATA` or
`~/scikit_learn_data`, and downloads them (14 MB) if they are not there.

A text is the subject of a post, without "Re:", and the beginning of what its author wrote: headers, signatures and
quotations are left out, and what is longer than 160 characters is cut behind a word. Each group gets a name that is one
token of SmolLM2 with a blank before it. Groups about one thing have one name; three are left out: what is written in
comp.windows.x, talk.politics.mideast and talk.religion.misc cannot be told by one word from what is in others.
"""

from __future__ import annotations

import sys
import textwrap
import warnings
from collections.abc import Iterable
from pathlib import Path

from fzoos_experiments.tasks.prompt.texts import Texts, draw, store

__all__ = ["NAMES", "collect", "shorten"]

NAMES = {
    "alt.atheism": "atheism",
    "comp.graphics": "graphics",
    "comp.os.ms-windows.misc": "windows",
    "comp.sys.ibm.pc.hardware": "hardware",
    "comp.sys.mac.hardware": "hardware",
    "misc.forsale": "sale",
    "rec.autos": "cars",
    "rec.motorcycles": "motorcycles",
    "rec.sport.baseball": "baseball",
    "rec.sport.hockey": "hockey",
    "sci.crypt": "encryption",
    "sci.electronics": "electronics",
    "sci.med": "medicine",
    "sci.space": "space",
    "soc.religion.christian": "religion",
    "talk.politics.guns": "guns",
    "talk.politics.misc": "politics",
}
"""What each group is about, in one word."""

_LONGEST = 160  # characters of a text
_SHORTEST = 20  # characters that an author must have written beside the subject


def shorten(post: str, body: str) -> str:
    """The subject of a post and the beginning of its body; nothing where there is too little of it.

    Args:
        post: with its headers.
        body: what is left of it without headers, signature and quotations.

    Example:
        >>> from fzoos_experiments.tasks.prompt.newsgroups import shorten
        >>> body = "Not  any:\\n10W-40 in winter."
        >>> shorten(f"From: me\\nSubject: Re: Which oil?\\n\\n> Any.\\n{body}", body)
        'Which oil? Not any: 10W-40 in winter.'
    """
    headers = post.partition("\n\n")[0].split("\n")
    subject = next((line.partition(":")[2] for line in headers if line.lower().startswith("subject:")), "").strip()
    while subject[:3].lower() == "re:":
        subject = subject[3:].lstrip()
    written = " ".join(body.split())
    return textwrap.shorten(f"{subject} {written}", _LONGEST, placeholder="") if len(written) >= _SHORTEST else ""


def collect(posts: Iterable[tuple[str, str, str]], most: int = 600, seed: int = 0) -> Texts:
    """The texts of posts, each once, at most so many of a name, in random order.

    Args:
        posts: group, post and body of each.
        most: texts of a name at most.
        seed: the seed of the order, and of the choice where there are more.

    Raises:
        ValueError: a name has none.

    Example:
        >>> from fzoos_experiments.tasks.prompt.newsgroups import NAMES, collect
        >>> posts = [(group, f"Subject: {group}\\n\\n", "all that I know of it") for group in NAMES]
        >>> texts = collect(posts)
        >>> len(texts.text), len(texts.classes)
        (17, 16)
    """
    name_of: dict[str, str] = {}
    for group, post, body in posts:
        text = shorten(post, body)
        if group in NAMES and text:
            name_of.setdefault(text, NAMES[group])
    return draw(name_of, tuple(dict.fromkeys(NAMES.values())), most, seed)


def _fetch() -> list[tuple[str, str, str]]:
    """Group, post and body of all posts, from scikit-learn."""
    from sklearn.datasets import fetch_20newsgroups

    with warnings.catch_warnings(category=UserWarning, action="ignore"):  # of each attempt
        posts = fetch_20newsgroups(subset="all", shuffle=False, n_retries=1)
    bodies = fetch_20newsgroups(subset="all", shuffle=False, remove=("headers", "footers", "quotes"))
    groups = [posts.target_names[label] for label in posts.target]
    return list(zip(groups, posts.data, bodies.data, strict=True))


def _main(arguments: list[str]) -> str:
    if len(arguments) != 1:
        return "usage: python -m fzoos_experiments.tasks.prompt.newsgroups FILE.npz"
    try:
        texts = collect(_fetch())
    except ImportError:
        return "the newsgroups come from scikit-learn: pip install 'fzoos[tasks]'"
    except OSError as error:
        from sklearn.datasets import get_data_home

        why = " ".join(str(error).split())
        return f"the newsgroups are not in {get_data_home()}, and cannot be downloaded ({why})"
    except ValueError as error:
        return f"the newsgroups are not whole: {error}"
    store(Path(arguments[0]), texts)
    return ""


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]) or 0)
