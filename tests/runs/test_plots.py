"""Tables and plots of runs."""

import itertools
import math
import re
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from fzoos import Record, Result
from fzoos.algorithms import ALGORITHMS
from fzoos.runs.plots import COLOURS, Trial, check_plot_path, colour_of, plot, table


def trial(label, values, *, start=8.0, minimum=0.0, queries=10):
    """A made-up run: F after each round, `queries` queries and 3000 + 1000 bytes a round, a second each."""
    history = tuple(
        Record(r, r * queries, 3000 * r, 1000 * r, float(r), step=0.1, monitor=value)
        for r, value in enumerate(values, 1)
    )
    rounds = len(values)
    result = Result(
        x=np.zeros(2),
        rounds=rounds,
        queries=rounds * queries,
        queries_per_client=(rounds * queries,),
        bytes_up=3000 * rounds,
        bytes_down=1000 * rounds,
        seconds=float(rounds),
        status="completed",
        message="",
        history=history,
    )
    return Trial(label, result, start, minimum)


def shown(trials):
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table(trials, "a title"))
    return capture.get()


def row(text, label):
    (line,) = [line for line in text.splitlines() if label in line]
    return [cell.strip() for cell in line.strip("│| ").replace("|", "│").split("│")]


def test_table_of_single_runs():
    text = shown([trial("Alpha", [4.0, 2.5], minimum=0.5), trial("Beta", [1.25], queries=1500)])
    assert "a title" in text
    assert row(text, "Alpha") == ["Alpha", "2.5", "2", "2", "20", "8.0 kB", "2.0"]
    assert row(text, "Beta") == ["Beta", "1.25", "1.25", "1", "1,500", "4.0 kB", "1.0"]


@pytest.mark.parametrize(("suffix", "head"), [(".png", b"\x89PNG\r\n\x1a\n"), (".pdf", b"%PDF"), (".svg", b"<?xml")])
def test_plot_is_a_file_of_its_kind(suffix, head, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"plot{suffix}"
    plot([trial("A", [4.0, 2.0]), trial("A", [5.0, 3.0]), trial("B", [7.0])], path, "a title")
    assert path.read_bytes().startswith(head)
    assert not re.search(rb"CreationDate|<dc:date>", path.read_bytes())  # drawn again it is no other file


@pytest.mark.parametrize(
    "trials",
    [
        [trial("no round", [])],
        [trial("at the minimum", [1.0, 0.0])],
        [trial("below it by rounding", [1.0, -1e-17])],
        [trial("seeds of different length", [1.0, 0.5]), trial("seeds of different length", [1.0])],
        [trial(f"algorithm {i}", [1.0 + i]) for i in range(12)],
    ],
    ids=lambda trials: trials[0].label,
)
def test_plot_takes_what_runs_leave(trials, tmp_path):
    pytest.importorskip("matplotlib")
    plot(trials, tmp_path / "plot.png", "")


def test_no_two_algorithms_have_one_colour(tmp_path):
    """All that the package has, and many more: the strokes of an SVG with so many lines are all different."""
    pytest.importorskip("matplotlib")
    assert len(ALGORITHMS) < len(COLOURS) == len(set(COLOURS))
    count = 2 * len(COLOURS)
    plot([trial(f"algorithm {i}", [4.0 + i, 2.0 + i]) for i in range(count)], tmp_path / "plot.svg", "")
    text = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    drawn = set(re.findall(r"stroke: (#[0-9a-f]{6})", text))
    assert {colour_of(i).lower() for i in range(count)} <= drawn | {"#000000"}
    assert len({colour_of(i) for i in range(count)}) == count


def test_colours_are_far_apart():
    """By the distance of CIE 1976, of which 2.3 is just noticeable, those of the palette differ by more than 20."""
    points = [_lab(colour) for colour in COLOURS]
    assert min(math.dist(a, b) for a, b in itertools.combinations(points, 2)) > 20


def _lab(colour):
    """sRGB to CIE L*a*b*, white point D65."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    x, y, z = (
        np.cbrt(t) if (t := np.dot(row, linear) / white) > 0.008856 else 7.787 * t + 16 / 116
        for row, white in zip(rows, (0.95047, 1.0, 1.08883), strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_plot_touches_no_global_state(tmp_path):
    """No pyplot, so that a user's backend and figures stay as they are; and no matplotlib at all before a plot."""
    pytest.importorskip("matplotlib")
    code = (
        "import sys, pathlib, fzoos.cli, fzoos.runs.plots as report\n"
        "assert 'matplotlib' not in sys.modules\n"
        "report.plot([], pathlib.Path(sys.argv[1]), '')\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "plot.png")], check=True, timeout=120)


def test_plot_paths(tmp_path):
    check_plot_path(tmp_path / "plot.png")
    for path in (tmp_path / "missing" / "plot.png", tmp_path):
        with pytest.raises(ValueError, match="plot cannot be written"):
            check_plot_path(path)
    with pytest.raises(ValueError, match="plot must be a"):
        check_plot_path(tmp_path / "plot.xyz")
