"""The figures of the paper and of the prompt task: panels of lines, and the runs of each line for each seed.

Each figure is drawn twice: as in the paper, with its five algorithms, and with companion lines: the choice of `Auto`,
and FZooS with the measured length. "FZooS" conditions on the whole trajectory, as in the paper's text; "FZooS, nearest
150" on the nearest 150 points (500 for the weights), as in the authors' program, whose results the paper shows.

The paper does not give P and T of every figure. They vary over three values around those of the authors' commands: P
around 0.5 (CIFAR-10), 0.7 (MNIST) and 0.3 (Covertype), T over 5, 10 and 20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fzoos._util.arrays import check_device_name
from fzoos._util.checks import check_count
from fzoos.algorithms import (
    Algorithm,
    DeComFL,
    FedBPT,
    FedCMA,
    FedLineSearch,
    FedProx,
    FedZO,
    FZooS,
    ScaffoldI,
    ScaffoldII,
)
from fzoos.algorithms.correction_lengths import Constant, Measured
from fzoos.algorithms.finite_differences import FiniteDifferences
from fzoos.algorithms.local_steps import LocalSteps
from fzoos_experiments.paper.ablations import WithoutIterates
from fzoos_experiments.paper.exact import ExactGradient
from fzoos_experiments.paper.run import Run
from fzoos_experiments.paper.task_spec import TaskSpec

__all__ = ["DURATIONS", "FIGURES", "Figure", "Line", "Panel", "Quantity", "Scale", "make"]

Quantity = Literal["gap", "percent", "success", "cosine", "loss"]


@dataclass(frozen=True)
class Scale:
    """The size of the experiments.

    Args:
        quick: small tasks and few rounds, for a pipeline of minutes.
        seeds: repetitions; None: 5 (quick: 2), and 1 for the attacks, whose error is over images, as in the paper.
        device: the device of the networks of the attack and metric tasks, and of FZooS' surrogates for them.
        rounds: R; None: the figure's own number.
        samples: rows of Covertype; None: all of them.
    """

    quick: bool = False
    seeds: int | None = None
    device: str = "cpu"
    rounds: int | None = None
    samples: int | None = None

    def __post_init__(self) -> None:
        if self.seeds is not None:
            check_count("seeds", self.seeds, low=1)
        for name in ("rounds", "samples"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), low=1)
        check_device_name(self.device)

    def pick_rounds(self, full: int, quick: int) -> int:
        """R, the number of rounds, unless it was set."""
        return int(self.pick(full, quick)) if self.rounds is None else self.rounds

    def repetitions(self, full: int = 5, quick: int = 2) -> range:
        """The seeds of the repetitions."""
        return range(self.pick(full, quick) if self.seeds is None else self.seeds)

    def pick(self, full: Any, quick: Any) -> Any:
        """The first argument at full size, the second if quick."""
        return quick if self.quick else full

    @property
    def features(self) -> int:
        """M, the number of random features."""
        return int(self.pick(10_000, 500))

    @property
    def surrogates(self) -> str | None:
        """The device of FZooS' surrogates; None: NumPy."""
        return None if self.device == "cpu" else self.device


@dataclass(frozen=True)
class Line:
    """One curve with its error band.

    Args:
        label: its name in legends and tables.
        runs: for each seed, its runs (one, or one per image).
        role: "paper": one of the paper's five algorithms; "companion": only in the second picture; "stored": like a
            companion, but only if its runs are stored already: a figure never makes them.
    """

    label: str
    runs: tuple[tuple[Run, ...], ...]
    role: Literal["paper", "companion", "stored"] = "paper"


