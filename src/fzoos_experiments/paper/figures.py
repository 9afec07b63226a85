"""The figures of the paper and of the prompt task: panels of lines, and the runs of each line for each seed.

Each figure is drawn twice: as in the paper, with its five algorithms, and with companion lines: the choice of `Auto`,
and FZooS with the measured length. "FZooS" conditions on the whole trajectory, as in the paper's text; "FZooS, nearest
150" on the nearest 150 points (500 for the weights), as in the authors' program, whose results the paper shows.

The paper does not give P and T of every figure. They vary over three values around those of the authors' commands: P
around 0.5 (CIFAR-10), 0.7 (MNIST) and 0.3 (Covertype), T over 5, 10 and 20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
Role = Literal["paper", "companion", "stored"]


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
    role: Role = "paper"


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


def three_roles(scale: Scale) -> dict[Role, dict[str, Algorithm]]:
    """The paper's five algorithms, the choice of Auto, and stored runs of FZooS without queries of its iterates."""
    ablation = WithoutIterates(**vars(fzoos(scale)) | {"projected": False})
    return {
        "paper": algorithms(scale),
        "companion": {"FedLineSearch (Auto)": FedLineSearch()},
        "stored": {f"{PROGRAM}, without iterate queries, not projected": ablation},
    }


def make_panel(
    title: str,
    lines: Mapping[Role, Mapping[str, Algorithm | ExactGradient]],
    seeds: Iterable[int],
    t: int,
    runs: Callable[[Algorithm | ExactGradient, int], tuple[Run, ...]],
) -> Panel:
    """Make a panel.

    Args:
        title: its title.
        lines: for each role the labels and algorithms of the lines.
        seeds: the seeds of each line.
        t: T, the number of local steps of those algorithms that have local steps.
        runs: makes the runs of an algorithm and a seed.
    """

    def line(label: str, algorithm: Algorithm | ExactGradient, role: Role) -> Line:
        if isinstance(algorithm, LocalSteps | ExactGradient):
            algorithm = replace(algorithm, local_steps=t)
        return Line(label, tuple(runs(algorithm, seed) for seed in seeds), role)

    return Panel(title, tuple(line(*item, role) for role, group in lines.items() for item in group.items()))


def quadratic_panel(
    scale: Scale,
    heterogeneity: float,
    title: str,
    lines: Mapping[Role, Mapping[str, Algorithm]],
    t: int = 10,
    rounds: int | None = None,
    quantity: Literal["F", "cosine"] = "F",
) -> Panel:
    """A panel of the paper's quadratic."""
    total = scale.pick_rounds(50, 8) if rounds is None else rounds

    def runs(algorithm: Algorithm | ExactGradient, seed: int) -> tuple[Run, ...]:
        task = TaskSpec.of("quadratic", heterogeneity=heterogeneity, seed=seed, dim=scale.pick(300, 50))
        return (Run(task, algorithm, total, seed, quantity=quantity),)

    return make_panel(title, lines, scale.repetitions(), t, runs)


def fig1(scale: Scale) -> Figure:
    """The quadratic with C varied, also for the paper's text, whose cost grows with the square of the trajectory."""
    others = companions(scale) | {f"{PROGRAM}, length 1": fzoos(scale, length=Constant(1.0))}
    text: dict[Role, dict[str, Algorithm]] = {
        "companion": {"FZooS": FZooS(features=scale.features, device=scale.surrogates)}
    }
    panels = []
    for c in (0.5, 5.0, 50.0):
        panel = quadratic_panel(scale, c, f"C = {c:g}", {"paper": algorithms(scale), "companion": others})
        whole = quadratic_panel(scale, c, "", text, rounds=scale.pick_rounds(20, 8))
        panels.append(replace(panel, lines=panel.lines + whole.lines))
    return Figure("fig1", "quadratic, heterogeneity C varied", "gap", tuple(panels))


