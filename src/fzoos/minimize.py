"""Minimisation in one process: `minimize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from fzoos._util.arrays import FloatArray
from fzoos._util.checks import check_count, check_type
from fzoos._util.describe import describe
from fzoos.algorithms import Algorithm, Auto
from fzoos.algorithms.base import declared_parts
from fzoos.engines.local import LocalEngine, point_pools
from fzoos.federation.history import RunHistory
from fzoos.federation.limits import Stop
from fzoos.federation.rounds import RoundLoop
from fzoos.federation.server import Server
from fzoos.federation.setup import Seeds, Setting, check_weights, count_participants
from fzoos.messages.precision import Precision, check_precision
from fzoos.messages.rounding import Rounding
from fzoos.objectives.box import Box, Objective
from fzoos.objectives.evaluator import OnFailure
from fzoos.objectives.prior import WithPrior, read_prior
from fzoos.objectives.space import NamedObjective, search_box, space_of
from fzoos.result import UNCOUNTED, Record, Result
from fzoos.runs.recording import describe_seed, find_recording

__all__ = ["minimize"]


def minimize(
    objectives: Objective | Sequence[Objective],
    x0: Any,
    *,
    bounds: Any = None,
    scale: ArrayLike | None = None,
    algorithm: Algorithm = Auto(),
    rounds: int = 50,
    max_queries: int | None = None,
    stop: Stop = Stop(),
    weights: ArrayLike | None = None,
    participation: float | int = 1.0,
    precision: Precision = "float64",
    vectorized: bool = False,
    on_failure: OnFailure = "raise",
    workers: int | Callable[..., Any] | Executor = 1,
    monitor: Callable[[FloatArray], Any] | Literal["clients"] | None = None,
    callback: Callable[[Record], Any] | None = None,
    rng: int | np.random.Generator | np.random.SeedSequence | None = None,
    seed: int | np.random.Generator | np.random.SeedSequence | None = None,
    progress: bool = False,
    store: str | Path | None = None,
    name: str | None = None,
    resume: Result | str | int | None = None,
) -> Result:
    """Minimise F(x) = sum_i omega_i f_i(x) over a box, from values of the private f_i only.

    Everything is in the user's coordinates, except learning rates, radii and length scales: these are in units of the
    unit cube, which is the box scaled to [0, 1] in every coordinate.

    Args:
        objectives: the f_i, one per client: functions from x of shape (d,) to a float or, if `vectorized`, from (n, d)
            to (n,). A single function stands for a single client. With constraints they return a pair (f, c), where c
            is one or several numbers that must be at most 0; for a batch, c has shape (n, k). `WithPrior` adds data
            that a client has already.
        x0: the start, shape (d,), inside the bounds.
        bounds: one (lower, upper) pair for all coordinates, d pairs, or a `scipy.optimize.Bounds`. A coordinate whose
            bounds are equal is fixed. None or infinity means no bound on that side; without any bounds, or with such a
            side, `scale` is needed. Or a `Space` of named variables: x0 is then a dict, and objectives and monitor
            take a dict or keywords.
        scale: the unit of length in coordinates without bounds, one number or d: about how far x may have to move.
            Learning rates and radii are in these units.
        algorithm: settings of an algorithm, such as `FedZO(local_steps=5, optimizer=Adam(0.02))`; default: `Auto`,
            which selects one by the number of variables and needs no tuning.
        rounds: R, the maximum number of communication rounds.
        max_queries: the maximum number of queries of all clients together. If less than a round is left, the last round
            is cut: it has fewer local steps or, in algorithms without them, fewer directions. If not even the first
            round can be run, the result and the log say so.
        stop: rules that end the run earlier, such as `Stop(target=0.1, max_seconds=60)`.
        weights: omega, not negative, in any scale; default: all equal.
        participation: clients per round, sampled at random: a float is a fraction, an int a number. Clients of weight
            zero never participate.
        precision: how arrays are sent: "float64" (8 bytes per number), "float32" (4), "float16" (2, with a scale for
            each array) or "stochastic" (1, rounded at random without bias).
        vectorized: whether objectives accept batches. Finite differences, initial designs and active queries are then
            evaluated as one batch each.
        on_failure: what happens if an objective raises, or returns NaN or infinity: "raise" ends the run with an
            `ObjectiveError`; "skip" counts the point (`Result.failed`), skips it and continues; the first failure is
            logged and is in `Result.first_failure`. A run in which all fail has the status "failed".
        workers: how many points are evaluated in parallel. An int: in that many processes (-1: one per core) if all
            objectives can be pickled; otherwise that many clients run in threads. Or any `concurrent.futures.Executor`
            (a pool, Dask's `client.get_executor()`, mpi4py's, Ray's), which stays open. Or a map-like callable, such as
            the `map` of a `multiprocessing.Pool`. With one worker, the library multiplies its own matrices on one BLAS
            thread, and objectives use all of theirs; with more, the number of BLAS threads is not changed, and
            OPENBLAS_NUM_THREADS=1 is the faster choice.
        monitor: F, if it can be evaluated: a function of x whose value is recorded after each round. Its calls are not
            counted, and the algorithm does not see the values; with a `store` it is called at x0 as well. Or "clients":
            after each round all clients return f_i(x), whose weighted sum is F(x). That costs one exchange per round
            and one query per client, which the next round does not repeat if it begins at x. Without a monitor F is
            not known, as in a study: `Result.fun`, `Result.best_x`, `Stop.target` and `Stop.patience` need it.
        callback: called with each round's `Record`; the run stops if it returns True or raises `StopIteration`.
        rng: the seed: an int, a `SeedSequence`, or a `Generator` from which a seed is drawn. With it the run is
            reproducible bit for bit on the same machine, with any number of workers if the process has one BLAS thread
            (OPENBLAS_NUM_THREADS=1); otherwise runs with one and with several workers differ in rounding.
        seed: an alias of `rng`.
        progress: whether to show a progress bar.
        store: a file in which the run is stored, round by round (SQLite; created if it does not exist): see
            `fzoos.load`.
        name: the name of the run in that file; default: that of the algorithm.
        resume: a run to continue: its result, or its name or id in `store`, which then contains the longer run. The
            other arguments are the same as before, except for larger `rounds`, `max_queries` and the like, which
            include what was made before. No query is repeated: the run is replayed from the values of its queries, and
            ends with the same bits as a run that was longer from the start, on the same machine with the same version.
            A run that had converged makes at least three more rounds.

    Returns:
        A `Result`; also after Ctrl-C, with everything up to the last complete round.

    Raises:
        ObjectiveError: an objective raised, or returned NaN or infinity; its `result` has everything up to then.
        Exception: the monitor or the callback raised it; it has a note that says so, and such a `result`.

    Example:
        >>> import numpy as np
        >>> from fzoos import minimize
        >>> def site(target):                            # a private black box
        ...     return lambda x: float(np.mean((x - target) ** 2))
        >>> result = minimize([site(0.2), site(0.6), site(0.7)], x0=np.zeros(20), bounds=(-1, 1), rounds=20, rng=0)
        >>> bool(np.all(abs(result.x - 0.5) < 0.05))
        True

        One function, without bounds, and with SciPy's names:

        >>> result = minimize(site(4.0), np.zeros(5), scale=2.0, rounds=30, rng=0)
        >>> result.success, result.nit < 30, bool(np.all(abs(result["x"] - 4.0) < 0.05))
        (True, True, True)

        A run that is resumed:

        >>> from fzoos import FedZO
        >>> settings = {"bounds": (-1, 1), "algorithm": FedZO(), "rng": 0}
        >>> first = minimize(site(0.3), np.zeros(5), rounds=5, **settings)
        >>> more = minimize(site(0.3), np.zeros(5), rounds=8, resume=first, **settings)
        >>> at_once = minimize(site(0.3), np.zeros(5), rounds=8, **settings)
        >>> bool(np.all(more.x == at_once.x)), more.queries == at_once.queries, more.history[:5] == first.history
        (True, True, True)
    """
    objectives = [objectives] if callable(objectives) else objectives
    _check_settings(algorithm, rounds, max_queries, stop, on_failure)
    check_precision(precision)
    _check_callables(objectives, monitor, callback)
    share_values = isinstance(monitor, str)
    measure = None if isinstance(monitor, str) else monitor
    if stop.needs_values and monitor is None:
        raise ValueError(f"Stop({stop.needs_values}=...) needs F: give a monitor")
    begin, box = search_box(x0, bounds, scale)
    algorithm = algorithm.at(box.dim)
    space = space_of(bounds)
    if space is not None and measure is not None:
        measure = NamedObjective(measure, space)
    server_algorithm, algorithm = _open_algorithms(algorithm, box)
    count = len(objectives)
    data = _read_priors(objectives, box)
    objectives = [f.objective if isinstance(f, WithPrior) else f for f in objectives]
    omega = check_weights(weights, count)

    if seed is not None and rng is not None:
        raise ValueError("seed is an alias of rng: give only one of them")
    rng, name_of_rng = (rng, "rng") if seed is None else (seed, "seed")
    root = _seed_sequence(rng, name_of_rng)
    settings: dict[str, Any] = {"algorithm": algorithm, "rounds": rounds}
    settings |= {"bounds": _plain_bounds(bounds, box), "weights": weights}
    settings |= {"participation": participation, "seed": rng, "precision": precision}
    settings |= {} if scale is None else {"scale": scale}
    settings |= {"share_values": True} if share_values else {}
    past = None if resume is None else find_recording(resume, store)
    if past is not None:
        past.check_resumable(describe(settings), rounds, count)
        root, settings["seed"] = past.seed, past.settings["seed"]
    if not isinstance(settings["seed"], int):
        settings["entropy"] = describe_seed(root)
    seeds = Seeds.of(root, count)
    setting = Setting(box, algorithm, count, vectorized, on_failure, precision)
    named = [setting.named(f) for f in objectives]
    with ExitStack() as stack:
        pools, threads = point_pools(stack, workers, named)
        clients = [setting.client(i, f, seeds.clients[i], pool=pools[i]) for i, f in enumerate(named)]
        for client, (x, y) in zip(clients, data, strict=True):
            if len(y):
                if not client.context.trajectory.stores_points:
                    raise ValueError(f"{algorithm.label} cannot use WithPrior: it does not use earlier queries")
                client.adopt(x, y)
        engine = stack.enter_context(LocalEngine(clients, threads))
        server = Server(
            engine,
            server_algorithm,
            box.to_cube(begin),
            weights=omega,
            participants=count_participants(participation, count),
            shared_seed=seeds.shared,
            rng=np.random.default_rng(seeds.server),
            rounding=Rounding(precision, seeds.server),
            share_values=share_values,
        )
        history = RunHistory(server, clients, box, describe(settings))
        loop = RoundLoop(
            server=server,
            box=box,
            recorder=history,
            rounds=rounds,
            max_queries=max_queries,
            stop=stop,
            monitor=measure,
            callback=callback,
            progress=progress,
            cuts=True,
        )
        if past is not None:
            for client, values, unanswered in zip(clients, past.values, past.unanswered, strict=True):
                client.context.evaluator.replay(values, unanswered)
            loop.replay(past.history, past.points)
            if past.result.status == "converged":
                server.state.moves = []
            history.uncounted = UNCOUNTED in past.result.message
        if store is not None:
            run = None if past is None else past.run
            history.store_in(store, name or algorithm.label, begin, measure, run)
        return loop.run()


def _check_settings(algorithm: Any, rounds: Any, max_queries: Any, stop: Any, on_failure: Any) -> None:
    if not isinstance(algorithm, Algorithm):
        raise TypeError(f"algorithm must be settings of an algorithm such as FedZO(), got {algorithm!r}")
    check_count("rounds", rounds)
    if max_queries is not None:
        check_count("max_queries", max_queries)
    check_type("stop", stop, Stop)
    if on_failure not in get_args(OnFailure):
        raise ValueError(f"on_failure must be one of {', '.join(get_args(OnFailure))}, got {on_failure!r}")


def _seed_sequence(rng: Any, name: str) -> np.random.SeedSequence:
    """The seed from which all randomness of the run comes."""
    if isinstance(rng, np.random.SeedSequence):
        return rng
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence(rng.integers(2**32, size=4, dtype=np.uint64).tolist())
    if rng is None:
        return np.random.SeedSequence()
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, a numpy.random.Generator or a SeedSequence, got {rng!r}")
    check_count(name, rng)
    return np.random.SeedSequence(int(rng))


def _read_priors(objectives: Sequence[Objective], box: Box) -> list[tuple[FloatArray, FloatArray]]:
    """The data that clients have already, in the cube."""
    data = [f.data if isinstance(f, WithPrior) else None for f in objectives]
    return [read_prior(entry, box, f"data of objectives[{i}]") for i, entry in enumerate(data)]


def _open_algorithms(algorithm: Algorithm, box: Box) -> tuple[Algorithm, Algorithm]:
    """Of the server, which must not take an x beyond an open face for an error, and of the clients."""
    if not box.is_open or not algorithm.projected:
        return algorithm, algorithm
    free = replace(algorithm, projected=False)
    if "x" in declared_parts(algorithm.server(box.dim)):
        return free, algorithm  # clients project onto the faces that there are
    if not box.is_unbounded:
        raise ValueError(f"bounds must be finite or all missing for {algorithm.label}, whose server projects x as well")
    return free, free


def _plain_bounds(bounds: Any, box: Box) -> Any:
    """The bounds as a file of runs has them: infinity, which JSON does not have, is None."""
    space = space_of(bounds)
    if space is not None:
        return space.table()
    if not box.is_open:
        return np.stack([box.lower, box.upper], axis=1) if hasattr(bounds, "lb") else bounds
    assert box.floor is not None
    assert box.ceiling is not None
    rows = zip(box.lower.tolist(), box.upper.tolist(), np.isinf(box.floor), np.isinf(box.ceiling), strict=True)
    return [[None if below else low, None if above else high] for low, high, below, above in rows]


def _check_callables(objectives: Any, monitor: Any, callback: Any) -> None:
    if not hasattr(objectives, "__len__"):
        raise TypeError(f"objectives must be a sequence of functions, one per client; got {objectives!r}")
    if not len(objectives):
        raise ValueError("objectives is empty: at least one client is needed")
    for i, objective in enumerate(objectives):
        if not callable(objective):
            raise TypeError(f"objectives[{i}] must be a function, got {objective!r}")
    for name, value in (("monitor", monitor), ("callback", callback)):
        if name == "monitor" and isinstance(value, str):
            if value != "clients":
                raise ValueError(f"monitor must be a function or 'clients', got {value!r}")
        elif value is not None and not callable(value):
            raise TypeError(f"{name} must be a function, got {value!r}")
