"""The study of examples/prompt_flare, with the tiny model: each site's objective from its own files alone."""

from __future__ import annotations

import importlib.util
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from fzoos.engines import LocalStudy
from fzoos.federation.study import Study
from fzoos_experiments.tasks.prompt import Prompt, load_texts

EXAMPLE = Path(__file__).parents[4] / "examples" / "prompt_flare"


@pytest.fixture
def example(installed):
    """A copy of the example, its texts given out, and its script as a module."""
    pytest.importorskip("nvflare")
    folder = installed / "prompt_flare"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("texts", "simulation"))
    spec = importlib.util.spec_from_file_location("prompt_flare_run", folder / "run.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    study = Study.load(folder / "study.toml")
    script.give_out_texts(study, Prompt(dim=study.dim, test=30))
    return folder, study


def objective_of(folder, site, monkeypatch):
    monkeypatch.setenv("SITE", site)
    return runpy.run_path(str(folder / "site" / "objective.py"))["objective"]


def test_sites_have_texts_of_their_own(example):
    """Four each, no text twice."""
    folder, study = example
    texts = [load_texts(folder / "site" / "texts" / site).text.tolist() for site in study.sites]
    assert [len(own) for own in texts] == [4, 4, 4]
    assert len({text for own in texts for text in own}) == 12


def test_the_study_runs(example, monkeypatch, tmp_path):
    """Its mean objective at x0 is that of the task whose texts the sites have, and a study of them runs."""
    folder, study = example
    objectives = [objective_of(folder, site, monkeypatch) for site in study.sites]
    whole = Prompt(dim=study.dim, clients=3, texts=4, test=30)
    mean = np.mean([objective(np.zeros((1, study.dim))) for objective in objectives])
    assert mean == pytest.approx(whole.value(np.zeros(study.dim)), rel=1e-5)
    result = LocalStudy(study, tmp_path / "study", objectives).run()
    assert (result.status, result.rounds) == ("completed", 2)
    assert np.all(abs(result.x) <= 1.0)
