"""From a figure's description to its files: runs stored, interrupted, continued, drawn."""

import csv
import dataclasses
import json

import numpy as np
import pytest
from rich.console import Console

from fzoos import Adam, FedZO, FZooS, ObjectiveError, ScaffoldI, minimize
from fzoos.algorithms.local_steps import LocalSteps
from fzoos_experiments.paper.curves import collect
from fzoos_experiments.paper.figures import FIGURES, Figure, Line, Panel, Scale, make
from fzoos_experiments.paper.observe import observed
from fzoos_experiments.paper.reproduce import reproduce
from fzoos_experiments.paper.run import Run
from fzoos_experiments.paper.runner import execute
from fzoos_experiments.paper.store import Store
from fzoos_experiments.paper.task_spec import TaskSpec
from fzoos_experiments.tasks import Quadratic

QUIET = Console(quiet=True)
TINY = TaskSpec.of("quadratic", dim=4, clients=2, heterogeneity=5.0, seed=3)


def run(**changes) -> Run:
    return dataclasses.replace(Run(TINY, FedZO(local_steps=2), rounds=2, seed=1), **changes)


def figure(*runs: Run, quantity="gap") -> Figure:
    lines = tuple(Line(f"line {k}", ((r,),)) for k, r in enumerate(runs))
    return Figure("figx", "a caption", quantity, (Panel("one", lines), Panel("two", lines)))


def test_a_run_measures_what_minimize_does():
    """Rows are round 0 and then the history of the same call of `minimize`."""
    task = Quadratic(dim=4, clients=2, heterogeneity=5.0, seed=3)
    arguments = {"bounds": task.bounds, "algorithm": FedZO(local_steps=2), "rounds": 2, "vectorized": True}
    result = minimize(task.objectives, task.x0, **arguments, monitor=task.value, rng=1)
    reported = []
    rows = run()(lambda round, value: reported.append((round, value)))
    expected = [{"round": 0, "queries": 0, "bytes_up": 0, "bytes_down": 0, "F": task.value(task.x0)}]
    for r in result.history:
        counts = {"round": r.round, "queries": r.queries, "bytes_up": r.bytes_up, "bytes_down": r.bytes_down}
        expected.append({**counts, "F": r.monitor})
    assert rows == expected
    assert reported == [(r.round, r.monitor) for r in result.history]


def test_the_fingerprint_sees_every_setting():
    changes = [
        {},
        {"seed": 2},
        {"rounds": 3},
        {"algorithm": FedZO(local_steps=3)},
        {"algorithm": FedZO(local_steps=2, optimizer=Adam(0.02))},
        {"algorithm": ScaffoldI()},
        {"algorithm": FZooS()},
        {"algorithm": FZooS(noise=1e-5)},
        {"task": TaskSpec.of("quadratic", dim=5, clients=2, heterogeneity=5.0, seed=3)},
        {"image": 1},
        {"quantity": "cosine"},
    ]
    assert len({run(**change).fingerprint for change in changes}) == len(changes)
    assert run().fingerprint == run().fingerprint


def test_runs_are_made_once(tmp_path, monkeypatch):
    runs = [run(seed=s) for s in range(3)]
    assert execute(runs, tmp_path, console=QUIET) == 3
    monkeypatch.setattr(Run, "__call__", lambda *_: pytest.fail("made again"))
    assert execute(runs, tmp_path, console=QUIET) == 0


