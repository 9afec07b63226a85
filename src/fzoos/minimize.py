"""The front door: `minimize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_number
from fzoos.algorithms import Algorithm, FZooS
from fzoos.algorithms.optimizers import Adam, Optimizer
from fzoos.engines.local import LocalEngine
from fzoos.federation.rounds import RoundLoop
from fzoos.federation.server import Server
from fzoos.federation.setup import Seeds, Setting, check_weights, count_participants
from fzoos.messages.precision import Precision, check_precision
from fzoos.messages.rounding import Rounding
from fzoos.objectives.box import Box, Objective, check_start
from fzoos.objectives.trajectory import OnFailure
from fzoos.result import Record, Result, Status
from fzoos.runs.recommend import recommend
from fzoos.runs.writer import RunWriter

__all__ = ["minimize"]


def minimize(
    objectives: Sequence[Objective],
    x0: ArrayLike,
    *,
    bounds: ArrayLike,
    algorithm: Algorithm = FZooS(),
    rounds: int = 50,
    local_steps: int = 10,
    optimizer: Optimizer | None = None,
    weights: ArrayLike | None = None,
    participation: float | int = 1.0,
    vectorized: bool = False,
    max_queries: int | None = None,
    tolerance: float | None = None,
    on_failure: OnFailure = "raise",
    precision: Precision = "float64",
    monitor: Callable[[FloatArray], Any] | None = None,
    callback: Callable[[Record], Any] | None = None,
    seed: int | None = None,
    workers: int = 1,
    progress: bool = False,
    store: str | Path | None = None,
    name: str | None = None,
) -> Result:
    """Minimise F(x) = sum_i omega_i f_i(x) over a box, from values of the private f_i only.

    Everything is in the user's coordinates, save learning rates, radii and length scales: those are in units of the
    unit cube, the box scaled to [0, 1] in every coordinate.

    Args:
        objectives: the f_i, one per client: x of shape (d,) to a float, or, if `vectorized`, (n, d) to (n,).
        x0: the start, shape (d,), inside the bounds.
        bounds: one (lower, upper) pair for all coordinates, or d pairs.
        algorithm: settings of an algorithm.
        rounds: R, rounds of communication at most.
        local_steps: T, local steps of each client in a round.
        optimizer: what the clients do with gradient estimates, if the algorithm leaves it to them; None: `Adam()`.
        weights: omega, not negative, in any scale; default: all equal.
        participation: clients that take part in a round, drawn at random: a float is a fraction, an int a number.
            Clients of weight zero never take part.
        vectorized: whether objectives take batches. Finite differences, initial designs and active queries then go out
            as one batch each.
        max_queries: the run stops before a round that would take all clients together beyond this number.
        tolerance: the run ends, "converged", after three rounds that moved no coordinate of x by more than this share of
            the box; 0: it never does; None: the algorithm's own, 1e-6 of FZooS() and 0 of those that step for ever.
        on_failure: what happens when an objective returns NaN or infinity: "raise" ends the run with an
            `ObjectiveError`; "skip" records the point as failed (it counts), leaves it out and goes on. An objective
            that raises always ends the run.
        precision: how finely arrays travel: "float64" (8 bytes a number), "float32" (4), "float16" (2, with a scale for
            each array) or "stochastic" (1, rounded at random so that the mean is right).
        monitor: maps x to a number that is recorded each round; neither counted nor shown to the algorithm.
        callback: called with each round's `Record`; the run stops if it returns True.
        seed: makes the run reproducible bit for bit on the same machine; whatever `workers` is where the process has
            one BLAS thread (OPENBLAS_NUM_THREADS=1), otherwise runs of one worker and of several differ in rounding.
        workers: clients that work at the same time, on threads. With one, our own small matrices are multiplied on one
            BLAS thread and objectives keep all of theirs; with more, the number of BLAS threads is left alone:
            OPENBLAS_NUM_THREADS=1 is then the faster choice.
        progress: show a progress bar.
        store: a file (SQLite; made if it is not there) in which the run is kept, round by round: see `fzoos.load`.
        name: of the run in that file; default: the algorithm's.

    Returns:
        A `Result`; after Ctrl-C too, with what was reached so far.

    Raises:
        ObjectiveError: an objective raised or returned NaN or infinity; its `result` has everything up to then.

    Example:
        >>> import numpy as np
        >>> from fzoos import FZooS, minimize
        >>> def site(target):                            # a private black box
        ...     return lambda x: float(np.mean((x - target) ** 2))
        >>> result = minimize([site(0.2), site(0.6), site(0.7)], x0=np.zeros(20), bounds=(-1, 1),
        ...                   algorithm=FZooS(), rounds=20, seed=0)
        >>> bool(np.all(abs(result.x - 0.5) < 0.05))
        True
    """
    _check_settings(algorithm, optimizer, rounds, local_steps, max_queries, on_failure, seed, workers)
    optimizer = Adam(0.01) if optimizer is None else optimizer
    if tolerance is not None:
        check_number("tolerance", tolerance, 0.0)
    check_precision(precision)
    _check_callables(objectives, monitor, callback)
    start, box = check_start(x0, bounds)
    count = len(objectives)
    omega = check_weights(weights, count)

    seeds = Seeds.of(seed, count)
    setting = Setting(box, algorithm, optimizer, count, local_steps, vectorized, on_failure, precision)
    clients = [setting.client(i, f, seeds.clients[i]) for i, f in enumerate(objectives)]
    with LocalEngine(clients, workers) as engine:
        server = Server(
            engine,
            algorithm,
            box.to_cube(start),
            local_steps=local_steps,
            weights=omega,
            participants=count_participants(participation, count),
            shared_seed=seeds.shared,
            rng=np.random.default_rng(seeds.server),
            optimizer=optimizer,
            rounding=Rounding(precision, seeds.server),
        )
        settings = {"algorithm": algorithm, "optimizer": optimizer, "rounds": rounds, "local_steps": local_steps}
        settings |= {"bounds": bounds, "weights": weights, "participation": participation, "seed": seed}
        settings |= {"precision": precision}
        writer = RunWriter(store, name or algorithm.label, settings, start, count)
        loop = RoundLoop(
            server,
            box,
            _History(server, engine, box, writer),
            rounds=rounds,
            max_queries=max_queries,
            tolerance=algorithm.tolerance if tolerance is None else tolerance,
            monitor=monitor,
            callback=callback,
            progress=progress,
        )
        return loop.run()


class _History:
    """A run in memory and, if it has a file, there as well."""

    def __init__(self, server: Server, engine: LocalEngine, box: Box, writer: RunWriter) -> None:
        self._server, self._engine, self._box, self._writer = server, engine, box, writer
        self._records: list[Record] = []
        self._walk: list[FloatArray] = []  # x after each round
        self._start = box.from_cube(server.x)

    def after_exchange(self, record: Record | None, x: FloatArray) -> None:
        if record is not None:
            self._records.append(record)
            self._walk.append(x)
            self._writer.record(record, x)

    def finish(self, status: Status, message: str) -> Result:
        """The queries of a round that is not complete are there as well: they were paid for."""
        self._writer.finish(status, message)
        walk, state = self._walk or [self._start], self._server.state
        return Result(
            x=walk[-1],
            rounds=len(self._records),
            queries=sum(self._engine.queries),
            queries_per_client=self._engine.queries,
            bytes_up=state.bytes_up,
            bytes_down=state.bytes_down,
            seconds=state.seconds,
            status=status,
            message=message,
            history=tuple(self._records),
            recommended=recommend(np.array(walk), self._box.upper - self._box.lower),
        )


def _check_settings(
    algorithm: Any,
    optimizer: Any,
    rounds: Any,
    local_steps: Any,
    max_queries: Any,
    on_failure: Any,
    seed: Any,
    workers: Any,
) -> None:
    if not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm must be settings of an algorithm such as FZooS(), got {algorithm!r}")
    if optimizer is not None and not isinstance(optimizer, Optimizer):
        raise TypeError(f"optimizer must be an optimizer such as Adam(0.01), got {optimizer!r}")
    check_count("rounds", rounds)
    check_count("local_steps", local_steps, low=1)
    if max_queries is not None:
        check_count("max_queries", max_queries)
    if on_failure not in get_args(OnFailure):
        raise ValueError(f"on_failure must be one of {', '.join(get_args(OnFailure))}, got {on_failure!r}")
    if seed is not None:
        check_count("seed", seed)
    check_count("workers", workers, low=1)


def _check_callables(objectives: Any, monitor: Any, callback: Any) -> None:
    if callable(objectives):
        raise TypeError("objectives must be a sequence of functions, one per client; got a single function")
    if not hasattr(objectives, "__len__"):
        raise TypeError(f"objectives must be a sequence of functions, one per client; got {objectives!r}")
    if not len(objectives):
        raise ValueError("objectives is empty: at least one client is needed")
    for i, objective in enumerate(objectives):
        if not callable(objective):
            raise TypeError(f"objectives[{i}] must be a function, got {objective!r}")
    for name, value in (("monitor", monitor), ("callback", callback)):
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a function, got {value!r}")
