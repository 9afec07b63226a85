"""What each figure of the paper, and those of the prompt task, are made of: panels of lines, each some runs per seed.

The text of the paper does not give P and T of every figure; they vary over three values around those of the authors'
commands: P around 0.5 (CIFAR-10), 0.7 (MNIST) and 0.3 (Covertype), T over 5, 10 and 20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from fzoos.algorithms import (
    Algorithm,
    DeComFL,
    FedBPT,
    FedCMA,
    FedProx,
    FedZO,
    FixedFZooS,
    FZooS,
    ScaffoldI,
    ScaffoldII,
)
from fzoos.algorithms.finite_differences import FiniteDifferences
from fzoos.algorithms.fixed_fzoos.correction_lengths import Constant
from fzoos.experiments.run import Run
from fzoos.experiments.scale import Scale
from fzoos.experiments.task_spec import TaskSpec

__all__ = ["ALL", "DURATIONS", "FIGURES", "Figure", "Line", "Panel", "Quantity", "Scale", "make"]

Quantity = Literal["gap", "percent", "success", "cosine", "loss"]


@dataclass(frozen=True)
class Line:
    """One curve with its error band: for each seed, the runs it is made of (one, or one per image)."""

    label: str
    runs: tuple[tuple[Run, ...], ...]


@dataclass(frozen=True)
class Panel:
    """Curves that share their axes."""

    title: str
    lines: tuple[Line, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, each once, in the order in which they are wanted."""
        return tuple(dict.fromkeys(run for line in self.lines for seed in line.runs for run in seed))


