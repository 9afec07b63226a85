"""The command line as tests call it; helpers/ has what several of them share."""

import sys
from pathlib import Path

import pytest

from fzoos.cli import main

sys.path.insert(0, str(Path(__file__).parent / "helpers"))


@pytest.fixture
def fzoos(tmp_path, monkeypatch, capsys):
    """Run the command line in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return call
