"""What is shown while a FLARE job runs, in a file as well, and the error about names that disagree."""

from __future__ import annotations

import pytest

pytest.importorskip("nvflare")

from fzoos.engines.flare import watch as module
from fzoos.engines.flare.watch import Watch
from fzoos.federation.study import Study

STUDY = Study("demo", x0=0.5, dim=2, bounds=(0, 1), sites=("site-1", "site-2"), rounds=7)


@pytest.fixture
def watch(monkeypatch):
    """One whose deployment has the clients in `watch.online`."""
    monkeypatch.setattr(module, "_JOIN", 0.2)
    monkeypatch.setattr(module, "_POLL", 0.01)
    made = Watch(STUDY, env=None, progress=True)
    made.online = []
    monkeypatch.setattr(made, "_clients", lambda: [{"client_name": name, "status": "ok"} for name in made.online])
    with made:
        yield made


def test_names_that_disagree(watch, capsys):
    """Nobody of study.toml is there, and others are: both lists are in the error."""
    watch.online = ["hospital-1", "hospital-2"]
    with pytest.raises(ValueError, match="site-1, site-2, but hospital-1, hospital-2 is connected") as caught:
        watch.wait_for_sites()
    assert "study.toml and project.yml must have the same names" in str(caught.value)
    assert "waiting for site-1, site-2 to connect; hospital-1, hospital-2 is connected" in capsys.readouterr().out
