"""Clients in step: the same numbers as alone, in fewer operations; and what happens when one of them fails."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import numpy as np
import pytest

from fzoos._util import together as together_module
from fzoos._util.arrays import stack, to_device, to_numpy
from fzoos._util.together import GoOn, Written, in_step, jointly, together


class Counted:
    """Work that notes the shapes it was called with."""

    def __init__(self, work: Any) -> None:
        self.work, self.shapes = work, list[tuple[int, ...]]()

    def __call__(self, first: Any, *rest: Any) -> Any:
        self.shapes.append(tuple(first.shape))
        return self.work(first, *rest)


def test_alone_it_is_the_work_itself() -> None:
    product = Counted(lambda a, b: a @ b)
    assert together(product, np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 11.0
    assert product.shapes == [(2,)]


def test_equal_work_is_done_once_and_each_gets_its_part(device: str | None) -> None:
    rng = np.random.default_rng(0)
    matrices, vectors = rng.standard_normal((5, 3, 4)), rng.standard_normal((5, 4))
    product = Counted(lambda a, x: ((a @ x[..., None])[..., 0], a + 1.0))

    def client(i: int) -> tuple[Any, Any]:
        first, more = together(product, to_device(matrices[i], device), to_device(vectors[i], device))
        second, _ = together(product, more, to_device(vectors[i], device))
        return to_numpy(first), to_numpy(second)

    found = in_step([partial(client, i) for i in range(5)])
    assert product.shapes == [(5, 3, 4), (5, 3, 4)]
    for i in range(5):
        np.testing.assert_allclose(found[i][0], matrices[i] @ vectors[i], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found[i][1], (matrices[i] + 1.0) @ vectors[i], rtol=1e-12, atol=1e-12)


def test_other_shapes_values_and_functions_are_other_work() -> None:
    scale = Counted(lambda a, factor: factor * a)
    other = Counted(lambda a, factor: factor + a)
    asked = [(scale, 2, 3.0), (scale, 2, 3.0), (scale, 3, 3.0), (scale, 2, 4.0), (other, 2, 3.0)]
    found = in_step([partial(lambda w, n, f: together(w, np.ones(n), f), *each) for each in asked])
    assert sorted(scale.shapes) == [(2,), (2, 2), (3,)]
    assert other.shapes == [(2,)]
    assert [array.tolist() for array in found] == [[3.0] * 2, [3.0] * 2, [3.0] * 3, [4.0] * 2, [4.0] * 2]


def test_what_the_work_writes_is_in_the_clients_own_array(device: str | None) -> None:
    """Whether the arrays lie side by side, where the stack is a view, or anywhere, where it is a copy."""

    def add(a: Any, b: Any) -> Any:
        a[..., 1:] += b
        return a[..., 0]

    block = to_device(np.zeros((3, 4)), device)
    side_by_side, anywhere = list(block), [to_device(np.zeros(4), device) for _ in range(3)]
    for arrays in (side_by_side, anywhere):
        terms = [to_device(np.full(3, float(i)), device) for i in range(3)]
        in_step([partial(together, add, Written(a), b) for a, b in zip(arrays, terms, strict=True)])
        assert [to_numpy(a).tolist() for a in arrays] == [[0.0] + [float(i)] * 3 for i in range(3)]


def test_tensors_side_by_side_are_not_copied() -> None:
    torch = pytest.importorskip("torch")
    block = torch.zeros((4, 6, 5), dtype=torch.float64)
    whole, is_view = stack([part[:3, 1:] for part in block])
    assert is_view
    assert whole.shape == (4, 3, 4)
    whole += 1.0
    assert block.sum() == 4 * 3 * 4
    parts = list(block)
    for mixed in ([parts[0], parts[2], parts[3]], [parts[1], parts[0]], [parts[0], parts[1].clone()]):
        assert not stack(mixed)[1]  # not at equal distances, not in order, not in one block


def test_they_run_one_at_a_time_and_in_order() -> None:
    said: list[tuple[int, int]] = []
    running = 0

    def client(i: int) -> None:
        nonlocal running
        for step in range(3):
            running += 1
            assert running == 1
            said.append((step, i))
            running -= 1
            together(np.negative, np.zeros(2))

    in_step([partial(client, i) for i in range(4)])
    assert said == [(step, i) for step in range(3) for i in range(4)]


def test_one_that_has_less_to_do_holds_nobody_up() -> None:
    def client(steps: int) -> float:
        return sum(float(together(np.negative, np.array(1.0))) for _ in range(steps))

    assert in_step([partial(client, steps) for steps in (0, 3, 1, 3)]) == [0.0, -3.0, -1.0, -3.0]


def test_an_error_of_work_meets_the_one_whose_it_is() -> None:
    matrices = [np.eye(2), -np.eye(2), 4.0 * np.eye(2)]

    def client(matrix: Any) -> str:
        try:
            return str(together(np.linalg.cholesky, matrix)[0, 0])
        except np.linalg.LinAlgError:
            return "not positive definite"

    assert in_step([partial(client, matrix) for matrix in matrices]) == ["1.0", "not positive definite", "2.0"]


@pytest.mark.parametrize("go_on", [False, True])
def test_a_client_that_fails(go_on: bool) -> None:
    """The others end at their next meeting, or go on."""
    failures: list[tuple[int, str]] = []
    ends: list[str] = []

    def client(i: int) -> int:
        together(np.negative, np.zeros(1))
        if i == 1:
            raise ValueError("no value")
        try:
            together(np.negative, np.zeros(1))
        except CancelledError:
            ends.append("cancelled")
            raise
        return i

    def note(i: int, error: Exception) -> bool:
        failures.append((i, str(error)))
        return go_on

    found = in_step([partial(client, i) for i in range(3)], note)
    assert failures == [(1, "no value")]
    # The first waits already; the third has not come to its second meeting, and need not.
    assert (found, ends) == (([0, 2], []) if go_on else ([], ["cancelled"]))


def test_without_a_listener_it_is_raised() -> None:
    def client(i: int) -> None:
        together(np.negative, np.zeros(1))
        if i:
            raise KeyError(i)
        together(np.negative, np.zeros(1))

    with pytest.raises(KeyError):
        in_step([partial(client, i) for i in range(2)])


def test_a_thread_that_cannot_be_started_is_said_and_not_waited_for(monkeypatch) -> None:
    """Of many clients; those that were started serve the next crew."""
    start, started, found = threading.Thread.start, [], []

    def few(thread: threading.Thread) -> None:
        if thread.name == "fzoos-in-step":
            if len(started) == 3:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        start(thread)

    def crew() -> None:
        try:
            in_step([lambda: 1] * 6)
        except RuntimeError as error:
            found.append(str(error))

    monkeypatch.setattr(together_module, "_idle", [])
    monkeypatch.setattr(threading.Thread, "start", few)
    caller = threading.Thread(target=crew, daemon=True)
    caller.start()
    caller.join(30.0)
    assert found == ["can't start new thread"]
    assert in_step([lambda: 2] * 3) == [2, 2, 2]
    assert len(started) == 3


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals come to the main thread")
def test_ctrl_c_ends_all() -> None:
    left = threading.Semaphore(0)

    def client(i: int) -> None:
        try:
            for step in range(10_000):
                if (i, step) == (1, 2):
                    signal.raise_signal(signal.SIGINT)
                together(np.negative, np.zeros(1))
        finally:
            left.release()

    with pytest.raises(KeyboardInterrupt):
        in_step([partial(client, i) for i in range(3)])
    for _ in range(3):
        assert left.acquire(timeout=10)


def test_numpys_error_state_is_that_of_the_caller() -> None:
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        in_step([lambda: np.array([1.0]) / np.array([0.0])])


def test_joint_work_is_one_call_for_all_with_the_same_key() -> None:
    calls: list[list[int]] = []

    def work(items: list[int], go_on: GoOn) -> list[int]:
        calls.append(items)
        return [10 * item for item in items]

    assert in_step([partial(jointly, work, i, i % 2) for i in range(5)]) == [0, 10, 20, 30, 40]
    assert calls == [[0, 2, 4], [1, 3]]
    assert jointly(work, 7) == 70
    assert calls[2:] == [[7]]


@pytest.mark.parametrize("go_on", [False, True])
def test_one_that_fails_in_joint_work(go_on: bool) -> None:
    """It is told once; the others have their answers, or are not even asked."""
    failures: list[tuple[int, str]] = []
    asked: list[int] = []

    def work(items: list[int], failed: GoOn) -> list[int]:
        for i in items:
            asked.append(i)
            if i == 1 and not failed(i, ValueError("no value")):
                return []
        return items

    def note(i: int, error: Exception) -> bool:
        failures.append((i, str(error)))
        return go_on

    found = in_step([partial(jointly, work, i) for i in range(3)], note)
    assert failures == [(1, "no value")]
    assert (found, asked) == (([0, 2], [0, 1, 2]) if go_on else ([], [0, 1]))
    with pytest.raises(ValueError, match="no value"):
        jointly(work, 1)


def test_an_error_of_joint_work_is_that_of_all() -> None:
    def work(items: list[int], go_on: GoOn) -> list[int]:
        raise ValueError("nobody")

    failures: list[int] = []
    assert in_step([partial(jointly, work, i) for i in range(3)], lambda i, error: not failures.append(i)) == []
    assert failures == [0, 1, 2]


def test_threads_are_kept_and_do_not_grow_in_number() -> None:
    """A client's thread is one that has finished, if there is any; and it knows nothing of the client before."""

    def client(i: int) -> int:
        together(np.negative, np.zeros(1))
        return i

    def count() -> int:
        return sum(thread.name == "fzoos-in-step" for thread in threading.enumerate())

    in_step([partial(client, i) for i in range(6)])
    before = count()
    for _ in range(20):
        assert in_step([partial(client, i) for i in range(6)]) == list(range(6))
        time.sleep(0.01)  # the last of them is on its way to be idle
    assert count() <= before + 1
