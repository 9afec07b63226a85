"""Ask and tell: objectives are evaluated outside of the program, at any time and anywhere."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count
from fzoos._util.files import make_private
from fzoos.engines.local_study import LocalStudy
from fzoos.federation.study import Study
from fzoos.objectives.manual import ManualObjective, point_id
from fzoos.result import Result
from fzoos.runs.reader import load

__all__ = ["AskTell"]

_SETTINGS, _SITE_SEED = "study.json", "site_seed"


class AskTell:
    """A run with the ask-and-tell interface: `fzoos ask` and `fzoos tell` in Python.

    Points come in stages: the initial design, the server's x and points around it, one point after each local step.
    When all clients have the values of a stage, `ask` returns the points of the next one. The state is in a folder,
    with the files of a study: `AskTell.load` continues there, and no value is requested twice.

    Args:
        bounds: as for `minimize`: pairs, or a `Space`.
        x0: the start: d numbers, or a dict of variables.
        clients: N, the number of clients.
        folder: where the state is; None: in a temporary folder, which is deleted with the object.
        settings: further settings of a `Study`, such as `rounds`, `algorithm`, `seed` and `on_failure`.
            `algorithm` is a table, as in a study's file: {"name": "scaffoldi", "local_steps": 5}.
            `seed` is also that of the clients, so that the run can be repeated; without it they have secret ones.

    Example:
        >>> from fzoos import AskTell
        >>> optimizer = AskTell(bounds=(-1, 1), x0=[0.9, 0.9], clients=2, rounds=5, seed=0)
        >>> while not optimizer.done:
        ...     for client, target in enumerate((0.2, 0.4)):
        ...         points = optimizer.ask(client, count=8)
        ...         optimizer.tell(client, points, [float(((x - target) ** 2).sum()) for x in points])
        >>> optimizer.result.status, optimizer.x.shape
        ('completed', (2,))
    """

    def __init__(
        self, bounds: Any, x0: Any, clients: int = 1, *, folder: str | Path | None = None, **settings: Any
    ) -> None:
        check_count("clients", clients, low=1)
        _check_settings(settings)
        sites = tuple(f"client-{i}" for i in range(clients))
        study = Study("optimizer", x0=x0, bounds=bounds, sites=sites, **settings)
        place = Path(tempfile.mkdtemp(prefix="fzoos-") if folder is None else folder)
        if folder is None:
            weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        if place.is_file():
            raise ValueError(f"folder {place} is a file")
        if (place / _SETTINGS).exists():
            raise ValueError(f"folder {place} has an optimizer: continue with AskTell.load")
        place.mkdir(parents=True, exist_ok=True)
        stored = {**study.settings, _SITE_SEED: settings.get("seed")}
        make_private(place / _SETTINGS)  # it has the sites' seed
        (place / _SETTINGS).write_text(json.dumps(stored), encoding="utf-8")
        self._open(stored, place)

    @classmethod
    def load(cls, folder: str | Path) -> AskTell:
        """Continue with the state in a folder.

        Raises:
            FileNotFoundError: the folder has none.
        """
        file = Path(folder) / _SETTINGS
        if not file.exists():
            raise FileNotFoundError(f"there is no optimizer in {folder}")
        found = cls.__new__(cls)
        found._open(json.loads(file.read_text(encoding="utf-8")), Path(folder))
        return found

    def _open(self, settings: dict[str, Any], folder: Path) -> None:
        study = Study(**{name: value for name, value in settings.items() if name != _SITE_SEED})
        self._site_seed: int | None = settings.get(_SITE_SEED)  # a journal that is there has its own
        # A stage ends when all clients have their values, and its points are requested as one batch.
        self.study, self.folder = replace(study, vectorized=True, retries=0, min_clients=None), folder
        self._clients = [ManualObjective(folder, site) for site in study.sites]
        self._given: list[set[str]] = [
            set() for _ in study.sites
        ]  # ids that `ask` has returned and that have no value yet
        self._ended = False

    @property
    def done(self) -> bool:
        """Whether the run has ended: there are no further points."""
        self._advance()
        return self._ended

    @property
    def result(self) -> Result:
        """The result so far."""
        self._advance()
        return load(self.folder)

    @property
    def x(self) -> FloatArray:
        """Return the server's x after the last round."""
        return self.result.x

    @property
    def variables(self) -> Mapping[str, Any] | None:
        """The server's x by names of variables; None if they have no names."""
        return self.result.variables

    def ask(self, client: int = 0, count: int | None = None) -> Any:
        """Return points to evaluate for a client: an array of shape (n, d), or a list of dicts if variables have names.

        Args:
            client: its index.
            count: the largest number of points; None: all points of this stage. Points that were returned before are
                returned again only if there are no others.

        Returns:
            The points; none if values of other clients are missing, or if the run has ended.
        """
        self._check(client)
        self._advance()
        wanted = self._clients[client].requested()
        fresh = [entry for entry in wanted if entry[0] not in self._given[client]] or wanted
        chosen = fresh[:count]
        self._given[client] |= {id for id, _ in chosen}
        points = np.array([x for _, x in chosen]).reshape(-1, self.study.dim)
        space = self.study.space
        return points if space is None else [space.variables(point) for point in points]

    def tell(
        self, client: int, points: Sequence[Any] | FloatArray, values: Sequence[float | tuple[float, Any]] | FloatArray
    ) -> None:
        """Enter values of points that `ask` returned, all or none; NaN means failed, if `on_failure` is "skip".

        Args:
            client: its index.
            points: as `ask` returned them.
            values: one per point: a number, or with constraints a pair (f, c).

        Raises:
            ValueError: a point was not requested, the numbers of points and values differ, a value is not finite,
                differs from the one entered before, or has more or fewer constraints than the client's others.
            OSError: the values cannot be stored.
        """
        self._check(client)
        if len(points) != len(values):
            raise ValueError(f"points has {len(points)} entries but values has {len(values)}")
        waiting = dict(self._clients[client].requested())
        entries = []
        for point, value in zip(points, values, strict=True):
            id = self._find(client, point, waiting)
            waiting.pop(id, None)
            entries.append((id, value if isinstance(value, tuple) else float(value)))
        self._clients[client].tell(entries, failures=self.study.on_failure == "skip")
        self._given[client] -= {id for id, _ in entries}

    def _find(self, client: int, point: Any, waiting: Mapping[str, Sequence[float]]) -> str:
        space = self.study.space
        if space is not None and isinstance(point, Mapping):
            for id, x in waiting.items():
                if space.variables(x) == dict(point):
                    return id
            raise ValueError(f"points: {dict(point)} was not requested from client {client}")
        return point_id(np.asarray(point, dtype=np.float64))

    def _check(self, client: Any) -> None:
        if isinstance(client, bool) or client not in range(len(self._clients)):
            raise ValueError(f"client must be in 0..{len(self._clients) - 1}, got {client!r}")

    def _advance(self) -> None:
        """Continue the run as far as the values allow."""
        if self._ended or any(objective.requested() for objective in self._clients):
            return
        study = LocalStudy(self.study, self.folder, self._clients, site_seed=self._site_seed, snapshots=True)
        result = study.run(resume=True)
        self._ended = result.status != "stopped"


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Check settings before a study does, whose messages name files and sites."""
    known = [field.name for field in fields(Study) if field.name not in ("name", "x0", "bounds", "sites")]
    for name, value in settings.items():
        if name not in known:
            raise TypeError(f"AskTell has no setting {name!r}; it has {', '.join(known)}")
        if name == "algorithm" and not isinstance(value, Mapping):
            raise TypeError(
                f"algorithm must be a table as in a study's file, such as {{'name': 'fedzo'}}, got {value!r}"
            )
