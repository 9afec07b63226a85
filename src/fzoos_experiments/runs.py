"""Runs that are made once: records of finished runs in a folder, and processes that make the missing ones."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["Records", "results_of"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Report = Callable[..., None]
"""Receives the progress of an item, whatever the work reports."""

Work = Callable[[Item, Report], Result]

_messages: Any = None  # in a worker process: the queue to its parent


class Records:
    """The records of a folder, each a JSON object with a key.

    Records are appended to `runs.jsonl`, one line each. All files `*.jsonl` and `*.jsonl.gz` of the folder are read;
    lines that are incomplete, because a process was killed, are ignored.

    Args:
        folder: the folder; created with the first record.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from fzoos_experiments.runs import Records
        >>> folder = Path(tempfile.mkdtemp())
        >>> Records(folder).add({"key": "a", "rows": [1, 2]})
        >>> Records(folder).find("a"), Records(folder).find("b")
        ([{'key': 'a', 'rows': [1, 2]}], [])
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, key: str) -> list[dict[str, Any]]:
        """The records with a key."""
        return self._by_key.get(key, [])

    def add(self, record: dict[str, Any]) -> None:
        """Append a record to the file of runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "runs.jsonl").open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                incomplete = file.read() != b"\n"  # an interrupted process has left it
                file.write(b"\n" if incomplete else b"")
            file.write(json.dumps(record).encode() + b"\n")
        self._by_key.setdefault(record["key"], []).append(record)

    @cached_property
    def _by_key(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for path in sorted([*self.folder.glob("*.jsonl"), *self.folder.glob("*.jsonl.gz")]):
            content = path.read_bytes()
            for line in (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines():
                try:
                    record = json.loads(line)
                except ValueError:  # empty or incomplete
                    continue
                found.setdefault(record["key"], []).append(record)
        return found


def results_of(
    work: Work[Item, Result], items: Sequence[Item], jobs: int = 1, report: Report = lambda *message: None
) -> Iterator[tuple[Item, Result | Exception]]:
    """Yield each item with its result, or with the exception that the work raised, in the order in which they finish.

    Args:
        work: called with an item and a function that reports progress; with several jobs it is pickled.
        items: the items.
        jobs: the number of items that are worked on at the same time, each in its own process.
        report: receives the progress that the work reports.

    Example:
        >>> from fzoos_experiments.runs import results_of
        >>> list(results_of(lambda item, report: item * item, [2, 3]))
        [(2, 4), (3, 9)]
    """
    if jobs == 1:
        for item in items:
            yield item, _attempt(work, item, report)
        return
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # read when a worker imports NumPy: jobs share the cores
        os.environ.setdefault(name, "1")
    context = multiprocessing.get_context("spawn")  # PyTorch does not survive a fork
    messages = context.Queue()
    pool = ProcessPoolExecutor(jobs, context, _begin_worker, (messages,))
    try:
        pending = {pool.submit(_attempt, work, item, _report): item for item in items}
        while pending:
            done, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            _forward(messages, report)
            for future in done:
                yield pending.pop(future), future.result()
    except BaseException:
        for process in list(pool._processes.values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _attempt(work: Work[Item, Result], item: Item, report: Report) -> Result | Exception:
    try:
        return work(item, report)
    except Exception as error:
        return error


def _forward(messages: Any, report: Report) -> None:
    while True:
        try:
            report(*messages.get_nowait())
        except queue.Empty:
            return


def _report(*message: Any) -> None:
    _messages.put(message)


def _begin_worker(messages: Any) -> None:
    global _messages
    _messages = messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when its parent ends: a parent that is killed cannot do it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
