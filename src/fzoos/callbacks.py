"""Callbacks that log runs to TensorBoard, MLflow and Weights & Biases.

Each of them can be the `callback` of `fzoos.minimize` and of studies, which is called with each round's record. Leaving
the `with` block closes what it has opened; an error in the block is reported to the tool. All use the same names, with
the round as the x-axis: "F", "queries", "bytes_up", "bytes_down", "seconds", "step", "diagnostics/correction_length",
"distance/mean", "distance/max".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fzoos._util.describe import describe
from fzoos.result import Record
from fzoos.runs.compare import flatten

__all__ = ["CallbackList", "MLflow", "TensorBoard", "WandB", "metrics"]


def metrics(record: Record) -> dict[str, float]:
    """The metrics of a round; unknown and infinite ones are left out.

    The distances are those of the clients' x from their mean. Those of each client are in `Record.distances`: thousands
    of curves would be too many for these tools.

    Example:
        >>> from fzoos import Record
        >>> from fzoos.callbacks import metrics
        >>> metrics(Record(1, 40, 96, 64, 0.5, 0.1, None, {"correction_length": 0.3}, (20, 20), (0.25, None)))
        {'queries': 40, 'bytes_up': 96, 'bytes_down': 64, 'seconds': 0.5, 'step': 0.1, \
'diagnostics/correction_length': 0.3, 'distance/mean': 0.25, 'distance/max': 0.25}
    """
    row = {name: value for name, value in record.row.items() if name != "round" and not name.startswith("clients/")}
    known = [distance for distance in record.distances if distance is not None]
    if known:
        row |= {"distance/mean": sum(known) / len(known), "distance/max": max(known)}
    return {name: value for name, value in row.items() if value is not None and math.isfinite(value)}


class _Callback:
    """The base of the callbacks: a `with` block that ends in `close`."""

    def close(self, failed: bool = False) -> None:
        """Write the remaining data and close what was opened; `failed` says whether an error ended the block."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(failed=kind is not None)


class TensorBoard(_Callback):
    """Writes event files for TensorBoard; each round is visible as soon as it is complete.

    Args:
        log_dir: the run's own folder, such as "runs/fzoos-1"; `tensorboard --logdir runs` shows all of them.

    Raises:
        ImportError: tensorboard is not installed.

    Example:
        >>> from fzoos.callbacks import TensorBoard
        >>> with TensorBoard("runs/fzoos-1") as board:                          # doctest: +SKIP
        ...     minimize(objectives, x0, bounds=(0, 1), callback=board)
    """

    def __init__(self, log_dir: str | Path) -> None:
        try:
            from tensorboard.summary import Writer
        except ImportError:
            raise ImportError("TensorBoard needs tensorboard: pip install 'fzoos[tensorboard]'") from None
        self._writer: Any = Writer(str(log_dir))

    def __call__(self, record: Record) -> None:
        """Write the metrics of a round."""
        for name, value in metrics(record).items():
            self._writer.add_scalar(name, value, record.round)
        self._writer.flush()

    def close(self, failed: bool = False) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class MLflow(_Callback):
    """Logs to MLflow's active run or, if there is none, to a new one, which it ends.

    The server and the experiment are chosen in the usual way: `mlflow.set_tracking_uri`, `mlflow.set_experiment`, or
    MLFLOW_TRACKING_URI and MLFLOW_EXPERIMENT_NAME.

    Args:
        run_name: the name of the run that is started.
        params: settings to log; the settings of an algorithm or an optimizer become one parameter each.
        start: further arguments of `mlflow.start_run`, such as `tags`.

    Raises:
        ImportError: mlflow is not installed.

    Example:
        >>> from fzoos import FedZO
        >>> from fzoos.callbacks import MLflow
        >>> with MLflow(run_name="three hospitals", params={"algorithm": FedZO()}) as log:    # doctest: +SKIP
        ...     minimize(objectives, x0, bounds=(0, 1), algorithm=FedZO(), callback=log)
    """

    def __init__(self, run_name: str | None = None, *, params: Mapping[str, Any] | None = None, **start: Any) -> None:
        try:
            import mlflow
        except ImportError:
            raise ImportError("MLflow needs mlflow: pip install 'fzoos[mlflow]'") from None
        self._mlflow: Any = mlflow
        active = mlflow.active_run()
        self._own = active is None
        self.run_id: str = (active or mlflow.start_run(run_name=run_name, **start)).info.run_id
        if params:
            mlflow.log_params(flatten(describe(dict(params))))

    def __call__(self, record: Record) -> None:
        """Log the metrics of a round."""
        self._mlflow.log_metrics(metrics(record), step=record.round, run_id=self.run_id)

    def close(self, failed: bool = False) -> None:
        """End the run if it was started here."""
        if self._own:
            self._own = False
            self._mlflow.end_run("FAILED" if failed else "FINISHED")


class WandB(_Callback):
    """Logs to a run of Weights & Biases: the given one, or a new one, which it finishes.

    Args:
        run: what `wandb.init` returned; None: a new one.
        init: arguments of `wandb.init` for the new run, such as `project`, `name` and `config`; `config` may contain
            settings of algorithms and optimizers.

    Raises:
        ImportError: wandb is not installed.

    Example:
        >>> from fzoos import FedZO
        >>> from fzoos.callbacks import WandB
        >>> with WandB(project="hospitals", config={"algorithm": FedZO()}) as log:            # doctest: +SKIP
        ...     minimize(objectives, x0, bounds=(0, 1), algorithm=FedZO(), callback=log)
    """

    def __init__(self, run: Any = None, **init: Any) -> None:
        try:
            import wandb
        except ImportError:
            raise ImportError("WandB needs wandb: pip install 'fzoos[wandb]'") from None
        self._own = run is None
        if isinstance(init.get("config"), Mapping):
            init["config"] = describe(dict(init["config"]))
        self.run: Any = wandb.init(**init) if run is None else run
        self._known: set[str] = set()

    def __call__(self, record: Record) -> None:
        """Log the metrics of a round."""
        measured = metrics(record)
        for name in measured.keys() - self._known:
            self.run.define_metric(name, step_metric="round")  # its own step count increases with every call of log
        self._known |= measured.keys()
        self.run.log({"round": record.round} | measured)

    def close(self, failed: bool = False) -> None:
        """Finish the run if it was started here."""
        if self._own:
            self._own = False
            self.run.finish(exit_code=int(failed))


class CallbackList:
    """Combines several callbacks. Each is called with every record; the run stops if any of them returns a true value.

    Args:
        callbacks: functions, or callbacks of this module, which are entered and left together with this one.

    Example:
        >>> from fzoos import Record
        >>> from fzoos.callbacks import CallbackList
        >>> seen = []
        >>> both = CallbackList(seen.append, lambda record: record.monitor < 0.1)
        >>> [both(Record(r, 42 * r, 0, 0, 0.0, 0.1, monitor)) for r, monitor in ((1, 0.5), (2, 0.05))], len(seen)
        ([False, True], 2)
    """

    def __init__(self, *callbacks: Callable[[Record], Any]) -> None:
        self._callbacks = callbacks
        self._stack = ExitStack()

    def __call__(self, record: Record) -> bool:
        """Call all callbacks; return whether the run is to stop."""
        answers = [callback(record) for callback in self._callbacks]
        return any(answers)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for callback in self._callbacks:
                if isinstance(callback, AbstractContextManager):
                    stack.enter_context(callback)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)
