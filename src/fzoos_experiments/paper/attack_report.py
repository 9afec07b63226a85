"""What attacks cost until half and until nine tenths of the images are attacked, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from fzoos_experiments.paper.curves import Curve

__all__ = ["success_table"]

_RATES = (0.5, 0.9)


def success_table(curves: Sequence[Curve]) -> str:
    """A Markdown table: rounds, queries and megabytes to the success rates, and the rate at the end.

    Args:
        curves: of a figure of success rates.
    """
    heads = [f"{what} to {rate:.0%}" for rate in _RATES for what in ("rounds", "queries", "MB sent")]
    lines = ["| panel | line | " + " | ".join(heads) + " | images attacked |", "| --- | --- |" + " ---: |" * 7]
    for curve in curves:
        cells = [cell for rate in _RATES for cell in _reached(curve, rate)]
        rate = f"{curve.values[:, -1].mean():.0%}"
        lines.append(f"| {curve.panel} | {curve.label} | {' | '.join(cells)} | {rate} |")
    return "\n".join(lines) + "\n"


def _reached(curve: Curve, rate: float) -> tuple[str, str, str]:
    """When the mean success rate is first that high, and what it has cost by then."""
    for r, success in enumerate(curve.values.mean(axis=0)):
        if success >= rate:
            return f"{r}", f"{curve.queries[r]:,.0f}", f"{curve.extra['bytes'][0, r] / 1e6:.3g}"
    return "–", "–", "–"
