"""A study's file: every wrong entry is named in one line, and its id changes with what matters and nothing else."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest

from fzoos.algorithms.optimizers import SGD
from fzoos.federation.study import Study

GOOD = """
name = "demo"
x0 = [0.5, 0.5]
bounds = [-1.0, 1.0]
sites = ["site-1", "site-2", "site-3"]
"""


def load(folder, text, replaces=None):
    """A study from a text; `replaces` is the entry of the good one that the text stands for."""
    lines = [line for line in GOOD.strip().splitlines() if replaces is None or not line.startswith(f"{replaces} =")]
    path = folder / "study.toml"
    path.write_text("\n".join([*lines, text]) + "\n")
    return Study.load(path)


def test_the_smallest(tmp_path):
    """Name, start, bounds and sites are enough."""
    study = load(tmp_path, "")
    assert study == Study("demo", [0.5, 0.5], [-1.0, 1.0], ["site-1", "site-2", "site-3"])
    assert (study.dim, study.rounds, study.participants, study.algorithm_settings.label) == (2, 50, 3, "FedTrustRegion")
    assert study.omega.tolist() == [1 / 3] * 3


def test_everything(tmp_path):
    """Every setting there is, read as it stands."""
    text = """
        x0 = 0.25
        dim = 4
        rounds = 20
        seed = 7
        vectorized = true
        weights = [1, 1, 2]
        participation = 3
        min_clients = 2
        enough = 2
        timeout = 60
        retries = 0
        max_queries = 1000
        max_queries_per_client = 500
        tolerance = 1e-4
        max_seconds = 3600
        max_bytes = 1000000
        on_failure = "skip"
        aggregate = "median"
        precision = "float16"
        [algorithm]
        name = "scaffoldi"
        local_steps = 3
        optimizer = { name = "sgd", learning_rate = 0.1 }
        differences = { count = 5 }
        [privacy]
        clip = 0.1
        noise = 2.0
    """
    study = load(tmp_path, "\n".join(line.strip() for line in text.strip().splitlines()), replaces="x0")
    assert study.start.tolist() == [0.25] * 4
    assert (study.rounds, study.seed, study.vectorized) == (20, 7, True)
    assert study.omega.tolist() == [0.25, 0.25, 0.5]
    assert (study.participants, study.min_clients, study.timeout, study.retries) == (3, 2, 60, 0)
    assert study.enough == 2
    assert (study.max_queries, study.max_queries_per_client, study.tolerance) == (1000, 500, 1e-4)
    assert (study.on_failure, study.aggregate, study.precision) == ("skip", "median", "float16")
    assert study.algorithm_settings.differences.count == 5
    assert (study.algorithm_settings.local_steps, study.algorithm_settings.optimizer) == (3, SGD(0.1))
    assert study.privacy_settings.noise == 2.0
    unset = {"target", "patience"}  # they need share_values, which privacy refuses
    assert {name for name, value in study.settings.items() if value is None} == unset


STEPPING = '[algorithm]\nname = "fedzo"\n'
BAD = [
    # replaced entry, text, what the message says
    ("name", "name = 3", "name must be a word, got 3"),
    ("name", "", "name is missing"),
    ("x0", "", "x0 is missing"),
    ("x0", "x0 = 0.5", "x0 must be a vector"),
    ("x0", "x0 = [0.5, nan]", "x0 must hold finite numbers"),
    ("x0", "x0 = [0.5, 2.0]", "x0 is outside the bounds: x0[1] = 2 is not in [-1, 1]"),
    ("x0", "x0 = [0.5]\ndim = 2", "x0 has 1 values but dim is 2"),
    (None, "dim = -1", "dim must be at least 0"),
    ("bounds", "", "bounds is missing"),
    ("bounds", "bounds = [1.0, -1.0]", "bounds must have lower <= upper"),
    ("bounds", "bounds = [[0, 1], [0, 1], [0, 1]]", "x0 has 2 values but bounds give d = 3"),
    ("bounds", 'bounds = "unit"', "bounds must be one (lower, upper) pair or d pairs"),
    ("sites", "", "sites is missing"),
    ("sites", "sites = []", "sites must be a list of names"),
    ("sites", 'sites = ["a", "a"]', "sites must have different names"),
    ("sites", 'sites = ["a", "../b"]', "sites must have names that can be names of files, got '../b'"),
    (None, "rounds = 0", "rounds must be at least 1, got 0"),
    (None, 'rounds = "many"', "rounds must be an integer, got 'many'"),
    (None, "local_steps = 3", "there is no setting 'local_steps'"),
    (None, '[optimizer]\nname = "sgd"', "there is no setting 'optimizer'"),
    (None, "seed = -1", "seed must be at least 0"),
    (None, 'vectorized = "yes"', "vectorized must be true or false, got 'yes'"),
    (None, "weights = [1, 2]", "weights has shape (2,) but the number of clients is 3"),
    (None, "weights = [1, 2, -3]", "weights must be finite and not negative"),
    (None, "participation = 4", "participation as a number must be in 1..3"),
    (None, "participation = 1.5", "participation as a fraction must be"),
    (None, 'participation = "all"', "participation must be a number, got 'all'"),
    (None, "min_clients = 4", "min_clients is 4 but there are only 3 sites"),
    (None, "timeout = 0", "timeout must be positive"),
    (None, "retries = -1", "retries must be at least 0"),
    (None, "max_queries = 0", "max_queries must be at least 1"),
    (None, "max_queries_per_client = 1.5", "max_queries_per_client must be an integer"),
    (None, 'on_failure = "ignore"', "on_failure must be one of raise, skip, got 'ignore'"),
    (None, 'aggregate = "max"', "aggregate must be one of mean, median, trimmed, clipped, got 'max'"),
    (None, 'precision = "double"', "precision must be one of float64, float32, float16, stochastic, got 'double'"),
    (None, "tiemout = 3", "there is no setting 'tiemout'; the settings are name, x0, bounds"),
    (None, 'algorithm = "fzoos"', "algorithm must be a table with a name, got 'fzoos'"),
    (None, "[algorithm]", "algorithm: name must be one of fedzo"),
    (None, '[algorithm]\nname = "adam"', "algorithm: name must be one of fedzo"),
    (None, '[algorithm]\nname = "fzoos"\nrounds = 3', "algorithm: there is no setting 'rounds'"),
    (None, '[algorithm]\nname = "fzoos"\nfeatures = 0', "algorithm: features (M) must be at least 1"),
    (None, '[algorithm]\nname = "fedzo"\ndifferences = false', "algorithm.differences must be a table, got False"),
    (None, '[algorithm]\nname = "fedzo"\ndifferences = { count = 0 }', "algorithm.differences: count"),
    (None, '[algorithm]\nname = "fzoos"\nactive = { candidates = 3 }', "algorithm.active: picks is missing"),
    (None, '[algorithm]\nname = "fedzo"\nlocal_steps = 0', "algorithm: local_steps must be at least 1, got 0"),
    (None, '[algorithm]\nname = "auto"\nlocal_steps = 5', "algorithm: there is no setting 'local_steps'"),
    (None, STEPPING + "optimizer = { learning_rate = 0 }", "algorithm.optimizer: learning_rate must be positive"),
    (
        None,
        STEPPING + 'optimizer = { name = "adam", restart = 1 }',
        "algorithm.optimizer.restart must be true or false",
    ),
    (None, STEPPING + 'optimizer = { name = "lbfgs" }', "algorithm.optimizer: name must be one of Adam, SGD"),
    (None, STEPPING + "optimizer = false", "algorithm.optimizer must be a table, got False"),
    (None, "privacy = 3", "privacy must be a table"),
    (None, "[privacy]\nclip = 0.1", "privacy"),
    (None, "[privacy]\nclip = 0.1\nnoise = 0", "privacy noise must be positive"),
    (None, "= 3", "at line"),
    (None, 'name = "twice"', "at line"),
]


@pytest.mark.parametrize(("entry", "text", "reason"), BAD, ids=[text or f"no {entry}" for entry, text, _ in BAD])
def test_bad_entries(tmp_path, entry, text, reason):
    """One line, with the file, the entry, what came and what was expected."""
    with pytest.raises(ValueError, match=r"study\.toml: ") as caught:
        load(tmp_path, text, replaces=entry)
    message = str(caught.value)
    assert reason in message
    assert "\n" not in message
    assert message.startswith(str(tmp_path / "study.toml"))


def test_no_file(tmp_path):
    """Not there, a folder, or not text: said in one line."""
    with pytest.raises(FileNotFoundError, match=r"there is no study at .*nowhere\.toml"):
        Study.load(tmp_path / "nowhere.toml")
    with pytest.raises(OSError, match=str(tmp_path)):
        Study.load(tmp_path)
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"study.toml: .*utf-8"):
        Study.load(tmp_path / "study.toml")


# The id


def study(**changes):
    settings = {"name": "demo", "x0": (0.5, 0.25), "bounds": (-1.0, 1.0), "sites": ("a", "b", "c")}
    return Study(**settings | changes)


CONDUCT = {
    "rounds": 7,
    "participation": 2,
    "min_clients": 1,
    "enough": 2,
    "timeout": 5.0,
    "retries": 9,
    "max_queries": 100,
    "max_queries_per_client": 30,
    "tolerance": 1e-3,
    "max_seconds": 60.0,
    "max_bytes": 1000,
    "target": 0.5,
    "patience": 3,
    "aggregate": "median",
    "vectorized": True,
    "lost_journals": ("a",),
}
MATTERS = {
    "name": "other",
    "x0": (0.5, 0.26),
    "bounds": (-1.0, 2.0),
    "sites": ("a", "c", "b"),
    "seed": 1,
    "algorithm": {"name": "fzoos", "features": 11},
    "weights": [1, 1, 2],
    "on_failure": "skip",
    "precision": "float32",
    "share_values": True,
    "privacy": {"clip": 0.1, "noise": 1.0},
}


def test_every_setting_is_decided():
    """A new setting must be put on one of the two lists: whether a number at a site depends on it."""
    assert set(study().settings) == {*CONDUCT, *MATTERS, "dim"}


@pytest.mark.parametrize("name", CONDUCT)
def test_id_stays(name):
    """How the server runs a study may change while it runs."""
    others = {"share_values": True} if name in ("target", "patience") else {}  # they need F
    others |= {"algorithm": {"name": "fedzo"}}  # which all of them go with
    assert study(**others, **{name: CONDUCT[name]}).id == study(**others).id


@pytest.mark.parametrize("name", MATTERS)
def test_id_changes(name):
    """What a number depends on makes another study."""
    assert study(**{name: MATTERS[name]}).id != study().id


@pytest.mark.parametrize("name", ["fzoos", "fedzo"])
def test_id_changes_with_the_algorithms_version(name, monkeypatch):
    """The same settings that mean other numbers are another study; the id is a digest of what numbers depend on."""
    settings = {"algorithm": {"name": name}}
    algorithm = type(study(**settings).algorithm_settings)
    ids = []
    for version in (1, 2, 3):
        monkeypatch.setattr(algorithm, "version", version)
        ids.append(study(**settings).id)
    assert len(set(ids)) == 3
    plain = study(**settings).settings
    kept = {name: value for name, value in plain.items() if name not in CONDUCT}
    kept |= {"x0": [0.5, 0.25], "bounds": [[-1.0, -1.0], [1.0, 1.0]], "weights": [1 / 3] * 3, "version": 1}
    text = json.dumps(json.loads(json.dumps(kept), parse_int=float), sort_keys=True)
    assert ids[0] == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_id_is_the_same_everywhere(tmp_path):
    """In another process, from the file, and from the settings as a run keeps them."""
    here = load(tmp_path, '[algorithm]\nname = "fzoos"\nactive = { candidates = 10, picks = 2, radius = 0.1 }')
    assert Study(**json.loads(json.dumps(here.settings))).id == here.id
    code = f"from fzoos.federation.study import Study; print(Study.load({str(tmp_path / 'study.toml')!r}).id)"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here.id


def test_seeds_are_apart():
    """Each client has its own randomness, and it does not depend on how the study is run."""
    one, two = study(), study(rounds=9, timeout=1.0)
    draws = [np.random.default_rng(seed).random() for seed in one.seeds.clients]
    assert len(set(draws)) == 3
    assert draws == [np.random.default_rng(seed).random() for seed in two.seeds.clients]
