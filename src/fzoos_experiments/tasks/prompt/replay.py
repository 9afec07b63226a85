"""Work on a GPU that is always the same, recorded once and replayed: small batches wait for Python otherwise."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from fzoos_experiments.tasks.models import Tensor, torch

__all__ = ["Replayed"]

_KEPT = 48  # recordings
_FIRST_TIMES = 2  # that work is done plainly, so that everything is compiled and chosen before it is recorded


class Replayed:
    """Functions of one tensor, each replayed as a CUDA graph from its third call on; elsewhere they are just called.

    Args:
        device: "cpu" or "cuda".
    """

    def __init__(self, device: str) -> None:
        self._enabled, self._lock = device != "cpu", threading.Lock()
        self._recorded: OrderedDict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = OrderedDict()
        self._calls: dict[Hashable, int] = {}
        self._memory = (
            torch.cuda.graph_pool_handle() if self._enabled else None
        )  # one for all: none runs beside another

    def __call__(self, name: Hashable, work: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """work(x).

        Args:
            name: of the work; the same name with the same shape of x must mean the same work.
            work: may use nothing but x and tensors that are on the device already.
            x: a tensor on the device.
        """
        if not self._enabled or torch.is_grad_enabled():
            return work(x)
        key = (name, tuple(x.shape))
        with self._lock:  # a recording has one place for its input
            if self._calls.setdefault(key, 0) < _FIRST_TIMES:
                self._calls[key] += 1
                return work(x)
            if key not in self._recorded:
                self._record(key, work, x)
            self._recorded.move_to_end(key)
            graph, source, result = self._recorded[key]
            source.copy_(x)
            graph.replay()
            return result.clone()  # before another recording uses the memory

    def _record(self, key: Hashable, work: Callable[[Tensor], Tensor], x: Tensor) -> None:
        while len(self._recorded) >= _KEPT:
            self._recorded.popitem(last=False)
        torch.cuda.synchronize()
        graph, source = torch.cuda.CUDAGraph(), x.clone()
        with torch.cuda.graph(graph, pool=self._memory):
            result = work(source)
        self._recorded[key] = graph, source, result
