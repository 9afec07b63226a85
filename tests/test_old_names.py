"""Names of release 0.1.0 work for one more release, with a warning that says the new one."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import warnings
from pathlib import Path

import pytest

import fzoos
from fzoos import FedCMA, FedHistory, FixedFZooS, FZooS, ScaffoldI, ScaffoldII, Study
from fzoos._util.old_names import OLD_ATTRIBUTES, OLD_MODULES, OLD_NAMES
from fzoos.algorithms.base import ClientContext
from fzoos.cli import main
from fzoos.engines import LocalStudy
from fzoos.federation import StudySite
from fzoos.objectives.manual import ManualObjective

NAMES = json.loads((Path(__file__).parent / "data" / "release-0.1.0" / "names.json").read_text())
GONE = {
    "fzoos.algorithms.correction.CurvatureCorrection",
    "fzoos.arrays.Buffer",
    "fzoos.tasks.attack.Rules",
}  # names that went with what they named: "module.name", or a whole "module"
ALGORITHMS = {"cma": FedCMA, "historical": FedHistory, "scaffold1": ScaffoldI, "scaffold2": ScaffoldII}


def import_anew(name: str, monkeypatch: pytest.MonkeyPatch):
    """The module, and what importing it warns of, as in a new process."""
    monkeypatch.delitem(sys.modules, name, raising=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module = importlib.import_module(name)
    return module, [str(warning.message) for warning in caught if warning.category is FutureWarning]


@pytest.mark.parametrize("name", OLD_MODULES)
def test_old_modules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has the very objects of the new one, by their old names."""
    module, words = import_anew(name, monkeypatch)
    new = importlib.import_module(OLD_MODULES[name])
    assert f"{name} is now {new.__name__}; the old name goes with the next release" in words
    for old in NAMES[name]:
        if f"{name}.{old}" not in GONE:
            assert getattr(module, old) is getattr(new, OLD_NAMES.get(old, old))
    with pytest.raises(AttributeError):
        _ = module.no_such_name


def test_no_module_has_a_name_that_was_given_up() -> None:
    root = Path(fzoos.__file__).parents[1]
    paths = [root / name.replace(".", "/") for name in OLD_MODULES]
    assert not [path for path in paths if path.with_suffix(".py").exists() or path.is_dir()]


LASTING = [name for name in NAMES if name not in OLD_MODULES and name not in GONE and "._" not in name]


@pytest.mark.parametrize("name", LASTING)
@pytest.mark.filterwarnings("ignore:.*the old name goes with the next release:FutureWarning")
def test_modules_that_kept_their_names(name: str) -> None:
    module = importlib.import_module(name)
    missing = [old for old in NAMES[name] if f"{name}.{old}" not in GONE and not hasattr(module, old)]
    assert not missing


@pytest.mark.parametrize("place", OLD_ATTRIBUTES)
def test_old_attributes(place: str) -> None:
    module, _, name = place.rpartition(".")
    new, _, new_name = OLD_ATTRIBUTES[place].rpartition(".")
    with pytest.warns(FutureWarning, match=f"{place} is now {OLD_ATTRIBUTES[place]}"):
        found = getattr(importlib.import_module(module), name)
    assert found is getattr(importlib.import_module(new), new_name)


def test_the_attributes_that_are_used_most() -> None:
    with pytest.warns(FutureWarning):
        assert fzoos.People is ManualObjective
    with pytest.warns(FutureWarning):
        assert fzoos.federation.LocalStudy is LocalStudy
    with pytest.warns(FutureWarning):
        assert fzoos.federation.Station is StudySite
    with pytest.warns(FutureWarning):
        assert fzoos.algorithms.base.Site is ClientContext
    with pytest.warns(FutureWarning), pytest.raises(ImportError):
        exec("from fzoos import People, no_such_name")


def test_early() -> None:
    """A setting of FZooS, in Python, also through its presets and `dataclasses.replace`."""
    with pytest.warns(FutureWarning, match=r"FixedFZooS\(early=...\) is now refresh_first_round="):
        assert FixedFZooS(early=False) == FixedFZooS(refresh_first_round=False)
    with pytest.warns(FutureWarning):
        assert FZooS.paper(early=True).refresh_first_round
    with pytest.warns(FutureWarning):
        assert not dataclasses.replace(FixedFZooS(), early=False).refresh_first_round


def test_settings_of_fzoos() -> None:
    """FZooS has no settings any more; those of the last release make a FixedFZooS, whose defaults are those it had."""
    with pytest.warns(
        FutureWarning, match=r"FZooS\(noise=...\) is now FixedFZooS\(noise=...\); FZooS\(\) has no settings"
    ):
        assert FZooS(noise=0.1) == FixedFZooS(noise=0.1)
    with pytest.warns(FutureWarning):
        assert dataclasses.replace(FZooS(projected=False), points=9) == FixedFZooS(points=9, projected=False)


def write_study(folder: Path, algorithm: str) -> Path:
    path = folder / "study.toml"
    path.write_text(
        'name = "demo"\nx0 = 0.5\ndim = 2\nbounds = [-1.0, 1.0]\nsites = ["a", "b"]\n\n[algorithm]\n' + algorithm
    )
    return path


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("cma", "475a8f87de8b814f"),
        ("scaffold1", "9493388fb3078823"),
        ("scaffold2", "0933ab818d026a83"),
    ],
)
def test_old_algorithms_in_a_study(tmp_path: Path, name: str, id: str) -> None:
    """The id is the one that release 0.1.0 gave the same file: server and sites may be of either release."""
    path = write_study(tmp_path, f'name = "{name}"\n')
    with pytest.warns(FutureWarning, match=f"the algorithm '{name}' is now '{ALGORITHMS[name].name}'"):
        study = Study.load(path)
    assert study.algorithm_settings == ALGORITHMS[name]()
    assert study.id == id


@pytest.mark.filterwarnings("ignore:.*the old name goes with the next release:FutureWarning")
def test_early_in_a_study(tmp_path: Path) -> None:
    """The id is the one that release 0.1.0 gave the same file."""
    study = Study.load(write_study(tmp_path, 'name = "fzoos"\npreset = "weights"\nearly = true\n'))
    assert study.algorithm_settings == FZooS.weights(refresh_first_round=True)
    assert study.id == "29572fb530a423d9"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_old_algorithms_on_the_command_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--dim", "2", "--clients", "2", "--rounds", "1", "--local-steps", "1", "--quiet"]
    new = f"the algorithm '{name}' is now '{ALGORITHMS[name].name}'"
    with pytest.warns(FutureWarning, match=new):
        assert call(["run", "quadratic", "--algorithm", name, *size, "--store", str(tmp_path / "runs.db")]) == 0
    plot = str(tmp_path / "plot.png")
    with pytest.warns(FutureWarning, match=new):
        assert call(["compare", "quadratic", "--algorithms", f"fedzo,{name}", *size, "--output", plot]) == 0
    assert ALGORITHMS[name].label in capsys.readouterr().out


def call(words: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)
