"""Tables and plots of the measurements."""

from __future__ import annotations

import csv
import json
import math
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.describe import describe
from fzoos.runs.plots import colour_of
from fzoos_experiments.paper.theory.measurements import (
    DELTA,
    EXACT,
    OBSERVED,
    Row,
    convergence,
    disparities,
    features,
    lengths,
    uncertainty,
)

__all__ = ["MEASUREMENTS", "reproduce_theory"]


@dataclass(frozen=True)
class Curve:
    """A line of a plot; its colour is a number."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int
    style: str = "-"


@dataclass(frozen=True)
class Panel:
    """Curves that share their axes."""

    title: str
    xlabel: str
    ylabel: str
    curves: Sequence[Curve]
    logx: bool = False
    logy: bool = True
    line: float | None = None  # a horizontal line
    ylim: tuple[float, float] | None = None


@dataclass(frozen=True)
class Measurement:
    """The functions that make, summarise and draw the rows of a measurement."""

    rows: Callable[[bool], list[Row]]
    table: Callable[[list[Row]], list[Row]]
    panels: Callable[[list[Row]], list[Panel]]


def reproduce_theory(folder: Path, quick: bool = False, log: Callable[[str], object] = lambda line: None) -> Path:
    """Make all measurements, write NAME.csv, NAME.md (a summary), NAME.png and settings.json, and return the folder.

    Args:
        folder: the folder of the files; created if needed.
        quick: small dimensions and few rounds.
        log: receives a line for each finished measurement.

    Example:
        >>> from pathlib import Path
        >>> from fzoos_experiments.paper.theory import reproduce_theory
        >>> reproduce_theory(Path("results/theory"), quick=True)  # doctest: +SKIP
        PosixPath('results/theory')
    """
    folder.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    for name, measurement in MEASUREMENTS.items():
        started = time.process_time()
        rows = measurement.rows(quick)
        seconds[name] = round(time.process_time() - started, 1)
        _write_csv(rows, folder / f"{name}.csv")
        (folder / f"{name}.md").write_text(_markdown(measurement.table(rows)), encoding="utf-8")
        _draw(measurement.panels(rows), folder / f"{name}.png")
        log(f"{name}: {seconds[name]:.0f} s of processor time")
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    algorithms = {"a to d": describe(OBSERVED), "e": describe(EXACT)}
    settings = {"quick": quick, "delta": DELTA, "FZooS": algorithms, "made_with": versions, "cpu_seconds": seconds}
    (folder / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    return folder


# Tables


def _select(rows: Iterable[Row], **values: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in values.items())]


def _distinct(rows: Iterable[Row], *names: str) -> list[Row]:
    """The distinct combinations of some columns, in order."""
    found = dict.fromkeys(tuple(row[name] for name in names) for row in rows)
    return [dict(zip(names, values, strict=True)) for values in found]


def _column(rows: Iterable[Row], name: str) -> list[float]:
    return [float(row[name]) for row in rows]


def _mean(rows: Iterable[Row], name: str) -> float:
    return float(np.mean(_column(rows, name)))


def _by(rows: list[Row], key: str, name: str) -> tuple[list[float], list[float]]:
    """The means of a column at each value of another one, for example over seeds at each step."""
    places = sorted({float(row[key]) for row in rows})
    return places, [_mean(_select(rows, **{key: place}), name) for place in places]


def _uncertainty_table(rows: list[Row]) -> list[Row]:
    table: list[Row] = []
    for case in _distinct(rows, "function", "d"):
        own = _select(rows, **case)
        later = [row for row in own if float(row["round"]) > 1]
        last = own[-1]
        n, dim = float(last["n"]), float(last["d"])
        plain, fitted = _column(later, "error/bound"), _column(later, "error/bound, amplitude fitted")
        table.append(
            {
                "function": f"{case['function']}, d = {dim:.0f}",
                "n": f"{own[0]['n']} to {n:.0f}",
                "‖Σ‖ at the end": last["norm"],
                "tr Σ / d at the end": float(last["trace"]) / dim,
                "ρ that explains ‖Σ‖ at the end": f"{float(last['norm']) ** (1 / n):.5f}",
                "bound holds, from round 2 on": f"{np.mean(np.array(plain) <= 1):.0%}",
                "error / bound, median": float(np.median(plain)),
                "the same, amplitude fitted: holds": f"{np.mean(np.array(fitted) <= 1):.0%}",
                "median": float(np.median(fitted)),
            }
        )
    return table


def _features_table(rows: list[Row]) -> list[Row]:
    """Summarise squared errors times M, and the relative squared error with the paper's M."""
    table: list[Row] = []
    most = min(OBSERVED.features, max(int(row["M"]) for row in rows))
    for case in _distinct(rows, "d", "n"):
        own = _select(rows, **case)
        counts, errors = _by(own, "M", "error")
        products: Row = {f"M = {m:,.0f}": m * error for m, error in zip(counts, errors, strict=True)}
        table.append({**case, **products, f"error / ‖∇μᵢ‖², M = {most:,}": _mean(_select(own, M=most), "relative")})
    return table


