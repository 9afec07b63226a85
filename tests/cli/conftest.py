"""The command line as tests call it; helpers/ has what several of them share."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "helpers"))


@pytest.fixture
def fzoos(tmp_path, monkeypatch, run_command):
    """Run the command line in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return run_command
