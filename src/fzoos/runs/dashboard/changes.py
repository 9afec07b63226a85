"""What the page may change: the name of a run, its tags, and whether it is there."""

from __future__ import annotations

import json
from typing import Any

from fzoos.runs.dashboard.data import RunIndex
from fzoos.runs.edit import RunEditor
from fzoos.runs.store import StoreError

__all__ = ["change_run"]


def change_run(index: RunIndex, body: bytes) -> tuple[int, dict[str, Any]]:
    """Make a change that the page asks for; the status of the answer, and the answer.

    Args:
        index: knows which runs there are; no other file is opened.
        body: JSON: "key" and "started" say which run, and one of "name", "tags" and "delete" (true) what changes.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from fzoos import FedZO, minimize
        >>> from fzoos.runs.dashboard.changes import change_run
        >>> from fzoos.runs.dashboard.data import RunIndex
        >>> path = Path(tempfile.mkdtemp()) / "runs.db"
        >>> result = minimize([lambda x: float(x @ x)], np.ones(2), bounds=(-1, 1), algorithm=FedZO(), rounds=1,
        ...                   store=path)
        >>> with RunIndex(path) as index:
        ...     [run] = index.refresh()["runs"]
        ...     change = {"key": run["key"], "started": run["started"], "name": "a first try"}
        ...     change_run(index, json.dumps(change).encode()), index.refresh()["runs"][0]["name"]
        ((200, {'done': True}), 'a first try')
    """
    try:
        asked = json.loads(body)
    except ValueError:
        asked = None
    if not isinstance(asked, dict) or not isinstance(asked.get("key"), str):
        return 400, {"error": "a change names a run: key and started"}
    kinds = [kind for kind in ("name", "tags", "delete") if kind in asked]
    if len(kinds) != 1 or not isinstance(asked.get("started"), (int, float)):
        return 400, {"error": "a change has started and one of name, tags and delete"}
    try:
        path, run = index.file_of(asked["key"])
    except StoreError as error:
        return 404, {"error": str(error)}
    try:
        with RunEditor(path) as editor:
            _apply(editor, run, asked, kinds[0])
    except ValueError as error:
        return 400, {"error": str(error)}
    except StoreError as error:
        return 409, {"error": str(error)}
    index.changed()
    return 200, {"done": True}


def _apply(editor: RunEditor, run: int, asked: dict[str, Any], kind: str) -> None:
    started, value = float(asked["started"]), asked[kind]
    if kind == "name":
        editor.rename(run, started, value)
    elif kind == "tags":
        if not isinstance(value, list):
            raise ValueError(f"tags must be a list of texts, got {value!r}")
        editor.tag(run, started, value)
    elif value is True:
        editor.delete(run, started)
    else:
        raise ValueError(f"delete must be true, got {value!r}")