def test_interrupted_runs_continue_where_they_stopped(tmp_path, monkeypatch):
    """Ctrl-C in the second of three runs: the first is stored, the next call makes the other two."""
    runs = [run(seed=s) for s in range(3)]
    made, original = [], Run.__call__

    def interrupted(self, progress):
        made.append(self.seed)
        if made == [0, 1]:
            raise KeyboardInterrupt
        return original(self, progress)

    monkeypatch.setattr(Run, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        execute(runs, tmp_path, console=QUIET)
    assert execute(runs, tmp_path, console=QUIET) == 2
    assert made == [0, 1, 1, 2]


@pytest.mark.parametrize("jobs", [2])
def test_the_error_of_an_objective_is_raised(jobs, tmp_path):
    """It comes back from a worker process with its attributes."""
    wrong = run(task=TaskSpec.of("quadratic", dim=5, noise=1e308))
    with pytest.raises(ObjectiveError) as error:
        execute([wrong, run()], tmp_path, jobs, QUIET)
    assert error.value.x.shape == (5,)


def test_a_gap_curve_is_the_distance_to_the_minimum(tmp_path):
    r = run()
    execute([r], tmp_path, console=QUIET)
    rows = Store(tmp_path).load(r)
    curve = collect(figure(r), tmp_path)[0]
    # The quadratic's minimum is -0.025 + 0.1/d.
    np.testing.assert_allclose(curve.values[0], [row["F"] - (-0.025 + 0.1 / 4) for row in rows])
    # Two clients, T = 2 steps of Q + 1 = 21 queries.
    np.testing.assert_array_equal(curve.queries, [0, 84, 168])


def test_cosines_by_hand(tmp_path):
    """The cumulative mean of 1, 0, 0.5 is 1, 1/2, 1/2."""
    r = run(quantity="cosine")
    Store(tmp_path).save(
        r, [{"step": t, "queries": 10 * t, "cosine": c} for t, c in ((1, 1.0), (2, 0.0), (3, 0.5))], 1.0
    )
    curve = collect(figure(r, quantity="cosine"), tmp_path)[0]
    np.testing.assert_allclose(curve.values, [[1.0, 0.5, 0.5]])


@pytest.mark.parametrize(
    "algorithm",
    [FedZO(local_steps=2), ScaffoldI(local_steps=2), FZooS(local_steps=2, features=32)],
    ids=["FedZO", "ScaffoldI", "FZooS"],
)
def test_observing_changes_nothing(algorithm):
    task = Quadratic(dim=3, clients=2)
    seen = []

    def go(settings):
        arguments = {"bounds": task.bounds, "rounds": 3, "vectorized": True, "rng": 0}
        return minimize(task.objectives, task.x0, algorithm=settings, **arguments)

    result = go(observed(algorithm, lambda estimate: seen.append((estimate.round, estimate.step))))
    np.testing.assert_array_equal(result.x, go(algorithm).x)
    assert seen == [(r, t) for r in (1, 2, 3) for _ in range(2) for t in (1, 2)]


def test_the_cosine_of_the_exact_gradient_is_one(tmp_path):
    """With one client, differences along many directions have almost the direction of grad F, at every step."""
    task = TaskSpec.of("quadratic", dim=2, clients=1, heterogeneity=0.0, seed=0)
    from fzoos import FiniteDifferences

    exact = FedZO(local_steps=3, differences=FiniteDifferences(count=2, step=1e-6, directions="orthonormal"))
    rows = Run(task, exact, rounds=2, seed=0, quantity="cosine")(lambda *_: None)
    assert [row["step"] for row in rows] == [1, 2, 3]
    np.testing.assert_allclose([row["cosine"] for row in rows], 1.0, atol=1e-4)
    assert [row["queries"] for row in rows] == [3, 6, 9]  # Q + 1 = 3 each


def test_a_figure_leaves_its_files(tmp_path):
    folder = reproduce(figure(run(), run(algorithm=ScaffoldI())), tmp_path, console=QUIET)
    assert {path.name for path in folder.iterdir()} == {"figx.png", "figx.pdf", "curves.csv", "settings.json"}
    assert (folder / "figx.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "figx.pdf").read_bytes().startswith(b"%PDF")
    with open(folder / "curves.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 3  # panels, lines, rounds 0 to 2
    assert rows[-1].keys() == {"figure", "panel", "line", "seed", "round", "queries", "gap", "F"}
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["panels"][0]["lines"][1]["runs"][0][0]["algorithm"]["type"] == "ScaffoldI"
    assert len(settings["made_with"]) == 1
    assert {"python", "numpy", "fzoos"} <= settings["made_with"][0].keys()


def test_a_missing_run_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="a run of figx is missing"):
        collect(figure(run()), tmp_path)


@pytest.mark.parametrize("quick", [True, False])
def test_every_figure_can_be_described(quick):
    """Each of the paper's figures exists at both sizes, with all five algorithms where it compares them."""
    for name in FIGURES:
        made = make(name, Scale(quick=quick))
        assert made.name == name
        assert made.runs
        labels = {line.label for panel in made.panels for line in panel.lines}
        if not name.startswith(("fig6", "prompt")):
            others = {"FedLineSearch (Auto)"} if name != "fig4" else set()  # which has no steps within a round
            assert {"FedZO", "FedProx", "ScaffoldI", "ScaffoldII", "FZooS, nearest 150"} | others <= labels
        assert len({r.fingerprint for r in made.runs}) == len(made.runs)


@pytest.mark.parametrize("name", ["fig1", "fig4", "fig6b"])
def test_synthetic_figures_end_to_end(name, tmp_path):
    """The real figure, its runs made tiny: two rounds in four dimensions with few features."""

    def shrink(r: Run) -> Run:
        algorithm = r.algorithm
        if isinstance(algorithm, FZooS):
            algorithm = dataclasses.replace(algorithm, features=min(algorithm.features, 40))
        task = TaskSpec.of("quadratic", **(dict(r.task.settings) | {"dim": 4}))
        if isinstance(algorithm, LocalSteps):
            algorithm = dataclasses.replace(algorithm, local_steps=3)
        return dataclasses.replace(r, task=task, algorithm=algorithm, rounds=2)

    made = make(name, Scale(quick=True, seeds=1))
    panels = tuple(
        Panel(p.title, tuple(Line(k.label, tuple(tuple(map(shrink, s)) for s in k.runs)) for k in p.lines))
        for p in made.panels
    )
    folder = reproduce(dataclasses.replace(made, panels=panels), tmp_path, console=QUIET)
    assert (folder / f"{name}.png").stat().st_size > 10_000


def test_a_partial_figure_has_the_finished_lines(tmp_path, monkeypatch):
    """Of two lines in one panel, and of one in another, some miss a run: the rest is drawn as it would be with them."""
    done, missing = run(), run(seed=99)
    execute([done], tmp_path / "runs", console=QUIET)
    first, second = Line("first", ((missing,),)), Line("second", ((done,),))
    made = Figure("figx", "a caption", "gap", (Panel("panel 0", (first, second)), Panel("panel 1", (first,))))
    orders = []
    monkeypatch.setattr("fzoos_experiments.paper.reproduce.plot_curves", lambda *_, labels, **__: orders.append(labels))
    folder = reproduce(made, tmp_path, partial=True)
    with open(folder / "curves.csv", newline="") as file:
        assert {(row["panel"], row["line"]) for row in csv.DictReader(file)} == {("panel 0", "second")}
    assert set(orders) == {("first", "second")}
    assert Store(tmp_path / "runs").load(missing) is None
    with pytest.raises(ValueError, match="no line of figx is finished yet"):
        reproduce(Figure("figx", "", "gap", made.panels[1:]), tmp_path, partial=True)


def test_success_by_hand(tmp_path):
    """Two images: one is attacked in round 1, the other never. By the weaker rule the other is attacked in round 2."""
    attack = TaskSpec.of("attack", dataset="mnist", portion=0.7)
    runs = tuple(run(task=attack, image=i, rounds=2) for i in range(2))
    counts = {"bytes_up": 0, "bytes_down": 0}
    # FedZO with T = 2 and Q + 1 = 21 makes 42 queries a round and client; there are 10 clients.
    first = [{"round": r, "queries": 420 * r, "F": f, "margin": m} | counts for r, f, m in ((0, 1, 2), (1, -1, -0.5))]
    other = [{"round": r, "queries": 420 * r, "F": f, "margin": 1.0} | counts for r, f in ((0, 2), (1, 1), (2, -1))]
    for r, rows in zip(runs, (first, other), strict=True):
        Store(tmp_path).save(r, rows, 1.0, data=attack.data or "of no data at hand")
    made = Figure("figx", "", "success", (Panel("one", (Line("line", (runs,)),)),))
    curve = collect(made, tmp_path)[0]
    np.testing.assert_array_equal(curve.values, [[0.0, 0.5, 0.5]])
    np.testing.assert_array_equal(curve.extra["weak"], [[0.0, 0.5, 1.0]])
    np.testing.assert_array_equal(curve.queries, [0, 420, 840])
