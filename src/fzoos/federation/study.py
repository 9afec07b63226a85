"""A study: everything that the server and the sites agree on, in one file that all of them have.

What may stand in its table of the algorithm follows from the annotations of the algorithm's dataclass
(`_util/records.py`): a setting that is itself a record is a table; where several kinds are possible, its "name" says
which, the first of them if there is none:

    [algorithm]
    name = "fzoos"
    local_steps = 10
    optimizer = { name = "adam", learning_rate = 0.01 }
    kernel = { name = "SquaredExponential", length_scale = 1.0 }
    active = { candidates = 100, picks = 5, radius = 0.01 }
    refresh = false                                              # none
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_positive
from fzoos._util.records import choose_kind, read_record
from fzoos.algorithms import ALGORITHMS
from fzoos.algorithms.base import Algorithm, ServerHalf, declared_parts
from fzoos.federation.aggregate import AGGREGATES
from fzoos.federation.check import check_precision_of, check_request
from fzoos.federation.client import Client
from fzoos.federation.limits import Stop
from fzoos.federation.privacy import Privacy
from fzoos.federation.setup import Seeds, Setting, check_weights, count_participants
from fzoos.messages.codec import MessageError
from fzoos.messages.message import Message
from fzoos.messages.precision import Precision, check_precision
from fzoos.objectives.box import Box, Objective
from fzoos.objectives.evaluator import OnFailure
from fzoos.objectives.ledger import Ledger
from fzoos.objectives.space import Space, search_box, space_of

__all__ = ["Study", "make_algorithm"]

_RUNNING = frozenset(  # how the server runs it; sites do not depend on these
    {f.name for f in fields(Stop)}
    | {
        "rounds",
        "participation",
        "min_clients",
        "enough",
        "timeout",
        "retries",
        "max_queries",
        "max_queries_per_client",
        "aggregate",
        "vectorized",
        "lost_journals",
    }
)


@dataclass(frozen=True)
class Study:
    """A study, as in `study.toml`.

    Args:
        name: the study's name.
        x0: the start: d numbers, or one number for all coordinates where `dim` is given.
        bounds: one (lower, upper) pair for all coordinates, or d pairs; or named variables, a `Space` or the table of
            one. x0 is then a table as well, and objectives take the variables by name.
        sites: names of the sites; a client's index is its place here.
        dim: d, the number of variables; needed only where x0 is one number.
        rounds: R, the number of rounds.
        seed: of what the server draws and of what all share, such as common directions; a site has its own, in its
            journal.
        vectorized: whether the sites' objectives take batches.
        algorithm: "name" and settings, such as {"name": "fedzo", "local_steps": 5}; "auto" if there is none.
        weights: omega, the weight of each site in the average; None: all equal.
        participation: sites that take part in a round: a float is a fraction, an int a number.
        min_clients: an exchange counts if at least this number of sites replies; None: all that take part, or `enough`.
        enough: for asynchronous rounds: an exchange ends when this number of sites has replied. The others continue,
            and their replies are used when they arrive; None: an exchange waits for all.
        timeout: seconds until an exchange ends; with `enough`, until a request has failed.
        retries: how often an exchange with too few replies is repeated before the run stops.
        max_queries: the run stops before a round that would take all sites together beyond this number.
        max_queries_per_client: no site makes more queries than this.
        tolerance: the run ends, "converged", after three rounds that moved no coordinate of x by more than this share
            of the box; 0: it never does; None: the algorithm's own.
        max_seconds: no round begins after this number of seconds in exchanges, those before a resumption included.
        max_bytes: the run stops before a round that would take all messages together beyond this number, if it costs
            as much as the most expensive one so far.
        on_failure: what a site does when its objective returns NaN or infinity: "raise" (no reply) or "skip".
        aggregate: "mean", or one that a few wrong replies cannot move far: "clipped", "trimmed" or "median".
        precision: how finely arrays travel: "float64", "float32", "float16" or "stochastic".
        lost_journals: sites that may continue with a new journal, or an older one than the server's record; their
            earlier queries still count.
        share_values: whether all sites evaluate f_i(x) after each round, one query each, so that F(x) is known: in
            results and for `target` and `patience`. The server sees each f_i(x), or with secure aggregation their sum.
        target: the run stops when F(x) is at most this; it needs `share_values`.
        patience: the run stops when F(x) has had no lower value for this number of rounds; it needs `share_values`.
        privacy: noise on what leaves a site: "clip", "noise", "delta" and "clip_payload"; None: no noise.

    A study can be resumed with more rounds, another time-out and the like; a setting on which a number at a site
    depends makes it another study (`id`).

    Example:
        >>> from fzoos.federation.study import Study
        >>> study = Study("demo", x0=0.5, dim=3, bounds=(0.0, 1.0), sites=("a", "b"), algorithm={"name": "fedzo"})
        >>> study.dim, study.algorithm_settings.label, len(study.id)
        (3, 'FedZO', 16)
    """

    name: str
    x0: Any
    bounds: Any
    sites: tuple[str, ...]
    dim: int = 0
    rounds: int = 50
    seed: int = 0
    vectorized: bool = False
    algorithm: Mapping[str, Any] = field(default_factory=lambda: {"name": "auto"})
    weights: Any = None
    participation: float | int = 1.0
    min_clients: int | None = None
    timeout: float = 600.0
    retries: int = 2
    max_queries: int | None = None
    max_queries_per_client: int | None = None
    tolerance: float | None = None
    on_failure: OnFailure = "raise"
    aggregate: str = "mean"
    precision: Precision = "float64"
    privacy: Mapping[str, Any] | None = None
    lost_journals: tuple[str, ...] = ()
    max_seconds: float | None = None
    max_bytes: int | None = None
    share_values: bool = False
    target: float | None = None
    patience: int | None = None
    enough: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"name must be a word, got {self.name!r}")
        sites: Any = self.sites
        if not isinstance(sites, (list, tuple)) or not sites or not all(isinstance(s, str) and s for s in sites):
            raise ValueError(f"sites must be a list of names, got {sites!r}")
        for site in sites:
            if site in (".", "..") or not site.isprintable() or not set(site).isdisjoint("/\\"):
                raise ValueError(f"sites must have names that can be names of files, got {site!r}")
        if len(set(sites)) != len(sites):
            raise ValueError(f"sites must have different names, got {list(sites)}")
        object.__setattr__(self, "sites", tuple(sites))
        if isinstance(self.bounds, Space):
            object.__setattr__(self, "bounds", self.bounds.table())
        if hasattr(self.bounds, "lb"):  # scipy.optimize.Bounds, of which a file knows nothing
            lower, upper = np.broadcast_arrays(self.bounds.lb, self.bounds.ub)
            object.__setattr__(self, "bounds", np.stack([lower, upper], axis=-1).tolist())
        check_count("dim", self.dim)
        if self.dim and np.ndim(self.x0) == 0 and not isinstance(self.x0, Mapping):
            object.__setattr__(self, "x0", [self.x0] * self.dim)
        check_count("rounds", self.rounds, low=1)
        check_count("seed", self.seed)
        for name in ("vectorized", "share_values"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be true or false, got {getattr(self, name)!r}")
        check_positive("timeout", self.timeout)
        check_count("retries", self.retries)
        if self.min_clients is not None:
            check_count("min_clients", self.min_clients, low=1)
            if self.min_clients > len(sites):
                raise ValueError(f"min_clients is {self.min_clients} but there are only {len(sites)} sites")
        lost: Any = self.lost_journals
        if not isinstance(lost, (list, tuple)) or not set(lost) <= set(sites):
            raise ValueError(f"lost_journals must be a list of sites of the study, got {lost!r}")
        object.__setattr__(self, "lost_journals", tuple(lost))
        for name in ("max_queries", "max_queries_per_client"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), low=1)
        if self.on_failure not in get_args(OnFailure):
            raise ValueError(f"on_failure must be one of {', '.join(get_args(OnFailure))}, got {self.on_failure!r}")
        if self.aggregate not in list(AGGREGATES):
            raise ValueError(f"aggregate must be one of {', '.join(AGGREGATES)}, got {self.aggregate!r}")
        check_precision(self.precision)
        if self.share_values and self.privacy is not None:
            raise ValueError("share_values sends one number, f_i(x), of which the noise of privacy leaves nothing")
        needs_values = self.stop.needs_values
        if needs_values and not self.share_values:
            raise ValueError(f"{needs_values} needs share_values: without them nobody knows F")
        start = self.start
        if self.dim and len(start) != self.dim:
            raise ValueError(f"x0 has {len(start)} values but dim is {self.dim}")
        object.__setattr__(self, "dim", len(start))
        for name in ("algorithm_settings", "privacy_settings", "omega", "participants"):
            getattr(self, name)  # each checks what it is made of
        if self.aggregate != "mean" and any(part.stacked for part in declared_parts(self.half).values()):
            label = self.algorithm_settings.label
            raise ValueError(f"aggregate is {self.aggregate!r}, but {label} combines replies in its own way")
        if self.enough is not None:
            self._check_enough(self.enough)

    def _check_enough(self, enough: int) -> None:
        check_count("enough", enough, low=1)
        label, count = self.algorithm_settings.label, len(self.sites)
        if enough > count:
            raise ValueError(f"enough is {enough} but there are only {count} sites")
        if self.participants < count:
            raise ValueError("enough needs all sites to take part: leave participation at 1.0")
        if self.share_values:
            raise ValueError("enough and share_values exclude each other: F(x) needs a value of every site")
        if self.min_clients is not None and self.min_clients > enough:
            raise ValueError(f"min_clients is {self.min_clients}, but an exchange is over when {enough} have answered")
        if not _allows_late_replies(self.half):
            others = ", ".join(
                kind.label for kind in ALGORITHMS.values() if _allows_late_replies(kind().server(self.dim))
            )
            raise ValueError(
                f"enough is {enough}, but {label} has no use for late answers: leave it out, or take one of {others}"
            )

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """From a TOML file.

        Raises:
            ValueError: it is not TOML, or an entry is unknown, missing or wrong; the message names the file.
            FileNotFoundError: there is no such file.
        """
        path = Path(path)
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
            known = [f.name for f in fields(cls)]
            for name in found:
                if name not in known:
                    raise ValueError(f"there is no setting {name!r}; the settings are {', '.join(known)}")
            for name in ("name", "x0", "bounds", "sites"):
                if name not in found:
                    raise ValueError(f"{name} is missing")
            return cls(**found)
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no study at {path}") from None
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from None

    @property
    def settings(self) -> dict[str, Any]:
        """Everything as plain values."""
        settings: dict[str, Any] = json.loads(json.dumps(asdict(self), default=_plain))
        return settings

    @cached_property
    def id(self) -> str:
        """Changes whenever anything changes that a number at a site depends on."""
        settings = {name: value for name, value in self.settings.items() if name not in _RUNNING}
        bounds = [self.box.lower, self.box.upper] if self.space is None else self.space.table()
        settings |= {"x0": self.start, "bounds": bounds, "weights": self.omega}
        settings["version"] = self.algorithm_settings.version  # the same settings may mean other numbers
        settings = json.loads(json.dumps(settings, default=_plain), parse_int=_number)
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def start(self) -> FloatArray:
        """x_0, in the user's coordinates."""
        return search_box(self.x0, self.bounds)[0]

    @cached_property
    def box(self) -> Box:
        """Return the box that the bounds describe."""
        return search_box(self.x0, self.bounds)[1]

    @cached_property
    def space(self) -> Space | None:
        """The named variables, where there are such."""
        return space_of(self.bounds)

    @cached_property
    def algorithm_settings(self) -> Algorithm:
        """The algorithm that runs, with its settings."""
        return make_algorithm(self.algorithm).at(self.dim)

    @cached_property
    def omega(self) -> FloatArray:
        """The weights, summing to one."""
        return check_weights(self.weights, len(self.sites))

    @cached_property
    def participants(self) -> int:
        """How many sites take part in a round."""
        return count_participants(self.participation, len(self.sites))

    @cached_property
    def privacy_settings(self) -> Privacy | None:
        """The noise that is added to what leaves a site."""
        return None if self.privacy is None else Privacy.of(self.privacy)

    @property
    def stop(self) -> Stop:
        """The rules that end the run before its rounds and queries are spent."""
        return Stop(self.tolerance, self.target, self.patience, self.max_seconds, self.max_bytes)

    @cached_property
    def seeds(self) -> Seeds:
        """Of the server and the clients."""
        return Seeds.of(self.seed, len(self.sites))

    def client(self, index: int, objective: Objective, ledger: Ledger | None = None, seed: int | None = None) -> Client:
        """The client of a site, with the site's seed; None: with the study's, as all clients of `minimize` have it."""
        seeds = self.seeds if seed is None else Seeds.of(seed, len(self.sites))
        common = self.vectorized, self.on_failure, self.precision, self.protect
        setting = Setting(self.box, self.algorithm_settings, len(self.sites), *common)
        return setting.client(index, objective, seeds.clients[index], ledger)

    @cached_property
    def half(self) -> ServerHalf:
        """The server half of the algorithm, which declares the messages."""
        return self.algorithm_settings.server(self.dim)

    def check(self, request: Message) -> None:
        """Raise a MessageError unless a server of this study may send this request."""
        if request.kind == "value" and not self.share_values:
            raise MessageError("this study does not share values")
        if request.precision != "float64":  # some requests must be exact
            check_precision_of(request, self.precision)
        check_request(self.algorithm_settings, self.half, request, noisy=self.privacy is not None)

    def protect(self, reply: Message, request: Message, x: FloatArray) -> Message:
        """A reply as it may leave a site; x is the server's, in the cube."""
        if self.privacy_settings is None:
            return reply
        return self.privacy_settings.protect(reply, x, self.half.reply_parts(request))


def make_algorithm(table: Mapping[str, Any]) -> Algorithm:
    """Make an algorithm from a table of its "name", in upper or lower case, and its settings."""
    made: Algorithm = read_record("algorithm", *choose_kind("algorithm", table, ALGORITHMS))
    return made


def _allows_late_replies(half: ServerHalf) -> bool:
    return all(part.late != "refuse" for part in declared_parts(half).values())


def _number(text: str) -> int | float:
    """1 is the same setting as 1.0; a seed may have more digits than a float."""
    return float(text) if float(text) == int(text) else int(text)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else repr(value)