@dataclass(frozen=True)
class Figure:
    """A figure: its panels, and what the vertical axis shows.

    Args:
        name: such as "fig1".
        caption: what it shows, in one line.
        quantity: "gap" (F - F*), "percent" (100 F), "success" (rate over images), "cosine" or "loss" (F).
        panels: each is drawn against rounds and against queries.
    """

    name: str
    caption: str
    quantity: Quantity
    panels: tuple[Panel, ...]

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, each once, in the order in which they are wanted."""
        return tuple(dict.fromkeys(run for panel in self.panels for run in panel.runs))


def paper(scale: Scale, **changes: Any) -> FixedFZooS:
    """The paper's settings with the nearest points of its authors' program, whose results the paper shows."""
    settings = {"points": 150, "feature_points": 500, "features": scale.features, "device": scale.surrogates}
    return FZooS.paper(**{**settings, **changes})


def prox() -> FedProx:
    """FedProx as the paper's authors run it: gamma = 1 in the unit cube, and orthonormal directions.

    The directions matter for FedProx alone: they make gradients d times too short, which Adam does not see, but which
    makes the proximal term d times stronger beside them.
    """
    return FedProx(gamma=1.0, differences=FiniteDifferences(directions="orthonormal"))


def algorithms(scale: Scale) -> dict[str, Algorithm]:
    """The paper's five algorithms, FZooS with the paper's settings; and our default."""
    return {
        "FedZO": FedZO(),
        "FedProx": prox(),
        "ScaffoldI": ScaffoldI(),
        "ScaffoldII": ScaffoldII(),
        "FZooS, paper's settings": paper(scale),
        "FZooS": FZooS(),
    }


def local_steps(algorithm: Algorithm, t: int) -> int:
    """T of a run; where there are no local steps one run serves every T."""
    return 10 if algorithm.steered else t


def quadratic(scale: Scale, heterogeneity: float, seed: int) -> TaskSpec:
    """The synthetic task."""
    return TaskSpec.of("quadratic", heterogeneity=heterogeneity, seed=seed, dim=scale.pick(300, 50))


def _quadratic_panel(scale: Scale, heterogeneity: float, title: str, lines: dict[str, Algorithm], t: int = 10) -> Panel:
    rounds = scale.pick_rounds(50, 8)
    return Panel(
        title,
        tuple(
            Line(
                label,
                tuple(
                    (Run(quadratic(scale, heterogeneity, seed), algorithm, rounds, local_steps(algorithm, t), seed),)
                    for seed in scale.repetitions()
                ),
            )
            for label, algorithm in lines.items()
        ),
    )


def fig1(scale: Scale) -> Figure:
    """Quadratic, C varied."""
    panels = tuple(_quadratic_panel(scale, c, f"C = {c:g}", algorithms(scale)) for c in (0.5, 5.0, 50.0))
    return Figure("fig1", "quadratic, heterogeneity C varied", "gap", panels)


def fig4(scale: Scale) -> Figure:
    """Cosine similarity within a round, T = 20; our default has no steps within a round."""
    stepping = algorithms(scale) | {"FZooS": FZooS.weights(features=scale.features, device=scale.surrogates)}
    stepping["FZooS.weights()"] = stepping.pop("FZooS")
    lines = tuple(
        Line(
            label,
            tuple(
                (Run(quadratic(scale, 5.0, seed), algorithm, 2, 20, seed, quantity="cosine"),)
                for seed in scale.repetitions()
            ),
        )
        for label, algorithm in stepping.items()
    )
    caption = "quadratic, C = 5: cosine of the gradient estimate to grad F within round 2 (T = 20), cumulative mean"
    return Figure("fig4", caption, "cosine", (Panel("C = 5, T = 20, round 2", lines),))


def fig5(scale: Scale) -> Figure:
    """Quadratic, T varied."""
    panels = tuple(_quadratic_panel(scale, 5.0, f"C = 5, T = {t}", algorithms(scale), t) for t in (5, 10, 20))
    return Figure("fig5", "quadratic, C = 5, local steps T varied", "gap", panels)


def fig6a(scale: Scale) -> Figure:
    """M varied."""
    counts = scale.pick((100, 1_000, 10_000), (50, 500))
    lines: dict[str, Algorithm] = {f"M = {m:,}": paper(scale, features=m) for m in counts}
    panels = tuple(_quadratic_panel(scale, c, f"C = {c:g}", lines) for c in (0.5, 5.0, 50.0))
    return Figure("fig6a", "FZooS with the paper's settings on the quadratic, features M varied", "gap", panels)


def fig6b(scale: Scale) -> Figure:
    """Without adaptive correction."""
    m = scale.pick(1_000, 200)
    lines: dict[str, Algorithm] = {
        "adaptive vector and length": paper(scale, features=m),
        "length fixed: γ = 1": paper(scale, features=m, length=Constant(1.0)),
        "vector fixed: x' = x'' = x of round r - 1": paper(scale, features=m, vector="fixed"),
        "both fixed": paper(scale, features=m, length=Constant(1.0), vector="fixed"),
    }
    panels = tuple(_quadratic_panel(scale, c, f"C = {c:g}", lines) for c in (0.5, 5.0, 50.0))
    return Figure("fig6b", f"FZooS without adaptive correction on the quadratic, M = {m:,}", "gap", panels)


def _attack_panels(
    scale: Scale, dataset: str, portions: Iterable[tuple[float, int]], rounds: int, title: str
) -> tuple[Panel, ...]:
    images = scale.pick(15, 3)
    panels = []
    for portion, steps in portions:
        lines = []
        for label, algorithm in algorithms(scale).items():
            seeds = []
            for seed in scale.repetitions(1, 1):
                task = TaskSpec.of(
                    "attack",
                    dataset=dataset,
                    portion=portion,
                    seed=seed,
                    device=scale.device,
                    images=images,
                    quick=scale.quick,
                )
                t = local_steps(algorithm, steps)
                seeds.append(tuple(Run(task, algorithm, rounds, t, seed, image=i) for i in range(images)))
            lines.append(Line(label, tuple(seeds)))
        panels.append(Panel(title.format(p=portion, t=steps), tuple(lines)))
    return tuple(panels)


def fig2(scale: Scale) -> Figure:
    """CIFAR-10 attack, P varied."""
    settings = [(p, 10) for p in scale.pick((0.3, 0.5, 0.7), (0.5,))]
    panels = _attack_panels(scale, "cifar10", settings, scale.pick_rounds(150, 5), "P = {p:g}")
    return Figure("fig2", "black-box attack on CIFAR-10, portion P of classes varied (T = 10)", "success", panels)


def fig7(scale: Scale) -> Figure:
    """CIFAR-10 attack, T varied."""
    settings = [(0.5, t) for t in scale.pick((5, 10, 20), (5,))]
    panels = _attack_panels(scale, "cifar10", settings, scale.pick_rounds(150, 5), "T = {t}")
    return Figure("fig7", "black-box attack on CIFAR-10, local steps T varied (P = 0.5)", "success", panels)


def fig8(scale: Scale) -> Figure:
    """MNIST attack, P and T varied."""
    settings = [(p, 5) for p in scale.pick((0.5, 0.7, 0.9), (0.7,))] + [(0.7, t) for t in scale.pick((10, 20), (10,))]
    panels = _attack_panels(scale, "mnist", settings, scale.pick_rounds(100, 6), "P = {p:g}, T = {t}")
    return Figure("fig8", "black-box attack on MNIST, portion P and local steps T varied", "success", panels)


def _metric_figure(
    name: str, scale: Scale, metric: str, portions: Iterable[float], steps: Iterable[int], what: str
) -> Figure:
    rounds = scale.pick_rounds(50, 4)
    panels = []
    for portion, t in [(p, 10) for p in portions] + [(0.3, t) for t in steps]:
        lines = []
        for label, algorithm in algorithms(scale).items():
            seeds = []
            for seed in scale.repetitions():
                task = TaskSpec.of(
                    "metric",
                    metric=metric,
                    portion=portion,
                    seed=seed,
                    device=scale.device,
                    samples=scale.samples or scale.pick(None, 20_000),
                )
                seeds.append((Run(task, algorithm, rounds, local_steps(algorithm, t), seed),))
            lines.append(Line(label, tuple(seeds)))
        panels.append(Panel(f"P = {portion:g}, T = {t}", tuple(lines)))
    return Figure(name, f"1 - {metric} on Covertype, {what} varied", "percent", tuple(panels))


def fig3(scale: Scale) -> Figure:
    """Precision, P varied."""
    return _metric_figure("fig3", scale, "precision", scale.pick((0.3, 0.5, 0.7), (0.3,)), (), "portion P of classes")


def fig9(scale: Scale) -> Figure:
    """Precision, T varied."""
    return _metric_figure("fig9", scale, "precision", (), scale.pick((5, 10, 20), (5,)), "local steps T")


def _other_metric(name: str, metric: str) -> Callable[[Scale], Figure]:
    def figure(scale: Scale) -> Figure:
        portions, steps = scale.pick(((0.3, 0.5, 0.7), (5, 20)), ((0.3,), (5,)))
        return _metric_figure(name, scale, metric, portions, steps, "portion P and local steps T")

    figure.__doc__ = f"1 - {metric}, P and T varied."
    return figure


def _prompt_figure(name: str, caption: str, scale: Scale) -> Figure:
    lines: dict[str, Algorithm | None] = {
        "FZooS": FZooS(),
        "FixedFZooS": FixedFZooS(),
        "FedCMA": FedCMA(),
        "FedBPT": FedBPT(),
        "FedZO": FedZO(),
        "DeComFL": DeComFL(),
        "exact gradient": None,
    }
    rounds, steps = scale.pick_rounds(15, 2), scale.pick(10, 2)
    small = scale.pick({}, {"dim": 20, "clients": 2, "texts": 3, "test": 12})

    def line(label: str, algorithm: Algorithm | None, c: float) -> Line:
        tasks = [
            TaskSpec.of(name, heterogeneity=c, seed=seed, device=scale.device, **small)
            for seed in scale.repetitions(3, 1)
        ]
        return Line(label, tuple((Run(task, algorithm, rounds, steps, k),) for k, task in enumerate(tasks)))

    panels = tuple(
        Panel(f"C = {c:g}", tuple(line(label, algorithm, c) for label, algorithm in lines.items()))
        for c in scale.pick((2.0, 10.0), (2.0,))
    )
    return Figure(name, caption, "loss", panels)


def prompt(scale: Scale) -> Figure:
    """A language model's prompt, tuned by all: no figure of the paper."""
    return _prompt_figure("prompt", "a language model's soft prompt, heterogeneity C of the texts varied", scale)


