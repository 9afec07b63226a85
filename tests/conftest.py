"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from threadpoolctl import threadpool_limits

from fzoos.cli import main

# One thread: the matrices here are small, and threads that wait for each other are slow on a busy machine.
torch.set_num_threads(1)
threadpool_limits(1)

# A shell that starts the tests in the background has Ctrl-C ignored, and some of them press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: a busy machine must not fail a test. Derandomised: a failure is there the next time too.
settings.register_profile("fzoos", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("fzoos")


DEVICES = {"numpy": None, "torch": "cpu"}
if os.environ.get("FZOOS_TEST_DEVICE"):  # a GPU, on a machine that has one: FZOOS_TEST_DEVICE=cuda
    DEVICES[os.environ["FZOOS_TEST_DEVICE"]] = os.environ["FZOOS_TEST_DEVICE"]


@pytest.fixture(params=DEVICES.values(), ids=DEVICES.keys())
def device(request: pytest.FixtureRequest) -> str | None:
    """Where the surrogate mathematics runs: None is NumPy, "cpu" is PyTorch."""
    return request.param


@pytest.fixture
def read_only() -> Callable[[Path], AbstractContextManager[None]]:
    """A folder, readable by everybody, in which nothing can be written while the context lasts."""

    @contextmanager
    def locked(folder: Path) -> Iterator[None]:
        root = os.getuid() == 0  # root may write everywhere
        for path in [folder, *folder.iterdir()]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            if root:
                os.setresuid(65534, 65534, 0)
            yield
        finally:
            if root:
                os.setresuid(0, 0, 0)
            for path in [folder, *folder.iterdir()]:
                path.chmod(0o755 if path.is_dir() else 0o600)

    return locked


@pytest.fixture
def run_command(capsys):
    """Run a command of `fzoos`: its exit code, stdout and stderr."""

    def call(*words):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        return ended.value.code, *capsys.readouterr()

    return call