_SHOWN = (1, 2, 5, 10)


def _lengths_table(rows: list[Row]) -> list[Row]:
    table: list[Row] = []
    for case in _distinct(rows, "C", "round", "length"):
        if str(case["length"]).startswith("γ =") or case["length"] == "1/t":
            continue
        own = _select(rows, **case)
        values = {f"t = {t}": f"{_mean(_select(own, step=t), 'gamma'):.4f}" for t in _SHOWN}
        table.append({"C": case["C"], "round": case["round"], "length": str(case["length"]), **values})
    return table


def _disparities_table(rows: list[Row]) -> list[Row]:
    """Summarise disparities as means over the local steps of a round."""
    table: list[Row] = []
    cases = _distinct(rows, "C", "round")
    for case in _distinct(rows, "algorithm"):
        means = {
            f"C = {place['C']:g}, round {place['round']}": _mean(_select(rows, **case, **place), "disparity")
            if _select(rows, **case, **place)
            else "—"
            for place in cases
        }
        table.append({"algorithm": str(case["algorithm"]), **means})
    return table


def _convergence_table(rows: list[Row]) -> list[Row]:
    """Summarise the contraction per round, the geometric mean over the rounds."""
    table: list[Row] = []
    for case in _distinct(rows, "C", "T"):
        own = _select(rows, **case)
        rate = {
            length: _rate(_column(_select(own, length=length), "gap"))
            for length in dict.fromkeys(row["length"] for row in own)
        }
        table.append(
            {
                "C": case["C"],
                "T": case["T"],
                **{f"FZooS, {length}": f"{value:.4f}" for length, value in rate.items()},
                "gradient descent (1 − ηα)^2T": f"{_rate(_column(own[:2], 'gradient descent')):.4f}",
                "Thm. 2, exp(−αηT/4)": f"{_rate(_column(own[:2], 'Thm. 2')):.4f}",
            }
        )
    return table


def _rate(gaps: list[float]) -> float:
    return math.pow(gaps[-1] / gaps[0], 1.0 / (len(gaps) - 1))


# Plots


def _uncertainty_panels(rows: list[Row]) -> list[Panel]:
    sizes = _distinct(rows, "function", "d")
    own = {f"{case['function']}, d = {case['d']}": _select(rows, **case) for case in sizes}
    shown = {label: n for n, label in enumerate(own)}
    left: list[Curve] = []
    for label, found in own.items():
        if not label.startswith("quadratic"):
            continue
        n, dim = _column(found, "n"), float(found[0]["d"])
        left.append(Curve(f"{label}: ‖Σ‖", n, _column(found, "norm"), shown[label]))
        left.append(Curve(f"{label}: tr Σ / d", n, [v / dim for v in _column(found, "trace")], shown[label], "--"))
    ratio = [
        Curve(label, _column(found, "n"), _column(found, "error/bound"), shown[label]) for label, found in own.items()
    ]
    fitted = [
        Curve(label, _column(found, "n"), _column(found, "error/bound, amplitude fitted"), shown[label])
        for label, found in own.items()
    ]
    return [
        Panel("uncertainty at the iterates", "queries n of a client", "κ = 1 before any", left),
        Panel(
            "error / (ω ‖Σ‖), unit: std of y", "queries n of a client", "at most 1 if Lemma C.1 holds", ratio, line=1.0
        ),
        Panel("error / (ω ‖Σ‖), unit: fitted amplitude", "queries n of a client", "", fitted, line=1.0),
    ]


def _features_panels(rows: list[Row]) -> list[Panel]:
    error, product = [], []
    for k, case in enumerate(_distinct(rows, "d", "n")):
        x, y = _by(_select(rows, **case), "M", "error")
        label = f"d = {case['d']}, n = {case['n']}"
        error.append(Curve(label, x, y, k))
        product.append(Curve(label, x, [m * e for m, e in zip(x, y, strict=True)], k))
    return [
        Panel("squared error ‖∇μ̂ᵢ − ∇μᵢ‖²", "features M", "standardised observations", error, logx=True),
        Panel("squared error × M", "features M", "", product, logx=True),
    ]


