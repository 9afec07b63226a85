"""From a package index to an archive of texts."""

from __future__ import annotations

import numpy as np

from fzoos_experiments.tasks.prompt import debian, load_texts
from fzoos_experiments.tasks.prompt.debian import SECTIONS, collect


def index(extra: str = "") -> list[str]:
    """Two packages of each section, fields in the order that Debian has them: the description first."""
    packages = [
        f"Package: {name}-{k}\nDescription: {word} {name}\n more\nDescription-md5: 0\nSection: {section}\n"
        for name in SECTIONS
        for k, (word, section) in enumerate([("small", name), ("large", f"contrib/{name}")])
    ]
    return ("\n".join(packages) + "\n" + extra).split("\n")


def test_every_description_has_the_section_of_its_own_package():
    texts = collect(index())
    assert len(texts.text) == 24
    for text, label in zip(texts.text, texts.label, strict=True):
        assert str(text).split()[1] == SECTIONS[label]


def test_what_is_left_out():
    """Other sections, descriptions that occur already or are too long, packages without one."""
    extra = [("small games", "mail"), ("a library", "libs"), ("long " * 30, "web"), ("", "web")]
    paragraphs = "\n".join(f"Package: x\nDescription: {text}\nSection: {section}\n" for text, section in extra)
    one, two = collect(index()), collect(index(paragraphs))
    assert np.array_equal(one.text, two.text)
    assert np.array_equal(one.label, two.label)


def test_the_command(tmp_path, monkeypatch, capsys):
    """From standard input to an archive that the task reads."""
    monkeypatch.setattr("sys.stdin", iter(line + "\n" for line in index()))
    assert debian._main([str(tmp_path / "debian.npz"), "-"]) == ""
    assert "24 texts" in capsys.readouterr().out
    assert len(load_texts(tmp_path).text) == 24
    assert debian._main([]).startswith("usage:")