def fig4(scale: Scale) -> Figure:
    """Cosine similarity within a round of T = 20 local steps, which FedLineSearch does not have."""
    lines: dict[Role, dict[str, Algorithm]] = {
        "paper": algorithms(scale),
        "companion": {f"{PROGRAM}, measured length": fzoos(scale, length=Measured())},
    }
    panel = quadratic_panel(scale, 5.0, "C = 5, T = 20, round 2", lines, 20, 2, "cosine")
    caption = "quadratic, C = 5: cosine of the gradient estimate to grad F within round 2 (T = 20), cumulative mean"
    return Figure("fig4", caption, "cosine", (panel,))


def fig5(scale: Scale) -> Figure:
    """The quadratic with T varied."""
    lines: dict[Role, dict[str, Algorithm]] = {"paper": algorithms(scale), "companion": companions(scale)}
    panels = tuple(quadratic_panel(scale, 5.0, f"C = 5, T = {t}", lines, t) for t in (5, 10, 20))
    return Figure("fig5", "quadratic, C = 5, local steps T varied", "gap", panels)


def fig6a(scale: Scale) -> Figure:
    """FZooS on the quadratic with the number of features M varied."""
    counts = scale.pick((100, 1_000, 10_000), (50, 500))
    lines: dict[Role, dict[str, Algorithm]] = {"paper": {f"M = {m:,}": fzoos(scale, features=m) for m in counts}}
    panels = tuple(quadratic_panel(scale, c, f"C = {c:g}", lines) for c in (0.5, 5.0, 50.0))
    return Figure("fig6a", f"{PROGRAM}, on the quadratic, features M varied", "gap", panels)


def fig6b(scale: Scale) -> Figure:
    """FZooS on the quadratic with and without adaptive correction."""
    m = scale.pick(1_000, 200)
    variants: dict[str, Algorithm] = {
        "adaptive vector and length": fzoos(scale, features=m),
        "length fixed: γ = 1": fzoos(scale, features=m, length=Constant(1.0)),
        "vector fixed: x' = x'' = x of round r - 1": fzoos(scale, features=m, vector="fixed"),
        "both fixed": fzoos(scale, features=m, length=Constant(1.0), vector="fixed"),
    }
    panels = tuple(quadratic_panel(scale, c, f"C = {c:g}", {"paper": variants}) for c in (0.5, 5.0, 50.0))
    return Figure("fig6b", f"{PROGRAM}, without adaptive correction on the quadratic, M = {m:,}", "gap", panels)


def attack_panel(scale: Scale, dataset: str, portion: float, t: int, rounds: int, title: str) -> Panel:
    """A panel of the attack on some images of a dataset."""
    images = scale.pick(15, 3)

    def runs(algorithm: Algorithm | ExactGradient, seed: int) -> tuple[Run, ...]:
        settings = {"portion": portion, "seed": seed, "device": scale.device, "images": images, "quick": scale.quick}
        task = TaskSpec.of("attack", dataset=dataset, **settings)
        return tuple(Run(task, algorithm, rounds, seed, image=i) for i in range(images))

    return make_panel(title, three_roles(scale), scale.repetitions(1, 1), t, runs)


def fig2(scale: Scale) -> Figure:
    """The attack on CIFAR-10 with P varied."""
    rounds, portions = scale.pick_rounds(150, 5), scale.pick((0.3, 0.5, 0.7), (0.5,))
    panels = tuple(attack_panel(scale, "cifar10", p, 10, rounds, f"P = {p:g}") for p in portions)
    return Figure("fig2", "black-box attack on CIFAR-10, portion P of classes varied (T = 10)", "success", panels)


def fig7(scale: Scale) -> Figure:
    """The attack on CIFAR-10 with T varied."""
    rounds, steps = scale.pick_rounds(150, 5), scale.pick((5, 10, 20), (5,))
    panels = tuple(attack_panel(scale, "cifar10", 0.5, t, rounds, f"T = {t}") for t in steps)
    return Figure("fig7", "black-box attack on CIFAR-10, local steps T varied (P = 0.5)", "success", panels)


def fig8(scale: Scale) -> Figure:
    """The attack on MNIST with P and T varied."""
    settings = [(p, 5) for p in scale.pick((0.5, 0.7, 0.9), (0.7,))] + [(0.7, t) for t in scale.pick((10, 20), (10,))]
    rounds = scale.pick_rounds(100, 6)
    panels = tuple(attack_panel(scale, "mnist", p, t, rounds, f"P = {p:g}, T = {t}") for p, t in settings)
    return Figure("fig8", "black-box attack on MNIST, portion P and local steps T varied", "success", panels)