_LENGTHS = ("γ*", "1/t", "Cor. 1", "Cor. 2", "Measured")


def _lengths_panels(rows: list[Row]) -> list[Panel]:
    panels: list[Panel] = []
    for case in _distinct(rows, "round", "C"):
        own = _select(rows, **case)
        curves = [
            Curve(name, *_by(_select(own, length=name), "step", "gamma"), k, "-" if name == "γ*" else "--")
            for k, name in enumerate(_LENGTHS)
        ]
        title = f"C = {case['C']:g}, round {case['round']}"
        panels.append(Panel(title, "local step t", "correction length", curves, logy=False, ylim=(-0.1, 1.6)))
    return _by_round(panels)


def _disparities_panels(rows: list[Row]) -> list[Panel]:
    panels: list[Panel] = []
    names = [str(case["algorithm"]) for case in _distinct(rows, "algorithm")]
    shown = {name: k for k, name in enumerate(name for name in names if "γ =" not in name)}
    for case in _distinct(rows, "round", "C"):
        own = _select(rows, **case)
        curves = [
            Curve(name, *_by(found, "step", "disparity"), k, "-" if name.startswith("FZooS") else ":")
            for name, k in shown.items()
            if (found := _select(own, algorithm=name))
        ]
        title = f"C = {case['C']:g}, round {case['round']}"
        panels.append(Panel(title, "local step t", "‖ĝ − ∇F‖² / ‖∇F‖²", curves))
    return _by_round(panels)


def _by_round(panels: list[Panel]) -> list[Panel]:
    """Sort panels into one row per round."""
    return sorted(panels, key=lambda panel: int(panel.title.rsplit(" ", 1)[1]))


def _convergence_panels(rows: list[Row]) -> list[Panel]:
    panels: list[Panel] = []
    for case in _distinct(rows, "C"):
        curves: list[Curve] = []
        for k, steps in enumerate((5, 10, 20)):
            own = _select(rows, **case, T=steps)
            for length, style in (("γ = 1", "-"), ("1/t", "--")):
                found = _select(own, length=length)
                label = f"T = {steps}, {length}"
                curves.append(Curve(label, _column(found, "round"), _column(found, "gap"), k, style))
            found = _select(own, length="γ = 1")
            curves.append(Curve(f"T = {steps}, Thm. 2", _column(found, "round"), _column(found, "Thm. 2"), k, ":"))
        panels.append(Panel(f"C = {case['C']:g}", "rounds", "F − F*", curves))
    return panels


def _draw(panels: list[Panel], path: Path) -> None:
    """Draw panels, at most three per row, with one legend below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(3, len(panels))
    lines = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(4.4 * columns, 3.4 * lines + 0.9), layout="constrained")
    FigureCanvasAgg(figure)
    handles: dict[str, Any] = {}
    for axes, panel in zip(figure.subplots(lines, columns, squeeze=False).flat, panels, strict=True):
        for curve in panel.curves:
            (drawn,) = axes.plot(curve.x, curve.y, curve.style, color=colour_of(curve.colour), linewidth=1.5)
            handles.setdefault(curve.label, drawn)
        if panel.line is not None:
            axes.axhline(panel.line, color="black", linewidth=0.8)
        axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
        axes.set(xscale="log" if panel.logx else "linear", yscale="log" if panel.logy else "linear")
        if not panel.logx:
            axes.xaxis.get_major_locator().set_params(integer=True)
        if panel.ylim is not None:
            axes.set_ylim(panel.ylim)
        axes.grid(True, color="#dddddd")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2 * columns, frameon=False)
    figure.savefig(path, dpi=110)


# Files


def _write_csv(rows: list[Row], path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({name: f"{v:.6g}" if isinstance(v, float) else v for name, v in row.items()} for row in rows)


def _markdown(table: list[Row]) -> str:
    names = list(table[0])
    lines = [names, ["---"] * len(names), *([_text(row[name]) for name in names] for row in table)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _text(value: str | float) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


MEASUREMENTS: dict[str, Measurement] = {
    "uncertainty": Measurement(uncertainty, _uncertainty_table, _uncertainty_panels),
    "features": Measurement(features, _features_table, _features_panels),
    "lengths": Measurement(lengths, _lengths_table, _lengths_panels),
    "disparities": Measurement(disparities, _disparities_table, _disparities_panels),
    "convergence": Measurement(convergence, _convergence_table, _convergence_panels),
}
"""The measurements by the names of their files."""
