"""The page of the dashboard as one file: no server, nothing to fetch, for mail and archive."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any

from fzoos import __version__
from fzoos.runs.dashboard.view import details, dumps, path_of_x, row
from fzoos.runs.plots import COLOURS
from fzoos.runs.reader import reading
from fzoos.runs.rows import StoredRun

__all__ = ["report"]

_STYLE = re.compile(r'<link rel="stylesheet" href="static/([a-z]+\.css)">')
_SCRIPT = re.compile(r'<script src="static/([a-z]+\.js)"></script>')
_POLICY = (
    "default-src 'none'; img-src data:; style-src {styles}; script-src {scripts}; base-uri 'none'; form-action 'none'"
)


def report(runs: Sequence[StoredRun]) -> str:
    """Return an HTML page of runs that loads nothing from elsewhere."""
    rows, whole = [], []
    for place, run in enumerate(runs):
        key = {"key": str(place)}  # files in different folders may have the same name
        rows.append(row(run.path, run.summary, run.settings) | key)
        with reading(run.path) as reader:
            whole.append(details(run) | {"path": path_of_x(reader, run.summary.id)} | key)
    made = f"Made with fzoos {__version__} on {datetime.now().astimezone():%d %B %Y at %H:%M %Z}."
    data = {
        "path": "Report",
        "colours": list(COLOURS),
        "problems": [],
        "runs": rows,
        "details": whole,
        "made": made,
    }
    page = _static("index.html")
    styles = "".join(f"<style>{_static(name)}</style>" for name in _STYLE.findall(page))
    page = _STYLE.sub("", page).replace("</head>", f"{styles}\n</head>")
    page = _SCRIPT.sub(lambda found: f"<script>{_static(found[1])}</script>", page)
    # `<` is written as an escape: nothing in a run's texts can end the script element.
    text = dumps(data).replace("<", "\\u003c")
    block = f'<script type="application/json" id="data">{text}</script>'
    page = page.replace("</main>", f"</main>\n{block}", 1)
    page = page.replace("</noscript>", f"{_table(rows)}</noscript>")
    policy = _POLICY.format(styles=_hashes(page, "style"), scripts=_hashes(page, "script"))
    return page.replace(
        '<meta charset="utf-8">',
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">',
    )


def _static(name: str) -> str:
    return files("fzoos.runs.dashboard").joinpath("static", name).read_text(encoding="utf-8")


def _hashes(page: str, tag: str) -> str:
    """The hashes of the page's elements, for its policy: nothing else in it is run."""
    digests = (hashlib.sha256(body.encode()).digest() for body in re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL))
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def _table(runs: Sequence[dict[str, Any]]) -> str:
    """The outcome of each run as a table, for readers that run no scripts."""
    heads = ("run", "status", "F", "rounds", "queries", "bytes", "seconds")
    rows = (
        (run["name"], run["status"], _number(run["monitor"]), run["rounds"], run["queries"], run["bytes"],
         _number(run["seconds"])) for run in runs
    )  # fmt: skip
    lines = ["".join(f"<th>{head}</th>" for head in heads)]
    lines += ["".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) for row in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"