@dataclass(frozen=True)
class Panel:
    """Curves that share their axes."""

    title: str
    lines: tuple[Line, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of the panel, without duplicates, in their order."""
        needed = [line for line in self.lines if line.role != "stored"]
        return tuple(dict.fromkeys(run for line in needed for seed in line.runs for run in seed))

    def pick(self, *roles: str) -> Panel:
        """The panel with only the lines of some roles."""
        return replace(self, lines=tuple(line for line in self.lines if line.role in roles))


@dataclass(frozen=True)
class Figure:
    """A figure: its panels and the quantity of the vertical axis.

    Args:
        name: such as "fig1".
        caption: a description in one line.
        quantity: "gap" (F - F*), "percent" (100 F), "success" (rate over images), "cosine" or "loss" (F).
        panels: its panels, each drawn against rounds and against queries.
    """

    name: str
    caption: str
    quantity: Quantity
    panels: tuple[Panel, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs of the figure, without duplicates, in their order."""
        return tuple(dict.fromkeys(run for panel in self.panels for run in panel.runs))


def fzoos(scale: Scale, **changes: Any) -> FZooS:
    """FZooS with the nearest points, as in the authors' program, whose results the paper shows."""
    settings = {"points": 150, "feature_points": 500, "features": scale.features, "device": scale.surrogates}
    return FZooS(**{**settings, **changes})


def prox() -> FedProx:
    """FedProx as in the authors' program: gamma = 1 in the unit cube, and orthonormal directions.

    The directions matter only for FedProx: gradients are d times too short, which does not affect Adam, but makes the
    proximal term d times stronger in comparison.
    """
    return FedProx(gamma=1.0, differences=FiniteDifferences(directions="orthonormal"))


PROGRAM = "FZooS, nearest 150"
"""The label of the paper's algorithm as in the authors' program."""


def algorithms(scale: Scale) -> dict[str, Algorithm]:
    """The paper's five algorithms as in the authors' program."""
    return {
        "FedZO": FedZO(),
        "FedProx": prox(),
        "ScaffoldI": ScaffoldI(),
        "ScaffoldII": ScaffoldII(),
        PROGRAM: fzoos(scale),
    }


def companions(scale: Scale) -> dict[str, Algorithm]:
    """The companion lines of the figures of the quadratic."""
    return {f"{PROGRAM}, measured length": fzoos(scale, length=Measured()), "FedLineSearch (Auto)": FedLineSearch()}


def with_steps(algorithm: Algorithm | ExactGradient, t: int) -> Algorithm | ExactGradient:
    """The algorithm with T local steps; one that has none is returned as it is."""
    return replace(algorithm, local_steps=t) if isinstance(algorithm, LocalSteps | ExactGradient) else algorithm


def quadratic(scale: Scale, heterogeneity: float, seed: int) -> TaskSpec:
    """The paper's quadratic at the size of the experiments."""
    return TaskSpec.of("quadratic", heterogeneity=heterogeneity, seed=seed, dim=scale.pick(300, 50))


def _lines(
    algorithms: Mapping[str, Algorithm], runs: Callable[[Algorithm], Sequence[tuple[Run, ...]]], role: Any = "paper"
) -> tuple[Line, ...]:
    return tuple(Line(label, tuple(runs(algorithm)), role) for label, algorithm in algorithms.items())


def _quadratic_panel(
    scale: Scale,
    heterogeneity: float,
    title: str,
    lines: dict[str, Algorithm],
    companions: dict[str, Algorithm] | None = None,
    t: int = 10,
) -> Panel:
    def runs(algorithm: Algorithm, rounds: int = scale.pick_rounds(50, 8)) -> Sequence[tuple[Run, ...]]:
        stepping = with_steps(algorithm, t)
        return [(Run(quadratic(scale, heterogeneity, seed), stepping, rounds, seed),) for seed in scale.repetitions()]

    return Panel(title, (*_lines(lines, runs), *_lines(companions or {}, runs, "companion")))


def _whole_trajectory(scale: Scale, panel: Panel, heterogeneity: float) -> Panel:
    """Add the algorithm of the paper's text, for 20 rounds: its cost grows with the square of the trajectory."""
    rounds = scale.pick_rounds(20, 8)
    text = FZooS(features=scale.features, device=scale.surrogates)
    runs = tuple((Run(quadratic(scale, heterogeneity, seed), text, rounds, seed),) for seed in scale.repetitions())
    return replace(panel, lines=(*panel.lines, Line("FZooS", runs, "companion")))


def fig1(scale: Scale) -> Figure:
    """The quadratic with C varied."""
    panels = []
    for c in (0.5, 5.0, 50.0):
        others = companions(scale) | {f"{PROGRAM}, length 1": fzoos(scale, length=Constant(1.0))}
        panel = _quadratic_panel(scale, c, f"C = {c:g}", algorithms(scale), others)
        panels.append(_whole_trajectory(scale, panel, c))
    return Figure("fig1", "quadratic, heterogeneity C varied", "gap", tuple(panels))


def fig4(scale: Scale) -> Figure:
    """Cosine similarity within a round of T = 20 local steps, which FedLineSearch does not have."""

    def runs(algorithm: Algorithm) -> Sequence[tuple[Run, ...]]:
        stepping = with_steps(algorithm, 20)
        return [
            (Run(quadratic(scale, 5.0, seed), stepping, 2, seed, quantity="cosine"),) for seed in scale.repetitions()
        ]

    measured = {f"{PROGRAM}, measured length": fzoos(scale, length=Measured())}
    lines = (*_lines(algorithms(scale), runs), *_lines(measured, runs, "companion"))
    caption = "quadratic, C = 5: cosine of the gradient estimate to grad F within round 2 (T = 20), cumulative mean"
    return Figure("fig4", caption, "cosine", (Panel("C = 5, T = 20, round 2", lines),))


def fig5(scale: Scale) -> Figure:
    """The quadratic with T varied."""
    panels = tuple(
        _quadratic_panel(scale, 5.0, f"C = 5, T = {t}", algorithms(scale), companions(scale), t) for t in (5, 10, 20)
    )
    return Figure("fig5", "quadratic, C = 5, local steps T varied", "gap", panels)


def fig6a(scale: Scale) -> Figure:
    """FZooS on the quadratic with the number of features M varied."""
    counts = scale.pick((100, 1_000, 10_000), (50, 500))
    lines: dict[str, Algorithm] = {f"M = {m:,}": fzoos(scale, features=m) for m in counts}
    panels = tuple(_quadratic_panel(scale, c, f"C = {c:g}", lines) for c in (0.5, 5.0, 50.0))
    return Figure("fig6a", f"{PROGRAM}, on the quadratic, features M varied", "gap", panels)


def fig6b(scale: Scale) -> Figure:
    """FZooS on the quadratic with and without adaptive correction."""
    m = scale.pick(1_000, 200)
    lines: dict[str, Algorithm] = {
        "adaptive vector and length": fzoos(scale, features=m),
        "length fixed: γ = 1": fzoos(scale, features=m, length=Constant(1.0)),
        "vector fixed: x' = x'' = x of round r - 1": fzoos(scale, features=m, vector="fixed"),
        "both fixed": fzoos(scale, features=m, length=Constant(1.0), vector="fixed"),
    }
    panels = tuple(_quadratic_panel(scale, c, f"C = {c:g}", lines) for c in (0.5, 5.0, 50.0))
    return Figure("fig6b", f"{PROGRAM}, without adaptive correction on the quadratic, M = {m:,}", "gap", panels)


def _three_roles(scale: Scale, runs: Callable[[Algorithm], Sequence[tuple[Run, ...]]]) -> tuple[Line, ...]:
    """The paper's five algorithms, the choice of Auto, and stored runs of FZooS without queries of its iterates."""
    ablation = WithoutIterates(**vars(fzoos(scale)) | {"projected": False})
    return (
        *_lines(algorithms(scale), runs),
        *_lines({"FedLineSearch (Auto)": FedLineSearch()}, runs, "companion"),
        *_lines({f"{PROGRAM}, without iterate queries, not projected": ablation}, runs, "stored"),
    )


def _attack_panels(
    scale: Scale, dataset: str, portions: Iterable[tuple[float, int]], rounds: int, title: str
) -> tuple[Panel, ...]:
    images = scale.pick(15, 3)
    panels = []
    for portion, steps in portions:

        def runs(algorithm: Algorithm, portion: float = portion, steps: int = steps) -> Sequence[tuple[Run, ...]]:
            stepping, found = with_steps(algorithm, steps), []
            for seed in scale.repetitions(1, 1):
                settings = {"portion": portion, "seed": seed, "device": scale.device, "images": images}
                task = TaskSpec.of("attack", dataset=dataset, quick=scale.quick, **settings)
                found.append(tuple(Run(task, stepping, rounds, seed, image=i) for i in range(images)))
            return found

        panels.append(Panel(title.format(p=portion, t=steps), _three_roles(scale, runs)))
    return tuple(panels)


def fig2(scale: Scale) -> Figure:
    """The attack on CIFAR-10 with P varied."""
    settings = [(p, 10) for p in scale.pick((0.3, 0.5, 0.7), (0.5,))]
    panels = _attack_panels(scale, "cifar10", settings, scale.pick_rounds(150, 5), "P = {p:g}")
    return Figure("fig2", "black-box attack on CIFAR-10, portion P of classes varied (T = 10)", "success", panels)


def fig7(scale: Scale) -> Figure:
    """The attack on CIFAR-10 with T varied."""
    settings = [(0.5, t) for t in scale.pick((5, 10, 20), (5,))]
    panels = _attack_panels(scale, "cifar10", settings, scale.pick_rounds(150, 5), "T = {t}")
    return Figure("fig7", "black-box attack on CIFAR-10, local steps T varied (P = 0.5)", "success", panels)


def fig8(scale: Scale) -> Figure:
    """The attack on MNIST with P and T varied."""
    settings = [(p, 5) for p in scale.pick((0.5, 0.7, 0.9), (0.7,))] + [(0.7, t) for t in scale.pick((10, 20), (10,))]
    panels = _attack_panels(scale, "mnist", settings, scale.pick_rounds(100, 6), "P = {p:g}, T = {t}")
    return Figure("fig8", "black-box attack on MNIST, portion P and local steps T varied", "success", panels)


def _metric_figure(
    name: str, scale: Scale, metric: str, portions: Iterable[float], steps: Iterable[int], what: str
) -> Figure:
    rounds = scale.pick_rounds(50, 4)
    samples = scale.samples or scale.pick(None, 20_000)
    panels = []
    for portion, t in [(p, 10) for p in portions] + [(0.3, t) for t in steps]:

        def runs(algorithm: Algorithm, portion: float = portion, t: int = t) -> Sequence[tuple[Run, ...]]:
            stepping, found = with_steps(algorithm, t), []
            for seed in scale.repetitions():
                settings = {"portion": portion, "seed": seed, "device": scale.device, "samples": samples}
                found.append((Run(TaskSpec.of("metric", metric=metric, **settings), stepping, rounds, seed),))
            return found

        panels.append(Panel(f"P = {portion:g}, T = {t}", _three_roles(scale, runs)))
    return Figure(name, f"1 - {metric} on Covertype, {what} varied", "percent", tuple(panels))


def fig3(scale: Scale) -> Figure:
    """Precision on Covertype with P varied."""
    return _metric_figure("fig3", scale, "precision", scale.pick((0.3, 0.5, 0.7), (0.3,)), (), "portion P of classes")


def fig9(scale: Scale) -> Figure:
    """Precision on Covertype with T varied."""
    return _metric_figure("fig9", scale, "precision", (), scale.pick((5, 10, 20), (5,)), "local steps T")


def _other_metric(name: str, metric: str) -> Callable[[Scale], Figure]:
    def figure(scale: Scale) -> Figure:
        portions, steps = scale.pick(((0.3, 0.5, 0.7), (5, 20)), ((0.3,), (5,)))
        return _metric_figure(name, scale, metric, portions, steps, "portion P and local steps T")

    return figure


def _prompt_figure(name: str, caption: str, scale: Scale) -> Figure:
    lines: dict[str, Algorithm | ExactGradient] = {
        "FedLineSearch": FedLineSearch(),
        "FedCMA": FedCMA(),
        "FedBPT": FedBPT(),
        "FedZO": FedZO(),
        "DeComFL": DeComFL(),
        "exact gradient": ExactGradient(),
    }
    rounds, steps = scale.pick_rounds(15, 2), scale.pick(10, 2)
    small = scale.pick({}, {"dim": 20, "clients": 2, "texts": 3, "test": 12})

    def line(label: str, algorithm: Algorithm | ExactGradient, c: float) -> Line:
        tasks = [
            TaskSpec.of(name, heterogeneity=c, seed=seed, device=scale.device, **small)
            for seed in scale.repetitions(3, 1)
        ]
        return Line(label, tuple((Run(task, with_steps(algorithm, steps), rounds, k),) for k, task in enumerate(tasks)))

    panels = tuple(
        Panel(f"C = {c:g}", tuple(line(label, algorithm, c) for label, algorithm in lines.items()))
        for c in scale.pick((2.0, 10.0), (2.0,))
    )
    return Figure(name, caption, "loss", panels)


def prompt(scale: Scale) -> Figure:
    """The prompt of a language model, which is no figure of the paper."""
    return _prompt_figure("prompt", "a language model's soft prompt, heterogeneity C of the texts varied", scale)


FIGURES: dict[str, Callable[[Scale], Figure]] = {
    "fig1": fig1,
    "fig2": fig2,
    "fig3": fig3,
    "fig4": fig4,
    "fig5": fig5,
    "fig6a": fig6a,
    "fig6b": fig6b,
    "fig7": fig7,
    "fig8": fig8,
    "fig9": fig9,
    "fig10": _other_metric("fig10", "recall"),
    "fig11": _other_metric("fig11", "f1"),
    "fig12": _other_metric("fig12", "jaccard"),
    "prompt": prompt,
}
"""The figures by their names on the command line."""

DURATIONS: dict[str, tuple[str, str]] = {
    "fig1": ("30 min", "20 s"),
    "fig2": ("20 min, on a GPU", "2.5 min"),
    "fig3": ("hours", "20 s"),
    "fig4": ("20 s", "5 s"),
    "fig5": ("20 min", "20 s"),
    "fig6a": ("15 min", "5 s"),
    "fig6b": ("10 min", "15 s"),
    "fig7": ("20 min, on a GPU", "40 s"),
    "fig8": ("4 h", "50 s"),
    "fig9": ("hours", "15 s"),
    "fig10": ("hours", "25 s"),
    "fig11": ("hours", "25 s"),
    "fig12": ("hours", "25 s"),
    "prompt": ("15 min, on a GPU", "10 min"),
}
"""The approximate duration of a figure on two cores: at full size, and with --quick."""


def make(name: str, scale: Scale) -> Figure:
    """Make the description of a figure."""
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; choose from {', '.join(FIGURES)}, all")
    return FIGURES[name](scale)