def newsgroups(scale: Scale) -> Figure:
    """The same with other texts."""
    return _prompt_figure("newsgroups", "the same with posts of newsgroups, which have to be downloaded", scale)


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
    "newsgroups": newsgroups,
}
"""By the name used on the command line."""

ALL = tuple(name for name in FIGURES if name != "newsgroups")
"""What the word `all` means: the figures whose results are in the repository."""

DURATIONS: dict[str, tuple[str, str]] = {
    "fig1": ("20 min", "20 s"),
    "fig2": ("20 min, on a GPU", "2.5 min"),
    "fig3": ("hours", "20 s"),
    "fig4": ("10 s", "5 s"),
    "fig5": ("20 min", "20 s"),
    "fig6a": ("8 min", "5 s"),
    "fig6b": ("7 min", "15 s"),
    "fig7": ("20 min, on a GPU", "40 s"),
    "fig8": ("4 h", "50 s"),
    "fig9": ("hours", "15 s"),
    "fig10": ("hours", "25 s"),
    "fig11": ("hours", "25 s"),
    "fig12": ("hours", "25 s"),
    "prompt": ("15 min, on a GPU", "10 min"),
    "newsgroups": ("an hour, on a GPU", "half an hour"),
}
"""About how long a figure takes on two cores: at full size, and with --quick."""


def make(name: str, scale: Scale) -> Figure:
    """The figure of that name."""
    if name not in FIGURES:
        raise ValueError(f"there is no figure {name!r}; choose from {', '.join(FIGURES)}, all")
    return FIGURES[name](scale)