def metric_figure(
    name: str, scale: Scale, metric: str, portions: Iterable[float], steps: Iterable[int], varied: str
) -> Figure:
    """A figure of a metric on Covertype, with P varied at T = 10 and T varied at P = 0.3."""

    def panel(portion: float, t: int) -> Panel:
        samples = scale.samples or scale.pick(None, 20_000)

        def runs(algorithm: Algorithm | ExactGradient, seed: int) -> tuple[Run, ...]:
            settings = {"portion": portion, "seed": seed, "device": scale.device, "samples": samples}
            return (Run(TaskSpec.of("metric", metric=metric, **settings), algorithm, scale.pick_rounds(50, 4), seed),)

        return make_panel(f"P = {portion:g}, T = {t}", three_roles(scale), scale.repetitions(), t, runs)

    panels = (*(panel(p, 10) for p in portions), *(panel(0.3, t) for t in steps))
    return Figure(name, f"1 - {metric} on Covertype, {varied} varied", "percent", panels)


def fig3(scale: Scale) -> Figure:
    """Precision on Covertype with P varied."""
    return metric_figure("fig3", scale, "precision", scale.pick((0.3, 0.5, 0.7), (0.3,)), (), "portion P of classes")


def fig9(scale: Scale) -> Figure:
    """Precision on Covertype with T varied."""
    return metric_figure("fig9", scale, "precision", (), scale.pick((5, 10, 20), (5,)), "local steps T")


def _other_metric(name: str, metric: str) -> Callable[[Scale], Figure]:
    def figure(scale: Scale) -> Figure:
        portions, steps = scale.pick(((0.3, 0.5, 0.7), (5, 20)), ((0.3,), (5,)))
        return metric_figure(name, scale, metric, portions, steps, "portion P and local steps T")

    return figure


def prompt(scale: Scale) -> Figure:
    """The prompt of a language model, which is no figure of the paper."""
    lines: dict[str, Algorithm | ExactGradient] = {
        "FedLineSearch": FedLineSearch(),
        "FedCMA": FedCMA(),
        "FedBPT": FedBPT(),
        "FedZO": FedZO(),
        "DeComFL": DeComFL(),
        "exact gradient": ExactGradient(),
    }

    def panel(c: float) -> Panel:
        small = scale.pick({}, {"dim": 20, "clients": 2, "texts": 3, "test": 12})

        def runs(algorithm: Algorithm | ExactGradient, seed: int) -> tuple[Run, ...]:
            task = TaskSpec.of("prompt", heterogeneity=c, seed=seed, device=scale.device, **small)
            return (Run(task, algorithm, scale.pick_rounds(15, 2), seed),)

        return make_panel(f"C = {c:g}", {"paper": lines}, scale.repetitions(3, 1), scale.pick(10, 2), runs)

    panels = tuple(panel(c) for c in scale.pick((2.0, 10.0), (2.0,)))
    return Figure("prompt", "a language model's soft prompt, heterogeneity C of the texts varied", "loss", panels)


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
    "fig2": ("30 min, on a GPU", "2.5 min"),
    "fig3": ("hours", "20 s"),
    "fig4": ("20 s", "5 s"),
    "fig5": ("20 min", "20 s"),
    "fig6a": ("15 min", "5 s"),
    "fig6b": ("10 min", "15 s"),
    "fig7": ("30 min, on a GPU", "40 s"),
    "fig8": ("4 h", "50 s"),
    "fig9": ("hours", "15 s"),
    "fig10": ("hours", "25 s"),
    "fig11": ("hours", "25 s"),
    "fig12": ("hours", "25 s"),
    "prompt": ("25 min, on a GPU", "10 min"),
}
"""The approximate duration of a figure on two cores: at full size, and with --quick."""


def make(name: str, scale: Scale) -> Figure:
    """Make the description of a figure."""
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; choose from {', '.join(FIGURES)}, all")
    return FIGURES[name](scale)
